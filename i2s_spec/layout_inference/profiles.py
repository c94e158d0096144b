"""This module compares profiles: numbers for each channel that must rise and fall together where a payload is read rightly.

A gain that is large lets its channel count for more, and training gives such a channel another share of weights that are
not 0. The measure is the correlation of ranks. Where two profiles have nothing to do with each other it has mean 0 and
variance 1 / (n - 1), whatever their distributions are; times the root of n - 1 it is a score whose square is that of a
normal number.

    >>> import numpy as np
    >>> round(score(np.arange(101), np.arange(101) ** 3), 6)
    10.0
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.codec.isa import KernelSet, row_of, table
from i2s_spec.inspect.evidence import _bit_sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Different values that a profile must have; one that is almost constant has no ranks worth comparing.
VALUES: Final = 4
#: Counts below this are sorted by counting.
COUNTS: Final = 1 << 20


def ranks(profile: NDArray[Any]) -> NDArray[np.float64] | None:
    """Ranks with mean 0, equals sharing one; None for a profile that is almost constant or not finite."""
    import numpy as np

    found = np.empty(profile.size)
    if profile.dtype == np.uint32:
        different = _bit_sums.ranks(np.ascontiguousarray(profile), found)
        if different >= 0:
            return found if different >= VALUES else None
    if profile.dtype == np.float32 and profile.size < COUNTS:
        different = _bit_sums.float_ranks(np.ascontiguousarray(profile), found)
        return found if different >= VALUES else None
    if not profile.size or not np.isfinite(profile).all():
        return None
    _, place, counts = np.unique(profile, return_inverse=True, return_counts=True)
    if counts.size < VALUES:
        return None
    middle = np.cumsum(counts) - (counts + 1) / 2
    found[:] = (middle - (profile.size - 1) / 2)[place]
    return found


def score(one: NDArray[Any], other: NDArray[Any]) -> float | None:
    """The score of two profiles of one length: about normal where they are independent; None where it means nothing."""
    if one.size != other.size:
        return None
    first, second = ranks(one), ranks(other)
    if first is None or second is None:
        return None
    return ranked_score(first, second)


def count_score(one: memoryview[Any], other: memoryview[Any]) -> float | None:
    """The same of two profiles of counts, uint32, without NumPy."""
    return _bit_sums.count_score(one, other, VALUES)


def ranked_score(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The score of two profiles from their ranks."""
    return float(first @ second) / _size(first, second)


@lru_cache(maxsize=1)
def kernel_sets() -> tuple[KernelSet, ...]:
    """Every set of kernels for scores that was compiled, the slowest first."""
    return table(_bit_sums.score_sets())


def kernel_row() -> int:
    """The row of the kernel set in use."""
    return row_of(kernel_sets)


def column_scores(
    bases: NDArray[np.uint32],
    places: NDArray[np.int32],
    split: int,
    others: NDArray[np.float64],
    share: int = 1,
    width: int = 1,
) -> NDArray[np.float64] | None:
    """The scores of profiles against counts of columns that are read in several orders.

    :param bases: uint32 [2, columns]: the counts for the first `split` orders, and for the others
    :param places: int32 [orders, columns]; every place is one of a column. Or [orders, BLOCK], those of the first block:
        those of other blocks move on with their block, in a ring of all columns
    :param others: float64 [profiles, columns / share], ranks
    :param share: heads whose columns are summed, each of `width`
    :returns: float64 [profiles, orders]; None where a profile is almost constant
    :raises ValueError: where sums of counts reach `COUNTS`
    """
    import numpy as np

    found = np.empty((len(others), len(places)))
    row = kernel_row()
    return found if _bit_sums.column_scores(row, bases, places, split, others, share, width, VALUES, found) else None


def column_scores_reference(
    bases: NDArray[np.uint32],
    places: NDArray[np.int32],
    split: int,
    others: NDArray[np.float64],
    share: int = 1,
    width: int = 1,
) -> NDArray[np.float64] | None:
    """The definition of `column_scores`."""
    import numpy as np

    found = np.empty((len(others), len(places)))
    blocks = np.arange(0, bases.shape[1], places.shape[1])
    for number, first in enumerate(places):
        base = bases[0 if number < split else 1]
        order = ((blocks[:, None] + first) % base.size).reshape(-1)
        summed = base[order].astype(np.uint64).reshape(-1, share, width).sum(axis=1).reshape(-1)
        columns = ranks(summed)
        if columns is None:
            return None
        found[:, number] = [ranked_score(other, columns) for other in others]
    return found


def _size(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """What the product of ranks is divided by."""
    return sqrt(float(first @ first) * float(second @ second)) / sqrt(first.size - 1)
