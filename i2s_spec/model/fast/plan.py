"""This module defines what a program for compiled kernels consists of: steps, slots for values, and tables that steps read.

A value is `width` floats of every token; all values of a pass lie in one piece of memory, and the slots of values that are
not needed any more are used again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model._fast import Program

#: Floats that values begin at multiples of: with one token, every value begins a cache line.
LINE: Final = 16


class NotTranslated(Exception):
    """A graph has an operation or a shape that no step of a program computes."""


def address(array: NDArray[Any]) -> int:
    """Where an array lies in memory."""
    return int(array.__array_interface__["data"][0])


@dataclass
class Storage:
    """Where values lie one after the other: `at` floats before it for every token, `width` floats, how many names."""

    at: int
    width: int
    users: int = 1


@dataclass(frozen=True)
class Slot:
    """A value: where it lies, and the width of what is normed or rotated on its own: a head, or all of it."""

    storage: Storage
    inner: int

    @property
    def at(self) -> int:
        return self.storage.at

    @property
    def width(self) -> int:
        return self.storage.width


@dataclass(frozen=True)
class RotationAngles:
    """What the angles of rotations depend on, and the step (by number) that wants them."""

    step: int
    base: float
    dims: int
    scale: float
    factors: str | None


@dataclass
class FastPlan:
    """A program and what it needs.

    :param width: floats of all slots, for every token
    :param columns: most columns of a ternary matrix, whole blocks
    :param start: slot of the embedding
    :param done: how many nodes of the graph the program does
    :param result: rows of the head if that is part of it, else 0
    :param end: the slot that the rest of the graph goes on from, if there is a rest
    :param arrays: arrays whose addresses are in the program
    """

    program: Program
    width: int
    columns: int
    start: Slot
    done: int = 0
    result: int = 0
    end: Slot | None = None
    rotations: list[RotationAngles] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)
    #: Cosines and sines by position, and of how many positions.
    angles: list[Any] = field(default_factory=list)
    positions: int = 0
    #: Floats of a token's keys and values by layer, keys first.
    widths: dict[tuple[int, int], int] = field(default_factory=dict)
    #: The most floats that a piece of the keys of one token leaves, over all layers.
    partial: int = 1
    #: The same by kind, keys first, as a cache has them.
    cache_widths: tuple[tuple[int, ...], ...] = ()
