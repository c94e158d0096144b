"""This module has regular expressions that are compiled when they are first used: most runs of a program use few of them."""

from __future__ import annotations

from i2s_spec.light_typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import re
    from typing import AnyStr


class _Later:
    """Stands for a compiled expression; takes over each of its methods when it is first asked for."""

    def __init__(self, text: str | bytes) -> None:
        self._text = text

    def __getattr__(self, name: str) -> Any:
        import re

        found = getattr(re.compile(self._text), name)  # `re` keeps what it has compiled
        setattr(self, name, found)
        return found


def pattern(text: AnyStr) -> re.Pattern[AnyStr]:
    """What `re.compile` gives, compiled when it is first used; flags stand in the expression.

    >>> pattern("(?i)[a-c]+").findall("Ab and c")
    ['Ab', 'a', 'c']
    """
    return cast("re.Pattern[AnyStr]", _Later(text))
