"""This module draws a table of numbers as SVG: the larger a number, the deeper its cell, on a logarithmic scale.

>>> print(heat_map(["a"], ["x"], [[HeatCell(10, "10", True)]], "one", "", across="read", down="made")[:60])
<svg viewBox="0 0 216 80" class="i2s-figure i2s-heat" role="
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from i2s_spec.draw.svg import drawing, element, rect, text, title

#: Width and height of a cell, and the room for the names of rows and of columns.
WIDE: Final = 96
HIGH: Final = 34
LEFT: Final = 118
TOP: Final = 44


class HeatCell(NamedTuple):
    """A number that is not negative, its text, whether it is framed, and its description."""

    value: float
    words: str
    framed: bool = False
    says: str = ""


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Sequence[Sequence[HeatCell]],
    says: str,
    more: str,
    across: str,
    down: str,
    pale: float = 0.0,
    deepest: float | None = None,
) -> str:
    """A table of cells under the names of columns, beside the names of rows.

    :param across: the meaning of the columns, and `down`: that of the rows
    :param pale: the number up to which cells have no color
    :param deepest: the number with the deepest color; None for the largest
    """
    low = math.log1p(pale)
    most = math.log1p(deepest or max((cell.value for line in cells for cell in line), default=0.0)) - low
    marks = [text(LEFT, 14, f"{across} →", "side"), text(0, TOP - 8, f"{down} ↓", "side")]
    marks += [text(LEFT + WIDE * (i + 0.5), TOP - 8, name, "kind", "middle") for i, name in enumerate(columns)]
    for y, (name, line) in enumerate(zip(rows, cells, strict=True)):
        marks.append(text(0, TOP + HIGH * (y + 0.5) + 4, name, "kind"))
        for x, cell in enumerate(line):
            marks.append(
                _cell(LEFT + WIDE * x, TOP + HIGH * y, cell, (math.log1p(cell.value) - low) / most if most > 0 else 0.0)
            )
    width, height = LEFT + WIDE * len(columns) + 2, TOP + HIGH * len(rows) + 2
    return drawing(width, height, says, more, *marks, style="i2s-figure i2s-heat")


def _cell(x: float, y: float, cell: HeatCell, depth: float) -> str:
    box = {"x": x, "y": y, "width": WIDE - 2, "height": HIGH - 2, "fill-opacity": min(1.0, max(0.0, depth)) * 0.75}
    frame = rect(x + 1, y + 1, WIDE - 4, HIGH - 4, "frame") if cell.framed else ""
    number = text(x + WIDE / 2 - 1, y + HIGH / 2 + 4, cell.words, "digit", "middle")
    return element("g", {}, title(cell.says), element("rect", {"class": "heat", **box}), frame, number)
