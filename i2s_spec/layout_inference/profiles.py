"""Profiles, compared: numbers for each channel that must rise and fall together where a payload is read rightly.

A gain that is large lets its channel count for more, and training gives such a channel another share of weights that
are not 0. The measure is the correlation of ranks. Where two profiles have nothing to do with each other it has mean 0
and variance 1 / (n - 1), whatever their distributions are; times the root of n - 1 it is a score whose square is that
of a normal number.

    >>> import numpy as np
    >>> round(score(np.arange(101), np.arange(101) ** 3), 6)
    10.0

`BitSums` counts what the profiles of layouts are made of, pairs of bits of a payload:

    >>> sums = bit_sums_reference(bytes([1, 2, 3, 4]), width=2, segment=1, either=False)
    >>> sums[0][:2].tolist(), sums[1].tolist()
    ([[2, 0], [0, 1]], [[1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
"""

from __future__ import annotations

from functools import cache, lru_cache
from math import sqrt
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.codec.buffers import zeros
from i2s_spec.codec.isa import KernelSet, row_of, table
from i2s_spec.layout_inference import _bit_sums

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
    """Return the score of two profiles of one length: about normal where they are independent; None where it means
    nothing.
    """
    if one.size != other.size:
        return None
    first, second = ranks(one), ranks(other)
    if first is None or second is None:
        return None
    return ranked_score(first, second)


def count_score(one: memoryview[Any], other: memoryview[Any]) -> float | None:
    """Return the same of two profiles of counts, uint32, without NumPy."""
    return _bit_sums.count_score(one, other, VALUES)


def ranked_score(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the score of two profiles from their ranks."""
    return float(first @ second) / _size(first, second)


@lru_cache(maxsize=1)
def score_kernel_sets() -> tuple[KernelSet, ...]:
    """Every set of kernels for scores that was compiled, the slowest first."""
    return table(_bit_sums.score_sets())


def score_kernel_row() -> int:
    """Return the row of the kernel set in use."""
    return row_of(score_kernel_sets)


def column_scores(
    bases: NDArray[np.uint32],
    places: NDArray[np.int32],
    split: int,
    others: NDArray[np.float64],
    share: int = 1,
    width: int = 1,
) -> NDArray[np.float64] | None:
    """Return the scores of profiles against counts of columns that are read in several orders.

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
    row = score_kernel_row()
    return found if _bit_sums.column_scores(row, bases, places, split, others, share, width, VALUES, found) else None


def column_scores_reference(
    bases: NDArray[np.uint32],
    places: NDArray[np.int32],
    split: int,
    others: NDArray[np.float64],
    share: int = 1,
    width: int = 1,
) -> NDArray[np.float64] | None:
    """Return the definition of `column_scores`."""
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
    """Return the divisor of a product of ranks."""
    return sqrt(float(first @ first) * float(second @ second)) / sqrt(first.size - 1)


# --- bit sums --------------------------------------------------------------------------------------------------------
# A payload is taken as a matrix of bytes whose rows hold four rows of the tensor. How many codes of each column of
# bytes are not that of 0, by their pair of bits, and of each quarter of a row, gives how many zeros there are in each
# row and column under any layout. A code counts where its lower bit is set, or where either is. `bit_sums_reference` is
# the definition; `BitSums` adds pieces up with the compiled kernel.


@cache
def sum_kernel_sets() -> tuple[KernelSet, ...]:
    """Every set of kernels for sums that was compiled, the slowest first."""
    return table(_bit_sums.kernel_sets())


def sum_kernel_row() -> int:
    """Return the row of the kernel set in use."""
    return row_of(sum_kernel_sets)


def bit_sums_reference(
    data: Any, width: int, segment: int, either: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """How often each pair of bits is set, in each column of a matrix of bytes and in each stretch of it.

    :param data: whole rows of `width` bytes
    :param segment: bytes of a stretch, which divide a row
    :param either: whether a pair is set where any of its bits is, or where the lower one is
    :returns: uint32 [4, width] and uint32 [stretches, 4]; pair 0 has the least bits
    """
    import numpy as np

    raw = np.frombuffer(data, dtype=np.uint8)
    codes = raw >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    is_set = (codes != 0) if either else (codes & 1 != 0)
    columns = is_set.reshape(4, -1, width).sum(axis=1, dtype=np.uint32)
    segments = is_set.reshape(4, -1, segment).sum(axis=2, dtype=np.uint32)
    return columns, np.ascontiguousarray(segments.T)


class BitSums:
    """The sums of a payload that comes in pieces of whole rows: `columns` and `segments`, as the definition has them.

    Both are whole when all rows were added; before that a part of the sums of columns is in planes of bits.

    :param rows: of the matrix of bytes
    :param width: bytes of each row
    :param segment: bytes of a stretch, which divide a row
    :param either: whether a pair is set where any of its bits is, or where the lower one is
    :param along: whether stretches are counted; else `segments` is None
    """

    def __init__(self, rows: int, width: int, segment: int, either: bool, along: bool = True) -> None:
        self._stretches = rows * (width // segment)
        self.columns = zeros("I", 4, width)
        self.segments = zeros("I", self._stretches, 4) if along and self._stretches else None
        self._planes = zeros("B", _bit_sums.planes_size(width, segment))
        self._width, self._segment, self._either = width, segment, either
        self._row, self._held, self._seen = sum_kernel_row(), 0, 0

    def add(self, data: Any) -> None:
        """Add the next whole rows.

        :raises ValueError: for a part of a row, or more rows than there are
        """
        first, self._seen = self._seen, self._seen + len(data) // self._segment
        if self._seen > self._stretches:
            raise ValueError("more rows than there are")
        self._held = _bit_sums.add_bit_sums(
            self._row,
            data,
            self._width,
            self._segment,
            self._either,
            self.columns,
            self.segments,
            first,
            self._planes,
            self._held,
            self._seen == self._stretches,
        )
