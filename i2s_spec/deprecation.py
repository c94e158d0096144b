"""This module keeps old spellings of keywords working for one release, with a notice."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")


def renamed_keyword(old: str, new: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function take a keyword by its old name as well.

    :raises TypeError: on a call with both names
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **options: P.kwargs) -> R:
            if old in options:
                if new in options:
                    raise TypeError(f"{function.__name__}() takes {new}= or its old name {old}=, not both")
                from warnings import warn

                warn(f"the keyword {old}= is called {new}= now", DeprecationWarning, stacklevel=2)
                options[new] = options.pop(old)
            return function(*args, **options)

        return call

    return decorate
