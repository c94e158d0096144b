"""A mutant: a decoder with one mistake, and the flag that has to name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Mutant(NamedTuple):
    """A decoder that is wrong.

    :param name: short, stable
    :param flag: its mistake, by the name that `schema.mistakes` and the flags of vectors have
    :param decoder: a subclass of a class of `plain_numbers` or `plain_container` with one wrong method
    """

    name: str
    flag: str
    decoder: type[Any]


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method from a function that does not take `self`."""
    return lambda self, *arguments: function(*arguments)
