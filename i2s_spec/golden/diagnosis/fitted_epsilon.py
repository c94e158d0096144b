"""This module fits the epsilon of norms: which one would give the values that were seen.

A norm divides by the root of m + epsilon, m being the mean square of what enters. With another epsilon each row is off by a
factor of its own, which tells the epsilon; one factor for all rows, whatever their m, is a scale.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Rows must differ by so much in their mean squares: where they are alike, a scale does the same.
_DIFFERENT: Final = 1.05


def fitted_epsilons(entering: NDArray[Any], got: NDArray[Any], want: NDArray[Any], own: float) -> Iterable[float]:
    """The values of epsilon that would explain a norm, the roundest first; none where rows are too much alike.

    :param entering: what enters the norm, [..., n]
    :param got: what a candidate has, [..., n]
    :param want: what it should have
    :param own: the epsilon of the file
    """
    if entering.shape != got.shape or got.ndim < 2:
        return
    wide, seen, right = (each.astype(np.float64) for each in (entering, got, want))
    squares = (wide * wide).mean(axis=-1).ravel()
    with np.errstate(all="ignore"):
        factors = ((seen * right).sum(axis=-1) / (right * right).sum(axis=-1)).ravel()
        fitted = (squares + own) / factors**2 - squares
    usable = np.isfinite(fitted) & (squares > 0)
    if usable.sum() < 2 or squares[usable].max() < _DIFFERENT * squares[usable].min():
        return
    row = int(np.argmin(np.where(usable, squares, np.inf)))  # where epsilon weighs most
    if fitted[row] > 0:
        yield from dict.fromkeys(float(f"{fitted[row]:.{digits}e}") for digits in (0, 1, 2))
