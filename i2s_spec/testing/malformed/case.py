"""This module holds the list of broken copies; the other modules of the package add to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

Bytes = Callable[[], bytes]

#: The path of a field, or a function that finds it: the position of a record is known only when the model is made.
Place = str | Callable[[], str]

#: Smallest size of a large file.
LARGE = 1 << 20


@dataclass(frozen=True)
class Case:
    """A file with one fault: its name, the rule's code, the path of the span, and codes that come with it.

    `also` are findings that necessarily follow: a fault can have a consequence with its own rule. `large` cases have
    `LARGE` bytes or more; they test large numbers of records.
    """

    name: str
    code: str
    place: Place = field(repr=False, compare=False)
    make: Bytes = field(repr=False, compare=False)
    also: frozenset[str] = frozenset()
    large: bool = False

    @cached_property
    def path(self) -> str:
        """The path of the span that the finding has."""
        return self.place if isinstance(self.place, str) else self.place()

    @property
    def data(self) -> bytes:
        """The bytes of the file, made when they are first asked for, and kept if they are not large."""
        return self.make() if self.large else self._made

    @cached_property
    def _made(self) -> bytes:
        return self.make()


#: Every case, in the order in which the modules add them.
CASES: list[Case] = []


def case(
    name: str, code: str, place: Place, also: tuple[str, ...] = (), large: bool = False
) -> Callable[[Bytes], Bytes]:
    """Add the result of the decorated function as a case."""

    def register(make: Bytes) -> Bytes:
        add(name, code, place, make, also, large)
        return make

    return register


def add(name: str, code: str, place: Place, make: Bytes, also: tuple[str, ...] = (), large: bool = False) -> None:
    """Add a case whose bytes `make` gives."""
    CASES.append(Case(name, code, place, make, frozenset(also), large))
