"""This module defines the rotation of `schema.rotation`: the normalized Walsh-Hadamard transform of blocks, with signs.

H has 1 / sqrt(n) where row and column have an even number of bits in common, and its negative elsewhere: Sylvester's order.
It is symmetric and its own inverse. Sums are done in float32 in the order of the butterfly, from neighbors outwards, and
the result is scaled once.

    >>> rotate(np.array([1, 0, 0, 0], dtype=np.float32), 4).tolist()
    [0.5, 0.5, 0.5, 0.5]
    >>> matrix(2).round(3).tolist()
    [[0.707, 0.707], [0.707, -0.707]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.errors import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray


def matrix(block: int) -> NDArray[np.float64]:
    """H itself, [block, block]: what `transform` multiplies with."""
    each = np.arange(block)
    common = np.bitwise_count(each[:, None] & each[None, :])
    signed: NDArray[np.float64] = np.where(common % 2, -1.0, 1.0) / np.sqrt(block)
    return signed


def transform(x: NDArray[np.float32], block: int) -> NDArray[np.float32]:
    """H times each block of the last dimension, float32.

    :param x: float32 [..., width]; the width is a multiple of `block`, a power of two
    """
    _require(x, block)
    done = x.reshape(-1, block).astype(np.float32)
    step = 1
    while step < block:
        pairs = done.reshape(-1, block // (2 * step), 2, step)
        low, high = pairs[:, :, 0], pairs[:, :, 1]
        done = np.stack([low + high, low - high], axis=2).reshape(-1, block)
        step *= 2
    scaled: NDArray[np.float32] = done * np.float32(1 / np.sqrt(block))
    return scaled.reshape(x.shape)


def rotate(x: NDArray[np.float32], block: int, signs: Sequence[int] | None = None) -> NDArray[np.float32]:
    """x' = H (s * x): what a program does to the input of a folded weight."""
    return transform(x if signs is None else x * np.array(signs, dtype=np.float32), block)


def restore(z: NDArray[np.float32], block: int, signs: Sequence[int] | None = None) -> NDArray[np.float32]:
    """h = s * (H z): what a program does to the rows of a rotated table; `rotate` undone."""
    h = transform(z, block)
    return h if signs is None else h * np.array(signs, dtype=np.float32)


def fold(weights: NDArray[np.float32], block: int, signs: Sequence[int] | None = None) -> NDArray[np.float32]:
    """The weights [rows, width] whose product with `rotate(x)` is that of `weights` with x: rows rotated as inputs are."""
    return rotate(weights, block, signs)


def _require(x: NDArray[np.float32], block: int) -> None:
    if block < 1 or block & (block - 1):
        raise ValueError(f"blocks of {counted(block, 'element')} cannot be rotated: it is not a power of two")
    if x.shape[-1] % block:
        raise ValueError(f"rows of {counted(x.shape[-1], 'element')} are not whole blocks of {block:,}")
