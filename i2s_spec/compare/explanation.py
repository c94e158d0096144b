"""What a tensor is that is not what it should be, in words: another tensor, or the right one, distorted.

Tensors are read a window at a time. Another tensor is found by the first numbers of each that has the same shape; rows
and columns in another order by a signature of each, which does not depend on the order. Nothing is called anything
unless nine of ten numbers agree then.

    >>> import numpy as np
    >>> from i2s_spec.compare.tensor_rows import flat_rows
    >>> right = np.random.default_rng(1).standard_normal((64, 32)).astype(np.float32)
    >>> def rows(array): return flat_rows(array.shape, 1, lambda start, stop: array.reshape(-1)[start:stop], 1e-6)
    >>> explanation(rows(right[::-1].copy()), rows(right)), explanation(rows(right * 10), rows(right))
    ('its rows are in another order', 'they are 10 times as large')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.errors import quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.compare.tensor_rows import Rows

#: The share of numbers that must agree, and the fewest that decide anything.
AGREES: Final = 0.9
ENOUGH: Final = 64

#: Numbers that are compared of a tensor and every other one of its shape, about, and such tensors at most.
SAMPLE: Final = 1 << 14
OTHERS: Final = 2000

#: Numbers of the largest tensor whose order is looked for.
MOST: Final = 1 << 28

#: Share of numbers other than the most frequent one that a sample must have: what is nearly constant tells nothing.
VARIED: Final = 0.05


def explanation(ours: Rows, theirs: Rows, others: Callable[[], Iterable[tuple[str, Rows]]] = lambda: ()) -> str:
    """Explain how a tensor was made from the reference, in words; empty where nothing explains it.

    :param ours: the tensor that is wrong
    :param theirs: what it should be, in the same shape
    :param others: the other tensors of this shape as they should be, with their names
    """
    tolerance = max(ours.tolerance, theirs.tolerance)
    count = min(ours.rows, max(1, -(-SAMPLE // ours.cols)))
    sample, right = ours.read(0, count), theirs.read(0, count)
    if sample.size >= ENOUGH and _varied(sample):  # fewer numbers agree with nothing
        found = [
            name
            for name, other in _few(others())
            if _agree(sample, other.read(0, count), max(tolerance, other.tolerance))
        ]
        if len(found) == 1:
            return f"it is {quote(found[0])}"
    if ours.swapped is not None and _agree(ours.swapped(count), right, tolerance):
        return "the bytes of its 32-bit words are swapped"
    if _transposed(ours, theirs, tolerance):
        return "it is transposed"
    return _distorted(sample, right, tolerance) or _reordered(ours, theirs)


def _few(others: Iterable[tuple[str, Rows]]) -> Iterable[tuple[str, Rows]]:
    return (each for each, _ in zip(others, range(OTHERS), strict=False))


def _agree(one: NDArray[Any], other: NDArray[Any], tolerance: float) -> bool:
    """Whether nine of ten numbers are equal, of enough that are not all alike."""
    if one.size < ENOUGH or one.shape != other.shape or not _varied(other):
        return False
    if tolerance == 0:
        return bool(np.mean(one == other) >= AGREES)
    with np.errstate(invalid="ignore"):
        return bool(np.mean(np.abs(one - other) <= tolerance * np.abs(other)) >= AGREES)


def _varied(sample: NDArray[Any]) -> bool:
    _, counts = np.unique(sample, return_counts=True)
    return bool(counts.max() <= (1 - VARIED) * sample.size)


def _transposed(ours: Rows, theirs: Rows, tolerance: float) -> bool:
    """Whether the flat numbers are those of the other one, column by column."""
    if min(theirs.rows, theirs.cols) < 2 or theirs.rows * theirs.cols > MOST:
        return False
    across = max(1, min(theirs.cols, SAMPLE // theirs.rows))
    columns = np.concatenate([part[:, :across] for _, part in theirs.windows()])
    flat = columns.T.reshape(-1)
    count = -(-flat.size // ours.cols)
    return _agree(ours.read(0, count).reshape(-1)[: flat.size], flat, tolerance)


def _distorted(sample: NDArray[Any], right: NDArray[Any], tolerance: float) -> str:
    """Describe what was done to each number: sign changed, multiplied, or something added."""
    if _agree(-sample, right, tolerance):
        return "all signs are inverted"
    if tolerance == 0 or sample.size < ENOUGH:
        return ""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        one, other = sample.astype(np.float64), right.astype(np.float64)
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return ""
    added = float(np.median(one - other))
    if added and _agree(one - added, other, max(tolerance, 1e-5)):
        return f"they are {'more' if added > 0 else 'less'} by {abs(added):.4g}"
    used = other != 0
    factor = float(np.median(one[used] / other[used])) if used.any() else 1.0
    if factor not in (0.0, 1.0) and _agree(one / factor, other, max(tolerance, 1e-5)):
        return f"they are {factor:.4g} times as large"
    return ""


def _reordered(ours: Rows, theirs: Rows) -> str:
    """Whether rows or columns are those of the other one in another order, or moved on."""
    if (ours.rows, ours.cols) != (theirs.rows, theirs.cols) or ours.rows * ours.cols > MOST:
        return ""
    one, other = _signatures(ours), _signatures(theirs)
    for name, here, there in zip(("rows", "columns"), one, other, strict=True):
        if here.size < 4 or np.unique(there).size < 0.5 * there.size or np.mean(np.isin(here, there)) < AGREES:
            continue
        by = _moved(here, there)
        if by == 0:
            continue
        return f"its {name} are moved on by {by:,}" if by is not None else f"its {name} are in another order"
    return ""


def _signatures(tensor: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a number for each row that depends on its numbers and their columns, and likewise for each column."""
    random = np.random.default_rng(0)
    by_column = random.integers(-(1 << 62), 1 << 62, tensor.cols)
    by_row = random.integers(-(1 << 62), 1 << 62, tensor.rows)
    rows = np.zeros(tensor.rows, dtype=np.int64)
    columns = np.zeros(tensor.cols, dtype=np.int64)
    for start, part in tensor.windows():
        numbers = (part if part.dtype == np.int8 else part.view(np.int32)).astype(np.int64)
        rows[start : start + len(part)] = numbers @ by_column
        columns += by_row[start : start + len(part)] @ numbers
    return rows, columns


def _moved(here: NDArray[np.int64], there: NDArray[np.int64]) -> int | None:
    """Return the number of places by which numbers were moved on, the last ones to the front; None where that is not all."""
    single, counts = np.unique(there, return_counts=True)
    once = np.flatnonzero(np.isin(here, single[counts == 1]))[:8]
    for place in once:
        by = int(place) - int(np.flatnonzero(there == here[place])[0])
        if np.mean(np.roll(there, by) == here) >= AGREES:
            return by % here.size
    return None
