"""This module draws values as a line of characters: blocks if the stream can encode them, else ASCII.

>>> sparkline([1, 2, None, 4], 1, 4, blocks=True), sparkline([1, 2, None, 4], 1, 4, blocks=False)
('▁▃ █', '_- #')
>>> shares([1, 2, 1, 0], 8, blocks=False)
'--0000++'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

#: Characters by ascending value.
BLOCKS: Final = "▁▂▃▄▅▆▇█"
ASCII: Final = "_.-=+*%#"

#: The character for a value that the axis cannot show.
ODD: Final = "!"

#: Characters of the codes for -1, 0, +1 and the one without a meaning.
SHARE_BLOCKS: Final = "█░▓!"
SHARE_ASCII: Final = "-0+!"


def sparkline(values: Sequence[float | None], low: float, high: float, *, blocks: bool) -> str:
    """Values on a linear axis, one character each; None is a blank, and a value that is not finite is `!`."""
    signs = BLOCKS if blocks else ASCII
    made = ""
    for value in values:
        if value is None:
            made += " "
        elif not math.isfinite(value):
            made += ODD
        else:
            share = (value - low) / (high - low) if high > low else 0.0
            made += signs[min(len(signs) - 1, max(0, math.floor(share * (len(signs) - 1) + 0.5)))]
    return made


def shares(counts: Sequence[int], width: int, *, blocks: bool) -> str:
    """Parts of a whole as runs of characters, together `width` long; a part that is not 0 has at least one character."""
    whole = sum(counts)
    if not whole:
        return " " * width
    ends = [round(width * end / whole) for end in accumulate(counts)]
    lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    for place, count in enumerate(counts):
        if count and not lengths[place]:
            lengths[place] += 1
            lengths[lengths.index(max(lengths))] -= 1
    signs = SHARE_BLOCKS if blocks else SHARE_ASCII
    return "".join(sign * length for sign, length in zip(signs, lengths, strict=False))
