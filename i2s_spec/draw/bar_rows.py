"""This module draws horizontal bars as SVG: a row for each name, its parts side by side, all on one scale.

>>> rows = [BarRow("errors", (Share(3, "bad", "3 files"),), "3"), BarRow("none", (), "0")]
>>> bar_rows(rows, "two rows", "")[:56]
'<svg viewBox="0 0 900 44" class="bar-rows" role="img"><t'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from i2s_spec.draw.plot import THINNEST, Share
from i2s_spec.draw.svg import drawing, element, rect, text, title
from i2s_spec.draw.text import cut, visible

#: Height of a row and of its bar; where names end, and the width of the words at the end.
ROW: Final = 22
BAR: Final = 14
NAMES: Final = 250
ENDS: Final = 110

#: Most characters of a name.
NAME: Final = 36


class BarRow(NamedTuple):
    """A row: its name, the parts of its bar, and the words at its end. All text may be untrusted."""

    name: str
    shares: Sequence[Share]
    words: str


def bar_rows(rows: Sequence[BarRow], says: str, more: str, width: float = 900) -> str:
    """Bars below each other; the longest one takes the whole width between names and words.

    :param says: the title of the drawing, and `more`: its description
    """
    longest = max((sum(share.size for share in row.shares) for row in rows), default=0) or 1
    room = width - NAMES - ENDS
    marks = []
    for place, row in enumerate(rows):
        y, x, inside = place * ROW + (ROW - BAR) / 2, float(NAMES), ""
        for share in row.shares:
            length = room * share.size / longest
            if share.size > 0:
                inside += rect(x, y, max(length, THINNEST), BAR, share.style, share.says)
                x += max(length, THINNEST)
        whole = visible(row.name, 4096, bare=True)
        label = text(NAMES - 8, y + BAR - 3, cut(whole, NAME, middle=True), "axis", "end")
        words = text(x + 6, y + BAR - 3, visible(row.words, bare=True), "axis")
        marks.append(element("g", {}, title(whole), label, inside, words))
    return drawing(width, max(1, len(rows)) * ROW, says, more, *marks, style="bar-rows")
