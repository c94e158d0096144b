"""This module draws boxes on a grid and arrows between them, as SVG.

>>> print(flow([Box("a", 0, 0, ("first",)), Box("b", 1, 0, ("then",))], [Arrow("a", "b")], "two", "")[:60])
<svg viewBox="0 0 338 58" class="i2s-figure i2s-flow" role="
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from i2s_spec.draw.svg import drawing, element, number, rect, text

#: Size of a box, and the room between boxes: across and down.
WIDE: Final = 150.0
HIGH: Final = 54.0
ACROSS: Final = 34.0
DOWN: Final = 26.0


class Box(NamedTuple):
    """A box on the grid: its name, its column and row (fractions are allowed), a heading and the lines below it."""

    name: str
    column: float
    row: float
    words: Sequence[str]
    style: str = "plain"
    says: str = ""
    wide: float = 1


class Arrow(NamedTuple):
    """An arrow from a box to another, and the class that it is drawn in.

    :param around: how far left (or, if positive, right) of the boxes it goes, in pixels; 0 for the straight way
    """

    start: str
    stop: str
    style: str = ""
    around: float = 0


class Grid(NamedTuple):
    """The size of a box and the room between boxes."""

    wide: float = WIDE
    high: float = HIGH
    across: float = ACROSS
    down: float = DOWN


def flow(
    boxes: Sequence[Box], arrows: Sequence[Arrow], says: str, more: str, grid: Grid | None = None, margin: float = 2
) -> str:
    """Boxes and arrows.

    :param margin: room left and right of the boxes, for arrows that go around them
    """
    grid = grid or Grid()
    at = {box.name: _place(box, grid, margin) for box in boxes}
    marks = [_box(box, at[box.name]) for box in boxes]
    drawn = [_arrow(arrow, at[arrow.start], at[arrow.stop]) for arrow in arrows]
    ways = [x for arrow in arrows for x, _ in _way(at[arrow.start], at[arrow.stop], arrow.around)]
    width = max([x + wide for x, _, wide, _ in at.values()] + ways) + margin
    height = max(y + high for _, y, _, high in at.values()) + 2
    return drawing(width, height, says, more, *drawn, *marks, style="i2s-figure i2s-flow")


_Place = tuple[float, float, float, float]


def _place(box: Box, grid: Grid, margin: float) -> _Place:
    wide = grid.wide * box.wide + grid.across * (box.wide - 1)
    return margin + box.column * (grid.wide + grid.across), 2 + box.row * (grid.high + grid.down), wide, grid.high


def _box(box: Box, place: _Place) -> str:
    x, y, wide, high = place
    parts = [rect(x, y, wide, high, f"box {box.style}", box.says or " ".join(box.words))]
    first = y + high / 2 + 4.5 - 7.5 * (len(box.words) - 1)
    for line, words in enumerate(box.words):
        parts.append(text(x + wide / 2, first + 15 * line, words, "more" if line else "word", "middle"))
    return "".join(parts)


def _arrow(arrow: Arrow, start: _Place, stop: _Place) -> str:
    points = _way(start, stop, arrow.around)
    path = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)
    (x0, y0), (x1, y1) = points[-2:]
    line = element("path", {"class": f"arrow {arrow.style}".strip(), "d": path})
    return line + element("path", {"class": "head", "d": _head(x0, y0, x1, y1)})


def _way(start: _Place, stop: _Place, around: float) -> list[tuple[float, float]]:
    """The corners of an arrow: straight where boxes face each other, else with one bend half-way."""
    (x0, y0, w0, h0), (x1, y1, w1, h1) = start, stop
    if around:
        side = min(x0, x1) + around if around < 0 else max(x0 + w0, x1 + w1) + around
        ends = (x0, x1) if around < 0 else (x0 + w0, x1 + w1)
        return [(ends[0], y0 + h0 / 2), (side, y0 + h0 / 2), (side, y1 + h1 / 2), (ends[1], y1 + h1 / 2)]
    if abs(y0 - y1) < 1:
        right = x1 > x0
        return [(x0 + w0 if right else x0, y0 + h0 / 2), (x1 if right else x1 + w1, y1 + h1 / 2)]
    below = y1 > y0
    top, bottom = (y0 + h0 if below else y0), (y1 if below else y1 + h1)
    low, high = max(x0, x1), min(x0 + w0, x1 + w1)
    if high - low > 16:
        return [((low + high) / 2, top), ((low + high) / 2, bottom)]
    middle = bottom - 10 if below else bottom + 10
    return [(x0 + w0 / 2, top), (x0 + w0 / 2, middle), (x1 + w1 / 2, middle), (x1 + w1 / 2, bottom)]


def _head(x0: float, y0: float, x1: float, y1: float) -> str:
    """A small triangle whose point is the end of a line that goes along an axis."""
    size = 6
    across = (x1 > x0) - (x1 < x0) if abs(x1 - x0) > abs(y1 - y0) else 0
    down = 0 if across else ((y1 > y0) - (y1 < y0))
    a = (x1 - size * across - size * 0.6 * down, y1 - size * down - size * 0.6 * across)
    b = (x1 - size * across + size * 0.6 * down, y1 - size * down + size * 0.6 * across)
    return f"M{number(x1)} {number(y1)}L{number(a[0])} {number(a[1])}L{number(b[0])} {number(b[1])}z"
