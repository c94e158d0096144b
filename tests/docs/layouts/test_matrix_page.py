"""The page of layouts found from weights: every trained model is identified in every layout, random weights never are."""

from __future__ import annotations

import re

import pytest

from i2s_site.fences import Drift, render
from i2s_site.layouts import MODELS, PACKED, code_maps, confusion, page
from i2s_spec.draw.chart import HeatCell, heat_map
from i2s_spec.schema.dialect import CODE_MAPS


@pytest.mark.parametrize("name", ["stories", "llama"])
def test_trained_weights_tell_every_layout(name: str) -> None:
    rows = confusion(name).rows
    assert [row.packed for row in rows] == list(PACKED)
    for row in rows:
        assert row.answer == row.packed
        assert row.margin >= row.wanted
        assert max(row.sums, key=row.sums.__getitem__) == row.packed


def test_random_weights_decide_no_layout() -> None:
    found = confusion("random")
    assert [row.answer for row in found.rows] == [None] * len(PACKED)
    assert all(row.margin < row.wanted / 2 for row in found.rows)
    assert all(score < 3 * found.comparisons for row in found.rows for score in row.sums.values())


def test_code_maps_are_told_by_balance() -> None:
    rows = code_maps("stories")
    assert [(row.packed, row.answer) for row in rows] == [(name, name) for name in CODE_MAPS]
    assert all(row.counts.count(0) == 1 for row in rows)
    for row in rows:
        assert row.sigmas[row.packed] == min(sigma for sigma in row.sigmas.values() if sigma is not None)


def test_the_page_has_every_answer_and_picture() -> None:
    text = page()
    for name in MODELS:
        assert f"```i2s-layouts\nmatrix {name}\n```" in text
        svg = render("i2s-layouts", f"matrix {name}\n")
        assert svg.count('class="heat"') == len(PACKED) ** 2
        assert svg.count('class="frame"') == (0 if name == "random" else len(PACKED))
    assert text.count("undecided |") == len(PACKED)


def test_unknown_pictures_are_refused() -> None:
    for body in ("matrix nothing\n", "nothing stories\n"):
        with pytest.raises(Drift, match="there are"):
            render("i2s-layouts", body)


def test_cells_are_darker_for_larger_numbers() -> None:
    svg = heat_map(
        ["<a>"], ["x", "y"], [[HeatCell(10, "10", True, "ten & more"), HeatCell(0, "0")]], "t", "", "read", "made"
    )
    assert svg.count('class="frame"') == 1
    assert re.findall(r'fill-opacity="([^"]+)"', svg) == [".75", "0"]
    assert "&lt;a&gt;" in svg
    assert "ten &amp; more" in svg
