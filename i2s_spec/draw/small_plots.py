"""This module draws small plots for display side by side, as SVG: ranks against ranks, and values by layer.

>>> print(rank_plot([(0, 0), (1, 1)], "right", "two ranks")[:72])
<svg viewBox="0 0 160 160" class="facet" role="img"><title>two ranks</ti
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from i2s_spec.draw.plot import THINNEST, Share
from i2s_spec.draw.svg import drawing, element, number, outline, rect, text, title

#: Side of a plot of ranks, size of its points, and the margin around them.
SIDE: Final = 160
POINT: Final = 3.0
MARGIN: Final = 6

#: Size of a plot of layers, where its columns end and its line of values begins, and the left margin.
WIDE: Final = 300
TALL: Final = 150
COLUMNS: Final = 74
LINE: Final = 88
LEFT: Final = 40


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
    step = (WIDE - LEFT) / (last - first + 1)
    marks = [text(LEFT - 5, y, words, "axis", "end") for y, words in ((12, "100%"), (COLUMNS, "0%"))]
    marks += [
        text(LEFT - 5, y, f"{10**exponent:.2g}", "axis", "end") for y, exponent in ((LINE + 8, high), (TALL - 16, low))
    ]
    marks += [text(LEFT + step / 2, TALL - 2, f"layer {first}", "axis", "middle")] if layers else []
    if last > first:
        marks.append(text(WIDE - step / 2, TALL - 2, str(last), "axis", "middle"))
    path = []
    for each in layers:
        x = LEFT + (each.layer - first) * step
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
    return drawing(WIDE, TALL, says, more, *marks, style="facet wide")


def _column(shares: Sequence[Share], x: float, step: float) -> str:
    whole, y, made = sum(share.size for share in shares), float(COLUMNS), ""
    for share in shares if whole else ():
        length = (COLUMNS - 4) * share.size / whole
        if share.size > 0:
            made += rect(x, y - max(length, THINNEST), max(step * 0.9, 0.4), max(length, THINNEST), share.style)
        y -= length
    return made
