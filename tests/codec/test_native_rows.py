"""Rows of a tensor: those of the whole matrix, or those that a program gets which starts decoding at a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

import i2s_spec as i2s
from i2s_spec.codec import native
from i2s_spec.codec.native import READERS
from i2s_spec.codec.reference import Scan, pack_codes
from i2s_spec.schema.dialect import CANONICAL, parse

TRITS = np.random.default_rng(4).integers(-1, 2, (6, 256)).astype(np.int8)


@pytest.mark.parametrize("dialect", ["canonical", "interleave-64", "sequential-msb/twos-complement"])
@pytest.mark.parametrize("order", ["little", "big"])
def test_rows_are_those_of_the_matrix(dialect: str, order: Any) -> None:
    data = i2s.pack(TRITS, 0.3, dialect, byte_order=order)
    whole = i2s.dequantize(data, TRITS.shape, dialect, byte_order=order)
    for wanted in ([0], [5, 0, 5], [], np.array([2], np.uint8)):
        rows = i2s.get_rows(data, wanted, TRITS.shape, dialect, byte_order=order)
        assert (rows.dtype, rows.shape) == (np.float32, (len(wanted), 256))
        assert rows.tobytes() == whole[np.asarray(wanted, dtype=int)].tobytes()


@pytest.mark.parametrize("reader", ["get-rows", "dequantize", "mul-mat", "ik"])
def test_programs_are_right_where_rows_are_whole_blocks(reader: str) -> None:
    data = i2s.pack(TRITS, 0.3)
    assert np.array_equal(
        i2s.get_rows(data, [3, 1], TRITS.shape, reader=reader), i2s.get_rows(data, [3, 1], TRITS.shape)
    )


def test_get_rows_of_the_fork(shared: Path) -> None:
    """Where rows begin inside blocks, each row is what the fork gives, although it is wrong."""
    vectors, seen = shared / "vectors", 0
    for file in sorted((vectors / "dequant").glob("*.get_rows.npy")):
        case, theirs = file.name.split(".")[0], np.load(file)
        kept = (vectors / f"{folder}_blk128/{case}.bin" for folder in ("quant/out", "dot/w"))
        data = next(file for file in kept if file.exists()).read_bytes().ljust(theirs.size // 4 + 32, b"\xaa")
        for row in range(len(theirs)):
            ours = i2s.get_rows(data, [row], theirs.shape, reader="get-rows")
            assert np.array_equal(ours[0], theirs[row]), (case, row)
        assert not np.array_equal(theirs, i2s.dequantize(data, theirs.shape, strict=False)), case
        seen += 1
    assert seen >= 4


def test_code_3() -> None:
    data = bytearray(i2s.pack(np.zeros((1, 128), np.int8), 0.5))
    data[0] |= 0xC0
    with pytest.raises(ValueError, match="code 3"):
        i2s.get_rows(data, [0], (1, 128))
    assert i2s.get_rows(data, [0], (1, 128), unused_code="plus-two")[0, 0] == 1.0
    assert i2s.get_rows(data, [0], (1, 128), reader="get-rows")[0, 0] == 0.0


def as_arrays(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@examples(60)
@given(
    shape=st.sampled_from([(6, 256), (4, 64), (8, 96), (1, 128), (32, 4), (16, 8)]),
    reader=st.sampled_from([None, *READERS]), unused=st.sampled_from(["reject", "zero", "plus-two"]),
    wanted=st.lists(st.integers(0, 31), max_size=5), threes=st.lists(st.integers(0, 511), max_size=3),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_kernels_read_what_the_definition_reads(
    shape: tuple[int, int], reader: Any, unused: Any, wanted: list[int], threes: list[int], seed: int
) -> None:
    """With rows of whole blocks and without, with code 3 in rows that are read and in others."""
    codes = np.random.default_rng(seed).integers(0, 3, shape).astype(np.uint8)
    codes.reshape(-1)[[each % codes.size for each in threes]] = 3
    data = pack_codes(codes, CANONICAL.layout) + np.float32(-0.3).tobytes() + bytes(28)
    rows = [each % shape[0] for each in wanted]

    def read() -> list[Any]:
        found: list[Any] = []
        for call in (
            lambda: i2s.get_rows(data, rows, shape, reader=reader, unused_code=unused),
            lambda: i2s.read_as(reader or "dequantize", data, shape),
        ):
            try:
                found.append([(each.dtype, each.tobytes()) for each in as_arrays(call())])
            except ValueError as error:
                found.append(str(error))
        return found

    fast = read()
    with patch.object(native, "_whole_rows", return_value=False):
        slow = read()
    if reader is None and unused == "reject" and not (codes[rows] == 3).any() and shape[1] % 128 == 0:
        slow[0] = fast[0]  # the definition looks at all rows, whichever are read
        want = i2s.get_rows(data, rows, shape, unused_code="zero")
        assert fast[0] == [(each.dtype, each.tobytes()) for each in as_arrays(want)]
    assert fast == slow


@pytest.mark.parametrize("place", [0, 1000, (1 << 20) + 5, (3 << 20) - 1])
@pytest.mark.parametrize("dialect", ["canonical", "interleave-64/zero-first"])
def test_the_first_unused_code_is_found_in_any_part(place: int, dialect: str) -> None:
    trits = np.zeros((3 << 10, 1 << 10), np.int8)
    data = np.frombuffer(i2s.pack(trits, 1.0, dialect), np.uint8).copy()
    assert i2s.scan(data, trits.shape, dialect) == Scan(0, None)
    layout, unused = parse(dialect).layout, parse(dialect).code_map.unused
    for at in {place, (3 << 20) - 1}:
        byte, shift = int(layout.byte_of(at, *trits.shape)), int(layout.shift_of(at, *trits.shape))
        data[byte] = int(data[byte]) & ~(3 << shift) | unused << shift
    count = len({place, (3 << 20) - 1})
    assert i2s.scan(data, trits.shape, dialect, threads=2) == Scan(count, place)


@pytest.mark.parametrize(
    ("rows", "error", "said"),
    [([6], ValueError, "the rows are 0 to 5"), ([-1], ValueError, "the rows are 0 to 5"),
     ([0.5], TypeError, "whole numbers"), ([[0]], ValueError, r"\[tokens\], not \[1, 1\]")],
)  # fmt: skip
def test_rows_that_do_not_exist_are_refused(rows: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        i2s.get_rows(i2s.pack(TRITS, 0.3), rows, TRITS.shape)


def test_readers_are_declared() -> None:
    with pytest.raises(ValueError, match="no reader is called 'me'"):
        i2s.get_rows(i2s.pack(TRITS, 0.3), [0], TRITS.shape, reader="me")
    codes, taken = i2s.read_as("scalar-2026", i2s.pack(TRITS, 0.3), TRITS.shape)
    assert taken.all()
    assert (codes != TRITS + 1).any()
    assert {"dequantize", "get-rows", "mul-mat", "mul-mat-arm", "scalar-2026", "ik"} == READERS.keys()
