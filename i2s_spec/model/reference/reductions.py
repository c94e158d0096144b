"""Dot products, sums of squares and sums in float64, in index order; the caller rounds the result.

The product of two float32 is exact in float64, so only the additions round, and their order is fixed: the order of the
index. So results do not depend on the thread count, the processor or the library; a fused multiply-add gives the same
result, because the product is exact. The functions named `..._reference` are the definition in NumPy, where only a
cumulative sum has a fixed order; the compiled twins (`_reduce`) compute many outputs at a time, but never split one
output. `lanes` and `one_vector` are products in float32, in the orders of two runtimes.

    >>> x = np.array([[1.0, 2.0, 3.0]], dtype=np.float32)
    >>> products(x, np.array([[1.0, 0.5, 2.0], [0.0, 0.0, 1.0]], dtype=np.float32)).tolist()
    [[8.0, 3.0]]
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.isa import KernelSet, chosen, table
from i2s_spec.codec.kernels import thread_count
from i2s_spec.codec.shape import from_bfloat16
from i2s_spec.model import _reduce

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Doubles = NDArray[np.float64]

#: Number types of a matrix, with their names in the kernels; BF16 is given by its bits, as uint16.
KINDS: Final = {"float32": 0, "float16": 1, "uint16": 2}

#: Tokens and outputs that a kernel computes at a time.
TOKENS: Final = _reduce.TOKENS
OUTPUTS: Final = _reduce.OUTPUTS

#: The positions of the elements of 8 lanes, so that lanes are added in pairs as in llamafile.
_PLACES: Final = (0, 2, 1, 3, 4, 6, 5, 7)

#: Rows that are expanded at a time for one vector.
ROWS: Final = 1024

#: Fewest multiplications for each thread.
LEAST_WORK: Final = 1 << 20


@cache
def kernel_sets() -> tuple[KernelSet, ...]:
    """Return every set of these kernels that was compiled, the slowest first."""
    return table(_reduce.kernel_sets())


def products(x: Floats, w: NDArray[Any], threads: int = 1) -> Floats:
    """x w^T: the sum over k of x[t, k] w[n, k] in float64, by k from first to last, rounded once to float32.

    :param x: float32 [T, K]
    :param w: float32, float16, or uint16 for bfloat16, [N, K] with any strides
    :param threads: how many threads work; the result does not depend on it
    :returns: float32 [T, N]
    """
    tokens, columns = x.shape
    rows = len(w)
    _check(x, w)
    out = np.empty((tokens, rows), dtype=np.float32)
    if not tokens or not rows:
        return out
    tiles = -(-tokens // TOKENS)
    wide = np.zeros((tiles * TOKENS, columns), dtype=np.float64)
    wide[:tokens] = x
    tiled = np.ascontiguousarray(wide.reshape(tiles, TOKENS, columns).transpose(0, 2, 1))
    row = _kernels()
    kind, (row_step, column_step) = KINDS[w.dtype.name], (stride // w.itemsize for stride in w.strides)

    def part(start: int, stop: int) -> None:
        _reduce.products(row, tiled, tokens, w, kind, row_step, column_step, start, stop, out)

    _spread(part, rows, tokens * columns, threads)
    return out


def lanes(x: Floats, w: NDArray[Any], threads: int = 1, vector: int = 8) -> Floats:
    """Compute `products` in float32 throughout, over 4 vectors of fused multiply-adds: the twin of `ggml_math.sums`.

    :param vector: lanes of a vector, 8 or 16
    """
    _check(x, w)
    out = np.empty((len(x), len(w)), dtype=np.float32)
    if not len(x) or not len(w):
        return out
    x = np.ascontiguousarray(x)
    row = _kernels()
    kind, (row_step, column_step) = KINDS[w.dtype.name], (stride // w.itemsize for stride in w.strides)

    def part(start: int, stop: int) -> None:
        _reduce.lanes(row, x, w, kind, row_step, column_step, start, stop, out, vector)

    _spread(part, len(w), x.size, threads)
    return out


def one_vector(x: Floats, w: NDArray[Any], threads: int = 1, vector: int = 8) -> Floats:
    """Compute `lanes` over the lanes of one vector: element k goes to lane k % 8, or k % 16.

    At the end halves of the vector are added until one number is left. Every 8 elements are expanded to 32 with 24
    zeros, so that the other lanes stay 0; because `lanes` adds neighbors of the last four of 8 lanes, those elements are
    permuted first.
    """
    out = np.empty((len(x), len(w)), dtype=np.float32)
    spread = _spread_out(x, vector)
    for start in range(0, len(w), ROWS):
        part = w[start : start + ROWS]
        out[:, start : start + len(part)] = lanes(spread, _spread_out(part, vector), threads, vector)
    return out


def _spread_out(x: NDArray[Any], vector: int) -> NDArray[Any]:
    wide = np.zeros((len(x), x.shape[1] // vector, 4, vector), dtype=x.dtype)
    rows = x.reshape(len(x), -1, vector)
    wide[:, :, 0] = rows[..., _PLACES] if vector == len(_PLACES) else rows
    return wide.reshape(len(x), -1)


def squares(x: Floats, *, rounded: bool = False) -> Doubles:
    """Return the sum of squares over the last axis, in float64 by index: float64 [...].

    :param rounded: round each square to float32 before it is added
    """
    flat = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    return np.asarray(_reduce.squares(flat, rounded)).reshape(x.shape[:-1])


def sums(x: Floats) -> Doubles:
    """Return the sum over the last axis, in float64 by index: float64 [...]."""
    flat = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    return np.asarray(_reduce.sums(flat)).reshape(x.shape[:-1])


def as_float32(w: NDArray[Any]) -> Floats:
    """Return the numbers of a matrix as float32, exactly."""
    if w.dtype == np.uint16:
        return from_bfloat16(w)
    return w.astype(np.float32, copy=False)


def _check(x: Floats, w: NDArray[Any]) -> None:
    if x.dtype != np.float32 or w.dtype.name not in KINDS:
        raise TypeError(f"products are of float32 with float32, float16 or bfloat16 bits, not {x.dtype} with {w.dtype}")
    if x.ndim != 2 or w.ndim != 2 or x.shape[1] != w.shape[1]:
        raise ValueError(f"[T, K] and [N, K] are multiplied, not {list(x.shape)} and {list(w.shape)}")


def _kernels() -> int:
    """Return the row of the kernel set in use."""
    return chosen(kernel_sets()).row


def _spread(part: Any, rows: int, work: int, threads: int) -> None:
    """Call `part(start, stop)` for ranges of outputs, in as many threads as there is work for."""
    threads = max(1, min(thread_count(threads), rows * work // LEAST_WORK, rows // OUTPUTS))
    if threads == 1:
        part(0, rows)
        return
    step = -(-rows // threads // OUTPUTS) * OUTPUTS
    ranges = [(start, min(start + step, rows)) for start in range(0, rows, step)]
    others = [_pool(threads).submit(part, *each) for each in ranges[1:]]
    try:
        part(*ranges[0])
    finally:
        for done in others:
            done.result()


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool of threads that exists as long as the process."""
    return ThreadPoolExecutor(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child does not inherit the threads


# --- definitions -----------------------------------------------------------------------------------------------------
# NumPy's `sum`, `dot`, `matmul` and `einsum` add in an undefined order; only `cumsum` adds in index order.


def sums_reference(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 + the first term + the second + ..., over the last axis."""
    if not terms.shape[-1]:
        return np.zeros(terms.shape[:-1])
    with np.errstate(all="ignore"):
        total: NDArray[np.float64] = (
            np.cumsum(terms, axis=-1)[..., -1] + 0.0
        )  # the sum starts with +0, so -0 becomes +0
        return total


def products_reference(x: NDArray[np.float32], w: NDArray[Any]) -> NDArray[np.float32]:
    """Compute `products`, by its definition."""
    with np.errstate(all="ignore"):
        terms = x[:, None, :].astype(np.float64) * as_float32(w)[None].astype(np.float64)
        return sums_reference(terms).astype(np.float32)


def squares_reference(x: NDArray[np.float32], *, rounded: bool = False) -> NDArray[np.float64]:
    """Compute `squares`, by its definition."""
    with np.errstate(all="ignore"):
        return sums_reference((x * x).astype(np.float64) if rounded else x.astype(np.float64) ** 2)
