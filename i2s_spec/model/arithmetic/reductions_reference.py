"""This module defines in plain NumPy what `reductions` computes: the slow twins of the kernels.

NumPy's `sum`, `dot`, `matmul` and `einsum` add in an undefined order; only `cumsum` adds in index order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.model.arithmetic.reductions import as_float32

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sums(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """0 + the first term + the second + ..., over the last axis."""
    if not terms.shape[-1]:
        return np.zeros(terms.shape[:-1])
    with np.errstate(all="ignore"):
        total: NDArray[np.float64] = (
            np.cumsum(terms, axis=-1)[..., -1] + 0.0
        )  # the sum starts with +0, so -0 becomes +0
        return total


def products(x: NDArray[np.float32], w: NDArray[Any]) -> NDArray[np.float32]:
    """Like `reductions.products`."""
    with np.errstate(all="ignore"):
        terms = x[:, None, :].astype(np.float64) * as_float32(w)[None].astype(np.float64)
        return sums(terms).astype(np.float32)


def squares(x: NDArray[np.float32], *, rounded: bool = False) -> NDArray[np.float64]:
    """Like `reductions.squares`."""
    with np.errstate(all="ignore"):
        return sums((x * x).astype(np.float64) if rounded else x.astype(np.float64) ** 2)
