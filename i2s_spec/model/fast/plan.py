"""This module defines the parts of a program for compiled kernels: steps, slots for values, and tables that steps read.

A value has `width` floats for every token; all values of a pass are in one block of memory, and the slots of values
that are no longer needed are reused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model._fast import Program

#: Alignment of values, in floats: with one token, every value begins a cache line.
LINE: Final = 16


class NotTranslated(Exception):
    """A graph has an operation or a shape that no step of a program supports."""


def address(array: NDArray[Any]) -> int:
    """The address of an array."""
    return int(array.__array_interface__["data"][0])


@dataclass
class Storage:
    """The storage of a value: `at` floats before it for every token, `width` floats, and the number of its names."""

    at: int
    width: int
    users: int = 1


@dataclass(frozen=True)
class Slot:
    """A value: its slot, and the width of the unit that is normed or rotated separately: a head, or all of it."""

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
    """The parameters of the angles of rotations, and the number of the step that needs them."""

    step: int
    base: float
    dims: int
    scale: float
    factors: str | None


@dataclass
class FastPlan:
    """A program and its data.

    :param width: floats of all slots, for every token
    :param columns: most columns of a ternary matrix, in whole blocks
    :param start: slot of the embedding
    :param done: how many nodes of the graph the program computes
    :param result: rows of the head if the program includes it, else 0
    :param end: the slot from which the rest of the graph continues, if there is a rest
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
    #: Cosines and sines by position, and the number of positions.
    angles: list[Any] = field(default_factory=list)
    positions: int = 0
    #: Floats of a token's keys and values by layer, keys first.
    widths: dict[tuple[int, int], int] = field(default_factory=dict)
    #: The most floats that a part of the keys of one token leaves, over all layers.
    partial: int = 1
    #: The same by kind, keys first, in the form of a cache.
    cache_widths: tuple[tuple[int, ...], ...] = ()
