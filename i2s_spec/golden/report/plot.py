"""This module draws how far a candidate drifts from a record, as SVG: relative L2 on a logarithmic axis."""

from __future__ import annotations

import html
from collections.abc import Sequence
from math import floor, isfinite, log10
from typing import Final, NamedTuple

from i2s_spec.draw.text import visible
from i2s_spec.golden.replay.result import Comparison
from i2s_spec.golden.replay.tolerance import FAIL

WIDTH: Final = 800
HEIGHT: Final = 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 14, 24, 42

#: The lower end of the axis: float32 does not resolve smaller differences.
LEAST: Final = 1e-8


class DriftPoint(NamedTuple):
    """One value: what it is called, how far it is off, what became of it."""

    label: str
    far: float
    status: str


def layers_plot(result: Comparison) -> str:
    """The drift of what leaves each layer; empty where nothing is known of it."""
    points = [DriftPoint(f"layer {layer}", far, "ok") for layer, far, _ in result.drift]
    return _plot(points, "layer", [str(layer) for layer, _, _ in result.drift]) if points else ""


def taps_plot(result: Comparison) -> str:
    """The drift of every tap in the order of computation; empty where nothing is known of it."""
    points = [DriftPoint(tap.name, tap.drift, tap.status) for tap in result.taps if tap.drift is not None]
    return _plot(points, "tap", None) if len(points) > 1 else ""


def _plot(points: Sequence[DriftPoint], what: str, ticks: Sequence[str] | None) -> str:
    far = [min(max(point.far, LEAST), 1e6) if isfinite(point.far) else 1e6 for point in points]
    low, high = floor(log10(min(far))), max(0, floor(log10(max(far))) + 1)
    low = min(low, high - 1)
    inner = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def x(at: int) -> float:
        return _LEFT + inner[0] * (at + 0.5) / len(points)

    def y(value: float) -> float:
        return _TOP + inner[1] * (high - log10(value)) / (high - low)

    parts = [f'<svg class="drift" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="relative L2 by {what}">']
    for power in range(low, high + 1, max(1, (high - low) // 6)):
        at = y(10.0**power)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">1e{power}</text>')
    if 10.0**low <= FAIL.relative <= 10.0**high:
        at = y(FAIL.relative)
        parts.append(f'<line class="bound" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
    parts.append(f'<text x="{(_LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{what}</text>')
    parts.append('<text x="4" y="12">relative L2</text>')
    path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in enumerate(far))
    parts.append(f'<polyline class="line" points="{path}"/>')
    for at, (point, value) in enumerate(zip(points, far, strict=True)):
        label = html.escape(visible(point.label, bare=True))
        radius = 4 if point.status in ("wrong", "flips") else 2.5
        parts.append(f'<circle class="dot {html.escape(point.status)}" cx="{x(at):.1f}" cy="{y(value):.1f}" r="{radius}">'
                     f"<title>{label}: {point.far:.3g}</title></circle>")  # fmt: skip
    if ticks:
        step = max(1, len(ticks) // 16)
        for at in range(0, len(ticks), step):
            parts.append(
                f'<text x="{x(at):.1f}" y="{HEIGHT - 24}" text-anchor="middle">{html.escape(ticks[at])}</text>'
            )
    return "\n".join([*parts, "</svg>"])
