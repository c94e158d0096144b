"""This module draws rooflines: what a processor can do at most for each byte that it reads, and what kernels reach.

To the left the roof is memory: as many products as the bytes give that arrive. To the right it is arithmetic: as many
as the multipliers make. A kernel stands where its work puts it, and as high as it was measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final, NamedTuple

from i2s_spec.draw.plot import ticks
from i2s_spec.draw.svg import drawing, element, number, text, title

WIDTH: Final = 720
HEIGHT: Final = 330
LEFT: Final = 64
RIGHT: Final = WIDTH - 28
FLOOR: Final = 280
TOP: Final = 16

#: From a roof to the base of the words over it: a dot on the roof does not touch them.
ABOVE: Final = 13


class RooflinePoint(NamedTuple):
    """A kernel: work for each byte, work in a second, the class that it is drawn in, and what is said of it."""

    intensity: float
    speed: float
    style: str
    says: str


class Roof(NamedTuple):
    """The limits: bytes in a second, and work in a second, with the name of each."""

    bandwidth: float
    peak: float
    memory: str
    arithmetic: str


def roofline(roof: Roof, places: Sequence[RooflinePoint], says: str, more: str, units: tuple[str, str]) -> str:
    """The roof and the kernels under it, both axes logarithmic.

    :param units: of work for each byte, and of work in a second
    :raises ValueError: for a number that is not positive and finite, and without places
    """
    every = [roof.bandwidth, roof.peak, *(each for place in places for each in place[:2])]
    if not places or not all(0 < each < math.inf for each in every):
        raise ValueError("a roofline has kernels, and its numbers are positive and finite")
    left, right = min(place.intensity for place in places) / 2, max(place.intensity for place in places) * 2
    low = min(roof.bandwidth * left, *(place.speed for place in places)) / 2
    x, y = _Scale(left, right, LEFT, RIGHT), _Scale(low, roof.peak * 2.5, FLOOR, TOP)
    marks = _grid(x, y, (left, right), (low, roof.peak * 2.5))
    knee = min(max(roof.peak / roof.bandwidth, left), right)
    points = [(left, roof.bandwidth * left), (knee, min(roof.peak, roof.bandwidth * knee)), (right, roof.peak)]
    path = "L".join(f"{number(x(a))} {number(y(b))}" for a, b in points)
    marks.append(
        element("path", {"class": "axis-line roof", "d": f"M{path}"}, title(f"{roof.memory}; {roof.arithmetic}"))
    )
    marks.append(text(RIGHT - 4, y(roof.peak) - ABOVE, roof.arithmetic, "side", "end"))
    marks.append(_along(points[0], points[1], x, y, roof.memory))
    for place in places:
        dot: dict[str, str | float | None] = {
            "class": f"measured {place.style}", "cx": x(place.intensity), "cy": y(place.speed), "r": 4.5
        }  # fmt: skip
        marks.append(element("g", {}, title(place.says), element("circle", dot)))
    marks.append(text(WIDTH / 2, HEIGHT - 8, f"{units[0]}, logarithmic axis", "side", "middle"))
    marks.append(text(0, 14, units[1], "side"))
    return drawing(WIDTH, HEIGHT, says, more, *marks, style="i2s-figure i2s-measured i2s-roof")


def _along(start: tuple[float, float], stop: tuple[float, float], x: _Scale, y: _Scale, words: str) -> str:
    """Words over the middle of a line, along it: above the roof, where no kernel is."""
    (left, low), (right, high) = ((x(a), y(b)) for a, b in (start, stop))
    slope = math.degrees(math.atan2(high - low, right - left))
    turned = f"translate({number((left + right) / 2)} {number((low + high) / 2)}) rotate({number(slope)})"
    label: dict[str, str | float | None] = {
        "x": 0.0, "y": -ABOVE, "class": "side", "text-anchor": "middle", "transform": turned
    }  # fmt: skip
    return element("text", label, escape(words))


class _Scale:
    """Where a value is on a logarithmic axis between two values, in pixels."""

    def __init__(self, least: float, most: float, start: float, stop: float) -> None:
        self._low, self._wide = math.log(least), math.log(most) - math.log(least)
        self._start, self._stop = start, stop

    def __call__(self, value: float) -> float:
        return self._start + (self._stop - self._start) * (math.log(value) - self._low) / self._wide


def _grid(x: _Scale, y: _Scale, across: tuple[float, float], up: tuple[float, float]) -> list[str]:
    """Lines at powers of four across, and at 1, 2 and 5 of each power of ten upwards."""
    marks = []
    for power in range(math.ceil(math.log(across[0], 4)), math.floor(math.log(across[1], 4)) + 1):
        at = x(4.0**power)
        marks.append(element("path", {"class": "grid-line", "d": f"M{number(at)} {TOP}V{FLOOR}"}))
        marks.append(text(at, FLOOR + 15, f"{4**power:,}" if power >= 0 else f"{4.0**power:g}", "offset", "middle"))
    for tick in ticks(math.log10(up[0]), math.log10(up[1])):
        at = y(tick)
        marks.append(element("path", {"class": "grid-line", "d": f"M{LEFT} {number(at)}H{RIGHT}"}))
        marks.append(text(LEFT - 6, at + 4, f"{round(tick):,}" if tick >= 1 else f"{tick:g}", "offset", "end"))
    return marks
