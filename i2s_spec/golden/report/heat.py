"""This module draws the drift of every tap as a heat map: a line for each kind of tap, a column for each layer."""

from __future__ import annotations

from math import isfinite, log10
from typing import Final

from i2s_spec.draw.svg import drawing, element, number, rect, text, title
from i2s_spec.draw.text import visible
from i2s_spec.errors import counted
from i2s_spec.golden.replay.result import Comparison, TapResult

#: Relative L2 distances that are drawn palest and deepest.
PALE: Final = 1e-8
DEEP: Final = 1.0

#: Layers and kinds of taps that are drawn.
LAYERS: Final = 256
KINDS: Final = 96

#: Width and height of a cell, and the room for names.
_WIDE: Final = 26.0
_HIGH: Final = 17.0
_LEFT: Final = 150.0
_TOP: Final = 52.0

#: Width of the legend, in a line of its own: a phone shows it without scrolling.
_LEGEND: Final = 250.0

#: Characters of a name that there is room for.
_NAME: Final = 23

#: What is drawn with a frame, because it is wrong by itself.
_FRAMED: Final = ("wrong", "shape")


def taps_heat(result: Comparison) -> str:
    """The heat map; empty where no tap is in a layer, or no drift is known.

    Taps of one kind have one name without its layer: `attn_norm-3` and `attn_norm-4` stand in one line.
    """
    cells: dict[str, dict[int, TapResult]] = {}
    for tap in result.taps:
        if tap.layer is not None and tap.layer < LAYERS and (tap.drift is not None or tap.status in _FRAMED):
            cells.setdefault(_kind(tap), {})[tap.layer] = tap
    shown = dict(list(cells.items())[:KINDS])
    if not shown:
        return ""
    layers = 1 + max(layer for found in shown.values() for layer in found)
    marks = _axes(list(shown), layers)
    for line, found in enumerate(shown.values()):
        marks += [_cell(_LEFT + _WIDE * layer, _TOP + _HIGH * line, tap) for layer, tap in found.items()]
    worst = max((tap for found in shown.values() for tap in found.values()), key=lambda tap: _far(tap.drift))
    more = (
        f"{counted(len(shown), 'kind')} of taps by {counted(layers, 'layer')}; the deeper a cell, "
        f"the larger the relative L2 distance from the "
        f"record. The largest is that of {visible(worst.name, bare=True)}. A frame marks taps that are wrong by themselves."
    )
    width, height = max(_LEFT + _WIDE * layers, _LEGEND) + 4, _TOP + _HIGH * len(shown) + 4
    return _sized(drawing(width, height, "Drift by layer and tap", more, *marks, style="heat-map"), width)


def _sized(svg: str, width: float) -> str:
    """At its natural size: cells are as large for two layers as for thirty."""
    return svg.replace("<svg ", f'<svg width="{number(width)}" ', 1)


def _kind(tap: TapResult) -> str:
    return tap.name.replace(f"blk.{tap.layer}.", "", 1).replace(f"-{tap.layer}", "", 1)


def _cut(kind: str) -> str:
    """A kind as it fits beside the cells."""
    shown = visible(kind, bare=True)
    return shown if len(shown) <= _NAME else shown[: _NAME - 1] + "…"


def _axes(kinds: list[str], layers: int) -> list[str]:
    marks = [text(0, 30, "tap ↓", "axis"), text(_LEFT, 30, "layer →", "axis")]
    for step in range(5):
        share = step / 4
        marks.append(element("rect", {"class": "hot", "x": 42 + 24 * step, "y": 3, "width": 22, "height": 11,
                                      "fill-opacity": _depth(share)}))  # fmt: skip
    marks.append(text(0, 12, f"{PALE:.0e}", "axis"))
    marks.append(text(166, 12, f"{DEEP:g} and more", "axis"))
    every = max(1, layers // 24)
    for layer in range(0, layers, every):
        marks.append(text(_LEFT + _WIDE * (layer + 0.5) - 1, _TOP - 6, str(layer), "axis", "middle"))
    for line, kind in enumerate(kinds):
        marks.append(text(0, _TOP + _HIGH * (line + 0.5) + 4, _cut(kind), "axis"))
    return marks


def _cell(x: float, y: float, tap: TapResult) -> str:
    share = (log10(_far(tap.drift)) - log10(PALE)) / (log10(DEEP) - log10(PALE))
    far = "unknown" if tap.drift is None else f"{tap.drift:.3g}"
    says = f"{visible(tap.name, bare=True)}: {tap.status}, drift {far}"
    box: dict[str, str | float | None] = {
        "class": "hot", "x": x, "y": y, "width": _WIDE - 2, "height": _HIGH - 2, "fill-opacity": _depth(share),
    }  # fmt: skip
    frame = rect(x + 1, y + 1, _WIDE - 4, _HIGH - 4, "frame") if tap.status in _FRAMED else ""
    return element("g", {}, title(says), element("rect", box), frame)


def _far(drift: float | None) -> float:
    """A distance as it is drawn: what is not finite, or not known, is as far as can be."""
    return DEEP if drift is None or not isfinite(drift) else min(max(drift, PALE), DEEP)


def _depth(share: float) -> float:
    return 0.06 + 0.9 * share
