"""Plots as SVG: each is a function from numbers to one drawing.

    strip, columns, bars      stacked strips, stacked columns, a histogram
    bar_rows                  a bar for each name
    series                    values at places, such as layers, with lines between them
    layer_plot, rank_plot     small plots for display side by side
    dot_plot                  a line for each measured quantity, with a dot and its range for each series
    heat_map                  a table of numbers
    wrapped                   a map of a file: its bytes in lines

An `Axis` maps values to coordinates, and gives round numbers for its ticks; `levels` draws those of a vertical axis.
Colors are classes, and every mark has a description; legends are lists beside a drawing.

    >>> print(dot_plot([Measured("a", [Dot(1, 0.5, 2, "g0", "a: 1")])], "one", "", "s")[:57])
    <svg viewBox="0 0 720 72" class="i2s-figure i2s-measured"

    >>> print(rank_plot([(0, 0), (1, 1)], "right", "two ranks")[:72])
    <svg viewBox="0 0 160 160" class="facet" role="img"><title>two ranks</ti

    >>> print(series([Line("g0", [PlacedValue(0, 1.0, "a"), PlacedValue(1, 2.0, "b")])], "two", "", "scale", "layer")[:58])
    <svg viewBox="0 0 760 260" class="plot" role="img"><title>

    >>> print(heat_map(["a"], ["x"], [[HeatCell(10, "10", True)]], "one", "", across="read", down="made")[:60])
    <svg viewBox="0 0 216 80" class="i2s-figure i2s-heat" role="

    >>> rows = [BarRow("errors", (Share(3, "bad", "3 files"),), "3"), BarRow("none", (), "0")]
    >>> bar_rows(rows, "two rows", "")[:56]
    '<svg viewBox="0 0 900 44" class="bar-rows" role="img"><t'
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from i2s_spec.draw.svg import drawing, element, number, outline, rect, text, title
from i2s_spec.draw.text import cut, visible

#: Smallest visible width of a mark; thinner marks are drawn this wide.
THINNEST: Final = 0.9

#: Width of plots of columns and of series.
WIDTH: Final = 760


# --- axes ------------------------------------------------------------------------------------------------------------


class Axis(NamedTuple):
    """A scale on which values from `low` to `high` lie between two coordinates.

    On a logarithmic axis, `low` and `high` are exponents of ten.
    """

    low: float
    high: float
    start: float
    stop: float
    logarithmic: bool = True

    def place(self, value: float) -> float:
        """Return the coordinate of a value."""
        at = math.log10(value) if self.logarithmic else value
        return self.start + (self.stop - self.start) * (at - self.low) / (self.high - self.low)


def has_logarithm(value: float | None) -> bool:
    """Whether a logarithmic axis can show a value."""
    return value is not None and 0 < value < math.inf


def decades(values: Iterable[float | None]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis as exponents of ten, with a margin; it shows the values that it can."""
    plain = [value for value in values if value is not None and has_logarithm(value)] or [1.0]
    first, last = math.log10(min(plain)), math.log10(max(plain))
    margin = max(0.06 * (last - first), 0.08)
    return first - margin, last + margin


def ticks(low: float, high: float) -> list[float]:
    """Round numbers on a logarithmic axis: more in each decade if the axis has few decades."""
    decades = range(math.floor(low), math.ceil(high) + 1)
    stride = max(1, math.ceil(len(decades) / 8))
    parts: tuple[float, ...] = (1, 2, 5) if high - low < 2.5 else (1,)
    if high - low < 0.5:
        parts = (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    wanted = [part * 10.0**exponent for exponent in decades[::stride] for part in parts]
    ticks = [tick for tick in wanted if 0 < tick < math.inf and low <= math.log10(tick) <= high]
    return ticks if len(ticks) > 1 else [10.0**low, 10.0**high]


def levels(axis: Axis, left: float, right: float, at: Sequence[float] = (), spec: str = ".3g") -> Iterator[str]:
    """Yield a line from `left` to `right` at each tick of a vertical axis, and the number beside it.

    :param at: the ticks, for a linear axis
    """
    for tick in at or ticks(axis.low, axis.high):
        y = axis.place(tick)
        yield element("path", {"class": "grid", "d": f"M{number(left)} {number(y)}H{number(right)}"})
        yield text(left - 6, y + 4, format(tick, spec), "axis", "end")


# --- parts of a whole ------------------------------------------------------------------------------------------------


class Share(NamedTuple):
    """A part of a whole: its size, and its class."""

    size: float
    style: str
    says: str = ""


def _parts(shares: Sequence[Share], room: float) -> Iterator[tuple[Share, float, float]]:
    """Yield the shares that have a size, each with the start and the length of its mark in a room for all."""
    whole, start = sum(share.size for share in shares), 0.0
    for share in shares if whole else ():
        length = room * share.size / whole
        if share.size > 0:
            yield share, start, max(length, THINNEST)
        start += length


def strip(shares: Sequence[Share], says: str, width: float = 120, height: float = 12) -> str:
    """Parts of a whole side by side, over the whole width of the strip."""
    marks = [rect(x, 0, length, height, share.style) for share, x, length in _parts(shares, width)]
    return drawing(width, height, says, "", rect(0, 0, width, height, "ground"), *marks, style="strip")


def _column(shares: Sequence[Share], x: float, step: float, base: float, tall: float) -> str:
    """Return parts of a whole on top of each other, `tall` together, from `base` upwards."""
    wide = max(step * 0.9, 0.4)
    return "".join(rect(x, base - y - length, wide, length, share.style) for share, y, length in _parts(shares, tall))


def columns(
    stacks: Sequence[tuple[Sequence[Share], str]], says: str, more: str, ends: tuple[str, str] = ("", "")
) -> str:
    """Stacks side by side, each with its full height as 100 %, and a description of each.

    :param ends: the text below the first stack, and below the last
    """
    left, height = 48, 170
    base = height - (20 if any(ends) else 4)
    step = (WIDTH - left) / max(1, len(stacks))
    marks = [*levels(Axis(0, 1, base, 8, False), left, WIDTH, (0, 0.25, 0.5, 0.75, 1), ".0%")]
    marks += [text(left, height - 5, ends[0], "axis")] if ends[0] else []
    marks += [text(WIDTH, height - 5, ends[1], "axis", "end")] if ends[1] and len(stacks) > 1 else []
    for place, (shares, message) in enumerate(stacks):
        column = _column(shares, left + place * step, step, base, base - 8)
        marks.append(element("g", {"data-i": str(place)}, title(message), column))
    return drawing(WIDTH, height, says, more, *marks, style="plot")


def bars(shares: Sequence[Share], says: str) -> str:
    """Return a histogram: one bar for each part, with its name below and its share of the whole above."""
    width, height, whole = 220, 110, sum(share.size for share in shares) or 1
    step, base, marks = width / max(1, len(shares)), height - 16, ""
    for place, share in enumerate(shares):
        part = share.size / whole
        tall = max((base - 16) * part, THINNEST if share.size else 0)
        x, name = place * step, share.says
        marks += rect(x + step * 0.12, base - tall, step * 0.76, tall, share.style, f"{name}: {share.size:,.0f}")
        marks += text(x + step / 2, base - tall - 4, f"{part:.1%}", "axis", "middle")
        marks += text(x + step / 2, height - 4, name, "axis", "middle")
    floor = element("path", {"class": "grid", "d": f"M0 {number(base)}H{number(width)}"})
    return drawing(width, height, says, "", marks, floor, style="bars")


#: Width of rows of bars, height of a row and of a bar; where names end, and the width of the words at the end.
ROWS: Final = 900
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


def bar_rows(rows: Sequence[BarRow], says: str, more: str) -> str:
    """Bars below each other; the longest one takes the whole width between names and words.

    :param says: the title of the drawing, and `more`: its description
    """
    longest = max((sum(share.size for share in row.shares) for row in rows), default=0) or 1
    room = ROWS - NAMES - ENDS
    marks = []
    for place, row in enumerate(rows):
        y, x, inside = place * ROW + (ROW - BAR) / 2, float(NAMES), ""
        for share in row.shares:
            if share.size > 0:
                length = max(room * share.size / longest, THINNEST)
                inside += rect(x, y, length, BAR, share.style, share.says)
                x += length
        whole = visible(row.name, 4096, bare=True)
        label = text(NAMES - 8, y + BAR - 3, cut(whole, NAME, middle=True), "axis", "end")
        words = text(x + 6, y + BAR - 3, visible(row.words, bare=True), "axis")
        marks.append(element("g", {}, title(whole), label, inside, words))
    return drawing(ROWS, max(1, len(rows)) * ROW, says, more, *marks, style="bar-rows")


# --- values at places ------------------------------------------------------------------------------------------------

#: Margins of a plot of series.
_LEFT, _TOP, _BOTTOM = 70.0, 12.0, 42.0

#: Most places that are named below the axis.
_NAMED: Final = 16


class PlacedValue(NamedTuple):
    """A value at a place from 0 on, its description, and a number by which a script finds it."""

    place: int
    value: float
    says: str
    data: int | None = None


class Line(NamedTuple):
    """The class of a series, and its values by ascending place."""

    style: str
    values: Sequence[PlacedValue]


def series(
    lines: Sequence[Line], says: str, more: str, quantity: str = "", across: str = "", height: float = 260
) -> str:
    """Values on a logarithmic axis, those of a series joined; a value without a logarithm is a cross at the bottom.

    :param quantity: the quantity of the vertical axis
    :param across: the meaning of the places, whose numbers are then below the axis
    """
    every = [value for line in lines for value in line.values]
    last = max((each.place for each in every), default=0)
    base, step = height - (_BOTTOM if across else 4), (WIDTH - _LEFT - 12) / (last + 1)
    axis = Axis(*decades(each.value for each in every), base - 8, _TOP)

    def x(place: int) -> float:
        return _LEFT + (place + 0.5) * step

    marks = [*levels(axis, _LEFT, WIDTH)]
    if across:
        named = range(0, last + 1, max(1, -(-(last + 1) // _NAMED)))
        marks += [text(x(place), base + 14, str(place), "axis", "middle") for place in named]
        marks.append(text((_LEFT + WIDTH) / 2, height - 6, across, "axis", "middle"))
    marks.append(text(4, 12, quantity, "axis") if quantity else "")
    for line in lines:
        points = [each for each in line.values if has_logarithm(each.value)]
        marks.append(_joined([(x(each.place), axis.place(each.value)) for each in points], f"line {line.style}"))
    for style, each in ((line.style, each) for line in lines for each in line.values):
        at: dict[str, str | float | None] = {
            "class": "cross",
            "d": f"M{number(x(each.place) - 4)} {number(base - 8)}l8 8m0 -8l-8 8",
        }
        if is_point := has_logarithm(each.value):
            at = {"class": style, "cx": x(each.place), "cy": axis.place(each.value), "r": 3.2}
        at["data-i"] = None if each.data is None else str(each.data)
        marks.append(element("circle" if is_point else "path", at, title(each.says)))
    return drawing(WIDTH, height, says, more, *marks, style="plot")


def _joined(points: Sequence[tuple[float, float]], style: str) -> str:
    """Return a line through points; nothing for a single one."""
    path = "L".join(f"{number(x)} {number(y)}" for x, y in points)
    return element("path", {"class": style, "d": f"M{path}"}) if len(points) > 1 else ""


# --- small plots -----------------------------------------------------------------------------------------------------

#: Side of a plot of ranks, size of its points, and the margin around them.
SIDE: Final = 160
POINT: Final = 3.0
MARGIN: Final = 6

#: Size of a plot of layers, where its columns end and its line of values begins, and the left margin.
SMALL_PLOT_WIDTH: Final = 300
TALL: Final = 150
COLUMNS: Final = 74
LINE: Final = 88
SMALL_PLOT_LEFT: Final = 40


class Layer(NamedTuple):
    """The data of one layer: its number, parts of a whole, a value (None or NaN if it has none), and a description."""

    layer: int
    shares: Sequence[Share]
    value: float | None
    says: str
    data: int | None = None


def rank_plot(points: Sequence[tuple[float, float]], style: str, says: str) -> str:
    """Points with both coordinates from 0 to 1 in a square, the origin below on the left.

    :param style: the class of the points
    """
    room = SIDE - 2 * MARGIN - POINT
    boxes = [(MARGIN + room * x, MARGIN + room * (1 - y), POINT, POINT) for x, y in points]
    ground = rect(0, 0, SIDE, SIDE, "ground")
    return drawing(SIDE, SIDE, says, "", ground, outline(boxes, f"dots {style}"), style="facet")


def layer_plot(layers: Sequence[Layer], low: float, high: float, says: str, more: str) -> str:
    """Columns of shares over the layers, and below them a line of values on a logarithmic axis.

    :param layers: by ascending number
    :param low: with `high`, the ends of the axis of values, as exponents of ten; equal for plots that are compared
    """
    first, last = (layers[0].layer, layers[-1].layer) if layers else (0, 0)
    step = (SMALL_PLOT_WIDTH - SMALL_PLOT_LEFT) / (last - first + 1)
    axis = Axis(low, high, TALL - 20, LINE + 4)
    labels = ((12, "100%"), (COLUMNS, "0%"), (LINE + 8, f"{10**high:.2g}"), (TALL - 16, f"{10**low:.2g}"))
    marks = [text(SMALL_PLOT_LEFT - 5, y, words, "axis", "end") for y, words in labels]
    marks += [text(SMALL_PLOT_LEFT + step / 2, TALL - 2, f"layer {first}", "axis", "middle")] if layers else []
    if last > first:
        marks.append(text(SMALL_PLOT_WIDTH - step / 2, TALL - 2, str(last), "axis", "middle"))
    points = []
    for each in layers:
        x = SMALL_PLOT_LEFT + (each.layer - first) * step
        inside = _column(each.shares, x, step, COLUMNS, COLUMNS - 4)
        if each.value is not None and has_logarithm(each.value):
            y, radius = axis.place(each.value), min(3.0, max(1.2, step / 3))
            points.append((x + step / 2, y))
            inside += element("circle", {"class": "value", "cx": x + step / 2, "cy": y, "r": radius})
        marks.append(element("g", {"data-i": None if each.data is None else str(each.data)}, title(each.says), inside))
    return drawing(SMALL_PLOT_WIDTH, TALL, says, more, _joined(points, "grid"), *marks, style="facet wide")


# --- dot plot --------------------------------------------------------------------------------------------------------

DOT_PLOT_WIDTH: Final = 720
DOT_PLOT_LEFT: Final = 300
DOT_PLOT_ROW: Final = 22

#: Values further apart than this are drawn on a logarithmic axis.
APART: Final = 12.0

#: The smallest value of an axis: below it floats have too few bits for its steps.
_LEAST: Final = 1e-300


class Dot(NamedTuple):
    """A value with its range, its class, and its description."""

    value: float
    low: float
    high: float
    style: str
    says: str


class Measured(NamedTuple):
    """A measured quantity, and a dot for each series that has it."""

    name: str
    dots: Sequence[Dot]


def dot_plot(rows: Sequence[Measured], says: str, more: str, unit: str) -> str:
    """Measurements on a common axis: from 0, or logarithmic if they are far apart.

    :raises ValueError: for a value that is negative or not finite
    """
    ends = [end for row in rows for dot in row.dots for end in (dot.low, dot.value, dot.high)]
    if not ends or not all(0 <= end < math.inf for end in ends):
        raise ValueError("measured values must be finite numbers from 0 on, at least one")
    axis, at = _measuring_axis(min(ends), max(ends))
    floor = len(rows) * DOT_PLOT_ROW + 4
    marks = []
    for tick in at:
        x = axis.place(tick)
        marks.append(element("path", {"class": "grid-line", "d": f"M{number(x)} 2V{floor}"}))
        marks.append(text(x, floor + 15, _short(tick), "offset", "middle"))
    for line, row in enumerate(rows):
        y = line * DOT_PLOT_ROW + DOT_PLOT_ROW / 2 + 2
        if line % 2 == 0:
            marks.insert(0, rect(0, y - DOT_PLOT_ROW / 2, DOT_PLOT_WIDTH, DOT_PLOT_ROW, "stripe odd"))
        marks.append(text(4, y + 4, row.name, "kind"))
        for dot in row.dots:
            low, value, high = (axis.place(end) for end in (dot.low, dot.value, dot.high))
            way = f"M{number(low)} {number(y)}H{number(high)}"
            whisker = element("path", {"class": f"whisker {dot.style}", "d": way})
            point = element("circle", {"class": f"measured {dot.style}", "cx": value, "cy": y, "r": 4.5})
            marks.append(element("g", {}, title(dot.says), whisker, point))
    how = ", logarithmic axis" if axis.logarithmic else ""
    marks.append(text((DOT_PLOT_LEFT + DOT_PLOT_WIDTH) / 2, floor + 33, f"{unit}{how}", "side", "middle"))
    return drawing(DOT_PLOT_WIDTH, floor + 46, says, more, *marks, style="i2s-figure i2s-measured")


def _measuring_axis(least: float, most: float) -> tuple[Axis, list[float]]:
    """Return the axis of measured values, and its ticks: four to eight equal steps from 0, or a logarithmic axis."""
    start, stop = DOT_PLOT_LEFT + 8, DOT_PLOT_WIDTH - 22
    if least > 0 and most / least > APART:
        low, high = decades((least, most))
        return Axis(low, high, start, stop), ticks(low, high)[:9]
    top = most if most >= _LEAST else 1.0
    power: float = 10.0 ** math.floor(math.log10(top))
    step = next(power * part for part in (0.2, 0.25, 0.5, 1, 2) if top / (power * part) <= 6)
    count = math.ceil(top / step)
    return Axis(0.0, step * count, start, stop, False), [step * i for i in range(count + 1)]


def _short(value: float) -> str:
    """Return a number of an axis: thousands and millions with letters, small ones as powers."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


# --- heat map --------------------------------------------------------------------------------------------------------
# The larger a number, the deeper its cell, on a logarithmic scale.

#: Width and height of a cell, and the room for the names of rows and of columns.
CELL_WIDTH: Final = 96
CELL_HEIGHT: Final = 34
HEAT_MAP_LEFT: Final = 118
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
    """Return a table of cells under the names of columns, beside the names of rows.

    :param across: the meaning of the columns, and `down`: that of the rows
    :param pale: the number up to which cells have no color
    :param deepest: the number with the deepest color; None for the largest
    """
    low = math.log1p(pale)
    most = math.log1p(deepest or max((cell.value for line in cells for cell in line), default=0.0)) - low
    left, top, wide, tall = HEAT_MAP_LEFT, TOP, CELL_WIDTH, CELL_HEIGHT
    marks = [text(left, 14, f"{across} →", "side"), text(0, top - 8, f"{down} ↓", "side")]
    marks += [text(left + wide * (i + 0.5), top - 8, name, "kind", "middle") for i, name in enumerate(columns)]
    for row, (name, line) in enumerate(zip(rows, cells, strict=True)):
        y = top + tall * row
        marks.append(text(0, y + tall / 2 + 4, name, "kind"))
        for column, cell in enumerate(line):
            x, depth = left + wide * column, (math.log1p(cell.value) - low) / most if most > 0 else 0.0
            box = {"x": x, "y": y, "width": wide - 2, "height": tall - 2}
            heat = element("rect", {"class": "heat", **box, "fill-opacity": min(1.0, max(0.0, depth)) * 0.75})
            frame = rect(x + 1, y + 1, wide - 4, tall - 4, "frame") if cell.framed else ""
            words = text(x + wide / 2 - 1, y + tall / 2 + 4, cell.words, "digit", "middle")
            marks.append(element("g", {}, title(cell.says), heat, frame, words))
    width, height = left + wide * len(columns) + 2, top + tall * len(rows) + 2
    return drawing(width, height, says, more, *marks, style="i2s-figure i2s-heat")


# --- map of a file ---------------------------------------------------------------------------------------------------


class Segment(NamedTuple):
    """Bytes from `start` to `stop`, their class, and their description."""

    start: int
    stop: int
    style: str
    says: str


def wrapped(
    segments: Iterable[Segment],
    size: int,
    lines: int,
    says: str,
    more: str,
    marks: Iterable[Segment] = (),
) -> str:
    """Bytes to scale in lines of equal length, in reading order; each segment is one mark with a description.

    A segment that is thinner than the smallest mark is drawn that wide, over its neighbors; of several that would
    overlap, only the first is drawn.

    :param size: bytes of the whole, which may be 0
    :param lines: the number of lines
    :param marks: positions that are marked below their lines
    """
    width, tall, gap = 1000.0, 14.0, 6.0
    per = max(size, 1) / lines
    wide, thin, taken = [], [], -1.0
    for place, segment in enumerate(segments):
        start, stop = min(segment.start, size), min(segment.stop, size)
        first, last = _place(start, per, lines), _place(stop, per, lines)
        length = (stop - start) / per * width
        if length < THINNEST:
            at = first[0] * width + first[1] * width
            if at - taken < THINNEST and taken >= 0:
                continue
            taken = at
            x = min(first[1] * width, width - THINNEST)
            box = [(x, first[0] * (tall + gap), THINNEST, tall)]
            thin.append(outline(box, f"{segment.style} thin", segment.says, place))
            continue
        box = []
        for line in range(first[0], last[0] + 1):
            begin = first[1] * width if line == first[0] else 0.0
            end = last[1] * width if line == last[0] else width
            if end > begin:
                box.append((begin, line * (tall + gap), end - begin, tall))
        wide.append(outline(box, segment.style, segment.says, place))
    below = []
    for mark in marks:
        line, part = _place(min(mark.start, size), per, lines)
        length = max((min(mark.stop, size) - mark.start) / per * width, 6)
        x = min(part * width, width - 6)
        below.append(rect(x, line * (tall + gap) + tall + 1, min(length, width - x), gap - 2, mark.style, mark.says))
    return drawing(width, lines * (tall + gap), says, more, *wide, *thin, *below, style="map")


def _place(at: int, per: float, lines: int) -> tuple[int, float]:
    """Return the line of a byte, and its position in it, from 0 to 1."""
    line = min(int(at / per), lines - 1)
    return line, min(max(at / per - line, 0.0), 1.0)
