"""This module draws plots as SVG: stacked strips, stacked columns, bars, points on a logarithmic axis, maps of files.

Each is a function from numbers to one drawing; colors are classes, and every mark has a description.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from i2s_spec.draw.svg import drawing, element, number, outline, rect, text, title

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
    """A histogram: one bar for each part, with its name below and its share of the whole above."""
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
    """The ends of a logarithmic axis that holds two values, as exponents of ten, with a margin."""
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
    """The line of a byte, and its position in it, from 0 to 1."""
    line = min(int(at / per), lines - 1)
    return line, min(max(at / per - line, 0.0), 1.0)
