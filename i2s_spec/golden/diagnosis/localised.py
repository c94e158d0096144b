"""This module recognizes values that are wrong in some places only: tokens, columns, what two threads share (10.5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.errors import counted
from i2s_spec.golden.diagnosis.observation import Observation, by_pattern, factor_of, listed, wrong_rows
from i2s_spec.golden.replay.result import Diagnosis

if TYPE_CHECKING:
    from numpy.typing import NDArray


def some_rows(observed: Observation) -> Diagnosis | None:
    """Some tokens are wrong, others right."""
    if not observed.rows_are_tokens or observed.tokens < 2:
        return None
    rows = wrong_rows(observed)
    if 0 < len(rows) < len(observed.got):
        return by_pattern("some-tokens", f"only {listed(rows, 'token')} of {len(observed.got)} wrong")
    return None


def some_columns(observed: Observation) -> Diagnosis | None:
    """A few columns are wrong."""
    if observed.got.ndim < 2:
        return None
    off = observed.off.reshape(len(observed.off), -1)
    columns = np.flatnonzero(off.any(axis=0))
    if not 0 < len(columns) <= off.shape[1] // 4:
        return None
    place = f"columns {columns[0]:,} to {columns[-1]:,}" if len(columns) > 1 else f"column {columns[0]:,}"
    middle = off.shape[1] // 2
    if len(columns) <= 8 and all(abs(int(column) - middle) <= 4 for column in columns) and off.shape[1] % 4:
        return by_pattern("row-split", f"only {place} are wrong, where two threads share rows that are not multiples of four"
                          " and write to each other's; what comes out depends on timing")  # fmt: skip
    tail = (
        ": the end, which a kernel for whole blocks leaves out"
        if columns[-1] == off.shape[1] - 1 and columns[0] == columns[-1] - len(columns) + 1
        else ""
    )
    return by_pattern(
        "some-columns",
        f"only {len(columns):,} of {counted(off.shape[1], 'column')} are wrong, {place}{tail}",
    )


# ARM's mat-mul with four tokens in a kernel for one.


def nrc(observed: Observation) -> Diagnosis | None:
    """Those four tokens are wrong and all others right, or tokens from the four on are NaN: of a value that is all NaN
    this is a guess, which stands behind `not-finite`."""
    if not nrc_applies(observed.tokens):
        return None
    strange: NDArray[np.bool_] = np.atleast_1d(~np.isfinite(observed.got) & np.isfinite(observed.want))
    everything = bool(strange.all())
    strange = np.asarray(strange.reshape(len(strange), -1).any(axis=1))
    if strange.any():
        zeros = any(len(x) == len(strange) and not np.asarray(x)[strange].any() for x in observed.inputs[:1])
        may = not zeros and _behind(np.flatnonzero(strange), observed) and not _made_behind(strange, observed)
        return nrc_diagnosis(observed.tokens, known=not everything) if may else None
    rows = wrong_rows(observed) if observed.rows_are_tokens else np.zeros(0, dtype=np.int64)
    block = observed.tokens // 4 * 4
    if not len(rows) or len(rows) == observed.tokens or rows[0] < block - 4 or rows[-1] >= block:
        return None
    return nrc_diagnosis(observed.tokens) if factor_of(observed) is None else None


def _behind(rows: NDArray[np.int64], observed: Observation) -> bool:
    return not observed.rows_are_tokens or int(rows[0]) >= observed.tokens // 4 * 4 - 4


def _made_behind(strange: NDArray[np.bool_], observed: Observation) -> bool:
    """Whether a token after the four is NaN although its input is finite: this mistake does not make such a NaN."""
    x = np.asarray(observed.inputs[0]) if observed.inputs else np.zeros(0)
    if not observed.rows_are_tokens or x.ndim < 2 or len(x) != len(strange):
        return False
    sound = np.isfinite(x.reshape(len(x), -1)).all(axis=1)
    return bool((strange & sound)[observed.tokens // 4 * 4 :].any())


def nrc_applies(tokens: int) -> bool:
    """Whether so many tokens meet the mistake `nrc-4`."""
    return tokens // 4 * 4 % 8 == 4


def nrc_possible(off: NDArray[Any], tokens: int, alone: bool) -> bool:
    """Whether a value that nothing known explains is wrong where `nrc-4` makes it wrong.

    :param off: [T, ...], which elements are too far off
    :param alone: whether it is one projection, in which tokens after the four are right; elsewhere they follow
    """
    if not nrc_applies(tokens):
        return False
    rows = np.flatnonzero(off.reshape(len(off), -1).any(axis=1)) if off.ndim else np.zeros(0, dtype=np.int64)
    if len(off) < 2 or not len(rows):  # the last token, or an embedding: nobody knows of the others
        return not alone
    block = tokens // 4 * 4
    return int(rows[0]) >= block - 4 and (int(rows[-1]) < block or not alone)


def nrc_diagnosis(tokens: int, known: bool = True) -> Diagnosis:
    """The mistake `nrc-4`, where only its consequences can be observed.

    :param known: whether the place tells; else nothing speaks against it, and nothing else explains the value
    """
    stop = tokens // 4 * 4
    says = (
        f"of {counted(tokens, 'token')} the mat-mul hands numbers {stop - 4} to {stop - 1} to a "
        f"kernel for one: ARM builds with dot "
        "products since November 2025; what comes out depends on memory"
    )
    doubt = "; nothing else that is known explains the value: try another number of tokens"
    return by_pattern("nrc-4", says if known else says + doubt)
