"""The list of broken copies, each with the sound file that it was made from; the other modules here add to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from i2s_spec.testing.sample import Draft, Model

Bytes = Callable[[], bytes]

M = TypeVar("M", bound=Model)

#: The path of a field, or a function that finds it: the position of a record is known only when the model is made.
Place = str | Callable[[], str]

#: Smallest size of a large file.
LARGE = 1 << 20


def key_field(name: str, field: str = "value") -> Callable[[Model], str]:
    """Return what finds the path of a field of a key: its `key`, `type` or `value`, or an element, `value.items[2]`."""
    return lambda model: f"key_values[{model.place(name)}].{field}"


def info_field(name: str, field: str) -> Callable[[Model], str]:
    """Return what finds the path of a field of a tensor info: `name`, `ne`, `type` or `offset`."""
    return lambda model: f"tensor_infos[{model.row(name)}].{field}"


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


def add_changed(
    start: Callable[[], M],
    name: str,
    code: str,
    place: str | Callable[[M], str],
    change: Callable[[M], object],
    also: tuple[str, ...] = (),
    large: bool = False,
) -> None:
    """Add a model with a change.

    :param start: gives the sound model; each call another one
    :param place: the path of the field, or what finds it in the sound model
    """
    path = place if isinstance(place, str) else lambda: place(start())
    add(name, code, path, lambda: start().changed(change).built(), also, large, lambda: start().built())
