"""This module recognizes what wrong values look like, whatever made them: a factor, other rows, NaN (10.5).

Each pattern is a function of the value, the wanted one and its limit that says a sentence or nothing. `PATTERNS` lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.errors import counted
from i2s_spec.golden.diagnosis.localised import nrc, some_columns, some_rows
from i2s_spec.golden.diagnosis.observation import LEFT, Observation, Pattern, by_pattern, factor_of, finite_pair, listed
from i2s_spec.golden.diagnosis.permutations import permuted_columns, permuted_rows, shifted, transposed
from i2s_spec.golden.metrics import beyond, length, relative
from i2s_spec.golden.replay.result import Diagnosis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def recognized(got: Array, want: Array, limit: Any, inputs: tuple[Array, ...] = (), tokens: int = 0) -> list[Diagnosis]:
    """What a wrong value looks like, the most telling first."""
    off = beyond(got, want, limit)
    by_token = bool(got.ndim) and len(got) == tokens
    observed = Observation(got, want, off, inputs, tokens, by_token)
    if got.size > 1 and np.count_nonzero(off) < 2 and np.isfinite(got[off]).all():
        return []  # one element looks like anything
    return [found for pattern in PATTERNS if (found := pattern(observed)) is not None]


def _zeros(observed: Observation) -> Diagnosis | None:
    if observed.got.any() or not observed.want.any():
        return None
    return by_pattern(
        "zeros",
        "every element is 0: the kernel never wrote or does not know the type of the weights, or a scale is 0",
        1.0,
    )


def _nan_rows(observed: Observation) -> Diagnosis | None:
    strange = ~np.isfinite(observed.got) & np.isfinite(observed.want)
    if not strange.any():
        return None
    if strange.all():
        return by_pattern("not-finite", "every element is NaN or infinite")
    rows = np.flatnonzero(np.atleast_1d(strange).reshape(len(np.atleast_1d(strange)), -1).any(axis=1))
    whole = observed.got.ndim and all(strange[row].all() for row in rows)
    what = "token" if observed.rows_are_tokens else "row"
    zeros = (
        any(not np.asarray(x)[rows].any() for x in observed.inputs[:1] if len(x) == len(observed.got))
        if len(rows)
        else False
    )
    why = "; its input is all 0 there: an activation scale without a floor" if zeros else ""
    return by_pattern("not-finite", f"{counted(strange.sum(), 'element is', 'elements are')} NaN or "
                                    f"infinite, {'all' if whole else 'some'} of "
                    f"{listed(rows, what)}{why}")  # fmt: skip


def _factor(observed: Observation) -> Diagnosis | None:
    found = factor_of(observed)
    if found is None or not np.isfinite(observed.got).all():
        return None
    factor, left = found
    if abs(factor - 1) < 1e-6 or not factor:
        return None
    if abs(factor + 1) < 1e-4:
        return by_pattern("negated", "every sign is inverted", left)
    word = {2.0: "scale-doubled", 0.5: "scale-halved"}.get(round(factor, 3), "factor")
    says = {"scale-doubled": "everything is doubled", "scale-halved": "everything is halved"}.get(
        word, f"everything is multiplied by {factor:.6g}"
    )
    return by_pattern(word, f"{says}: a scale is wrong", left)


def _offset(observed: Observation) -> Diagnosis | None:
    got, want = finite_pair(observed)
    constant = float(np.median(got - want)) if got.size else 0.0
    left = length(got - want - constant) / (length(got - want) or 1.0)
    return by_pattern("offset", f"{constant:.6g} is added to everything", left) if constant and left < LEFT else None


def _row_factors(observed: Observation) -> Diagnosis | None:
    if observed.got.ndim < 2 or not np.isfinite(observed.got).all():
        return None
    got, want = (
        observed.got.reshape(len(observed.got), -1).astype(np.float64),
        observed.want.reshape(len(observed.want), -1).astype(np.float64),
    )
    for a, b, what in ((got, want, "token" if observed.rows_are_tokens else "row"), (got.T, want.T, "column")):
        if a.shape[1] < 3:
            continue
        squares = (b * b).sum(axis=1)
        factors = np.divide((a * b).sum(axis=1), squares, out=np.ones(len(a)), where=squares > 0)
        left = length(a - factors[:, None] * b) / (length(a - b) or 1.0)
        if left < LEFT and len(a) > 1:
            low, high = float(factors.min()), float(factors.max())
            return by_pattern(
                "factors", f"each {what} is multiplied by a factor of its own, {low:.4g} to {high:.4g}", left
            )
    return None


def _untouched(observed: Observation) -> Diagnosis | None:
    for x in observed.inputs:
        if np.size(x) == observed.got.size and relative(observed.got.reshape(-1), np.asarray(x).reshape(-1)) < 1e-6:
            return by_pattern("left-out", "the value is the input of the operation: it was left out")
    return None


PATTERNS: Final[tuple[Pattern, ...]] = (
    _zeros, _nan_rows, nrc, _untouched, _factor, _offset, _row_factors, shifted, transposed, permuted_rows,
    permuted_columns, some_rows, some_columns,
)  # fmt: skip


#: Patterns that a corner of a value shows too: they need neither the numbers that are left out nor their places.
OF_CORNERS: Final = frozenset({"zeros", "not-finite"})

#: Patterns that say where a value is wrong, not how: less telling than a mistake that explains most of it.
WEAK: Final = frozenset({"some-tokens", "some-columns", "row-split"})
