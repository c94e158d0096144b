"""The layout of the checkpoints of BitNet's `gpu/` folder, against the formula of clause 5.5, element by element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec.gpu_checkpoint import TILE_BYTES, pack, unpack


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_every_element_is_where_the_clause_says(down: int, across: int, seed: int) -> None:
    rows, columns = 16 * down, 32 * across
    trits = np.random.default_rng(seed).integers(-1, 2, (rows, columns))
    data = pack(trits)
    assert len(data) == rows * columns // 4
    for row in range(rows):
        for column in range(columns):
            r, c = row % 16, column % 32
            tile = (row // 16 * across + column // 32) * TILE_BYTES
            at = tile + 64 * (r // 8) + 32 * (c // 16) + 4 * (r % 8) + c % 4
            assert data[at] >> 2 * (c % 16 // 4) & 3 == trits[row, column] + 2
    found = unpack(data, (rows, columns))
    assert found.dtype == np.int8
    assert np.array_equal(found, trits)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="16 x 32"):
        pack(np.zeros((16, 31), int))
    with pytest.raises(ValueError, match="from 0 to 2"):
        pack(np.full((16, 32), 2) * np.eye(16, 32, dtype=int))
    with pytest.raises(TypeError, match="float64"):
        pack(np.zeros((16, 32)))
    with pytest.raises(ValueError, match="128 bytes; there are 127"):
        unpack(bytes(127), (16, 32))
    with pytest.raises(ValueError, match="512 elements have code 0"):
        unpack(bytes(128), (16, 32))
