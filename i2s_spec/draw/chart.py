"""Plots as SVG: each is a function from numbers to one drawing.

    strip, columns, bars      stacked strips, maps of files among them; stacked columns; bars
    points                    points on a logarithmic axis
    dot_plot                  a line for each measured quantity, with a dot and its range for each series
    rank_plot, layer_plot     small plots for display side by side
    layer_lines               a line by layer for each kind of tensor
    curves                    values over steps
    heat_map                  a table of numbers
    bar_rows                  a bar for each name

Colors are classes, and every mark has a description.

    >>> print(dot_plot([Measured("a", [Dot(1, 0.5, 2, "g0", "a: 1")])], "one", "", "s")[:57])
    <svg viewBox="0 0 720 72" class="i2s-figure i2s-measured"

    >>> print(rank_plot([(0, 0), (1, 1)], "right", "two ranks")[:72])
    <svg viewBox="0 0 160 160" class="facet" role="img"><title>two ranks</ti

    >>> print(layer_lines([Line("g0", [LayerValue(0, 1.0, "a"), LayerValue(1, 2.0, "b")])], "two", "", "scale")[:58])
    <svg viewBox="0 0 760 260" class="plot" role="img"><title>

    >>> print(heat_map(["a"], ["x"], [[HeatCell(10, "10", True)]], "one", "", across="read", down="made")[:60])
    <svg viewBox="0 0 216 80" class="i2s-figure i2s-heat" role="

    >>> rows = [BarRow("errors", (Share(3, "bad", "3 files"),), "3"), BarRow("none", (), "0")]
    >>> bar_rows(rows, "two rows", "")[:56]
    '<svg viewBox="0 0 900 44" class="bar-rows" role="img"><t'
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from i2s_spec.draw.svg import drawing, element, number, outline, rect, text, title
from i2s_spec.draw.text import cut, visible

#: Smallest visible width of a mark; thinner marks are drawn this wide.
THINNEST: Final = 0.9


class Share(NamedTuple):
    """A part of a whole: its size, and its class."""

    size: float
    style: str
    says: str = ""


class Point(NamedTuple):
    """A value of a plot; if it is not a positive finite number, it is drawn at the bottom."""

    value: float
    style: str
    says: str
    data: int | None = None


class Segment(NamedTuple):
    """Bytes from `start` to `stop`, their class, and their description."""

    start: int
    stop: int
    style: str
    says: str


def strip(shares: Sequence[Share], says: str, width: float = 120, height: float = 12) -> str:
    """Parts of a whole side by side, over the whole width of the strip."""
    whole = sum(share.size for share in shares)
    marks, x = "", 0.0
    for share in shares if whole else ():
        length = width * share.size / whole
        if share.size > 0:
            marks += rect(x, 0, max(length, THINNEST), height, share.style)
        x += length
    return drawing(width, height, says, "", rect(0, 0, width, height, "ground"), marks, style="strip")


def columns(
    stacks: Sequence[tuple[Sequence[Share], str]],
    says: str,
    more: str,
    width: float = 760,
    height: float = 170,
    ends: tuple[str, str] = ("", ""),
) -> str:
    """Stacks side by side, each with its full height as 100 %, and a description of each.

    :param ends: the text below the first stack, and below the last
    """
    left, base = 48, height - (20 if any(ends) else 4)
    room, tall = width - left, base - 8
    step = room / max(1, len(stacks))
    marks = [
        text(left - 6, 8 + tall * (1 - part) + 4, f"{part:.0%}", "axis", "end")
        + element("path", {"class": "grid", "d": f"M{left} {number(8 + tall * (1 - part))}H{number(width)}"})
        for part in (0, 0.25, 0.5, 0.75, 1)
    ]
    marks += [text(left, height - 5, ends[0], "axis")] if ends[0] else []
    marks += [text(width, height - 5, ends[1], "axis", "end")] if ends[1] and len(stacks) > 1 else []
    for place, (shares, message) in enumerate(stacks):
        whole = sum(share.size for share in shares)
        x, y, inside = left + place * step, float(base), ""
        for share in shares if whole else ():
            length = tall * share.size / whole
            if share.size > 0:
                inside += rect(x, y - max(length, THINNEST), max(step * 0.9, 0.4), max(length, THINNEST), share.style)
            y -= length
        marks.append(element("g", {"data-i": str(place)}, title(message), inside))
    return drawing(width, height, says, more, *marks, style="plot")


def bars(shares: Sequence[Share], says: str, width: float = 220, height: float = 110) -> str:
    """Return a histogram: one bar for each part, with its name below and its share of the whole above."""
    whole = sum(share.size for share in shares) or 1
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


def points(values: Sequence[Point], says: str, more: str, width: float = 760, height: float = 190) -> str:
    """Values side by side on a logarithmic axis; a value without a logarithm is a cross at the bottom."""
    plain = [point.value for point in values if math.isfinite(point.value) and point.value > 0]
    left, top, base = 64, 12, height - (4 if len(plain) == len(values) else 22)
    low, high = decades(min(plain, default=1.0), max(plain, default=1.0))
    step = (width - left) / max(1, len(values))
    marks = []
    for tick in ticks(low, high):
        y = base - (base - top) * (math.log10(tick) - low) / (high - low)
        marks.append(text(left - 6, y + 4, f"{tick:.3g}", "axis", "end"))
        marks.append(element("path", {"class": "grid", "d": f"M{left} {number(y)}H{number(width)}"}))
    for place, point in enumerate(values):
        x = left + (place + 0.5) * step
        if math.isfinite(point.value) and point.value > 0:
            y = base - (base - top) * (math.log10(point.value) - low) / (high - low)
            at: dict[str, str | float | None] = {"class": point.style, "cx": x, "cy": y, "r": 3}
            name = "circle"
        else:
            y = height - 8
            at = {"class": "cross", "d": f"M{number(x - 4)} {number(y - 4)}l8 8m0 -8l-8 8"}
            name = "path"
        at["data-i"] = None if point.data is None else str(point.data)
        marks.append(element(name, at, title(point.says)))
    return drawing(width, height, says, more, *marks, style="plot")


def decades(low: float, high: float) -> tuple[float, float]:
    """Return the ends of a logarithmic axis that holds two values, as exponents of ten, with a margin."""
    first, last = math.log10(low), math.log10(high)
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


def wrapped(
    segments: Iterable[Segment],
    size: int,
    lines: int,
    says: str,
    more: str,
    width: float = 1000,
    marks: Iterable[Segment] = (),
) -> str:
    """Bytes to scale in lines of equal length, in reading order; each segment is one mark with a description.

    A segment that is thinner than the smallest mark is drawn that wide, over its neighbors; of several that would
    overlap, only the first is drawn.

    :param size: bytes of the whole, which may be 0
    :param lines: the number of lines
    :param marks: positions that are marked below their lines
    """
    tall, gap = 14.0, 6.0
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


# --- dot plot --------------------------------------------------------------------------------------------------------

DOT_PLOT_WIDTH: Final = 720
DOT_PLOT_LEFT: Final = 300
DOT_PLOT_ROW: Final = 22

#: Values further apart than this are drawn on a logarithmic axis.
APART: Final = 12.0


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
    axis = _Axis(ends)
    floor = len(rows) * DOT_PLOT_ROW + 4
    marks = []
    for tick in axis.ticks:
        x = axis.place(tick)
        marks.append(element("path", {"class": "grid-line", "d": f"M{number(x)} 2V{floor}"}))
        marks.append(text(x, floor + 15, _short(tick), "offset", "middle"))
    for line, row in enumerate(rows):
        y = line * DOT_PLOT_ROW + DOT_PLOT_ROW / 2 + 2
        if line % 2 == 0:
            marks.insert(0, rect(0, y - DOT_PLOT_ROW / 2, DOT_PLOT_WIDTH, DOT_PLOT_ROW, "stripe odd"))
        marks.append(text(4, y + 4, row.name, "kind"))
        marks += [_dot(dot, y, axis) for dot in row.dots]
    how = ", logarithmic axis" if axis.logarithmic else ""
    marks.append(text((DOT_PLOT_LEFT + DOT_PLOT_WIDTH) / 2, floor + 33, f"{unit}{how}", "side", "middle"))
    return drawing(DOT_PLOT_WIDTH, floor + 46, says, more, *marks, style="i2s-figure i2s-measured")


#: The smallest value of an axis: below it floats have too few bits for its steps.
_LEAST: Final = 1e-300


class _Axis:
    def __init__(self, ends: Sequence[float]) -> None:
        least, most = min(ends), max(ends)
        self.logarithmic = least > 0 and most / least > APART
        if self.logarithmic:
            self._low, self._high = decades(least, most)
            self.ticks = ticks(self._low, self._high)[:9]
        else:
            top = most if most >= _LEAST else 1.0
            step = _step(top)
            self._low, self._high = 0.0, step * math.ceil(top / step)
            self.ticks = [step * i for i in range(round(self._high / step) + 1)]

    def place(self, value: float) -> float:
        at = math.log10(value) if self.logarithmic else value
        return DOT_PLOT_LEFT + 8 + (DOT_PLOT_WIDTH - DOT_PLOT_LEFT - 30) * (at - self._low) / (self._high - self._low)


def _step(most: float) -> float:
    """Return a round step that divides the axis into four to eight parts."""
    power: float = 10.0 ** math.floor(math.log10(most))
    return next(power * part for part in (0.2, 0.25, 0.5, 1, 2) if most / (power * part) <= 6)


def _dot(dot: Dot, y: float, axis: _Axis) -> str:
    low, high = axis.place(dot.low), axis.place(dot.high)
    whisker = element("path", {"class": f"whisker {dot.style}", "d": f"M{number(low)} {number(y)}H{number(high)}"})
    point: dict[str, str | float | None] = {
        "class": f"measured {dot.style}",
        "cx": axis.place(dot.value),
        "cy": y,
        "r": 4.5,
    }
    return element("g", {}, title(dot.says), whisker, element("circle", point))


def _short(value: float) -> str:
    """Return a number of an axis: thousands and millions with letters, small ones as powers."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


# --- small plots -----------------------------------------------------------------------------------------------------
# Ranks against ranks, and values by layer.

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


def rank_plot(points: Sequence[tuple[float, float]], style: str, says: str, more: str = "") -> str:
    """Points with both coordinates from 0 to 1 in a square, the origin below on the left.

    :param style: the class of the points
    """
    room = SIDE - 2 * MARGIN - POINT
    boxes = [(MARGIN + room * x, MARGIN + room * (1 - y), POINT, POINT) for x, y in points]
    ground = rect(0, 0, SIDE, SIDE, "ground")
    return drawing(SIDE, SIDE, says, more, ground, outline(boxes, f"dots {style}"), style="facet")


def layer_plot(layers: Sequence[Layer], low: float, high: float, says: str, more: str) -> str:
    """Columns of shares over the layers, and below them a line of values on a logarithmic axis.

    :param layers: by ascending number
    :param low: with `high`, the ends of the axis of values, as exponents of ten; equal for plots that are compared
    """
    first, last = (layers[0].layer, layers[-1].layer) if layers else (0, 0)
    step = (SMALL_PLOT_WIDTH - SMALL_PLOT_LEFT) / (last - first + 1)
    marks = [text(SMALL_PLOT_LEFT - 5, y, words, "axis", "end") for y, words in ((12, "100%"), (COLUMNS, "0%"))]
    marks += [
        text(SMALL_PLOT_LEFT - 5, y, f"{10**exponent:.2g}", "axis", "end")
        for y, exponent in ((LINE + 8, high), (TALL - 16, low))
    ]
    marks += [text(SMALL_PLOT_LEFT + step / 2, TALL - 2, f"layer {first}", "axis", "middle")] if layers else []
    if last > first:
        marks.append(text(SMALL_PLOT_WIDTH - step / 2, TALL - 2, str(last), "axis", "middle"))
    path = []
    for each in layers:
        x = SMALL_PLOT_LEFT + (each.layer - first) * step
        inside = _column(each.shares, x, step)
        if each.value is not None and math.isfinite(each.value) and each.value > 0:
            y = LINE + 4 + (TALL - 20 - LINE - 4) * (1 - (math.log10(each.value) - low) / (high - low))
            path.append(f"{number(x + step / 2)} {number(y)}")
            inside += element(
                "circle", {"class": "value", "cx": x + step / 2, "cy": y, "r": min(3.0, max(1.2, step / 3))}
            )
        marks.append(element("g", {"data-i": None if each.data is None else str(each.data)}, title(each.says), inside))
    if len(path) > 1:
        marks.insert(0, element("path", {"class": "grid", "d": "M" + "L".join(path)}))
    return drawing(SMALL_PLOT_WIDTH, TALL, says, more, *marks, style="facet wide")


def _column(shares: Sequence[Share], x: float, step: float) -> str:
    whole, y, made = sum(share.size for share in shares), float(COLUMNS), ""
    for share in shares if whole else ():
        length = (COLUMNS - 4) * share.size / whole
        if share.size > 0:
            made += rect(x, y - max(length, THINNEST), max(step * 0.9, 0.4), max(length, THINNEST), share.style)
        y -= length
    return made


# --- layer lines -----------------------------------------------------------------------------------------------------
# The axis is logarithmic, the legend outside.

LAYER_LINES_WIDTH: Final = 760
HEIGHT: Final = 260
_LEFT, _TOP, _BOTTOM = 70.0, 12.0, 42.0

#: Most layers that are named below the axis.
_NAMED: Final = 16


class LayerValue(NamedTuple):
    """The value of a layer, its description, and a number by which a script finds it."""

    layer: int
    value: float
    says: str
    data: int | None = None


class Line(NamedTuple):
    """The class of a line, and its values by ascending layer."""

    style: str
    values: Sequence[LayerValue]


def layer_lines(lines: Sequence[Line], says: str, more: str, quantity: str) -> str:
    """Lines over the layers; a value that is not a positive finite number is a cross at the bottom.

    :param quantity: the quantity of the vertical axis
    """
    every = [value for line in lines for value in line.values]
    plain = [each.value for each in every if _has_place(each.value)]
    low, high = decades(min(plain, default=1.0), max(plain, default=1.0))
    last = max((each.layer for each in every), default=0)
    base, step = HEIGHT - _BOTTOM, (LAYER_LINES_WIDTH - _LEFT - 12) / (last + 1)

    def across(layer: int) -> float:
        return _LEFT + (layer + 0.5) * step

    def up(value: float) -> float:
        return base - 8 - (base - 8 - _TOP) * (math.log10(value) - low) / (high - low)

    marks = []
    for tick in ticks(low, high):
        marks.append(
            element("path", {"class": "grid", "d": f"M{number(_LEFT)} {number(up(tick))}H{LAYER_LINES_WIDTH}"})
        )
        marks.append(text(_LEFT - 6, up(tick) + 4, f"{tick:.3g}", "axis", "end"))
    for layer in range(0, last + 1, max(1, -(-(last + 1) // _NAMED))):
        marks.append(text(across(layer), base + 14, str(layer), "axis", "middle"))
    marks.append(text((_LEFT + LAYER_LINES_WIDTH) / 2, HEIGHT - 6, "layer", "axis", "middle"))
    marks.append(text(4, 12, quantity, "axis"))
    for line in lines:
        path = "L".join(f"{number(across(v.layer))} {number(up(v.value))}" for v in line.values if _has_place(v.value))
        if "L" in path:
            marks.append(element("path", {"class": f"line {line.style}", "d": f"M{path}"}))
    for line in lines:
        marks += [_mark(line.style, each, across(each.layer), up, base) for each in line.values]
    return drawing(LAYER_LINES_WIDTH, HEIGHT, says, more, *marks, style="plot")


def _has_place(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _mark(style: str, each: LayerValue, x: float, up: Callable[[float], float], base: float) -> str:
    data = None if each.data is None else str(each.data)
    if _has_place(each.value):
        at: dict[str, str | float | None] = {"class": style, "cx": x, "cy": up(each.value), "r": 3.2, "data-i": data}
        return element("circle", at, title(each.says))
    cross = f"M{number(x - 4)} {number(base - 8)}l8 8m0 -8l-8 8"
    return element("path", {"class": "cross", "d": cross, "data-i": data}, title(each.says))


# --- curves ----------------------------------------------------------------------------------------------------------
# Values over steps are on a logarithmic axis; the names of the curves are at their ends.
#
# A drawing in a separate file (`alone`) contains its own colors, for light and dark.

#: Colors of a drawing in a separate file: text and curves on the page's background.
STYLE: Final = (
    "svg{font:12px system-ui,sans-serif;background:#fff}.axis{fill:#555}.grid{stroke:#ddd}.curve{fill:none;stroke-width:2}"
    ".a{stroke:#2563a8}.b{stroke:#b4540a}.fill-a{fill:#2563a8}.fill-b{fill:#b4540a}"
    "@media (prefers-color-scheme:dark){svg{background:#14171b}.axis{fill:#a9b1ba}.grid{stroke:#343a42}"
    ".a{stroke:#7db4ee}.b{stroke:#f0a35e}.fill-a{fill:#7db4ee}.fill-b{fill:#f0a35e}}"
)

#: The width of a name at the end of its curve.
NAME_HEIGHT: Final = 14.0


class Curve(NamedTuple):
    """Points by ascending x with positive y, their class, and the name of the curve."""

    points: Sequence[tuple[float, float]]
    style: str
    name: str


def curves(lines: Sequence[Curve], says: str, more: str, below: str, width: float = 720, height: float = 300) -> str:
    """Curves over a common linear axis that begins at 0; the other axis is logarithmic.

    :param says: the title of the drawing, and `more`: its description
    :param below: the quantity of the horizontal axis
    :raises ValueError: for a point that these axes cannot show
    """
    heights = [y for line in lines for _, y in line.points]
    if not heights or not all(0 < y < math.inf for y in heights):
        raise ValueError("a curve on a logarithmic axis needs positive finite values, at least one")
    most = max(x for line in lines for x, _ in line.points) or 1
    low, high = decades(min(heights), max(heights))
    left, right, top, base = 44.0, width - 96, 10.0, height - 34

    def across(x: float) -> float:
        return left + (right - left) * x / most

    def up(y: float) -> float:
        return base - (base - top) * (math.log10(y) - low) / (high - low)

    marks = []
    for tick in ticks(low, high):
        marks.append(element("path", {"class": "grid", "d": f"M{number(left)} {number(up(tick))}H{number(right)}"}))
        marks.append(text(left - 6, up(tick) + 4, f"{tick:.3g}", "axis", "end"))
    for quarter in range(5):
        x = most * quarter / 4
        marks.append(text(across(x), base + 16, f"{x:,.0f}", "axis", "middle"))
    marks.append(text((left + right) / 2, height - 4, below, "axis", "middle"))
    taken: list[float] = []
    for line in sorted(lines, key=lambda line: -line.points[-1][1]):
        path = "L".join(f"{number(across(x))} {number(up(y))}" for x, y in line.points)
        marks.append(element("path", {"class": f"curve {line.style}", "d": f"M{path}"}))
        x, y = line.points[-1]
        at = max([up(y) + 4, *(each + NAME_HEIGHT for each in taken)])
        taken.append(at)
        marks.append(text(across(x) + 6, at, line.name, f"fill-{line.style}"))
    return drawing(width, height, says, more, *marks, style="curves")


def alone(svg: str, style: str = STYLE) -> str:
    """Return a drawing as a separate file."""
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        "</title>", f"</title><style>{escape(style, quote=False)}</style>", 1
    )


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
    marks = [text(HEAT_MAP_LEFT, 14, f"{across} →", "side"), text(0, TOP - 8, f"{down} ↓", "side")]
    marks += [
        text(HEAT_MAP_LEFT + CELL_WIDTH * (i + 0.5), TOP - 8, name, "kind", "middle") for i, name in enumerate(columns)
    ]
    for y, (name, line) in enumerate(zip(rows, cells, strict=True)):
        marks.append(text(0, TOP + CELL_HEIGHT * (y + 0.5) + 4, name, "kind"))
        for x, cell in enumerate(line):
            marks.append(
                _cell(
                    HEAT_MAP_LEFT + CELL_WIDTH * x,
                    TOP + CELL_HEIGHT * y,
                    cell,
                    (math.log1p(cell.value) - low) / most if most > 0 else 0.0,
                )
            )
    width, height = HEAT_MAP_LEFT + CELL_WIDTH * len(columns) + 2, TOP + CELL_HEIGHT * len(rows) + 2
    return drawing(width, height, says, more, *marks, style="i2s-figure i2s-heat")


def _cell(x: float, y: float, cell: HeatCell, depth: float) -> str:
    box = {
        "x": x,
        "y": y,
        "width": CELL_WIDTH - 2,
        "height": CELL_HEIGHT - 2,
        "fill-opacity": min(1.0, max(0.0, depth)) * 0.75,
    }
    frame = rect(x + 1, y + 1, CELL_WIDTH - 4, CELL_HEIGHT - 4, "frame") if cell.framed else ""
    number = text(x + CELL_WIDTH / 2 - 1, y + CELL_HEIGHT / 2 + 4, cell.words, "digit", "middle")
    return element("g", {}, title(cell.says), element("rect", {"class": "heat", **box}), frame, number)


# --- bar rows --------------------------------------------------------------------------------------------------------
# A row for each name, its parts side by side, all on one scale.

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
