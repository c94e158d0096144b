"""This module draws curves as SVG: values over steps, on a logarithmic axis, with the names of the curves at their ends.

A drawing in a separate file contains its own colors, for light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from i2s_spec.draw.plot import decades, ticks
from i2s_spec.draw.svg import drawing, element, number, text

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
    """A drawing as a separate file."""
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        "</title>", f"</title><style>{escape(style, quote=False)}</style>", 1
    )
