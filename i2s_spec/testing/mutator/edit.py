"""This module holds the list of operators that change a file; the other modules of the package add to it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from i2s_spec.testing.mutator.anatomy import Anatomy


class Mutation(NamedTuple):
    """A changed file: its bytes, a description of the change, and the path of the changed field (or record)."""

    data: bytes
    what: str
    path: str = ""


#: An operator that changes a file at random; None if it does not apply.
Operator = Callable[[Anatomy, Random], Mutation | None]

#: Every operator with its weight: its relative frequency.
OPERATORS: Final[list[tuple[Operator, int]]] = []


def operator(weight: int) -> Callable[[Operator], Operator]:
    """Add the decorated function as an operator."""

    def register(function: Operator) -> Operator:
        OPERATORS.append((function, weight))
        return function

    return register
