"""Small plots: points and columns have the positions of their numbers, and marks have labels."""

from __future__ import annotations

import math
import re

from i2s_spec.draw.chart import MARGIN, POINT, SIDE, Layer, Share, layer_plot, rank_plot


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
