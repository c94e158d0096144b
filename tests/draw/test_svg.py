"""Drawings: well-formed, to scale, labeled, and showing only the given numbers."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.draw.chart import THINNEST, Segment, Share, bars, columns, strip, wrapped
from i2s_spec.draw.svg import drawing, element, number, outline, rect, text, title

#: Characters that text may contain after `errors.quote`, including markup.
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=20)


def boxes(path: str) -> list[tuple[float, float, float, float]]:
    """What an outline is made of."""
    found = re.findall(r"M([-.\d]+) ([-.\d]+)h([-.\d]+)v([-.\d]+)h([-.\d]+)z", path)
    return [tuple(map(float, box[:4])) for box in found]  # type: ignore[misc]


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
