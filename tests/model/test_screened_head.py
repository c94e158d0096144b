"""A head that is not read whole: kernels against the definition, bounds that hold, and the same tokens bit for bit."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.convert.new import new
from i2s_spec.errors import FormatError
from i2s_spec.model import _fast, fast_operations, screened_head
from i2s_spec.model.load import load_model
from i2s_spec.model.screened_head import ScreenedHead, ScreenedLogits, bounds_of, copy_of, kernel_sets, state_of
from i2s_spec.model.text.generate import Generation, together
from i2s_spec.model.text.sampling import Sampler, Sampling

SETS = [each for each in kernel_sets() if each.available]
FLOATS = [each for each in fast_operations.kernel_sets() if each.available]


def row_kinds(rng: np.random.Generator, rows: int, columns: int, kind: str) -> np.ndarray:
    """Rows of a head as halves."""
    w = rng.standard_normal((rows, columns)) * 10.0 ** rng.uniform(-2, 2)
    if kind == "heavy tails":
        w = w**3
    elif kind == "nearly equal":
        w = w[:1] * rng.choice([1, 1.001], size=w.shape)
    elif kind == "ties":
        w = rng.integers(-1, 2, size=w.shape).astype(float)
    elif kind == "sparse":
        w[rng.random(w.shape) < 0.98] = 0
    elif kind == "ends":
        w = rng.choice([-2.0, -1, 1, 2], size=w.shape) * 30000
    elif kind == "subnormal":
        w = rng.integers(-8, 8, size=w.shape) * 2.0**-24
    elif kind == "loud":
        w[:, rng.integers(columns)] *= 100
    halves = np.clip(w, -65504, 65504).astype(np.float16)
    if rng.random() < 0.3:
        halves[rng.integers(rows), rng.integers(columns)] = rng.choice(np.float16([np.nan, np.inf, -np.inf]))
    return halves


KINDS = ["normal", "heavy tails", "nearly equal", "ties", "sparse", "ends", "subnormal", "loud"]


def state_kinds(rng: np.random.Generator, rows: np.ndarray, kind: str) -> np.ndarray:
    """The state of a token."""
    loud = 10.0 ** rng.uniform(-6, 6)
    x = rng.standard_normal(rows.shape[1])
    row = np.nan_to_num(rows[rng.integers(len(rows))].astype(np.float64), posinf=0, neginf=0)
    if kind == "heavy tails":
        x = x**3
    elif kind == "a row":
        x = row
    elif kind == "an error":  # where the bound is nearly reached
        (scale,) = copy_of(row.astype(np.float16)[None]).scale
        x = row - np.rint(row / scale) * scale if scale else row
    elif kind == "loud":
        x[0] *= 1e3
    elif kind == "whole":
        x = rng.integers(-1, 2, size=x.shape).astype(float)
    elif kind == "underflow":
        x *= 1e-36
    elif kind == "huge":
        x *= 1e30 / max(loud, 1e-3)
    x = (x * loud).astype(np.float32)
    if rng.random() < 0.03:
        x[rng.integers(x.size)] = rng.choice(np.float32([np.nan, np.inf, 3e38]))
    return x


STATES = ["normal", "heavy tails", "a row", "an error", "loud", "whole", "underflow", "huge"]


def native(rows: np.ndarray, kernels: int, floats: int, threads: int = 1) -> tuple[Any, np.ndarray, np.ndarray]:
    """The compiled head with a copy of all rows; its codes and bounds."""
    head = _fast.HeadRows(kernels, floats, threads, rows.__array_interface__["data"][0], *rows.shape)
    pitch = -(-rows.shape[1] // _fast.HEAD_COLUMNS) * _fast.HEAD_COLUMNS
    codes, bounds = np.zeros((len(rows), pitch), np.uint8), np.zeros((4, len(rows)), np.float32)
    head.room(codes, bounds)
    head.make(0, len(rows))
    return head, codes, bounds


def scanned(head: Any, x: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
    state = state_of(x)
    assert state is not None
    estimate, upper = np.empty(rows, np.float32), np.empty(rows, np.float32)
    head.scan(x[None], [state], rows, estimate[None], upper[None])
    return estimate, upper


@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.sampled_from(STATES), st.integers(1, 90), st.integers(1, 700))
@examples(150)
def test_kernels_are_the_definition_and_bounds_hold(seed: int, kind: str, how: str, count: int, columns: int) -> None:
    rng = np.random.default_rng(seed)
    rows = row_kinds(rng, count, columns, kind)
    x = state_kinds(rng, rows, how)
    defined, state = copy_of(rows), state_of(x)
    known = np.isfinite(defined.norm)
    for each in SETS:
        for floats in FLOATS:
            head, codes, bounds = native(rows, each.row, floats.row)
            assert np.array_equal(codes[:, :columns].astype(int) - 128, defined.codes)
            assert (codes[:, columns:] == 128).all()
            np.testing.assert_array_equal(bounds[0], defined.scale)
            for found, least in zip(bounds[1:], defined[2:], strict=True):
                assert (found >= least).all()
                assert (found[known] <= least[known] * 1.001).all()
            whole = np.empty(count, np.float32)
            head.whole(x[None], whole[None])
            alone = np.empty(count, np.float32)
            head.read(x[None], np.arange(count), alone[None])
            assert alone.tobytes() == whole.tobytes()  # in every set a row has the same bits alone
            direct = np.empty((1, count), np.float32)
            _fast.dots(
                floats.row,
                _fast.TYPES["float16"],
                rows.__array_interface__["data"][0],
                count,
                columns * 2,
                x[None],
                direct,
            )
            assert direct.tobytes() == whole.tobytes()
            if state is None:
                continue
            estimate, upper = scanned(head, x, count)
            about, off = bounds_of(defined, state)
            np.testing.assert_array_equal(estimate, about.astype(np.float32))
            assert (upper[known].astype(np.float64) >= about[known] + off[known]).all()
            assert not (whole > upper).any()
            assert (whole[known].astype(np.float64) >= about[known] - off[known]).all()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of any size are screened."""
    monkeypatch.setattr(screened_head, "LEAST", 0)


def complete(head: ScreenedHead, x: np.ndarray) -> None:
    for _ in range(2000):
        head.logits(x).largest(1)
        if head.complete:
            return
    raise AssertionError("never complete")


@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.sampled_from(STATES), st.sampled_from([1, 1, 2, 7, 40]))
@examples(80)
def test_the_largest_are_those_of_the_whole(seed: int, kind: str, how: str, count: int) -> None:
    """While the copy is made and after; ties, NaN and infinity included."""
    rng = np.random.default_rng(seed)
    rows = row_kinds(rng, int(rng.integers(2, 400)), int(rng.integers(1, 300)), kind)
    head = ScreenedHead(rows, FLOATS[-1].row, 1)
    whole = np.empty(len(rows), np.float32)
    for _ in range(12):
        x = state_kinds(rng, rows, how)
        head._native.whole(x[None], whole[None])
        logits = head.logits(x)
        ids, values = logits.largest(count)
        if ids is None:
            assert values.tobytes() == whole.tobytes()
            continue
        assert values.tobytes() == whole[ids].tobytes()
        assert np.isfinite(values.max())
        best = np.lexsort((np.arange(len(whole)), -whole))[:count]
        assert set(best) <= set(ids)
        assert not np.isnan(whole).any()
        assert logits.whole().tobytes() == whole.tobytes()


@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.integers(1, 11), st.integers(1, 700))
@examples(80)
def test_states_together_have_the_bits_that_they_have_alone(seed: int, kind: str, tokens: int, columns: int) -> None:
    """Rows that are scored, and rows that are read, for every number of tokens and of rows."""
    rng = np.random.default_rng(seed)
    rows = row_kinds(rng, int(rng.integers(1, 150)), columns, kind)
    count, copied = len(rows), int(rng.integers(0, len(rows) + 1))
    x = np.stack([state_kinds(rng, rows, str(rng.choice(STATES))) for _ in range(tokens)])
    x = x[[state_of(each) is not None for each in x]]
    if not len(x):
        return
    states = [state_of(each) for each in x]
    for each in SETS:
        for floats in FLOATS:
            head, _, _ = native(rows, each.row, floats.row)
            estimate, upper, whole = (np.empty((len(x), count), np.float32) for _ in range(3))
            head.scan(x, states, copied, estimate, upper)
            head.whole(x, whole)
            for i in range(len(x)):
                alone = [np.empty((1, count), np.float32) for _ in range(3)]
                head.scan(x[i : i + 1], states[i : i + 1], copied, *alone[:2])
                head.whole(x[i : i + 1], alone[2])
                for found, expected in zip((estimate, upper, whole), alone, strict=True):
                    assert found[i].tobytes() == expected.tobytes()


@given(st.integers(0, 2**32), st.sampled_from(KINDS), st.sampled_from(STATES), st.integers(2, 9))
@examples(80)
def test_tokens_that_meet_the_head_together_are_chosen_as_alone(seed: int, kind: str, how: str, tokens: int) -> None:
    """Greedy and top-k ones, and those that need the whole head, in any order, while the copy is made and after."""
    rng = np.random.default_rng(seed)
    rows = row_kinds(rng, int(rng.integers(2, 400)), int(rng.integers(1, 300)), kind)
    head = ScreenedHead(rows, FLOATS[-1].row, 1)
    settings = [Sampling(), Sampling(0.8, top_k=3), Sampling(0.8, top_k=40), Sampling(0.7), Sampling(0.7, top_p=0.5)]
    chosen = [settings[i] for i in rng.choice(len(settings), tokens, p=[0.4, 0.2, 0.2, 0.1, 0.1])]
    samplers, others = ([Sampler(each) for each in chosen] for _ in range(2))
    whole = np.empty((tokens, len(rows)), np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screened_head, "PAGE", 0)  # a step copies 64 rows
        for _ in range(12):
            x = np.stack([state_kinds(rng, rows, how) for _ in range(tokens)])
            head._native.whole(x, whole)
            for sampler, other, logits, values in zip(samplers, others, head.together(x), whole, strict=True):
                assert token_or_error(sampler, logits) == token_or_error(other, values)
                assert logits.whole().tobytes() == values.tobytes()


def token_or_error(sampler: Sampler, logits: Any) -> int | str:
    try:
        return sampler(logits)
    except FormatError as error:
        return str(error)


def test_tokens_of_a_batch_read_the_whole_head_together_and_share_a_screening() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((20000, 256)).astype(np.float16)
    head = ScreenedHead(rows, FLOATS[-1].row, 2)
    x = rng.standard_normal((3, 256)).astype(np.float32)
    for _ in range(screened_head.TOKENS_BEFORE):
        first, *others = head.together(x)
        assert first.largest(1)[0] is None
        assert all(each.known is not None for each in others)
    complete(head, x[0])
    before = head.report
    one, other, last = head.together(x)
    assert one.largest(1)[0] is not None
    assert other.largest(40)[0] is not None
    last.whole()
    assert (one.known, other.known) == (None, None)  # what is decided is not read again
    assert head.report.tokens == before.tokens + 3
    assert head.report.screened == before.screened + 3
    assert 0 < head.report.rows_read - before.rows_read < 1000


def test_a_head_is_read_whole_first_and_copied_while_it_is_read() -> None:
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((20000, 256)).astype(np.float16)
    head = ScreenedHead(rows, FLOATS[-1].row, 2)
    x = rng.standard_normal(256).astype(np.float32)
    for _ in range(screened_head.TOKENS_BEFORE):
        assert head.logits(x).largest(1)[0] is None
    assert head.report.copy_bytes == 0
    assert head.logits(x).leading(64, making=False) is None  # nothing is copied for it
    assert head.report.copy_bytes == 0
    complete(head, x)
    before = head.report
    ids, _ = head.logits(x).largest(1)
    assert ids is not None
    assert head.report.screened == before.screened + 1
    assert 0 < head.report.rows_read - before.rows_read < 200
    assert 0 < head.report.share < 0.01
    assert head.report.copy_bytes == rows.size + 16 * len(rows)


def test_pauses_double_where_most_rows_must_be_read() -> None:
    rows = np.ones((300, 64), np.float16)
    rows[:, 0] += (np.arange(300) % 7 == 0).astype(np.float16) * np.float16(0.001)
    head = ScreenedHead(rows, FLOATS[-1].row, 1)
    x = np.ones(64, np.float32)
    assert all(head.logits(x).largest(1)[0] is None for _ in range(200))
    assert head._pauses["largest"].next >= 32


def test_without_memory_the_head_is_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(size: int) -> None:
        raise MemoryError

    monkeypatch.setattr(screened_head, "huge_pages", none)
    head = ScreenedHead(np.ones((300, 64), np.float16), FLOATS[-1].row, 1)
    for _ in range(10):
        assert head.logits(np.ones(64, np.float32)).largest(1)[0] is None
    assert head.report.copy_bytes == 0


# Models


SAMPLINGS = [
    Sampling(), Sampling(0.8, top_k=5), Sampling(0.9, top_k=40, top_p=0.9, seed=3), Sampling(0.3, seed=1),
    Sampling(1.0, seed=2), Sampling(0.7, top_p=0.5, seed=5),
]  # fmt: skip


@pytest.fixture(scope="module", params=["bitnet-b1.58", "llama"])
def data(request: pytest.FixtureRequest) -> bytes:
    target = io.BytesIO()
    new(target, request.param, layers=1)
    return target.getvalue()


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
@pytest.mark.parametrize("threads", [1, 2])
def test_tokens_are_those_of_the_whole_head(data: bytes, sampling: Sampling, threads: int, small: None) -> None:
    model = load_model(data, "fast", threads=threads)
    whole = list(Generation(model, [1, 2, 3], sampling, limit=60, head="whole"))
    generation = Generation(model, [1, 2, 3], sampling, limit=60)
    assert list(generation) == whole
    assert generation.screened is not None
    assert generation.screened.report.tokens == 60
    assert generation.screened.complete == (sampling.top_p == 1 or sampling.top_k > 0)


@pytest.mark.parametrize("threads", [1, 2])
def test_tokens_of_a_batch_are_those_of_the_whole_head(data: bytes, threads: int, small: None) -> None:
    model = load_model(data, "fast", threads=threads)

    def every(head: Any) -> list[Generation]:
        return [
            Generation(model, [1, 2, i], each, limit=60 - i, head=head)
            for i, each in enumerate([*SAMPLINGS, *[Sampling()] * 3])
        ]

    alone, batch, whole = every("whole"), every("screened"), every("whole")
    for each in alone:
        list(each)
    for generations in (batch, whole):
        for _ in together(generations):
            pass
        assert [each.tokens for each in generations] == [each.tokens for each in alone]
    assert all(each.screened is None for each in whole)
    (head,) = {each.screened for each in batch}
    assert head is not None
    assert head.complete
    assert head.report.tokens == sum(len(each.tokens) for each in batch)


def test_only_who_asks_gets_logits_that_are_not_read(data: bytes, small: None) -> None:
    model = load_model(data, "fast", threads=1)
    last = model.forward([1, 2, 3], logits="last").logits
    assert isinstance(last, np.ndarray)
    screened = model.forward([1, 2, 3], logits="screened")
    assert isinstance(screened.logits, ScreenedLogits)
    assert screened.logits.whole().tobytes() == last.tobytes()
    assert repr(screened).startswith(f"<Result: logits [1, {last.size}]")
    assert isinstance(model.forward([1, 2, 3], taps=("result_norm",), logits="screened").logits, np.ndarray)
    assert isinstance(load_model(data).forward([1, 2, 3], logits="screened").logits, np.ndarray)


def test_small_heads_are_read_whole(data: bytes) -> None:
    logits = load_model(data, "fast", threads=1).forward([1, 2, 3], logits="screened").logits
    assert isinstance(logits, np.ndarray)


# Drawing without sorting


@given(
    st.integers(0, 2**32), st.sampled_from([0.2, 1.0, 5.0, 1e-300]), st.sampled_from([1.0, 1.0, 0.9, 0.5, 1e-6]),
    st.sampled_from(["normal", "peaked", "ties", "equal", "minus infinity"]),
)  # fmt: skip
@examples(60)
def test_a_token_is_drawn_as_from_sorted_logits(seed: int, temperature: float, top_p: float, kind: str) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4097, 9000))
    logits = (rng.standard_normal(count) * rng.choice([0.1, 3])).astype(np.float32)
    if kind == "peaked":
        logits = (-1.5 * np.log(1 + rng.permutation(count))).astype(np.float32)
    elif kind == "ties":
        logits = np.round(logits)
    elif kind == "equal":
        logits[:] = 3
    elif kind == "minus infinity":
        logits[rng.random(count) < 0.5] = -np.inf
    sampling = Sampling(temperature, top_p=top_p, seed=seed)
    sampler, random = Sampler(sampling), np.random.Generator(np.random.PCG64(seed))
    for _ in range(3):
        tokens, probabilities = sampler.distribution(logits)  # the definition
        at = 0
        if len(tokens) > 1:
            running = np.cumsum(probabilities)
            at = min(int(np.searchsorted(running, random.random() * running[-1], side="right")), len(tokens) - 1)
        assert sampler(logits) == tokens[at]


@pytest.mark.parametrize("slope", [1.0, 1.3, 1.6, 2.0, 4.0])
def test_leading_rows_decide_what_all_decide(slope: float) -> None:
    """Few rows decide where the others have little probability, and never about another token."""
    rng = np.random.default_rng(7)
    rows, columns, few = 6000, 64, 0
    x = rng.standard_normal(columns)
    wanted = -slope * np.log(1 + rng.permutation(rows))
    w = rng.standard_normal((rows, columns)) * 0.05
    w += ((wanted - w @ x) / (x @ x))[:, None] * x
    head = ScreenedHead(w.astype(np.float16), FLOATS[-1].row, 1)
    state = x.astype(np.float32)
    complete(head, state)
    whole = head.logits(state).whole()
    for seed in range(30):
        for settings in ({}, {"temperature": 0.7}, {"top_p": 0.9}):
            sampling = Sampling(**{"temperature": 1.0, **settings}, seed=seed)  # type: ignore[arg-type]
            logits = head.logits(state)
            assert Sampler(sampling)(logits) == Sampler(sampling)(whole)
            few += logits.known is None
    assert few > 0 or slope < 1.6


def test_what_is_not_finite_is_named_as_in_the_whole() -> None:
    rows = np.random.default_rng(1).standard_normal((500, 64)).astype(np.float16)
    head = ScreenedHead(rows, FLOATS[-1].row, 1)
    x = np.ones(64, np.float32)
    complete(head, x)
    rows[77, 3] = np.nan
    again = ScreenedHead(rows, FLOATS[-1].row, 1)
    for _ in range(20):
        with pytest.raises(FormatError, match="token 77"):
            Sampler(Sampling())(again.logits(x))
