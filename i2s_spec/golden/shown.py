"""What a dump shows of a tensor beside what a reference has of it, and whether the two agree to the last digit (10.4).

A runtime is deterministic: under its own numerics, what it shows is what the reference computes, but for the last bit of
float32 sums, and for the last digit where a text prints it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.golden.candidate import Candidate, only_known
from i2s_spec.golden.store import Tap, corner_indices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: How far off the same number may be, as a share of it and of the largest of the tensor: float32 sums in another order.
SAME_RTOL: Final = 4e-6
SAME_OF_LARGEST: Final = 2e-6

#: A printed digit is rounded, and may round the other way.
ROUNDED: Final = 1.02

#: How far off a printed sum may be, and as a share of the magnitudes that it adds up: six decimals, added in float32.
SUM_ATOL: Final = 1.5e-6
SUM_RTOL: Final = 1.2e-7

#: Operations whose sums are held to that: nothing in them depends on codes.
SUMMED: Final = frozenset({"embed", "norm", "norm_weight"})


class Pair(NamedTuple):
    """A tensor as a dump shows it, and the same part of what is wanted.

    :param resolution: how far a shown number may be from the real one
    :param cut: what cuts a value like these two
    :param whole: the wanted value with everything that is not shown
    :param places: of a corner, which rows, columns and so on of the whole value are shown, for each dimension
    :param total: the sum that a text prints of the shown numbers; None where it prints another one, or none
    """

    got: Array
    want: Array
    resolution: float
    cut: Callable[[Array], Array]
    whole: Array
    places: tuple[Array, ...] | None = None
    total: float | None = None

    @property
    def largest(self) -> float:
        """The largest magnitude of the whole wanted value; 0 where nothing is finite."""
        return largest_of(self.whole)

    def room(self) -> NDArray[np.float64]:
        """How far off each number may be and still be the same."""
        wide = np.abs(self.want.astype(np.float64))
        found: NDArray[np.float64] = ROUNDED * self.resolution + SAME_RTOL * wide + SAME_OF_LARGEST * self.largest
        return found

    def apart(self) -> NDArray[np.float64]:
        """How far apart the two are, element by element; infinite where either is NaN, or only one of them infinite."""
        a, b = self.got.astype(np.float64), self.want.astype(np.float64)
        with np.errstate(all="ignore"):
            far = np.where(a == b, 0.0, np.abs(a - b))
        return np.where(np.isnan(far), np.inf, far)

    def agrees(self) -> bool:
        """Whether the two are the same to the last digit that is shown."""
        return bool((self.apart() <= self.room()).all())

    def sum_off(self, precise: bool = True) -> float:
        """How far the printed sum is beyond what it may be off by; 0 or less where it is right, or nothing is known.

        :param precise: whether the numbers are the same to the bit, and not only in the order of float32 sums
        """
        if self.total is None or not np.isfinite(self.want).all():
            return 0.0
        want = self.want.astype(np.float64)
        rtol = SUM_RTOL if precise else SAME_RTOL
        return abs(self.total - float(want.sum())) - SUM_ATOL - rtol * float(np.abs(want).sum())


def largest_of(value: Array) -> float:
    """Return the largest finite magnitude of a value; 0 where there is none."""
    finite = np.abs(value[np.isfinite(value)])
    return float(finite.max()) if finite.size else 0.0


def pair_of(theirs: Candidate, name: str, want: Array | None) -> Pair | None:
    """Return a tensor as a dump shows it beside what is wanted; None where either is unknown, or shapes differ."""
    if want is None or name not in theirs:
        return None
    shown = theirs.corner(name)
    if shown is None:
        got = theirs.get(name)
        if got is None or got.shape != want.shape:
            return None
        rows = theirs.rows.get(name)
        return Pair(only_known(got, rows), only_known(want, rows), 0.0, lambda value: only_known(value, rows), want)
    if np.isnan(shown.value).all() or len(shown.shape) > want.ndim:
        return None

    def cut(value: Array) -> Array:
        return value[np.ix_(*_places(shown, value.shape))]

    got = _shown(shown, want.shape)
    return Pair(got, cut(want), shown.resolution, cut, want, _places(shown, want.shape), _total(shown))


def _total(shown: Tap) -> float | None:
    """Return the printed sum, if it is that of the shown numbers."""
    if shown.total is None:
        return None
    of_shown = float(np.sum(shown.value, dtype=np.float64))
    room = shown.resolution * shown.value.size + 1e-5 * float(np.abs(shown.value).sum())
    return shown.total if abs(shown.total - of_shown) <= room else None


def _places(shown: Tap, want: tuple[int, ...]) -> tuple[Array, ...]:
    """Return the indices of a whole value that a corner has: those of the last rows where fewer are there, no padded
    columns."""
    shape = (1,) * (len(want) - len(shown.shape)) + shown.shape
    indices = []
    for axis, (size, theirs) in enumerate(zip(want, shape, strict=True)):
        at = corner_indices(theirs)
        if theirs < size and axis == 0:
            at = at + size - theirs
        indices.append(at[at < size])
    return tuple(indices)


def _shown(shown: Tap, want: tuple[int, ...]) -> Array:
    """Return the corner of a text without the columns that only pad."""
    shape = (1,) * (len(want) - len(shown.shape)) + shown.shape
    value = shown.value.reshape(tuple(min(side, 6) for side in shape))
    keep = []
    for axis, (size, theirs) in enumerate(zip(want, shape, strict=True)):
        at = corner_indices(theirs)
        keep.append(np.flatnonzero((at < size) | ((axis == 0) & (theirs < size))))
    return value[np.ix_(*keep)]
