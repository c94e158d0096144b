"""This module finds repeated findings, which differ only in the tensor: a text report lists only the first of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

#: How many of them are listed, and the smallest rest that is counted instead of listed.
LISTED: Final = 5
LEFT: Final = 3

#: Quoted names of tensors, and numbers.
_NAME: Final = re.compile(r"'[^']*'")
_NUMBER: Final = re.compile(r"\d[\d,.]*")


def repeated(findings: Sequence[Mapping[str, Any]]) -> set[int]:
    """The positions of findings that need not be listed: the rule said the same of five tensors before.

    Two messages are the same if they differ only in tensor names and numbers.
    """
    places: dict[tuple[str, str], list[int]] = {}
    for place, finding in enumerate(findings):
        if finding["span"]["path"].startswith("data["):
            message = _NUMBER.sub("0", _NAME.sub("''", finding["message"], count=1))
            places.setdefault((finding["code"], message), []).append(place)
    left = (same[LISTED:] for same in places.values())
    return {place for rest in left if len(rest) >= LEFT for place in rest}
