"""Sampling of tokens: the filters follow their definitions, and the random numbers are reproducible."""

from __future__ import annotations

import math

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.errors import FormatError, SettingError
from i2s_spec.model.text.sampling import Sampler, Sampling

logits_lists = st.lists(
    st.one_of(st.floats(-30, 30, width=32), st.sampled_from([0.0, 1.0, -1.0])), min_size=1, max_size=40
)


def defined(logits: list[float], temperature: float, top_k: int, top_p: float) -> dict[int, float]:
    """The distribution, as the module's words say it."""
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    order = order[: top_k or len(order)]
    shares = [math.exp(logits[i] - logits[order[0]]) for i in order]
    if top_p < 1:
        total, running = sum(shares), 0.0
        for count, share in enumerate(shares, 1):
            running += share
            if running >= top_p * total * (1 - 1e-12):
                order = order[:count]
                break
    weights = [math.exp((logits[i] - logits[order[0]]) / temperature) for i in order]
    return {i: weight / sum(weights) for i, weight in zip(order, weights, strict=True)}


@given(logits_lists, st.floats(0.1, 5), st.integers(0, 45), st.sampled_from([0.05, 0.3, 0.5, 0.9, 0.999, 1.0]))
@examples(60)
def test_the_filters_are_as_defined(logits: list[float], temperature: float, top_k: int, top_p: float) -> None:
    tokens, probabilities = Sampler(Sampling(temperature, top_k, top_p)).distribution(np.float32(logits))
    found = dict(zip(tokens.tolist(), probabilities.tolist(), strict=True))
    if top_k == 1:
        assert found == {int(np.argmax(np.float32(logits))): 1.0}
        return
    wanted = defined([float(each) for each in np.float32(logits)], temperature, top_k, top_p)
    if abs(len(found) - len(wanted)) == 1:  # the share p coincides with a boundary, within rounding
        return
    assert list(found) == list(wanted)
    assert found == pytest.approx(wanted, abs=1e-12)


@given(logits_lists, st.integers(0, 2**64))
@examples(60)
def test_sampled_tokens_are_candidates(logits: list[float], seed: int) -> None:
    settings_ = Sampling(1.5, top_k=5, top_p=0.9, seed=seed)
    tokens, _ = Sampler(settings_).distribution(np.float32(logits))
    assert Sampler(settings_)(np.float32(logits)) in tokens
    assert Sampler(settings_)(np.float32(logits)) == Sampler(settings_)(np.float32(logits))


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(1.0, top_k=1), Sampling(5e-324), Sampling(1.0, top_p=1e-9)])
def test_greedy_takes_the_first_of_the_best(sampling: Sampling) -> None:
    assert Sampler(sampling)(np.float32([1, 7, 3, -7])) == 1
    assert Sampler(Sampling())(np.float32([1, 7, 3, 7])) == 1
    assert Sampler(sampling)(np.float32([5])) == 0


def test_tokens_come_as_often_as_they_should() -> None:
    wanted = np.array([0.5, 0.25, 0.15, 0.1])
    sampler = Sampler(Sampling(1.0, seed=7))
    drawn = np.bincount([sampler(np.log(wanted)) for _ in range(4000)], minlength=4) / 4000
    assert np.abs(drawn - wanted).max() < 0.03


def test_the_same_seed_gives_the_same_tokens_for_ever() -> None:
    logits = np.linspace(-2, 2, 64, dtype=np.float32)
    sampler = Sampler(Sampling(1.0, seed=42))
    assert [sampler(logits) for _ in range(8)] == SEED_42
    again = Sampler(Sampling(1.0, seed=42))
    uniform = np.random.Generator(np.random.PCG64(42))
    shares = np.exp(logits.astype(float)[::-1] - 2.0)
    running = np.cumsum(shares / shares.sum())
    for _ in range(50):  # what the module promises, computed in another way
        u = uniform.random() * running[-1]
        assert again(logits) == 63 - int((running <= u).sum())


SEED_42 = [41, 55, 34, 45, 62, 13, 42, 40]


@pytest.mark.parametrize(
    ("values", "said"),
    [([0, float("nan"), 1], "nan as the logit of token 1"), ([0, float("inf")], "inf as the logit of token 1"),
     ([float("-inf")] * 3, "-inf as the logit of token 0")],
)  # fmt: skip
def test_logits_that_are_not_finite_are_refused(values: list[float], said: str) -> None:
    for sampling in (Sampling(), Sampling(1.0)):
        with pytest.raises(FormatError, match=said) as caught:
            Sampler(sampling)(np.float32(values))
        assert caught.value.code == "M901"


def test_tokens_of_minus_infinity_are_never_drawn() -> None:
    sampler = Sampler(Sampling(100.0))
    assert {sampler(np.float32([-np.inf, 0, 1])) for _ in range(200)} == {1, 2}


@pytest.mark.parametrize(
    "wrong",
    [{"temperature": -1}, {"temperature": math.nan}, {"temperature": math.inf}, {"top_k": -1}, {"top_p": 0},
     {"top_p": 1.1}, {"top_p": math.nan}, {"seed": -1}, {"seed": 1 << 128}],
)  # fmt: skip
def test_settings_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingError):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_logits_of_another_shape() -> None:
    with pytest.raises(ValueError, match="shape"):
        Sampler(Sampling())(np.zeros((2, 3), np.float32))
