"""Drawings of flows, measurements, values by layer and their producers: nothing outside the frame, everything labeled."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from examples import examples
from hypothesis import example, given
from hypothesis import strategies as st

from i2s_site.flows import Arrow, Box, flow
from i2s_spec._version import __version__
from i2s_spec.draw import svg
from i2s_spec.draw.chart import DOT_PLOT_WIDTH, WIDTH, Dot, Line, Measured, PlacedValue, dot_plot, series
from i2s_spec.draw.text import made_by


def test_a_flow_has_its_boxes_and_arrows_inside() -> None:
    boxes = [Box("a", 0, 0, ("first", "<b>")), Box("b", 1, 0, ("second",)), Box("c", 0, 2, ("third",))]
    arrows = [Arrow("a", "b"), Arrow("a", "c"), Arrow("b", "c"), Arrow("a", "c", "residual", 80)]
    root = ElementTree.fromstring(flow(boxes, arrows, "says", "more"))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert [each.text for each in root.iter("text")] == ["first", "<b>", "second", "third"]
    ways = [path.attrib["d"] for path in root.iter("path") if path.attrib["class"].startswith("arrow")]
    assert len(ways) == len(arrows)
    assert sum(path.attrib["class"] == "head" for path in root.iter("path")) == len(arrows)
    for way in ways:
        numbers = [float(each) for each in re.findall(r"-?[\d.]+", way)]
        assert all(0 <= x <= width for x in numbers[::2])
        assert all(0 <= y <= height for y in numbers[1::2])
    assert ways[0].count("L") == 1, "straight where boxes stand side by side"


@given(st.lists(st.tuples(st.floats(0, 1e12), st.floats(0, 1e12)), min_size=1, max_size=12))
@example([(0.0, 5e-324)])
@examples(60)
def test_measurements_lie_on_their_axis(pairs: list[tuple[float, float]]) -> None:
    dots = [(min(pair), max(pair)) for pair in pairs]
    rows = [Measured(f"row {i}", [Dot(high, low, high, "g0", f"says {i}")]) for i, (low, high) in enumerate(dots)]
    root = ElementTree.fromstring(dot_plot(rows, "says", "more", "s"))
    places = [float(each.attrib["cx"]) for each in root.iter("circle")]
    assert all(300 <= place <= DOT_PLOT_WIDTH for place in places)
    order = sorted(range(len(dots)), key=lambda i: dots[i][1])
    assert all(places[a] <= places[b] + 0.02 for a, b in pairwise(order))


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_invalid_measurements_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="numbers from 0 on"):
        dot_plot([Measured("a", [Dot(value, value, value, "g0", "")])], "", "", "s")
    with pytest.raises(ValueError, match="at least one"):
        dot_plot([], "", "", "s")


@given(st.lists(st.lists(st.floats(width=32), min_size=1, max_size=8), min_size=1, max_size=5), st.booleans())
@examples(60)
def test_series_show_every_value(values_by_line: list[list[float]], is_by_layer: bool) -> None:
    lines = [
        Line(f"g{i}", [PlacedValue(layer, value, f"{i}:{layer}", layer) for layer, value in enumerate(values)])
        for i, values in enumerate(values_by_line)
    ]
    height = 260 if is_by_layer else 190
    labels = ("scale", "layer") if is_by_layer else ()
    root = ElementTree.fromstring(series(lines, "says", "more", *labels, height=height))
    every = [value for values in values_by_line for value in values]
    plain = [value for value in every if math.isfinite(value) and value > 0]
    circles = list(root.iter("circle"))
    assert len(circles) == len(plain)
    assert all(0 <= float(each.attrib["cx"]) <= WIDTH and 0 <= float(each.attrib["cy"]) <= height for each in circles)
    above = sorted(zip(plain, (float(each.attrib["cy"]) for each in circles), strict=True))
    assert all(high[1] <= low[1] + 0.02 for low, high in pairwise(above))
    assert sum(path.attrib["class"] == "cross" for path in root.iter("path")) == len(every) - len(plain)
    words = [each.text for each in root.iter("text")]
    assert 2 <= len(words) <= 60
    assert {"layer", "scale"} <= set(words) if is_by_layer else not {"layer", "scale"} & set(words)


def test_every_color_has_a_dark_one() -> None:
    for style, mark in ((svg.report_style(), "prefers-color-scheme: dark"), (svg.site_style(), '"slate"')):
        light, dark = style.split(mark)
        for name, (by_day, by_night) in svg.COLORS.items():
            assert f"--{name}: {by_day};" in light
            assert f"--{name}: {by_night};" in dark


def test_a_page_says_what_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert made_by() == f"made by i2s-spec {__version__}, 1970-01-02 00:00 UTC"
    said = made_by("i2s lint '<script>\x1b.gguf'")
    assert "<script>" not in said
    assert "\x1b" not in said
    assert said.endswith("</code>")
    for odd in ("yesterday", "\N{SUPERSCRIPT TWO}", "9" * 30):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", odd)
        assert re.search(r", 20\d\d-\d\d-\d\d \d\d:\d\d UTC$", made_by())
