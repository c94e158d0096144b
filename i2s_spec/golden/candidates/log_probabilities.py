"""This module recognizes log-probabilities: logits of which each row was shifted by a constant (clause 10.4).

Servers give the logarithm of each token's probability, not its logit. The two differ by one number for each row, which no
choice of a token depends on; so rows are compared after a shift to the mean of the wanted row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How far from 1 the probabilities of a row may sum up, as a logarithm: servers print few digits.
ROOM: Final = 1e-3


def are_log_probabilities(value: NDArray[Any]) -> bool:
    """Whether each row is that of a logarithm of probabilities: finite, none above 0, the probabilities add up to 1."""
    if value.ndim < 2 or value.shape[-1] < 2 or not value.size or value.dtype.kind != "f":
        return False
    if not np.isfinite(value).all() or (value > ROOM).any():
        return False
    sums = np.exp(value.astype(np.float64)).sum(axis=-1)
    return bool((np.abs(np.log(sums, where=sums > 0, out=np.full_like(sums, np.inf))) <= ROOM).all())


def shifted(value: NDArray[Any], want: NDArray[Any]) -> NDArray[Any]:
    """A value with a number added to each row, so that its mean is that of the wanted row; rows without a mean stay."""
    with np.errstate(all="ignore"):
        by = want.mean(axis=-1, keepdims=True, dtype=np.float64) - value.mean(axis=-1, keepdims=True, dtype=np.float64)
    found: NDArray[Any] = (value + np.where(np.isfinite(by), by, 0.0)).astype(value.dtype)
    return found
