"""This module finds findings that say the same of many tensors, so that a report for people lists only the first of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from i2s_spec.light_typing import Any, Final
from i2s_spec.pattern import pattern

#: How many of them are listed, and how many must be left for the rest to be counted instead.
LISTED: Final = 5
LEFT: Final = 3

#: Names of tensors, which are quoted, and numbers.
_NAME: Final = pattern(r"'[^']*'")
_NUMBER: Final = pattern(r"\d[\d,.]*")


def repeated(findings: Sequence[Mapping[str, Any]]) -> set[int]:
    """The places of findings that need not be listed: a rule said the same of five tensors before.

    The same is what differs in nothing but the name of a tensor and in numbers.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for place, finding in enumerate(findings):
        if finding["span"]["path"].startswith("data["):
            message = _NUMBER.sub("0", _NAME.sub("''", finding["message"], count=1))
            places.setdefault((finding["code"], message), []).append(place)
    left = (same[LISTED:] for same in places.values())
    return {place for rest in left if len(rest) >= LEFT for place in rest}
