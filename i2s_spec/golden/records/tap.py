"""This module defines a tap: one value of a graph, with what is known of it (clause 10.1)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Values that a header shows of the start and of the end of a tap of floats.
SHOWN = 3


#: Of each dimension so many from either end are in a corner, where it has more than twice as many.
CORNER: Final = 3


@dataclass(frozen=True)
class Tap:
    """A value by its name, or the corner of it that a text shows.

    :param value: of any shape; of a corner, what is shown: at most `2 * CORNER` from each dimension
    :param corner_of: the shape of the whole, where only a corner is known
    :param resolution: how far a shown number may be from the real one: half of its last digit
    :param total: the sum that a text form gives
    :param op: what the dump calls the operation; empty where it does not
    :param sources: what the dump says went into it, tensors of the file among them
    """

    name: str
    value: NDArray[Any]
    corner_of: tuple[int, ...] | None = None
    resolution: float = 0.0
    total: float | None = None
    op: str = ""
    sources: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole value."""
        return self.value.shape if self.corner_of is None else self.corner_of


def corner(value: NDArray[Any]) -> NDArray[Any]:
    """What a text shows of a value: of each dimension the first and last few."""
    return value[np.ix_(*(corner_indices(size) for size in value.shape))]


def corner_indices(size: int) -> NDArray[np.int64]:
    """Which of so many are shown."""
    if size <= 2 * CORNER:
        return np.arange(size)
    return np.concatenate([np.arange(CORNER), np.arange(size - CORNER, size)])


def digest(value: NDArray[Any]) -> str:
    """SHA-256 of the bytes of an array: row by row, little-endian; shape and type are not in it."""
    plain = np.ascontiguousarray(value)
    return hashlib.sha256(plain.astype(plain.dtype.newbyteorder("<"), copy=False).data.cast("B")).hexdigest()


def statistics(value: NDArray[Any]) -> dict[str, Any]:
    """Type, shape, digest, and of numbers the least, largest, mean and root mean square; of floats the first and last too.

    Mean and root mean square are those of the finite elements, summed in float64; `not_finite` counts the others.
    """
    found: dict[str, Any] = {"dtype": value.dtype.name, "shape": list(value.shape), "sha256": digest(value)}
    if not value.size:
        return found
    finite = value[np.isfinite(value)]
    if finite.size:
        wide = finite.astype(np.float64)
        found |= {"min": finite.min().item(), "max": finite.max().item(), "mean": float(wide.mean())}
        found["rms"] = float(np.sqrt(np.mean(wide * wide)))
    if value.dtype.kind == "f":
        found["not_finite"] = int(value.size - finite.size)
        flat = value.reshape(-1)
        found["first"], found["last"] = ([_plain(x) for x in part] for part in (flat[:SHOWN], flat[-SHOWN:]))
    return found


def _plain(x: Any) -> float | str:
    """A float as JSON has it."""
    number = float(x)
    return number if np.isfinite(number) else str(number)
