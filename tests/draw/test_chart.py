"""Plots: well-formed, to scale, labeled, and showing only the given numbers."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from examples import examples
from hypothesis import example, given
from hypothesis import strategies as st

from i2s_spec.draw.chart import (
    DOT_PLOT_WIDTH,
    MARGIN,
    POINT,
    SIDE,
    THINNEST,
    WIDTH,
    Dot,
    Layer,
    Line,
    Measured,
    PlacedValue,
    Segment,
    Share,
    bars,
    columns,
    dot_plot,
    layer_plot,
    rank_plot,
    series,
    strip,
    wrapped,
)

#: Characters that text may contain after `errors.quote`, including markup.
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=20)


def boxes(path: str) -> list[tuple[float, float, float, float]]:
    """What an outline is made of."""
    found = re.findall(r"M([-.\d]+) ([-.\d]+)h([-.\d]+)v([-.\d]+)h([-.\d]+)z", path)
    return [tuple(map(float, box[:4])) for box in found]  # type: ignore[misc]


@given(st.lists(st.integers(0, 10**9), max_size=4))
@examples(60)
def test_shares_fill_the_width_of_a_strip(counts: list[int]) -> None:
    root = ElementTree.fromstring(strip([Share(count, "c") for count in counts], "codes"))
    marks = [boxes(path.attrib["d"])[0] for path in root.iter("path") if path.attrib["class"] == "c"]
    assert len(marks) == sum(count > 0 for count in counts)
    assert sum(mark[2] for mark in marks) <= 120 + THINNEST * len(counts) + 0.1
    if sum(counts):
        assert sum(mark[2] for mark in marks) >= 119.9


@given(st.lists(st.lists(st.integers(0, 1000), min_size=3, max_size=4), max_size=20), WORDS)
@examples(40)
def test_columns_have_a_group_for_each(stacks: list[list[int]], words: str) -> None:
    given_ = [([Share(count, "c") for count in stack], f"tensor {words}") for stack in stacks]
    root = ElementTree.fromstring(columns(given_, "Codes", words))
    groups = list(root.iter("g"))
    assert len(groups) == len(stacks)
    for group, stack in zip(groups, stacks, strict=True):
        assert group.findtext("title") == f"tensor {words}"
        assert len(group.findall("path")) == sum(count > 0 for count in stack)


def test_bars_name_their_shares() -> None:
    root = ElementTree.fromstring(bars([Share(1, "c0", "−1"), Share(2, "c1", "0"), Share(1, "c2", "+1")], "Codes"))
    said = [part.text for part in root.iter("text")]
    assert said == ["25.0%", "−1", "50.0%", "0", "25.0%", "+1"]
    tall = [boxes(path.attrib["d"])[0][3] for path in root.iter("path") if path.attrib["class"] != "grid"]
    assert tall[1] == pytest.approx(2 * tall[0], abs=0.05)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=40), st.integers(1, 12))
@examples(60)
def test_maps_are_to_scale(lengths: list[int], lines: int) -> None:
    segments, at = [], 0
    for length in lengths:
        segments.append(Segment(at, at + length, "payload", f"from {at}"))
        at += length
    root = ElementTree.fromstring(wrapped(segments, at, lines, "Map", ""))
    for path in root.iter("path"):
        segment = segments[int(path.attrib["data-i"])]
        assert path.findtext("title") == segment.says
        wide = sum(box[2] for box in boxes(path.attrib["d"]))
        true = (segment.stop - segment.start) / max(at, 1) * lines * 1000
        assert (
            wide == pytest.approx(true, abs=0.02 * lines)
            if true >= THINNEST
            else wide == pytest.approx(THINNEST, abs=0.01)
        )
        assert all(
            box[0] >= 0 and box[0] + box[2] <= 1000.02 and box[1] <= lines * 20 for box in boxes(path.attrib["d"])
        )
    big = sum((segment.stop - segment.start) / max(at, 1) * lines * 1000 >= THINNEST for segment in segments)
    assert sum("thin" not in path.attrib["class"] for path in root.iter("path")) == big


def test_of_thin_regions_on_one_spot_one_is_drawn() -> None:
    segments = [Segment(i, i + 1, "tail", str(i)) for i in range(10_000)]
    root = ElementTree.fromstring(wrapped([*segments, Segment(10_000, 10**9, "payload", "rest")], 10**9, 4, "Map", ""))
    assert len(list(root.iter("path"))) == 2


def test_marks_lie_below_their_bytes() -> None:
    root = ElementTree.fromstring(
        wrapped([Segment(0, 100, "payload", "")], 100, 2, "Map", "", marks=[Segment(75, 75, "mark error", "G1")])
    )
    (mark,) = [path for path in root.iter("path") if "mark" in path.attrib["class"]]
    ((x, y, _, _),) = boxes(mark.attrib["d"])
    assert (x, mark.findtext("title")) == (500, "G1")
    assert 34 <= y < 40


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


def test_ranks_rise_to_the_upper_right() -> None:
    svg = rank_plot([(0, 0), (1, 1)], "right", "<both>")
    assert 'class="dots right"' in svg
    assert "&lt;both&gt;" in svg
    d = re.search(r'class="dots right" d="([^"]+)"', svg)
    assert d is not None
    low, high = re.findall(r"M(\S+) ([^h]+)h", d[1])
    assert (float(low[0]), float(low[1])) == (MARGIN, SIDE - MARGIN - POINT)
    assert (float(high[0]), float(high[1])) == (SIDE - MARGIN - POINT, MARGIN)


def layer(number: int, value: float | None) -> Layer:
    return Layer(number, [Share(1, "c0"), Share(3, "c1")], value, f"layer {number} & co", number)


def test_layers_have_columns_and_values() -> None:
    svg = layer_plot([layer(0, 0.1), layer(1, 1.0), layer(3, 10.0)], -1, 1, "ffn", "three layers")
    assert svg.count('class="c0"') == svg.count('class="c1"') == 3
    heights = [float(y) for y in re.findall(r'class="value" cx="[^"]+" cy="([^"]+)"', svg)]
    assert heights == sorted(heights, reverse=True)
    assert heights[0] - heights[1] == heights[1] - heights[2] > 0
    assert re.findall(r'data-i="(\d)"', svg) == ["0", "1", "3"]
    assert ">layer 0</text>" in svg
    assert ">3</text>" in svg
    assert svg.count("&amp; co") == 3


def test_values_without_a_logarithm_are_left_out() -> None:
    svg = layer_plot([layer(0, None), layer(1, math.nan), layer(2, -1.0), layer(3, 1.0)], -1, 1, "ffn", "")
    assert svg.count("<circle") == 1
    assert svg.count('class="c0"') == 4
    assert layer_plot([], -1, 1, "nothing", "").startswith("<svg ")
