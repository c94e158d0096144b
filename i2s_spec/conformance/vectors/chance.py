"""This module gives pseudo-random numbers that are the same on every machine, with every version of NumPy.

>>> integers("doc", 4, 3).tolist()
[1, 0, 0, 1]
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def words(seed: str, count: int) -> NDArray[np.uint64]:
    """The given number of 64-bit words: SHA-256 of the seed and a counter, four words from each digest."""
    blocks = (sha256(f"{seed}/{i}".encode()).digest() for i in range((count + 3) // 4))
    return np.frombuffer(b"".join(blocks), dtype="<u8")[:count].astype(np.uint64)


def integers(seed: str, count: int, below: int) -> NDArray[np.int64]:
    """Integers from 0 on, below a limit."""
    return (words(seed, count) % np.uint64(below)).astype(np.int64)


def trits(seed: str, rows: int, cols: int) -> NDArray[np.int8]:
    """A matrix of -1, 0 and +1, int8 [rows, cols]."""
    return (integers(seed, rows * cols, 3) - 1).astype(np.int8).reshape(rows, cols)


def floats(seed: str, *shape: int, spread: float = 1.0) -> NDArray[np.float32]:
    """Floats around 0, denser near it: each is the sum of three uniform ones; all are exact multiples of spread / 2^20."""
    count = int(np.prod(shape))
    parts = integers(seed, 3 * count, 1 << 20).reshape(count, 3)
    centred = (parts.sum(axis=1) - 3 * (1 << 19)) / float(1 << 20)
    values: NDArray[np.float32] = (centred * spread).astype(np.float32).reshape(shape)
    return values
