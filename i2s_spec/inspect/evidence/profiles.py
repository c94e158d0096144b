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

from math import sqrt
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Different values that a profile must have; one that is almost constant has no ranks worth comparing.
VALUES: Final = 4
#: Integers below this are sorted by counting.
COUNTS: Final = 1 << 20


def ranks(profile: NDArray[Any]) -> NDArray[np.float64] | None:
    """Ranks with mean 0, equals sharing one; None for a profile that is almost constant or not finite."""
    if profile.dtype.kind in "iu" and profile.size and profile.min() >= 0 and profile.max() < COUNTS:
        place: NDArray[Any] = profile
        counts = np.bincount(profile)  # sorts counts by counting them
    else:
        if not np.isfinite(profile).all():
            return None
        _, place, counts = np.unique(profile, return_inverse=True, return_counts=True)
    if np.count_nonzero(counts) < VALUES:
        return None
    middle = np.cumsum(counts) - (counts + 1) / 2
    found: NDArray[np.float64] = (middle - (profile.size - 1) / 2)[place]
    return found


def score(one: NDArray[Any], other: NDArray[Any]) -> float | None:
    """The score of two profiles of one length: about normal where they are independent; None where it means nothing."""
    if one.size != other.size:
        return None
    first, second = ranks(one), ranks(other)
    if first is None or second is None:
        return None
    return ranked_score(first, second)


def ranked_score(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The score of two profiles from their ranks."""
    size = sqrt(float(first @ first) * float(second @ second))
    return float(first @ second) / size * sqrt(first.size - 1)
