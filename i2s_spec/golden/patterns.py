"""This module recognises what wrong values look like, whatever made them: a factor, other rows, NaN (10.5).

Each pattern is a function of the value, the wanted one and its limit that says a sentence or nothing. `PATTERNS` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.golden.measures import beyond, relative
from i2s_spec.golden.result import Diagnosis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: A pattern holds if what is left with it is this share of what was off.
LEFT: Final = 0.02

#: Widest value of which columns are matched with each other.
MOST_COLUMNS: Final = 8192


class Seen(NamedTuple):
    """A wrong value.

    :param got: [T, ...]
    :param want: the same shape
    :param off: which elements are too far off
    :param inputs: of the operation, where they are known
    :param tokens: of the sequence
    """

    got: Array
    want: Array
    off: NDArray[np.bool_]
    inputs: tuple[Array, ...] = ()
    tokens: int = 0
    rows_are_tokens: bool = True


Pattern = Callable[[Seen], "Diagnosis | None"]


def recognised(got: Array, want: Array, limit: Any, inputs: tuple[Array, ...] = (), tokens: int = 0) -> list[Diagnosis]:
    """What a wrong value looks like, the most telling first."""
    off = beyond(got, want, limit)
    by_token = bool(got.ndim) and len(got) == tokens
    seen = Seen(got, want, off, inputs, tokens, by_token)
    return [found for pattern in PATTERNS if (found := pattern(seen)) is not None]


def _zeros(seen: Seen) -> Diagnosis | None:
    if seen.got.any() or not seen.want.any():
        return None
    return _pattern(
        "zeros", "every element is 0: the kernel never wrote, or does not know the type of the weights", 1.0
    )


def _nrc(seen: Seen) -> Diagnosis | None:
    """ARM's mat-mul with four tokens in a kernel for one: those four are wrong, or all of it is NaN."""
    if not nrc_applies(seen.tokens):
        return None
    if (~np.isfinite(seen.got) & np.isfinite(seen.want)).any():
        return nrc_diagnosis(seen.tokens)
    rows = _wrong_rows(seen) if seen.rows_are_tokens else np.zeros(0, dtype=np.int64)
    block = seen.tokens // 4 * 4
    if not len(rows) or len(rows) == seen.tokens or rows[0] < block - 4 or rows[-1] >= block:
        return None
    return nrc_diagnosis(seen.tokens) if _factor_of(seen) is None else None


def nrc_applies(tokens: int) -> bool:
    """Whether so many tokens meet the mistake `nrc-4`."""
    return tokens // 4 * 4 % 8 == 4


def _nrc_words(tokens: int) -> str:
    stop = tokens // 4 * 4
    return (
        f"of {tokens} tokens the mat-mul hands numbers {stop - 4} to {stop - 1} to a kernel for one: ARM builds with dot "
        "products since November 2025; what comes out depends on memory"
    )


def nrc_diagnosis(tokens: int) -> Diagnosis:
    """The mistake `nrc-4`, where only its consequences can be seen."""
    return _pattern("nrc-4", _nrc_words(tokens))


def _nan_rows(seen: Seen) -> Diagnosis | None:
    strange = ~np.isfinite(seen.got) & np.isfinite(seen.want)
    if not strange.any():
        return None
    if strange.all():
        return _pattern("not-finite", "every element is NaN or infinite")
    rows = np.flatnonzero(np.atleast_1d(strange).reshape(len(np.atleast_1d(strange)), -1).any(axis=1))
    whole = seen.got.ndim and all(strange[row].all() for row in rows)
    what = "token" if seen.rows_are_tokens else "row"
    zeros = (
        any(not np.asarray(x)[rows].any() for x in seen.inputs[:1] if len(x) == len(seen.got)) if len(rows) else False
    )
    why = "; its input is all 0 there: an activation scale without a floor" if zeros else ""
    return _pattern("not-finite", f"{strange.sum():,} elements are NaN or infinite, {'all' if whole else 'some'} of "
                    f"{_listed(rows, what)}{why}")  # fmt: skip


def _factor_of(seen: Seen) -> tuple[float, float] | None:
    """The one factor that brings the wanted value to what is there, and what is left."""
    got, want = _finite_pair(seen)
    square = float(want @ want)
    if not square:
        return None
    factor = float(got @ want) / square
    left = _norm(got - factor * want) / (_norm(got - want) or 1.0)
    exact = _norm(got - factor * want) <= 1e-5 * abs(factor) * _norm(want)
    return (factor, left) if exact or left < LEFT else None


def _factor(seen: Seen) -> Diagnosis | None:
    found = _factor_of(seen)
    if found is None or not np.isfinite(seen.got).all():
        return None
    factor, left = found
    if abs(factor - 1) < 1e-6:
        return None
    if abs(factor + 1) < 1e-4:
        return _pattern("negated", "every sign is turned", left)
    word = {2.0: "scale-doubled", 0.5: "scale-halved"}.get(round(factor, 3), "factor")
    says = {"scale-doubled": "everything is doubled", "scale-halved": "everything is halved"}.get(
        word, f"everything is multiplied by {factor:.6g}"
    )
    return _pattern(word, f"{says}: a scale is wrong", left)


def _offset(seen: Seen) -> Diagnosis | None:
    got, want = _finite_pair(seen)
    constant = float(np.median(got - want)) if got.size else 0.0
    left = _norm(got - want - constant) / (_norm(got - want) or 1.0)
    return _pattern("offset", f"{constant:.6g} is added to everything", left) if constant and left < LEFT else None


def _row_factors(seen: Seen) -> Diagnosis | None:
    if seen.got.ndim < 2 or not np.isfinite(seen.got).all():
        return None
    got, want = (
        seen.got.reshape(len(seen.got), -1).astype(np.float64),
        seen.want.reshape(len(seen.want), -1).astype(np.float64),
    )
    for a, b, what in ((got, want, "token" if seen.rows_are_tokens else "row"), (got.T, want.T, "column")):
        if a.shape[1] < 3:
            continue
        squares = (b * b).sum(axis=1)
        factors = np.divide((a * b).sum(axis=1), squares, out=np.ones(len(a)), where=squares > 0)
        left = _norm(a - factors[:, None] * b) / (_norm(a - b) or 1.0)
        if left < LEFT and len(a) > 1:
            low, high = float(factors.min()), float(factors.max())
            return _pattern(
                "factors", f"each {what} is multiplied by a factor of its own, {low:.4g} to {high:.4g}", left
            )
    return None


def _shifted(seen: Seen) -> Diagnosis | None:
    if not seen.rows_are_tokens or len(seen.got) < 3:
        return None
    for step in (1, -1):
        a, b = (seen.got[1:], seen.want[:-1]) if step == 1 else (seen.got[:-1], seen.want[1:])
        if relative(a, b) < LEFT:
            return _pattern(
                "shifted", f"the values are those of the token {'before' if step == 1 else 'behind'}", relative(a, b)
            )
    return None


def _permuted_rows(seen: Seen) -> Diagnosis | None:
    if seen.got.ndim < 2 or len(seen.got) < 2:
        return None
    order = _matched(seen.got.reshape(len(seen.got), -1), seen.want.reshape(len(seen.want), -1))
    if order is None:
        return None
    what = "tokens" if seen.rows_are_tokens else "rows"
    turned = np.array_equal(order, np.arange(len(order))[::-1])
    return _pattern("rows-permuted", f"the {what} are {'in reverse order' if turned else 'in another order'}")


def _permuted_columns(seen: Seen) -> Diagnosis | None:
    if seen.got.ndim < 2:
        return None
    got, want = seen.got.reshape(len(seen.got), -1), seen.want.reshape(len(seen.want), -1)
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
            return _pattern("q-k-permuted", says)
    return _pattern("columns-permuted", "the columns are in another order: rows of the weights are permuted")


def _matched(got: Array, want: Array) -> NDArray[np.int64] | None:
    """The order of rows in which one matrix is the other; None where there is none but the same."""
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


def _transposed(seen: Seen) -> Diagnosis | None:
    shape = seen.got.shape
    if len(shape) < 2:
        return None
    got = seen.got.reshape(shape[0], -1)
    for turned in (got.T.reshape(-1), np.ascontiguousarray(seen.got.reshape(got.shape[::-1]).T).reshape(-1)):
        if relative(turned, seen.want.reshape(-1)) < LEFT:
            return _pattern("transposed", "rows and columns are exchanged")
    return None


def _untouched(seen: Seen) -> Diagnosis | None:
    for x in seen.inputs:
        if np.size(x) == seen.got.size and relative(seen.got.reshape(-1), np.asarray(x).reshape(-1)) < 1e-6:
            return _pattern("left-out", "the value is the input of the operation: it was left out")
    return None


def _some_rows(seen: Seen) -> Diagnosis | None:
    if not seen.rows_are_tokens or seen.tokens < 2:
        return None
    rows = _wrong_rows(seen)
    if 0 < len(rows) < len(seen.got):
        return _pattern("some-tokens", f"only {_listed(rows, 'token')} of {len(seen.got)} wrong")
    return None


def _some_columns(seen: Seen) -> Diagnosis | None:
    if seen.got.ndim < 2:
        return None
    off = seen.off.reshape(len(seen.off), -1)
    columns = np.flatnonzero(off.any(axis=0))
    if not 0 < len(columns) <= off.shape[1] // 4:
        return None
    place = f"columns {columns[0]:,} to {columns[-1]:,}" if len(columns) > 1 else f"column {columns[0]:,}"
    middle = off.shape[1] // 2
    if len(columns) <= 8 and all(abs(int(column) - middle) <= 4 for column in columns) and off.shape[1] % 4:
        return _pattern("row-split", f"only {place} are wrong, where two threads share rows that are no multiple of four and"
                        " write to each other's; what comes out depends on timing")  # fmt: skip
    tail = (
        ": the end, which a kernel for whole blocks leaves out"
        if columns[-1] == off.shape[1] - 1 and columns[0] == columns[-1] - len(columns) + 1
        else ""
    )
    return _pattern("some-columns", f"only {len(columns):,} of {off.shape[1]:,} columns are wrong, {place}{tail}")


PATTERNS: Final[tuple[Pattern, ...]] = (
    _zeros, _nrc, _nan_rows, _untouched, _factor, _offset, _row_factors, _shifted, _transposed, _permuted_rows,
    _permuted_columns, _some_rows, _some_columns,
)  # fmt: skip


#: Patterns that say where a value is wrong, not how: less telling than a mistake that explains most of it.
WEAK: Final = frozenset({"some-tokens", "some-columns", "row-split"})


def _pattern(name: str, says: str, remaining: float | None = None) -> Diagnosis:
    return Diagnosis(name, says, "by pattern", remaining)


def _wrong_rows(seen: Seen) -> NDArray[np.int64]:
    return np.flatnonzero(seen.off.reshape(len(seen.off), -1).any(axis=1))


def _finite_pair(seen: Seen) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    finite = np.isfinite(seen.got) & np.isfinite(seen.want)
    return seen.got[finite].astype(np.float64), seen.want[finite].astype(np.float64)


def _norm(x: Any) -> float:
    return float(np.linalg.norm(x))


def _listed(rows: Any, what: str) -> str:
    shown = ", ".join(str(int(row)) for row in rows[:8])
    return f"{what}{'s' if len(rows) != 1 else ''} {shown}{' ...' if len(rows) > 8 else ''}"
