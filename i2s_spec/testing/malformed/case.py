"""The list of broken copies, each with the sound file that it was made from; the other modules here add to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from i2s_spec.testing.sample import Draft, Model

Bytes = Callable[[], bytes]

#: The path of a field, or a function that finds it: the position of a record is known only when the model is made.
Place = str | Callable[[], str]

#: Smallest size of a large file.
LARGE = 1 << 20


def plain() -> bytes:
    """Return the plain sound file, which most cases break."""
    return Draft().data


def model(architecture: str, layers: int = 1) -> Bytes:
    """Return the sound model of an architecture, as what a case breaks."""
    return lambda: Model(architecture, layers=layers).built()


@dataclass(frozen=True)
class Case:
    """A file with one fault: its name, the rule's code, the path of the span, and codes that come with it.

    `also` are findings that necessarily follow: a fault can have a consequence with its own rule. `large` cases have
    `LARGE` bytes or more; they test large numbers of records. `sound` makes the file without the fault.
    """

    name: str
    code: str
    place: Place = field(repr=False, compare=False)
    make: Bytes = field(repr=False, compare=False)
    also: frozenset[str] = frozenset()
    large: bool = False
    sound: Bytes = field(default=plain, repr=False, compare=False)

    @cached_property
    def path(self) -> str:
        """The path of the span that the finding has."""
        return self.place if isinstance(self.place, str) else self.place()

    @property
    def data(self) -> bytes:
        """The bytes of the file, made when they are first asked for, and kept if they are not large."""
        return self.make() if self.large else self._made

    @property
    def base(self) -> bytes:
        """The sound file that was broken."""
        return self.sound()

    @cached_property
    def _made(self) -> bytes:
        return self.make()


#: Every case, in the order in which the modules add them.
CASES: list[Case] = []


def add(
    name: str,
    code: str,
    place: Place,
    make: Bytes,
    also: tuple[str, ...] = (),
    large: bool = False,
    sound: Bytes = plain,
) -> None:
    """Add a case whose bytes `make` gives.

    :param sound: gives the sound file that `make` breaks
    """
    CASES.append(Case(name, code, place, make, frozenset(also), large, sound))
