"""This module has regular expressions that are compiled when they are first used: most runs of a program use few of them."""

from __future__ import annotations

import re
from typing import Any, AnyStr, Generic, cast


class _Later(Generic[AnyStr]):
    """Stands for a compiled expression; takes over each of its methods when it is first asked for."""

    def __init__(self, text: AnyStr, flags: int) -> None:
        self._text: AnyStr = text
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)  # `re` keeps what it has compiled
        setattr(self, name, found)
        return found


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, compiled when it is first used.

    >>> pattern("[0-9]+").findall("2 and 4")
    ['2', '4']
    """
    return cast("re.Pattern[AnyStr]", _Later(text, flags))
