"""The compiled sums of bits equal the definition, for every kernel set and however the bytes are split."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.gguf.source import BufferSource
from i2s_spec.layout_inference import _bit_sums, grams, profiles
from i2s_spec.layout_inference.counts import totals_reference
from i2s_spec.layout_inference.evidence import squares_reference
from i2s_spec.layout_inference.hypotheses import HYPOTHESES, Hypothesis, orders
from i2s_spec.layout_inference.profiles import BitSums, bit_sums_reference, sum_kernel_row
from i2s_spec.layout_inference.roles import Matrix
from i2s_spec.schema.dialect import CODE_MAPS

SETS = [row for row, (_, available) in enumerate(_bit_sums.kernel_sets()) if available]


def compiled(row: int, data: bytes, width: int, segment: int, either: bool) -> tuple[np.ndarray, np.ndarray]:
    columns = np.zeros((4, width), dtype=np.uint32)
    segments = np.full((len(data) // segment + 2, 4), 77, dtype=np.uint32)
    planes = np.zeros(_bit_sums.planes_size(width, segment), dtype=np.uint8)
    assert _bit_sums.add_bit_sums(row, data, width, segment, either, columns, segments, 1, planes, 0, True) == 0
    assert (segments[[0, -1]] == 77).all()
    assert not planes.any()
    return columns, segments[1:-1]


@pytest.mark.parametrize("row", SETS)
@examples(60)
@given(
    rows=st.integers(0, 530),
    segment=st.integers(1, 150),
    stretches=st.integers(1, 4),
    seed=st.integers(0, 1 << 30),
    dense=st.booleans(),
    either=st.booleans(),
)
def test_every_set_is_the_definition(
    row: int, rows: int, segment: int, stretches: int, seed: int, dense: bool, either: bool
) -> None:
    random = np.random.default_rng(seed)
    made = random.integers(0, 256, size=rows * segment * stretches, dtype=np.uint8)
    data = (made | (255 if dense else 0)).astype(np.uint8).tobytes()
    width = segment * stretches
    if rows == 0:
        return
    found = compiled(row, data, width, segment, either)
    for one, other in zip(found, bit_sums_reference(data, width, segment, either), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("row", SETS)
def test_counters_of_long_segments_do_not_wrap(row: int) -> None:
    segment = 64 * 600 + 7
    data = b"\xff" * segment * 2
    _, segments = compiled(row, data, segment, segment, False)
    assert segments.tolist() == [[segment] * 4] * 2


@pytest.mark.parametrize("name", [_bit_sums.kernel_sets()[row][0] for row in SETS])
@given(st.lists(st.integers(0, 200), max_size=9), st.integers(0, 1 << 30), st.booleans(), st.booleans())
@examples(30)
def test_pieces_add_up(name: str, pieces: list[int], seed: int, dense: bool, along: bool) -> None:
    made = np.random.default_rng(seed).integers(0, 256, size=sum(pieces) * 128, dtype=np.uint8)
    data = (made | (255 if dense else 0)).astype(np.uint8).tobytes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("I2S_ISA", name)
        sums = BitSums(sum(pieces), 128, 32, either=False, along=along)
    at = 0
    for rows in pieces:
        sums.add(data[at : at + rows * 128])
        at += rows * 128
    if data:
        columns, segments = bit_sums_reference(data, 128, 32, either=False)
        assert np.array_equal(sums.columns, columns)
        assert (sums.segments is None) == (not along)
        assert not along or np.array_equal(sums.segments, segments)


@pytest.mark.parametrize(("size", "width", "segment"), [(5, 4, 2), (8, 4, 3), (8, 0, 1), (8, 4, 0)])
def test_partial_rows_are_refused(size: int, width: int, segment: int) -> None:
    columns = np.zeros((4, max(width, 1)), dtype=np.uint32)
    segments = np.zeros((size // max(segment, 1), 4), dtype=np.uint32)
    planes = np.zeros(9999, dtype=np.uint8)
    with pytest.raises(ValueError, match="whole rows"):
        _bit_sums.add_bit_sums(0, bytes(size), width, segment, False, columns, segments, 0, planes, 0, True)


def test_counters_and_planes_that_do_not_fit() -> None:
    columns, segments, planes = np.zeros((4, 8), np.uint32), np.zeros((4, 4), np.uint32), np.zeros(9999, np.uint8)
    for arguments in (
        (columns[:, :4].copy(), segments, 0, planes, 0), (columns[:3], segments, 0, planes, 0),
        (columns, segments[:3], 0, planes, 0), (columns, segments, 1, planes, 0), (columns, segments, -1, planes, 0),
        (columns, segments[:, :3].copy(), 0, planes, 0), (columns, segments, 0, planes[:99], 0),
        (columns, segments, 0, planes, 256), (columns, None, 0, planes, -1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"another shape|planes"):
            _bit_sums.add_bit_sums(0, bytes(8), 8, 2, False, *arguments, True)


def test_too_many_rows_are_refused() -> None:
    sums = BitSums(1, 8, 2, either=True)
    sums.add(bytes(8))
    with pytest.raises(ValueError, match="more rows"):
        sums.add(bytes(8))


def test_the_environment_chooses_the_kernel_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("I2S_ISA", "portable")
    assert sum_kernel_row() == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=60))
def test_scores_of_counts_are_those_of_profiles(pairs: list[tuple[int, int]]) -> None:
    one, other = np.array(pairs, dtype=np.uint32).T.copy()
    assert profiles.count_score(memoryview(one), memoryview(other)) == profiles.score(one, other)


def test_scores_of_counts_refuse_buffers_that_do_not_fit() -> None:
    counts = np.array([1, 2, 3, 4], np.uint32)
    assert _bit_sums.count_score(counts[:0], counts[:0], 1) is None
    with pytest.raises(ValueError, match="another shape"):
        _bit_sums.count_score(counts, counts[:3], 4)
    with pytest.raises(ValueError, match="too large"):
        _bit_sums.count_score(counts, counts << 20, 4)


@given(st.integers(0, 64), st.integers(0, 40), st.integers(0, 1 << 30))
def test_zeros_are_counted_in_each_order(cut: int, most: int, seed: int) -> None:
    """Counts that are 0 in rows and in columns, read in each order."""
    random = np.random.default_rng(seed)
    gate, up, base = (random.integers(0, 1 + most, size=384, dtype=np.uint32) for _ in range(3))
    base[cut:] |= random.integers(0, 2, size=384 - cut, dtype=np.uint32)
    read = orders(4, 384)
    rows = (gate == 0) & (up == 0)
    wanted = [int((base[HYPOTHESES[number].places(384)][rows] == 0).sum()) for number in read.numbers]
    sums = int(rows.sum()), int(((gate == 0) | (up == 0)).sum()), int((base == 0).sum())
    assert _bit_sums.zeros_alike(gate, up, base, read.first, 0, len(wanted)) == (*sums, wanted)
    assert _bit_sums.zeros_alike(gate, up, base, read.first, 1, 3) == (*sums, wanted[1:3])
    assert _bit_sums.has_zero(base) == (not base.all())


def test_zeros_refuse_buffers_that_do_not_fit() -> None:
    counts, places = np.zeros(256, np.uint32), np.arange(128, dtype=np.int32)[None]
    for gate, base, read, first, stop in (
        (counts[:128], counts, places, 0, 1), (counts, counts[:128], places, 0, 1), (counts, counts, places - 1, 0, 1),
        (counts, counts, places[:, :64].copy(), 0, 1), (counts, counts, places, 0, 2), (counts, counts, places, -1, 1),
        (counts, counts, places, 1, 0), (counts[:100], counts[:100], places, 0, 1),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"another shape|not among|not in the matrix"):
            _bit_sums.zeros_alike(gate, gate, base, read, first, stop)


@given(st.integers(0, 200), st.integers(1, 200))
def test_buffers_begin_at_a_cache_line(before: int, size: int) -> None:
    data = np.zeros(before + size + 64, np.uint8)[before:]
    first = _bit_sums.line_offset(data)
    assert 0 <= first < 64
    assert data[first:].ctypes.data % 64 == 0
    assert _bit_sums.line_offset(b"") == 0


SCORES = st.lists(st.floats(-300, 300) | st.just(math.nan), min_size=2 * len(HYPOTHESES), max_size=2 * len(HYPOTHESES))


@given(st.lists(st.tuples(st.booleans(), SCORES), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_squares_of_scores_and_their_sums(comparisons: list[tuple[bool, list[float]]], random: Random) -> None:
    many = len(HYPOTHESES)
    wanted = np.array([squares_reference([scores[:many], scores[many:]], gram) for gram, scores in comparisons])
    found = np.array([scores for _, scores in comparisons]).reshape(-1)
    squared = np.full(wanted.size, np.nan)
    in_rows = bytes(each.in_rows for each in HYPOTHESES)
    _bit_sums.squares(found, bytes(gram for gram, _ in comparisons), in_rows, squared)
    assert np.array_equal(squared, wanted.reshape(-1))
    numbers = [random.randrange(len(comparisons)) for _ in range(4)]
    sides = [random.randrange(3) for _ in range(4)]
    sums = [0.0] * many
    for number, side in zip(numbers, sides, strict=True):
        sums = [total + square for total, square in zip(sums, wanted[number, side].tolist(), strict=True)]
    assert _bit_sums.sums_of_squares(squared, numbers, sides, many) == sums


def test_squares_refuse_buffers_that_do_not_fit() -> None:
    found, squared = np.zeros(8), np.zeros(12)
    _bit_sums.squares(found, bytes(2), bytes(2), squared)
    for wrong in ((found[:7], bytes(2), bytes(2), squared), (found, bytes(2), bytes(2), squared[:11]),
                  (found, bytes(1), bytes(2), squared), (found, bytes(2), bytes(1), squared)):  # fmt: skip
        with pytest.raises(ValueError, match="another shape"):
            _bit_sums.squares(*wrong)
    for numbers, sides, many in (([2], [0], 2), ([-1], [0], 2), ([0], [3], 2), ([0], [-1], 2), ([0], [0], 0), ([0], [0], 65),
                                 ([0], [0], 5)):  # fmt: skip
        with pytest.raises(ValueError, match=r"another shape|no such comparison"):
            _bit_sums.sums_of_squares(squared, numbers, sides, many)


def test_products_are_added() -> None:
    random = np.random.default_rng(2)
    one, other = (random.normal(size=(n, n)).astype(np.float32) for n in (9, 5))
    assert np.array_equal(np.asarray(grams.added(memoryview(one), memoryview(other))), one[:5, :5] + other)
    for wrong in ((one[:4, :4].copy(), other), (one, other[:4].copy()), (one[:, :8].copy(), other)):
        with pytest.raises(ValueError, match="another shape"):
            _bit_sums.add_products(*wrong, np.empty((5, 5), np.float32))
    with pytest.raises(ValueError, match="another shape"):
        _bit_sums.add_products(one, other, np.empty((5, 4), np.float32))


PROFILES = st.lists(st.integers(0, 9), min_size=4, max_size=60).filter(
    lambda values: len(set(values)) >= profiles.VALUES
)


@given(PROFILES)
def test_ranks_of_counts_are_those_of_numbers(values: list[int]) -> None:
    middles = [(sum(b < a for b in values) + sum(b <= a for b in values) - len(values)) / 2 for a in values]
    for dtype in (np.uint32, np.float32, np.float64):
        found = profiles.ranks(np.array(values, dtype=dtype))
        assert found is not None
        assert found.tolist() == middles


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4, max_size=40))
def test_ranks_of_floats_are_those_of_numbers(values: list[float]) -> None:
    profile = np.array([*values, 0.0, -0.0], dtype=np.float32)
    found = np.empty(profile.size)
    assert _bit_sums.float_ranks(profile, found) == len(np.unique(profile))
    middles = (profile[:, None] > profile).sum(axis=1) + (profile[:, None] >= profile).sum(axis=1) - profile.size
    assert np.array_equal(2 * found, middles)


def test_ranks_of_few_or_infinite_values_are_none() -> None:
    for dtype in (np.uint32, np.float32, np.float64):
        assert profiles.ranks(np.array([1, 2, 3, 1, 2, 3], dtype=dtype)) is None
    assert profiles.ranks(np.array([1, 2, 3, 4, np.inf], dtype=np.float32)) is None
    with pytest.raises(ValueError, match="another shape"):
        _bit_sums.ranks(np.array([5], dtype=np.uint32), np.empty(2))


def test_ranks_of_counts_that_are_too_large_to_be_counted() -> None:
    values = np.array([5, 1 << 21, 7, (1 << 32) - 1, 5], dtype=np.uint32)
    found = profiles.ranks(values)
    assert found is not None
    assert found.tolist() == [-1.5, 1.0, 0.0, 2.0, -1.5]


SCORE_SETS = [name for name, available in _bit_sums.score_sets() if available]


@pytest.mark.parametrize("name", SCORE_SETS)
@given(
    heads=st.integers(1, 5),
    share=st.integers(1, 3),
    width=st.sampled_from((1, 2, 3, 9, 20, 130, 300)),
    most=st.integers(3, 60),
    many=st.integers(1, 3),
    seed=st.integers(0, 1 << 30),
)
@examples(60)
def test_column_scores_are_the_definition(
    name: str, heads: int, share: int, width: int, most: int, many: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    length = heads * width
    bases = random.integers(0, most + 1, size=(2, length * share), dtype=np.uint32)
    windows = np.arange(length * share) // 64 * 64  # places within windows, as in layouts, and random ones
    near = [np.lexsort((random.permutation(length * share), windows)) for _ in range(2)]
    places = np.stack([*near, *(random.permutation(length * share) for _ in range(2))]).astype(np.int32)
    split = int(random.integers(0, 5))
    others = np.stack([random.permutation(length) - (length - 1) / 2 for _ in range(many)])
    if length < 2:
        return
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("I2S_ISA", name)
        found = profiles.column_scores(bases, places, split, others, share, width)
    wanted = profiles.column_scores_reference(bases, places, split, others, share, width)
    assert (None if found is None else found.tolist()) == (None if wanted is None else wanted.tolist())


@pytest.mark.parametrize("name", SCORE_SETS)
@given(
    blocks=st.integers(1, 12),
    share=st.sampled_from((1, 1, 2, 4)),
    most=st.sampled_from((3, 60, 2560)),
    many=st.integers(1, 5),
    across=st.booleans(),
    whole=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
def test_column_scores_of_places_that_repeat(
    name: str, blocks: int, share: int, most: int, many: int, across: bool, whole: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    cols, length = 128 * blocks * share, 128 * blocks
    bases = random.integers(0, most + 1, size=(2, cols), dtype=np.uint32)
    first = np.stack([random.permutation(128) + 128 * (number % (blocks * share)) for number in range(4)])
    if across:  # each block lies in two windows
        first = (first + 64) % cols
    others = np.stack([random.permutation(length) - (length - 1) / 2 for _ in range(many)])
    if not whole:  # ranks that do not fit 16 bits
        others[0] /= 3
    places = first.astype(np.int32)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("I2S_ISA", name)
        found = profiles.column_scores(bases, places, 3, others, share, 32)
    wanted = profiles.column_scores_reference(bases, places, 3, others, share, 32)
    assert found is not None
    assert wanted is not None
    assert np.array_equal(found, wanted) or (not whole and np.allclose(found, wanted, rtol=1e-12, atol=1e-12))


@pytest.mark.parametrize("name", SCORE_SETS)
@pytest.mark.parametrize("cols", [16256, 16384, 33024])
def test_column_scores_of_many_columns(name: str, cols: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("I2S_ISA", name)
    bases = np.sort(np.random.default_rng(5).integers(0, 1 << 16, size=(2, cols), dtype=np.uint32))
    places, others = np.arange(128, dtype=np.int32)[None], (np.arange(cols) - (cols - 1) / 2)[None]
    found = profiles.column_scores(bases, places, 1, others)  # equal signs give the largest sums
    assert found is not None
    assert np.array_equal(found, profiles.column_scores_reference(bases, places, 1, others))


@pytest.mark.parametrize("shape", [(128, 128), (256, 256), (512, 1280), (2560, 6912), (6, 384)])
def test_blocks_of_every_hypothesis_are_like_the_first(shape: tuple[int, int]) -> None:
    read = orders(*shape)
    blocks = np.arange(0, shape[1], 128)[:, None]
    for number, first in zip(read.numbers, np.asarray(read.first), strict=True):
        assert np.array_equal(HYPOTHESES[number].places(shape[1]), ((blocks + first) % shape[1]).reshape(-1))


def test_column_scores_refuse_buffers_that_do_not_fit() -> None:
    bases, others, found = np.ones((2, 8), dtype=np.uint32), np.ones((1, 4)), np.empty((1, 1))
    places = np.arange(8, dtype=np.int32)[None]
    for share, width, split in ((0, 1, 1), (2, 3, 1), (3, 1, 1), (1, 1, 1), (2, 1, 2), (2, 1, -1)):
        with pytest.raises(ValueError, match=r"whole groups|another shape"):
            _bit_sums.column_scores(0, bases, places, split, others, share, width, 4, found)
    with pytest.raises(ValueError, match="too large"):
        _bit_sums.column_scores(0, bases << 20, places, 1, others, 2, 1, 1, found)
    with pytest.raises(ValueError, match="no such"):
        _bit_sums.column_scores(99, bases, places, 1, others, 2, 1, 1, found)


@given(st.integers(1, 9), st.integers(0, 5), st.integers(0, 1 << 30), st.booleans())
@examples(30)
def test_totals_are_the_definition(cols: int, rows: int, seed: int, others: bool) -> None:
    random = np.random.default_rng(seed)
    pairs = random.integers(0, 99, size=(4, 4 * cols), dtype=np.uint32)
    stretches = random.integers(0, cols + 1, size=(4 * rows, 4), dtype=np.uint32)
    found = [np.empty((2, 4 * cols), dtype=np.uint32), np.empty((2, 4 * rows), dtype=np.uint32)]
    if rows:
        _bit_sums.totals(pairs, stretches, 400, others, *found)
    else:
        _bit_sums.totals(pairs, None, 400, others, found[0], None)
    for one, other in zip(found, totals_reference(pairs, stretches, 400, others), strict=True):
        assert np.array_equal(one, other)


GRAM_SETS = [row for row, (_, available) in enumerate(_bit_sums.gram_sets()) if available]


@pytest.mark.parametrize("row", GRAM_SETS)
@pytest.mark.parametrize("code_map", CODE_MAPS)
@examples(15)
@given(
    rows=st.integers(1, 40), cols=st.integers(1, 5), in_rows=st.booleans(), down=st.booleans(), seed=st.integers(0, 99)
)
def test_grams_of_every_set_are_the_definition(
    row: int, code_map: str, rows: int, cols: int, in_rows: bool, down: bool, seed: int
) -> None:
    data = np.random.default_rng(seed).integers(0, 256, size=rows * cols * 128, dtype=np.uint8).tobytes()
    matrix = Matrix(0, "attn_q", "blk.0.attn_q.weight", 4 * rows, 128 * cols, 0)
    chosen_sets = tuple(each._replace(available=each.row == row) for each in grams.kernel_sets())
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(grams, "kernel_sets", lambda: chosen_sets)
        patched.delenv("I2S_ISA", raising=False)
        reader = grams.GramReader(BufferSource(data), CODE_MAPS[code_map])
        found = np.asarray((reader.columns if down else reader.rows)(matrix)[in_rows])
        correlations = np.asarray(grams.correlations(found))
        at_once = np.asarray((reader.columns if down else reader.rows)(matrix, correlated=True)[in_rows])
    wanted = grams.gram_reference(BufferSource(data), matrix, CODE_MAPS[code_map], in_rows, down)
    assert np.array_equal(found, wanted.astype(np.float32)) or np.allclose(found, wanted, rtol=1e-6, atol=1e-5)
    assert np.allclose(correlations, grams.correlations_reference(found), rtol=1e-6, atol=1e-7)
    assert np.allclose(at_once, correlations, rtol=1e-6, atol=1e-6)
    assert np.array_equal(at_once, at_once.T)


@pytest.mark.parametrize("row", GRAM_SETS)
@pytest.mark.parametrize(("rows", "length"), [(4, 4100), (44, 1024), (44, 1028), (68, 2200)])
def test_grams_of_long_vectors(row: int, rows: int, length: int) -> None:
    """Kernels take long vectors in pieces, and as many of them as they have registers for."""
    table = np.array([-1, 0, 1, 0], dtype=np.int8)
    data = np.random.default_rng(rows).integers(0, 256, size=(rows, length // 4), dtype=np.uint8)
    found = np.empty((rows, rows), dtype=np.float32)
    _bit_sums.gram(row, data.reshape(-1), length // 4, length // 4, False, False, table, found)
    vectors = table[data[:, :, None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3].reshape(rows, -1).astype(np.float64)
    vectors -= vectors.mean(axis=1, keepdims=True)
    assert np.allclose(found, vectors @ vectors.T, rtol=1e-6, atol=1e-4)


def test_grams_refuse_buffers_that_do_not_fit() -> None:
    table, found = np.array([-1, 0, 1, 0], dtype=np.int8), np.empty((4, 4), dtype=np.float32)
    for data, stride, n, trits in (
        (bytes(8), 4, 5, table), (bytes(7), 4, 4, table), (b"", 4, 4, table), (bytes(8), 8, 0, table),
        (bytes(8), 8, 8, table * 2), (bytes(8), 8, 8, table[:3]), (bytes(24), 8, 8, table),
        (bytes(1 << 15), 1 << 15, 1 << 15, table),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"whole rows|trit|another shape|compared"):
            _bit_sums.gram(0, data, stride, n, False, False, trits, found)
    with pytest.raises(ValueError, match="no such"):
        _bit_sums.gram(99, bytes(8), 8, 8, False, False, table, found)


def as_read(one: Any, others: dict[bool, Any], read: grams.Reads) -> Any:
    """What `score_as_read` writes into an array filled with NaN."""
    found = np.full((2, len(HYPOTHESES)), np.nan)
    grams.score_as_read(one, others, read, memoryview(found))
    return found


def correlated(products: np.ndarray) -> np.ndarray:
    return np.asarray(grams.correlations(memoryview(np.ascontiguousarray(products))))


@pytest.mark.parametrize("name", SCORE_SETS)
@pytest.mark.parametrize("hypothesis", HYPOTHESES, ids=lambda each: each.name)
def test_scores_of_grams_are_those_of_what_is_read(
    hypothesis: Hypothesis, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("I2S_ISA", name)
    random = np.random.default_rng(7)
    for known, others, cols in ((256, 256, 512), (256, 240, 256), (128, 200, 128)):
        if not hypothesis.fits(4, cols):
            continue
        one, other, opposite = (
            correlated((made + made.T + np.eye(n) * n).astype(np.float32))
            for n in (known, others, others)
            for made in [random.normal(size=(n, n))]
        )
        matrix, first = grams.as_read(one, hypothesis, cols)
        n = min(len(matrix), others - first)
        wanted = [
            grams.score(
                np.ascontiguousarray(matrix[:n, :n]), np.ascontiguousarray(each[first : first + n, first : first + n])
            )
            for each in (other, opposite)
        ]
        read = grams.reads(4, cols, known, hypothesis.in_rows)
        found = as_read(one, {True: other, False: opposite}, read)
        assert found[:, HYPOTHESES.index(hypothesis)] == pytest.approx(wanted, abs=1e-3)
        assert np.isnan(np.delete(found, read.numbers.tolist(), axis=1)).all()


@pytest.mark.parametrize("name", SCORE_SETS)
@pytest.mark.parametrize(("share", "width", "known"), [(2, 32, 256), (4, 16, 256), (3, 8, 128), (1, 64, 256)])
def test_scores_of_heads_that_share_are_those_of_their_sums(
    name: str, share: int, width: int, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("I2S_ISA", name)
    random = np.random.default_rng(11)
    made = [random.normal(size=(n, n)) for n in (known, 100, 100)]
    products, other, opposite = ((each + each.T + np.eye(len(each)) * 40).astype(np.float32) for each in made)
    others = {True: correlated(other), False: correlated(opposite)}
    for side in (True, False):
        read = grams.reads(4, known, known, side)
        scores = np.full((2, len(HYPOTHESES)), np.nan)
        grams.score_as_shared(memoryview(products), others, read, share, width, memoryview(scores))
        found = scores[:, read.numbers.tolist()]
        assert np.isnan(np.delete(scores, read.numbers.tolist(), axis=1)).all()
        for way, number in enumerate(read.numbers.tolist()):
            matrix, first = grams.as_read(products, HYPOTHESES[number], known)
            grouped = grams.shared(matrix, width, share) if first == 0 else None
            if grouped is None or len(grouped) < profiles.VALUES:
                assert np.isnan(found[:, way]).all()
                continue
            n = min(len(grouped), 100)
            own = correlated(grouped)[:n, :n]
            wanted = [
                grams.score(np.ascontiguousarray(own), np.ascontiguousarray(each[:n, :n])) for each in others.values()
            ]
            assert found[:, way] == pytest.approx(wanted, abs=1e-3)
        assert not np.isnan(found).all()


def test_sums_over_heads_refuse_buffers_that_do_not_fit() -> None:
    products, places, found = np.zeros((8, 8), np.float32), np.arange(8, dtype=np.int32), np.empty((4, 4), np.float32)
    _bit_sums.shared_gram(products, places, 2, 2, found)
    for wrong in (
        (products, places, 0, 2, found), (products, places, 2, 0, found), (products, places, 3, 2, found),
        (products, places, 2, 3, found), (products, places[:7].copy(), 2, 2, found), (products, places + 1, 2, 2, found),
        (products, places - 1, 2, 2, found), (products[:7].copy(), places, 2, 2, found),
        (products, places, 2, 2, found[:, :3].copy()),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"another shape|not in the matrix"):
            _bit_sums.shared_gram(*wrong)


def test_scores_of_few_or_constant_channels_are_nan() -> None:
    read = grams.reads(4, 256, 256, in_rows=True)
    one = correlated(np.random.default_rng(3).normal(size=(256, 256)).astype(np.float32))
    few = np.ascontiguousarray(one[: profiles.VALUES - 1, : profiles.VALUES - 1])
    assert np.isnan(as_read(one, {True: few, False: few}, read)).all()
    constant = as_read(one, {True: np.zeros_like(one), False: one}, read)[:, read.numbers.tolist()]
    assert np.isnan(constant[0]).all()
    assert not np.isnan(constant[1]).any()


def test_scores_of_grams_refuse_buffers_that_do_not_fit() -> None:
    one, found = np.zeros((4, 4), np.float32), np.empty((2, 1))
    places, starts, firsts, numbers = np.arange(4, dtype=np.int32), np.array([0, 4]), np.array([0]), np.array([0])
    good: list[Any] = [0, one, one, one, places, starts, firsts, numbers, 4, found]
    _bit_sums.gram_scores(*good)
    for place, wrong in ((0, 99), (1, one[:, :3].copy()), (2, one[:3].copy()), (3, one[:3].copy()),
                         (3, one[:3, :3].copy()), (4, places + 1), (4, places - 1), (5, np.array([0, 5])),
                         (5, np.array([-1, 4])), (5, np.array([4, 0])), (5, np.array([0])), (6, np.array([-1])),
                         (6, np.array([0, 0])), (7, np.array([1])), (7, np.array([-1])), (7, np.array([0, 0])),
                         (9, found[:1])):  # fmt: skip
        with pytest.raises(ValueError, match=r"no such|another shape|not among|not in the matrix|no column"):
            _bit_sums.gram_scores(*[wrong if place == number else each for number, each in enumerate(good)])


def test_scores_of_heads_refuse_buffers_that_do_not_fit() -> None:
    one, found = np.eye(8, dtype=np.float32), np.empty((2, 1))
    places, starts, firsts, numbers = np.arange(8, dtype=np.int32), np.array([0, 8]), np.array([0]), np.array([0])
    good: list[Any] = [0, 0, one, one, one, places, starts, firsts, numbers, 2, 2, 2, found]
    _bit_sums.shared_scores(*good)
    cases: list[tuple[int, Any]] = [
        (0, 99), (1, 99), (2, one[:, :7].copy()), (3, one[:7].copy()), (4, one[:7].copy()), (4, one[:7, :7].copy()),
        (5, places + 1), (5, places - 1), (6, np.array([0, 9])), (6, np.array([-1, 8])), (6, np.array([8, 0])),
        (6, np.array([0])), (7, np.array([0, 0])), (8, np.array([1])), (8, np.array([-1])), (9, 0), (9, 9), (10, 0),
        (10, 9), (12, found[:1]),
    ]  # fmt: skip
    for place, wrong in cases:
        with pytest.raises(ValueError, match=r"no such|another shape|not among|not in the matrix|no column"):
            _bit_sums.shared_scores(*[wrong if place == number else each for number, each in enumerate(good)])
