"""This module holds a wrong value beside the wanted one, and how a pattern that is recognized in it is said (10.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.golden.metrics import length
from i2s_spec.golden.replay.result import Diagnosis

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

#: A pattern holds if what is left with it is this share of what was off.
LEFT: Final = 0.02


class Observation(NamedTuple):
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


Pattern = Callable[[Observation], "Diagnosis | None"]


def by_pattern(name: str, says: str, remaining: float | None = None) -> Diagnosis:
    """A diagnosis that a pattern gives."""
    return Diagnosis(name, says, "by pattern", remaining)


def wrong_rows(observed: Observation) -> NDArray[np.int64]:
    """The rows with an element that is too far off."""
    return np.flatnonzero(observed.off.reshape(len(observed.off), -1).any(axis=1))


def listed(rows: Any, what: str) -> str:
    """Some numbers in words, the first eight of them."""
    shown = ", ".join(str(int(row)) for row in rows[:8])
    return f"{what}{'s' if len(rows) != 1 else ''} {shown}{' ...' if len(rows) > 8 else ''}"


def factor_of(observed: Observation) -> tuple[float, float] | None:
    """The one factor that brings the wanted value to what is there, and what is left."""
    got, want = finite_pair(observed)
    square = float(np.sum(want * want))
    if not square:
        return None
    factor = float(np.sum(got * want)) / square
    left = length(got - factor * want) / (length(got - want) or 1.0)
    exact = length(got - factor * want) <= 1e-5 * abs(factor) * length(want)
    return (factor, left) if exact or left < LEFT else None


def finite_pair(observed: Observation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The elements that are finite in both."""
    finite = np.isfinite(observed.got) & np.isfinite(observed.want)
    return observed.got[finite].astype(np.float64), observed.want[finite].astype(np.float64)
