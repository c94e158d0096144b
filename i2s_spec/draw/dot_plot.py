"""This module draws measurements as SVG: a line for each measured quantity, with a dot and its range for each series.

>>> print(dot_plot([Measured("a", [Dot(1, 0.5, 2, "g0", "a: 1")])], "one", "", "s")[:58])
<svg viewBox="0 0 720 72" class="i2s-figure i2s-measured"
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from i2s_spec.draw.plot import decades, ticks
from i2s_spec.draw.svg import drawing, element, number, rect, text, title

WIDTH: Final = 720
LEFT: Final = 300
HIGH: Final = 22

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
    floor = len(rows) * HIGH + 4
    marks = []
    for tick in axis.ticks:
        x = axis.place(tick)
        marks.append(element("path", {"class": "grid-line", "d": f"M{number(x)} 2V{floor}"}))
        marks.append(text(x, floor + 15, _short(tick), "offset", "middle"))
    for line, row in enumerate(rows):
        y = line * HIGH + HIGH / 2 + 2
        if line % 2 == 0:
            marks.insert(0, rect(0, y - HIGH / 2, WIDTH, HIGH, "stripe odd"))
        marks.append(text(4, y + 4, row.name, "kind"))
        marks += [_dot(dot, y, axis) for dot in row.dots]
    how = ", logarithmic axis" if axis.logarithmic else ""
    marks.append(text((LEFT + WIDTH) / 2, floor + 33, f"{unit}{how}", "side", "middle"))
    return drawing(WIDTH, floor + 46, says, more, *marks, style="i2s-figure i2s-measured")


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
        return LEFT + 8 + (WIDTH - LEFT - 30) * (at - self._low) / (self._high - self._low)


def _step(most: float) -> float:
    """A round step that divides the axis into four to eight parts."""
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
    """A number of an axis: thousands and millions with letters, small ones as powers."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
