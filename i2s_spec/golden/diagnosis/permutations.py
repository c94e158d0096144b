"""This module recognizes values that are right and stand elsewhere: in other rows or columns, or turned (10.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.golden.diagnosis.observation import LEFT, Observation, by_pattern
from i2s_spec.golden.metrics import relative
from i2s_spec.golden.replay.result import Diagnosis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: Widest value of which columns are matched with each other.
MOST_COLUMNS: Final = 8192


def shifted(observed: Observation) -> Diagnosis | None:
    """The values of the token beside it."""
    if not observed.rows_are_tokens or len(observed.got) < 3:
        return None
    for step in (1, -1):
        a, b = (observed.got[1:], observed.want[:-1]) if step == 1 else (observed.got[:-1], observed.want[1:])
        if relative(a, b) < LEFT:
            return by_pattern(
                "shifted", f"the values are those of the token {'before' if step == 1 else 'after'}", relative(a, b)
            )
    return None


def permuted_rows(observed: Observation) -> Diagnosis | None:
    """The rows in another order."""
    if observed.got.ndim < 2 or len(observed.got) < 2:
        return None
    order = _matched(observed.got.reshape(len(observed.got), -1), observed.want.reshape(len(observed.want), -1))
    if order is None:
        return None
    what = "tokens" if observed.rows_are_tokens else "rows"
    turned = np.array_equal(order, np.arange(len(order))[::-1])
    return by_pattern("rows-permuted", f"the {what} are {'in reverse order' if turned else 'in another order'}")


def permuted_columns(observed: Observation) -> Diagnosis | None:
    """The columns in another order, that of q and k rows among them."""
    if observed.got.ndim < 2:
        return None
    got, want = observed.got.reshape(len(observed.got), -1), observed.want.reshape(len(observed.want), -1)
    if got.shape[1] > MOST_COLUMNS or got.shape[0] < 2:
        return None
    order = _matched(got.T, want.T)
    if order is None:
        return None
    columns = len(order)
    for width in (w for w in range(2, columns + 1, 2) if columns % w == 0):
        paired = np.arange(columns).reshape(-1, 2, width // 2).swapaxes(1, 2).ravel()
        if np.array_equal(order, paired) or np.array_equal(np.argsort(order), paired):
            says = (
                f"rows of the weights are permuted within heads of {width}, as for llama: once too often, or not at all"
            )
            return by_pattern("q-k-permuted", says)
    return by_pattern("columns-permuted", "the columns are in another order: rows of the weights are permuted")


def _matched(got: Array, want: Array) -> NDArray[np.int64] | None:
    """The order of rows in which one matrix is the other; None if there is no order other than the same."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    if not np.isfinite(a).all() or not np.isfinite(b).all():
        return None
    norms = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    with np.errstate(all="ignore"):
        likeness = (a / norms[0][:, None]) @ (b / norms[1][:, None]).T
    order = np.where(np.isfinite(likeness), likeness, -2).argmax(axis=1)
    if len(np.unique(order)) != len(order) or np.array_equal(order, np.arange(len(order))):
        return None
    return order if relative(a, b[order]) < LEFT else None


def transposed(observed: Observation) -> Diagnosis | None:
    """Rows and columns exchanged."""
    shape = observed.got.shape
    if len(shape) < 2:
        return None
    got = observed.got.reshape(shape[0], -1)
    for turned in (got.T.reshape(-1), np.ascontiguousarray(observed.got.reshape(got.shape[::-1]).T).reshape(-1)):
        if relative(turned, observed.want.reshape(-1)) < LEFT:
            return by_pattern("transposed", "rows and columns are exchanged")
    return None
