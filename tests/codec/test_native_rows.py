"""Rows of a tensor: those of the whole matrix, or those that a program gets which starts decoding at a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.codec.native import READERS

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
