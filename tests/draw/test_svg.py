"""SVG as text: short exact numbers, no markup from text, and a dark color for each light one."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.draw import svg
from i2s_spec.draw.svg import drawing, element, number, outline, rect, text, title


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0, "0"), (3.0, "3"), (0.125, ".12"), (-0.5, "-.5"), (-0.0001, "0"), (10.10, "10.1"), (100, "100")],
)
def test_numbers_are_short(value: float, shown: str) -> None:
    assert number(value) == shown


@given(st.floats(-1e6, 1e6))
@examples(60)
def test_numbers_are_exact_to_a_hundredth(value: float) -> None:
    assert abs(float(number(value)) - value) <= 0.0051
    assert "e" not in number(value)


def test_text_does_not_become_markup() -> None:
    evil = "</title><script>alert(1)</script>\" onload='x' &amp;"
    drawn = drawing(10, 10, evil, evil, rect(0, 0, 1, 1, evil, evil), text(0, 0, evil, evil), style=evil)
    root = ElementTree.fromstring(drawn)
    assert [part.tag for part in root.iter()] == ["svg", "title", "desc", "path", "title", "text"]
    assert {part.text for part in root.iter() if part.tag in ("title", "desc", "text")} == {evil}
    assert set(root.attrib) == {"viewBox", "class", "role"}


def test_elements_without_parts_close_themselves() -> None:
    assert element("path", {"d": None, "data_i": 4}) == '<path data-i="4"/>'
    assert title("") == ""
    assert (
        outline([(0, 0, 1, 1), (2, 0, 1, 1)], "a", data=7)
        == '<path class="a" d="M0 0h1v1h-1zM2 0h1v1h-1z" data-i="7"/>'
    )


def test_every_color_has_a_dark_one() -> None:
    for style, mark in ((svg.report_style(), "prefers-color-scheme: dark"), (svg.site_style(), '"slate"')):
        light, dark = style.split(mark)
        for name, (by_day, by_night) in svg.COLORS.items():
            assert f"--{name}: {by_day};" in light
            assert f"--{name}: {by_night};" in dark
