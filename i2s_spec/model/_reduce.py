"""Sums in a fixed order in NumPy, where `pyx/_reduce.pyx` is not compiled (`codec._cpu`).

`reference.reductions` defines them, and imports this module; so they are written here again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.portable import portable_needs, portable_sets
from i2s_spec.codec.shape import from_bfloat16

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

TOKENS: Final = 8
OUTPUTS: Final = 16
_BFLOAT16: Final = 2
#: Products that are in memory together, about.
_WINDOW: Final = 1 << 20

kernel_sets, kernel_needs = portable_sets, portable_needs


def _parts(w: Any, kind: int, start: int, stop: int, step: int) -> Iterator[tuple[slice, NDArray[np.float32]]]:
    """Yield some rows of a matrix at a time, as float32."""
    matrix = np.asarray(w)
    for first in range(start, stop, step):
        rows = matrix[first : min(first + step, stop)]
        where = slice(first, first + len(rows))
        yield where, from_bfloat16(rows) if kind == _BFLOAT16 else rows.astype(np.float32, copy=False)


def products(
    row: int, x: Any, tokens: int, w: Any, kind: int, row_step: int, column_step: int, start: int, stop: int, out: Any
) -> None:
    """Compute outputs `start` to `stop` of the products of tiled tokens with a matrix."""
    tiles, made = np.asarray(x), np.asarray(out)
    columns = tiles.shape[1]
    wide = tiles.transpose(0, 2, 1).reshape(-1, columns)[:tokens]
    with np.errstate(all="ignore"):
        for where, rows in _parts(w, kind, start, stop, max(1, _WINDOW // max(1, tokens * columns))):
            made[:, where] = _added(wide[:, None, :] * rows[None].astype(np.float64)).astype(np.float32)


def _added(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 0 + the first term + the second + ..., over the last axis; only `cumsum` adds in this order."""
    if not terms.shape[-1]:
        return np.zeros(terms.shape[:-1])
    total: NDArray[np.float64] = np.cumsum(terms, axis=-1)[..., -1] + 0.0
    return total


def _fused(a: NDArray[np.float32], b: NDArray[np.float32], c: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a b + c, rounded once.

    The product is exact in float64. Its sum with c is rounded to odd, so that the second rounding, to float32, does what
    one rounding would have done.
    """
    product, addend = a.astype(np.float64) * b, c.astype(np.float64)
    total = product + addend
    other = total - product
    rest = (product - (total - other)) + (addend - other)  # what the addition lost, exactly
    odd = (total.view(np.int64) & 1).astype(bool)
    away = (rest > 0) == (total > 0)
    bits = total.view(np.int64) + np.where(away, 1, -1)
    inexact = (rest != 0) & np.isfinite(total) & ~odd
    return np.where(inexact, bits.view(np.float64), total).astype(np.float32)


def lanes(
    row: int, x: Any, w: Any, kind: int, row_step: int, column_step: int, start: int, stop: int, out: Any, vector: int
) -> None:
    """Compute outputs `start` to `stop` of the products of tokens with a matrix, over the lanes of 4 vectors of 8 or 16."""
    tokens, made = np.asarray(x), np.asarray(out)
    step = 4 * vector
    whole = tokens.shape[1] // step * step
    with np.errstate(all="ignore"):
        for where, rows in _parts(w, kind, start, stop, max(1, _WINDOW // max(1, len(tokens) * step))):
            lane = np.zeros((len(tokens), len(rows), step), dtype=np.float32)
            for k in range(0, whole, step):
                lane = _fused(tokens[:, None, k : k + step], rows[None, :, k : k + step], lane)
            v = lane.reshape(len(tokens), len(rows), 4, vector)
            one = (v[:, :, 0] + v[:, :, 2]) + (v[:, :, 1] + v[:, :, 3])
            while one.shape[-1] > 4:
                one = one[..., : one.shape[-1] // 2] + one[..., one.shape[-1] // 2 :]
            pairs = ((0, 1), (2, 3)) if vector == OUTPUTS // 2 else ((0, 2), (1, 3))
            total = (one[..., pairs[0][0]] + one[..., pairs[0][1]]) + (one[..., pairs[1][0]] + one[..., pairs[1][1]])
            wide = total.astype(np.float64)
            for k in range(whole, tokens.shape[1]):
                wide += (tokens[:, None, k] * rows[None, :, k]).astype(np.float64)
            made[:, where] = wide.astype(np.float32)


def squares(x: Any, rounded: bool) -> NDArray[np.float64]:
    """Return the sum of squares of each row, float64 [T]."""
    tokens = np.asarray(x)
    with np.errstate(all="ignore"):
        return _added((tokens * tokens).astype(np.float64) if rounded else tokens.astype(np.float64) ** 2)


def sums(x: Any) -> NDArray[np.float64]:
    """Return the sum of each row, float64 [T]."""
    with np.errstate(all="ignore"):
        return _added(np.asarray(x).astype(np.float64))
