from __future__ import annotations

import math
import tracemalloc
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import shape as shapes
from i2s_spec.codec.quantize import RULES, AlreadyTernaryWarning, NotTernaryWarning, quantize, ternarise, weight_quant
from i2s_spec.codec.reference import dequantize, pack, unpack
from i2s_spec.codec.shape import UndefinedElementsWarning
from i2s_spec.schema.dialect import LAYOUTS

NAN, INF = math.nan, math.inf
BELOW = float(np.float32(1e-6))  # 9.99999997e-7 as a double: zero to the C code
ABOVE = float(np.nextafter(np.float32(1e-6), np.float32(1)))


def by_hand(weights: Any, rule: str, scale: float | None = None) -> tuple[list[int], float]:
    """The rules once more, a weight at a time, in exact arithmetic where the producers' is exact."""
    values = [float(np.float32(w)) for w in weights]
    if rule == "absmax":
        scale = 0.0
        for w in values:
            scale = abs(w) if not math.isnan(w) and abs(w) > scale else scale
        return [0 if abs(w) < 1e-6 else 1 if w * scale > 0 else -1 for w in values], scale
    if rule == "hf-first":
        scale = next((abs(w) for w in values if abs(w) > BELOW), float(np.float32(1e-5)))
    if rule == "loom":  # openfluke/loom@3083bb7 poly/bitnet_cpu.go: bitNetTernaryScale, bitNetQuantValue
        scale = float(np.float32(sum(map(abs, values)) / len(values))) or 1.0
    quotients = [np.float32(w) / np.float32(scale) if rule != "given" else np.float32(w) for w in values]
    if rule == "loom":  # int(math.Round(NaN)) is the least integer
        nearest = [-1.0 if math.isnan(q) else math.copysign(math.floor(abs(float(q)) + 0.5), q) for q in quotients]
        return [max(-1, min(1, int(q))) for q in nearest], scale
    return [0 if math.isnan(q) else max(-1, min(1, round(max(-2, min(2, float(q)))))) for q in quotients], float(
        scale or 0
    )


odd = st.sampled_from(
    [0.0, -0.0, BELOW, -BELOW, ABOVE, -ABOVE, 1e-45, -1e-45, 3.4e38, -3.4e38, INF, -INF, NAN, 0.5, -0.5]
)
floats = st.one_of(odd, st.floats(width=32))


@pytest.mark.requirement("R8.1-2")
@pytest.mark.filterwarnings("ignore::i2s_spec.codec.quantize.NotTernaryWarning")
@pytest.mark.filterwarnings("ignore::i2s_spec.codec.quantize.AlreadyTernaryWarning")
@examples(60)
@given(weights=st.lists(floats, min_size=1, max_size=40), rule=st.sampled_from(["absmax", "hf-first", "given", "loom"]),
       window=st.integers(1, 50))  # fmt: skip
def test_rules_one_weight_at_a_time(weights: list[float], rule: str, window: int) -> None:
    scale = 0.3 if rule == "given" else None
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(shapes, "WINDOW", window)
        trits, factor = ternarise(np.array(weights, np.float32), rule, scale)
        expected, wanted = by_hand(weights, rule, scale)
    assert trits.tolist() == expected
    assert trits.dtype == np.int8
    assert type(factor) is np.float32
    assert factor == np.float32(wanted) or np.isnan([factor, wanted]).all()


@pytest.mark.requirement("R8.3-2")
@pytest.mark.filterwarnings("ignore::i2s_spec.codec.quantize.NotTernaryWarning")
@pytest.mark.parametrize(
    ("weights", "trits", "scale"),
    [
        ([BELOW, -BELOW, ABOVE, -ABOVE], [0, 0, 1, -1], ABOVE),
        ([NAN, 0.5, -0.5, 0.0, -0.0], [-1, 1, -1, 0, 0], 0.5),
        ([NAN, NAN], [-1, -1], 0.0),
        ([INF, -INF, 1.0, -1.0, 0.0, 1e-7], [1, -1, 1, -1, 0, 0], INF),
        ([INF, NAN], [1, -1], INF),
        ([0.0, -0.0], [0, 0], 0.0),
        ([5e-7, -5e-7, 0.0], [0, 0, 0], 5e-7),
        ([1e-45, -1e-39], [0, 0], 1e-39),
        ([3.4028235e38, -1.0], [1, -1], 3.4028235e38),
        ([4.0, 0.01, -2e-6], [1, 1, -1], 4.0),
    ],
)
def test_absmax(weights: list[float], trits: list[int], scale: float) -> None:
    """The C quantizer (clause 6.2): the maximum ignores NaN, which becomes -1; the threshold is a double."""
    got, factor = ternarise(np.array(weights, np.float32), "absmax")
    assert got.tolist() == trits
    assert factor == np.float32(scale)


@pytest.mark.filterwarnings("ignore::i2s_spec.codec.quantize.NotTernaryWarning")
@pytest.mark.parametrize(
    ("rule", "weights", "trits", "scale"),
    [
        ("hf-first", [0.0, -0.5, 0.5, 0.2], [0, -1, 1, 0], 0.5),
        ("hf-first", [BELOW, -2.0, 1.0, -1.0, 1.01, 9.0], [0, -1, 0, 0, 1, 1], 2.0),
        ("hf-first", [NAN, 0.5, -9.0], [0, 1, -1], 0.5),
        ("hf-first", [BELOW, 0.0], [0, 0], 1e-5),
        ("hf-first", [INF, -INF, 1.0, NAN], [0, 0, 0, 0], INF),
        ("hf-first", [1.0, -INF], [1, -1], 1.0),
        ("embedding-mean", [1.0, -3.0, 0.0, 1.0], [1, -1, 0, 1], 1.25),
        ("embedding-mean", [2.0, -6.0, 1.0, 3.0], [1, -1, 0, 1], 3.0),
        ("embedding-mean", [0.0, 0.0], [0, 0], 1e-5),
        # 0.8647483 is more than half of the mean, but not after multiplication by the mean's reciprocal.
        ("embedding-mean", [0.8647483, -2.5942447], [0, -1], 1.7294965),
        ("hf-first", [1.7294965, 0.8647483], [1, 1], 1.7294965),
        ("embedding-mean", [NAN, 1.0, -1.0], [0, 0, 0], NAN),
        ("embedding-mean", [3e38, 3e38, -3e38, 1.0], [0, 0, 0, 0], INF),
        ("given", [1.0, -1.0, 0.0, NAN], [1, -1, 0, 0], 0.25),
        ("convert-ms", [0.0, -0.5, 0.5, 0.49, 1.0], [0, 1, -1, 0, -1], -0.5),
        ("convert-ms", [0.0, -0.0], [0, 0], 1.0),
        ("convert-ms", [NAN, 1.0], [0, 0], NAN),
        ("c-article", [1.0, -3.0, 0.0, 0.5], [1, -1, 0, 0], 1.125),
        ("c-article", [0.0, 0.0], [0, 0], 0.0),
        ("loom", [1.0, -3.0, 0.5, 1.5, -0.75], [1, -1, 0, 1, -1], 1.35),
        ("loom", [1.0, -3.0, 1.0, 3.0], [1, -1, 1, 1], 2.0),  # half of the mean is 1
        ("loom", [0.0, -0.0], [0, 0], 1.0),
        ("loom", [1e-45, 0.0, 0.0, 0.0], [0, 0, 0, 0], 1.0),  # a quarter of the least number is 0
        ("loom", [NAN, 1.0, -1.0, 0.0], [-1, -1, -1, -1], NAN),
        ("loom", [INF, 1.0, -INF], [-1, 0, -1], INF),
        ("loom", [2.0**24, 1.0, 1.0, 1.0], [1, 0, 0, 0], 4194304.75),
        ("c-article", [2.0**24, 1.0, 1.0, 1.0], [1, 0, 0, 0], 2.0**22),  # 2^24 + 1 is 2^24 in float32, three times
        ("given", [0.5, -0.5, 0.51, 9.0, -INF], [0, 0, 1, 1, -1], 0.25),
    ],
)
def test_python_converters(rule: str, weights: list[float], trits: list[int], scale: float) -> None:
    """Rounded, ties to even, and cut; NaN is 0. A mean that is infinite or no number leaves only zeros."""
    got, factor = ternarise(np.array(weights, np.float32), rule, 0.25 if rule == "given" else None)
    assert got.tolist() == trits
    assert factor.tobytes() == np.float32(scale).tobytes()


@pytest.mark.filterwarnings("ignore::i2s_spec.codec.quantize.AlreadyTernaryWarning")
@pytest.mark.requirement("R8.3-1")
@pytest.mark.parametrize("rule", ["absmax", "hf-first", "embedding-mean", "given"])
@pytest.mark.parametrize("dialect", [*LAYOUTS, "interleave-128/twos-complement/replicated-8"])
def test_quantize_is_ternarise_and_pack(rule: str, dialect: str) -> None:
    scale = np.float32(0.37) if rule != "given" else np.float32(1)
    weights = np.random.default_rng(7).integers(-1, 2, (8, 256)) * scale
    given_ = 0.37 if rule == "given" else None
    trits, factor = ternarise(weights, rule, given_)
    data = quantize(weights, rule, given_, dialect, byte_order="big")
    assert data == pack(trits, factor, dialect, byte_order="big")
    assert (trits == np.sign(weights)).all()
    if rule in ("absmax", "hf-first"):
        assert (dequantize(data, weights.shape, dialect, byte_order="big") == weights.astype(np.float32)).all()


def test_every_float_type_becomes_float32_first() -> None:
    """As the producers convert: float64 is rounded before anything is compared, bfloat16 is the upper half."""
    trits = np.resize([1, -1, 0, 0, 1], (4, 128))
    expected = quantize((trits * 0.75).astype(np.float32))
    for kind in ("f8", "f2", ">f4", ">f8", "g"):
        assert quantize((trits * 0.75).astype(kind)) == expected
    bits = ((trits * 0.75).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    assert quantize(bits) == expected
    assert quantize(bits.astype(">u2")) == expected
    assert quantize((trits * 0.75).tolist()) == expected
    assert quantize(np.asfortranarray((trits * 0.75).astype(np.float32))) == expected
    assert quantize(trits.astype(np.int8), "given", 0.75) == expected

    rounded = np.full((1, 128), 0.1)  # float64, whose nearest float32 is larger
    assert unpack(quantize(rounded), (1, 128))[1] == np.float32(0.1)
    just_below = np.full((1, 128), 1e-6 * (1 + 5e-8))  # rounds to float32(1e-6), which is below the threshold
    with pytest.warns(NotTernaryWarning, match="smaller than 1e-06 and become 0"):
        assert not ternarise(just_below)[0].any()
    with pytest.warns(NotTernaryWarning, match="128 weights are infinite"):
        assert ternarise(np.full(128, 1e300))[1] == INF


@pytest.mark.parametrize("weights", [np.zeros(128, bool), np.zeros(128, np.uint8), np.zeros(128, complex), ["x"] * 128])
def test_wrong_types_of_weights_are_refused(weights: Any) -> None:
    with pytest.raises(TypeError, match="weights are floats, or bfloat16 as uint16, not"):
        quantize(weights)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("absmean",), "no rule is called 'absmean'; there are absmax, hf-first, embedding-mean, given"),
        (("given",), "the rule 'given' needs a scale"),
        (("absmax", 0.5), "the rule absmax computes the scale; only 'given' takes one"),
        (("given", 1e300), "beyond what a float32 holds"),
        (("absmax", None, "interleave-12"), "no layout is called 'interleave-12'"),
    ],
)
def test_wrong_arguments(args: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        quantize(np.zeros((1, 128)), *args)


@pytest.mark.parametrize(
    ("weights", "rule", "said"),
    [
        (
            [1.0, 0.5, 0.0],
            "absmax",
            "not -s, 0 and \\+s: their magnitudes run from 0.5 to 1, and absmax gives the largest",
        ),
        ([1.0, -0.5, 0.0], "hf-first", "run from 0.5 to 1, and hf-first takes the first"),
        ([1.0, 1.01], "absmax", "run from 1 to 1.01"),
        ([2e-6, 1.0], "absmax", "run from 2e-06 to 1"),
        (
            [0.3, -0.3],
            "given",
            "not -1, 0 and \\+1: their magnitudes run from 0.3 to 0.3, and given takes them for trits",
        ),
        ([NAN, 1.0, INF], "absmax", r"\d+ weights? (is|are) infinite or NaN"),
        ([NAN, 1.0], "given", r"\d+ weights? (is|are) infinite or NaN"),
        ([5e-7, 0.0], "absmax", "all weights are smaller than 1e-06 and become 0"),
    ],
)
def test_a_rule_that_loses_information_warns(weights: list[float], rule: str, said: str) -> None:
    with pytest.warns(NotTernaryWarning, match=said) as caught:
        ternarise(np.array(weights), rule, 2.0 if rule == "given" else None)
    assert caught[0].filename == __file__
    with pytest.warns(NotTernaryWarning, match=said) as caught:
        quantize(np.resize(weights, (2, 128)), rule, 2.0 if rule == "given" else None)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("weights", [[0.75, 0.0, -0.75], [0.0, 0.0], [1.0, 1.003], [1.0, 1e-9, -1e-30], [-1e-3]])
def test_no_warning_for_ternary_weights(weights: list[float]) -> None:
    """One magnitude up to a rounding to bfloat16, and whatever is far below the threshold."""
    ternarise(np.array(weights))
    ternarise(np.array(weights), "hf-first")
    ternarise(np.random.default_rng(1).standard_normal(500), "embedding-mean")


def test_the_warning_sees_every_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "WINDOW", 10)
    weights = np.ones(100)
    weights[95] = 2
    with pytest.warns(NotTernaryWarning, match="run from 1 to 2"):
        ternarise(weights)


def test_remainders_follow_the_layout_and_the_scale_sees_them() -> None:
    """The quantizer takes the maximum of all weights, including those that it drops."""
    weights = np.full((4, 33), 0.5)
    weights[3, 32] = 0.501
    with pytest.raises(ValueError, match="4 x 33 = 132 elements leave 4 over, elements 128 to 131"):
        quantize(weights)
    with pytest.warns(UndefinedElementsWarning, match="elements 128 to 131 .* are lost") as caught:
        data = quantize(weights, strict=False)
    assert caught[0].filename == __file__
    assert data == b"\xaa" * 32 + b"\0" + np.float32(0.501).tobytes() + bytes(28)
    with pytest.raises(ValueError, match="rows of 64 elements"):
        quantize(np.ones((4, 64)))
    assert quantize(np.ones((4, 64)), strict=False)[:64] == b"\xaa" * 64


def test_weight_quant() -> None:
    """round(w / mean) * mean, cut; a reciprocal is taken twice, as the converter does."""
    weights = np.array([[0.5, -1.5, 0.125, -0.125]], np.float32)
    got = weight_quant(weights)
    gain = np.float32(1) / np.float32(0.5625)
    s = np.float32(1) / gain
    assert got.tobytes() == np.array([[s, -s, 0.0, -0.0]], np.float32).tobytes()
    assert abs(float(s) - 0.5625) < 1e-7
    assert weight_quant(np.zeros((2, 3))).tolist() == [[0.0] * 3] * 2
    assert np.isnan(weight_quant([1.0, NAN])).all()
    assert weight_quant(np.zeros((0, 3))).shape == (0, 3)
    assert weight_quant(np.full(40, 1e-7)).tolist() == [0.0] * 40  # the mean is at least 1e-5
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trits, scale = ternarise(got, "hf-first")
    assert trits.tolist() == [[1, -1, 0, 0]]
    assert scale == s


@pytest.mark.requirement("R8.5-2")
def test_ternary_weights_shrink_by_their_zeros() -> None:
    weights = np.resize([0.5, 0.0, -0.5, 0.0], (4, 128))
    assert set(np.abs(weight_quant(weights)).reshape(-1).tolist()) == {0.0, 0.25}
    for rule in ("absmax", "hf-first"):
        assert unpack(quantize(weights, rule), weights.shape)[1] == 0.5
    with pytest.warns(AlreadyTernaryWarning, match="s = 0.5; embedding-mean gives the scale 0.25, a mean; ") as caught:
        trits, scale = unpack(quantize(weights, "embedding-mean"), weights.shape)
    assert caught[0].filename == __file__
    assert (trits == np.sign(weights)).all()
    assert scale == 0.25


@pytest.mark.parametrize(
    "weights", [[0.5, -0.5], [0.0, 0.0], [0.5, 0.0, -0.4], [0.5, 0.0, NAN], [0.5, 0.0, INF], [1.0] * 999 + [0.0]]
)
def test_a_mean_of_other_weights_needs_no_warning(weights: list[float]) -> None:
    """Masters, weights without zeros, and a share of zeros that changes the scale by less than a rounding to bfloat16."""
    ternarise(np.array(weights), "embedding-mean")


@pytest.mark.requirement("R5.5-2")
def test_the_canonical_dialect_is_what_a_writer_writes() -> None:
    weights = np.random.default_rng(3).integers(-1, 2, (8, 256)) * np.float32(0.5)
    assert quantize(weights) == quantize(weights, dialect="interleave-128/offset-1/first-float")
    assert quantize(weights) != quantize(weights, dialect="interleave-64")


@examples(30)
@given(seed=st.integers(0, 2**32), n=st.integers(1, 3000), window=st.integers(1, 700))
def test_weight_quant_does_not_depend_on_windows(seed: int, n: int, window: int) -> None:
    weights = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    expected = weight_quant(weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "WINDOW", window)
        assert weight_quant(weights).tobytes() == expected.tobytes()
    exact = Fraction(float(np.abs(weights.astype(np.float64)).sum())) / n
    largest = float(np.abs(expected).max())
    assert largest == 0 or abs(largest / float(exact) - 1) < 1e-5


@pytest.mark.parametrize("rule", RULES)
def test_memory_is_bounded(rule: str) -> None:
    """Beside the weights: trits, codes, payload and windows, whatever type the weights have."""
    weights = np.ones((512, 8192), np.float16)
    tracemalloc.start()
    try:
        quantize(weights, rule, 1.0 if rule == "given" else None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3.6 * weights.size + 24e6


def test_clipping_before_or_after_rounding_is_the_same() -> None:
    """Annex A.5: what two of the public descriptions do in different orders; every float32 around each tie is tried."""
    for limit in (1.0, 127.0):
        ties = np.arange(-limit - 2, limit + 2.5, 0.5, dtype=np.float32)
        around = [ties]
        for towards in (-np.inf, np.inf):
            step = ties
            for _ in range(3):
                step = np.nextafter(step, np.float32(towards))
                around.append(step)
        x = np.concatenate([*around, np.float32([INF, -INF])])
        assert np.array_equal(np.rint(np.clip(x, -limit, limit)), np.clip(np.rint(x), -limit, limit))
        away = np.copysign(np.floor(np.abs(x[:-2]) + 0.5), x[:-2])
        assert (np.rint(x[:-2]) != away).any()  # the inputs include ties where the two rules differ
