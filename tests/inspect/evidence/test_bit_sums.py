"""The compiled sums of bits are those of the definition, for every kernel set and however the bytes come."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from i2s_spec.inspect.evidence import _bit_sums
from i2s_spec.inspect.evidence.bit_sums import BitSums, bit_sums_reference, kernel_row

SETS = [row for row, (_, available) in enumerate(_bit_sums.kernel_sets()) if available]


def compiled(row: int, data: bytes, width: int, segment: int) -> tuple[np.ndarray, np.ndarray]:
    columns = np.zeros((width, 8), dtype=np.uint32)
    segments = np.full((len(data) // segment, 8), 77, dtype=np.uint32)
    _bit_sums.add_bit_sums(row, data, width, segment, columns, segments)
    return columns, segments


@pytest.mark.parametrize("row", SETS)
@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(0, 530),
    segment=st.integers(1, 150),
    stretches=st.integers(1, 4),
    seed=st.integers(0, 1 << 30),
    dense=st.booleans(),
)
def test_every_set_is_the_definition(row: int, rows: int, segment: int, stretches: int, seed: int, dense: bool) -> None:
    random = np.random.default_rng(seed)
    made = random.integers(0, 256, size=rows * segment * stretches, dtype=np.uint8)
    data = (made | (255 if dense else 0)).astype(np.uint8).tobytes()
    width = segment * stretches
    if rows == 0:
        return
    for one, other in zip(compiled(row, data, width, segment), bit_sums_reference(data, width, segment), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("row", SETS)
def test_counters_of_long_segments_do_not_wrap(row: int) -> None:
    segment = 64 * 600 + 7
    data = b"\xff" * segment
    _, segments = compiled(row, data, segment, segment)
    assert segments.tolist() == [[segment] * 8]


@given(st.lists(st.integers(0, 40), max_size=6), st.integers(0, 1 << 30))
@settings(max_examples=30, deadline=None)
def test_pieces_add_up(pieces: list[int], seed: int) -> None:
    data = np.random.default_rng(seed).integers(0, 256, size=sum(pieces) * 128, dtype=np.uint8).tobytes()
    sums = BitSums(sum(pieces), 128, 32)
    at = 0
    for rows in pieces:
        sums.add(data[at : at + rows * 128])
        at += rows * 128
    if data:
        columns, segments = bit_sums_reference(data, 128, 32)
        assert np.array_equal(sums.columns, columns)
        assert np.array_equal(sums.segments, segments)


@pytest.mark.parametrize(("size", "width", "segment"), [(5, 4, 2), (8, 4, 3), (8, 0, 1), (8, 4, 0)])
def test_what_is_not_whole_is_refused(size: int, width: int, segment: int) -> None:
    columns = np.zeros((max(width, 1), 8), dtype=np.uint32)
    segments = np.zeros((size // max(segment, 1), 8), dtype=np.uint32)
    with pytest.raises(ValueError, match="whole rows"):
        _bit_sums.add_bit_sums(0, bytes(size), width, segment, columns, segments)


def test_more_rows_than_there_are() -> None:
    sums = BitSums(1, 8, 2)
    sums.add(bytes(8))
    with pytest.raises(ValueError, match="another shape"):
        sums.add(bytes(8))


def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("I2S_ISA", "portable")
    assert kernel_row() == 0
