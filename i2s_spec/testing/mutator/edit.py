"""This module keeps the list of ways to change a file, and lets the modules beside it add to it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from i2s_spec.testing.mutator.anatomy import Anatomy


class Mutation(NamedTuple):
    """A changed file: its bytes, what was done, and the path of the field (or record) that it was done to."""

    data: bytes
    what: str
    path: str = ""


#: Changes a file by chance; None where it does not apply.
Operator = Callable[[Anatomy, Random], Mutation | None]

#: Every operator with its weight: how often it is taken, next to the others.
OPERATORS: Final[list[tuple[Operator, int]]] = []


def operator(weight: int) -> Callable[[Operator], Operator]:
    """Add the decorated function as a way to change a file."""

    def register(function: Operator) -> Operator:
        OPERATORS.append((function, weight))
        return function

    return register
