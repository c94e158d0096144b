"""This module finds activation codes so near a rounding boundary that two correct quantizers may differ there (10.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: How far, in units of a code, a product may be from a rounding boundary for two correct quantizers to differ.
AMBIGUOUS: Final = 127 * 2.0**-23


def is_ambiguous(products: NDArray[np.float64], rtol: float = 0.0) -> NDArray[np.bool_]:
    """Which products of activations and their scale lie at a rounding boundary.

    :param rtol: how far off the activations may be, as a share of them
    """
    distance: NDArray[Any] = np.abs(np.mod(products, 1.0) - 0.5)
    found: NDArray[np.bool_] = distance <= AMBIGUOUS + 2 * rtol * (np.abs(products) + 1)
    return found


def count_ambiguous(x: NDArray[np.float32], scale: NDArray[np.float32]) -> int:
    """How many codes of a value lie at a rounding boundary."""
    with np.errstate(all="ignore"):
        return int(is_ambiguous(x.astype(np.float64) * scale.astype(np.float64)[:, None]).sum())
