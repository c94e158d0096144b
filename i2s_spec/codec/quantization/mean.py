"""This module takes the mean of absolute values in float32, adding in the order that NumPy or PyTorch adds.

A sum of float32 depends on its order, and scales are means: to write what a converter wrote, add as it did. Both orders
are followed in windows, so that no tensor needs a second copy in memory.

NumPy halves the range until pieces are short. PyTorch, on x86, adds 32 columns (four vectors of eight lanes) downwards in
a cascade: runs of rows are added up, then runs of those sums, over four levels; then it adds the vectors, and the lanes.
Larger tensors it may split over threads, whose number changes the sum; here it is one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from i2s_spec.codec import shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Gives the absolute values of elements start to stop as float32.
Magnitudes = Callable[[int, int], "NDArray[np.float32]"]

_LANES: Final = 8
_VECTORS: Final = 4
_LEVELS: Final = 4
#: Columns that PyTorch adds downwards: four vectors of eight lanes.
COLUMNS: Final = _VECTORS * _LANES
#: Pieces that NumPy no longer halves have up to 128 elements; windows must not be shorter.
_SHORTEST_WINDOW: Final = 128


def numpy_mean(magnitudes: Magnitudes, n: int) -> np.float32:
    """The mean of `n` absolute values as `np.mean` of one contiguous float32 array gives it."""
    with np.errstate(all="ignore"):
        return np.float32(_halved(magnitudes, 0, n, max(shape.WINDOW, _SHORTEST_WINDOW)) / np.float32(n))


def _halved(magnitudes: Magnitudes, start: int, stop: int, window: int) -> np.float32:
    if stop - start <= window:
        return np.float32(magnitudes(start, stop).sum())
    half = (stop - start) // 2
    middle = start + half - half % 8
    return np.float32(_halved(magnitudes, start, middle, window) + _halved(magnitudes, middle, stop, window))


def torch_mean(magnitudes: Magnitudes, n: int, runs: NDArray[np.float32] | None = None) -> np.float32:
    """The mean of `n` absolute values as `torch.mean` of a float32 tensor gives it on one thread of an x86 CPU.

    :param runs: the sums of the first runs, float32 [runs, 32], where the caller has them (`torch_runs`)
    """
    with np.errstate(all="ignore"):
        total = np.float32(0)
        wide = n // COLUMNS * COLUMNS  # elements in whole rows of four vectors
        even = n // _LANES * _LANES  # elements in whole vectors
        vectors = _cascade(magnitudes, wide, runs).reshape(_VECTORS, _LANES)
        for vector in magnitudes(wide, even).reshape(-1, _LANES):
            vectors[0] += vector
        lanes = ((vectors[0] + vectors[1]) + vectors[2]) + vectors[3]
        for value in (*magnitudes(even, n), *lanes):
            total += value
        return np.float32(total / np.float32(n))


def torch_runs(n: int) -> tuple[int, int]:
    """How many rows of 32 a run has in PyTorch's sum of `n` elements, and how many whole runs there are."""
    rows = n // COLUMNS
    run = 1 << max(4, (max(rows, 1) - 1).bit_length() // _LEVELS)  # rows in a run, and runs in a run of runs
    return run, rows // run


def _cascade(magnitudes: Magnitudes, n: int, runs: NDArray[np.float32] | None) -> NDArray[np.float32]:
    """The sums of the 32 columns of `n` elements: what is in no run of its level, lowest level first."""
    run, count = torch_runs(n)
    full = count * run * COLUMNS
    level = _first_runs(magnitudes, run, full) if runs is None else runs
    columns = _added(magnitudes(full, n).reshape(-1, COLUMNS))
    for _ in range(1, _LEVELS - 1):
        full = len(level) // run * run
        columns = columns + _added(level[full:])
        level = _runs(level[:full].reshape(-1, run, COLUMNS))
    return columns + _added(level)


def _first_runs(magnitudes: Magnitudes, run: int, full: int) -> NDArray[np.float32]:
    window = max(shape.WINDOW // (run * COLUMNS), 1) * run * COLUMNS
    runs = [_runs(magnitudes(at, min(at + window, full)).reshape(-1, run, COLUMNS)) for at in range(0, full, window)]
    return np.concatenate(runs) if runs else np.zeros((0, COLUMNS), np.float32)


def _runs(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The sums over the middle axis, from its first element to its last."""
    total = np.zeros((rows.shape[0], rows.shape[2]), np.float32)
    for i in range(rows.shape[1]):
        total += rows[:, i]
    return total


def _added(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The sum of rows, from the first to the last."""
    total: NDArray[np.float32] = _runs(rows[np.newaxis])[0]
    return total
