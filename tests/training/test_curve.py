"""Curves: well-formed, to scale, with a label at each end; a standalone file contains its colors."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from curve import NAME_HEIGHT, Curve, alone, curves

FALLING = Curve([(0, 8.0), (50, 4.0), (100, 2.0)], "a", "training")
NEAR = Curve([(0, 8.0), (100, 2.01)], "b", "unseen")


def places(drawn: str, style: str) -> list[tuple[float, float]]:
    found = re.search(rf'class="curve {style}" d="M([^"]+)"', drawn)
    assert found is not None
    return [tuple(map(float, each.split())) for each in found[1].split("L")]  # type: ignore[misc]


def test_each_halving_is_an_equal_step_down() -> None:
    (x0, y0), (x1, y1), (x2, y2) = places(curves([FALLING], "loss", "", "tokens"), "a")
    assert y1 - y0 == pytest.approx(y2 - y1, abs=0.02)
    assert y0 < y1
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.02)


def test_names_do_not_lie_on_each_other() -> None:
    root = ElementTree.fromstring(curves([FALLING, NEAR], "loss", "more", "tokens"))
    ends = [float(part.attrib["y"]) for part in root.iter("text") if part.text in ("training", "unseen")]
    assert len(ends) == 2
    assert abs(ends[0] - ends[1]) >= NAME_HEIGHT - 0.02


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_values_without_a_position_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="positive finite values"):
        curves([Curve([(0, 1.0), (1, value)], "a", "")], "loss", "", "")


def test_a_separate_file_has_colors_for_light_and_dark() -> None:
    drawn = alone(curves([FALLING], "loss <of>", "", "tokens"))
    root = ElementTree.fromstring(drawn)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    style = next(part.text for part in root if part.tag.endswith("style"))
    assert style is not None
    assert "prefers-color-scheme:dark" in style
    for name in re.findall(r'class="(?:curve )?([a-z-]+)"', drawn):
        assert name == "curves" or f".{name}{{" in style, name
