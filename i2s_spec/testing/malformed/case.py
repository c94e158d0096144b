"""This module keeps the list of broken copies, and lets the modules beside it add to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

Bytes = Callable[[], bytes]


class Case(NamedTuple):
    """A file with one fault: its name, the rule's code, the path of the span, and codes that come with it.

    `also` are findings that follow of necessity: a fault can have a consequence that a rule of its own states.
    """

    name: str
    code: str
    path: str
    data: bytes
    also: frozenset[str] = frozenset()


#: Name, code, path and companions of every case, and what makes its bytes.
CASES: list[tuple[str, str, str, tuple[str, ...], Bytes]] = []


def case(name: str, code: str, path: str, also: tuple[str, ...] = ()) -> Callable[[Bytes], Bytes]:
    """Add what the decorated function makes as a case."""

    def register(make: Bytes) -> Bytes:
        CASES.append((name, code, path, also, make))
        return make

    return register


def add(name: str, code: str, path: str, make: Bytes, also: tuple[str, ...] = ()) -> None:
    """Add a case whose bytes `make` gives."""
    CASES.append((name, code, path, also, make))
