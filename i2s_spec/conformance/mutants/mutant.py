"""This module says what a mutant is: a decoder with one mistake, and the flag that has to name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Mutant(NamedTuple):
    """A decoder that is wrong.

    :param name: short, stable
    :param flag: the kind of bug, as vectors have it
    :param decoder: a class of `plain_numbers` or `plain_container` with a method that is wrong
    """

    name: str
    flag: str
    decoder: type[Any]


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of its arguments alone as a method."""
    return lambda self, *arguments: function(*arguments)
