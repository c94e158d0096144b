"""This module draws values by layer as SVG: a line for each kind of tensor, on a logarithmic axis, with a legend outside.

>>> print(layer_lines([Line("g0", [Value(0, 1.0, "a"), LayerValue(1, 2.0, "b")])], "two", "", "scale")[:58])
<svg viewBox="0 0 760 260" class="plot" role="img"><title>
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from i2s_spec.draw.plot import decades, ticks
from i2s_spec.draw.svg import drawing, element, number, text, title

WIDTH: Final = 760
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
    base, step = HEIGHT - _BOTTOM, (WIDTH - _LEFT - 12) / (last + 1)

    def across(layer: int) -> float:
        return _LEFT + (layer + 0.5) * step

    def up(value: float) -> float:
        return base - 8 - (base - 8 - _TOP) * (math.log10(value) - low) / (high - low)

    marks = []
    for tick in ticks(low, high):
        marks.append(element("path", {"class": "grid", "d": f"M{number(_LEFT)} {number(up(tick))}H{WIDTH}"}))
        marks.append(text(_LEFT - 6, up(tick) + 4, f"{tick:.3g}", "axis", "end"))
    for layer in range(0, last + 1, max(1, -(-(last + 1) // _NAMED))):
        marks.append(text(across(layer), base + 14, str(layer), "axis", "middle"))
    marks.append(text((_LEFT + WIDTH) / 2, HEIGHT - 6, "layer", "axis", "middle"))
    marks.append(text(4, 12, quantity, "axis"))
    for line in lines:
        path = "L".join(f"{number(across(v.layer))} {number(up(v.value))}" for v in line.values if _has_place(v.value))
        if "L" in path:
            marks.append(element("path", {"class": f"line {line.style}", "d": f"M{path}"}))
    for line in lines:
        marks += [_mark(line.style, each, across(each.layer), up, base) for each in line.values]
    return drawing(WIDTH, HEIGHT, says, more, *marks, style="plot")


def _has_place(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _mark(style: str, each: LayerValue, x: float, up: Callable[[float], float], base: float) -> str:
    data = None if each.data is None else str(each.data)
    if _has_place(each.value):
        at: dict[str, str | float | None] = {"class": style, "cx": x, "cy": up(each.value), "r": 3.2, "data-i": data}
        return element("circle", at, title(each.says))
    cross = f"M{number(x - 4)} {number(base - 8)}l8 8m0 -8l-8 8"
    return element("path", {"class": "cross", "d": cross, "data-i": data}, title(each.says))
