"""Values as characters: one for each value, in order, in characters that the stream can encode."""

from __future__ import annotations

import math

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.draw.terminal import ASCII, BLOCKS, SHARE_ASCII, shares, sparkline


@given(st.lists(st.none() | st.floats(width=32), max_size=40), st.booleans())
@examples(60)
def test_a_character_for_each_value(values: list[float | None], blocks: bool) -> None:
    plain = [value for value in values if value is not None and math.isfinite(value)]
    made = sparkline(values, min(plain, default=0.0), max(plain, default=0.0), blocks=blocks)
    assert len(made) == len(values)
    assert blocks or made.isascii()
    signs = BLOCKS if blocks else ASCII
    for sign, value in zip(made, values, strict=True):
        assert sign == " " if value is None else sign == "!" if not math.isfinite(value) else sign in signs
    drawn = [(value, signs.index(sign)) for sign, value in zip(made, values, strict=True) if value in plain]
    assert all(a[1] <= b[1] for a in drawn for b in drawn if a[0] < b[0])
    if plain and min(plain) < max(plain):
        assert {signs[0], signs[-1]} <= set(made)


@given(st.lists(st.integers(0, 10**9), min_size=4, max_size=4), st.integers(8, 60))
@examples(60)
def test_shares_fill_the_width_and_hide_nothing(counts: list[int], width: int) -> None:
    made = shares(counts, width, blocks=False)
    assert len(made) == width
    for sign, count in zip(SHARE_ASCII, counts, strict=True):
        assert (sign in made) == (count > 0)


@pytest.mark.parametrize("blocks", [True, False])
def test_widths_are_proportional(blocks: bool) -> None:
    assert shares([1, 2, 1, 0], 8, blocks=blocks) == ("██░░░░▓▓" if blocks else "--0000++")
