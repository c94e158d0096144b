"""What the definition says in single cases: tails that repeat the scale, the first of several windows, sums in order."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from numpy.typing import NDArray

from i2s_spec.codec import reference, shape
from i2s_spec.codec.mean import torch_mean
from i2s_spec.codec.tail import read_tail, write_tail
from i2s_spec.schema.dialect import CANONICAL, TAILS


@pytest.mark.parametrize("order", ["little", "big"])
def test_eight_copies_of_the_scale(order: str) -> None:
    word = struct.pack("<f" if order == "little" else ">f", 0.75)
    tail = TAILS["replicated-8"]
    assert write_tail(0.75, tail, order) == word * 8  # type: ignore[arg-type]
    for number in range(1, 8):
        odd = bytearray(word * 8)
        odd[4 * number] ^= 1
        with pytest.raises(ValueError, match=f"copy {number} is"):
            read_tail(odd, tail)


def test_the_first_unused_code_is_that_of_the_first_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "WINDOW", 64)
    data = bytearray(reference.pack(np.zeros((4, 128), dtype=np.int8), 0.5))
    for at in (5, 200, 201, 300):
        byte, shift = CANONICAL.layout.byte_of(at, 4, 128), CANONICAL.layout.shift_of(at, 4, 128)
        data[byte] |= 3 << shift
    assert reference.scan(data, (4, 128)) == reference.Scan(4, 5)
    with pytest.raises(reference.UnusedCodeError, match=r"4 times, first at element 5 \(row 0, column 5\)"):
        reference.unpack(data, (4, 128))
    twice = bytes(data) * 2
    assert reference.scan(twice, (2, 4, 128), strict=False, slices="each") == reference.Scan(8, 5)


def cascade(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Columns added up as PyTorch does (aten, SumKernel.cpp, `multi_row_sum`): four accumulators, each emptied into the
    next one whenever as many rows have been added as its level counts."""
    size, levels = len(rows), 4
    power = max(4, (size - 1).bit_length() // levels)
    step = 1 << power
    sums = np.zeros((levels, rows.shape[1]), np.float32)
    i = 0
    while i + step <= size:
        for _ in range(step):
            sums[0] += rows[i]
            i += 1
        for level in range(1, levels):
            sums[level] += sums[level - 1]
            sums[level - 1] = 0
            if i & ((step - 1) << level * power):
                break
    for row in rows[i:]:
        sums[0] += row
    for level in range(1, levels):
        sums[0] += sums[level]
    return sums[0]


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 255, 257, 300, 4095, 4096, 4500, 9000])
@pytest.mark.parametrize("over", [0, 8, 21])
def test_a_mean_is_a_cascade_of_sums(rows: int, over: int) -> None:
    values = np.abs(np.random.default_rng(rows).normal(size=32 * rows + over)).astype(np.float32) ** 3
    vectors = cascade(values[: 32 * rows].reshape(rows, 32)).reshape(4, 8).copy()
    even = len(values) // 8 * 8
    for vector in values[32 * rows : even].reshape(-1, 8):
        vectors[0] += vector
    total = np.float32(0)
    for value in (*values[even:], *(((vectors[0] + vectors[1]) + vectors[2]) + vectors[3])):
        total += value
    wanted = total / np.float32(len(values))
    assert torch_mean(lambda start, stop: values[start:stop], len(values)).tobytes() == wanted.tobytes()
