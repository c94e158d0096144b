"""An edited file contains its edits, however it is read, and its list of changes leads back to the original."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.convert.rewrite import Edit, EditedSource, write_edited, zeros
from i2s_spec.errors import FormatError, Span
from i2s_spec.gguf.source import BufferSource, FileSource


@st.composite
def edits(draw: st.DrawFn, size: int) -> list[Edit]:
    """Edits of a file of so many bytes that touch each other at most."""
    points = sorted(draw(st.lists(st.integers(0, size), max_size=8)))
    pairs = zip(points[::2], points[1::2], strict=False)
    return [Edit(Span(start, stop, f"at[{start}]"), draw(st.binary(max_size=5))) for start, stop in pairs]


def applied(data: bytes, changes: list[Edit]) -> bytes:
    """The slow twin: one slice after another."""
    parts, at = [], 0
    for edit in sorted(changes, key=lambda edit: edit.order):
        parts += [data[at : edit.span.start], bytes(edit.new)]
        at = edit.span.stop
    return b"".join([*parts, data[at:]])


@given(st.binary(max_size=40), st.integers(1, 3), st.data())
@examples(60)
def test_edits_equal_changed_slices(original: bytes, passes: int, data: st.DataObject) -> None:
    source, expected = EditedSource(BufferSource(original)), original
    for _ in range(passes):
        made = data.draw(edits(len(expected)))
        source, expected = source.edited(made), applied(expected, made)
    assert source.size == len(expected)
    assert source.read(0, source.size) == expected
    out = io.BytesIO()
    assert write_edited(source, out) == len(expected)
    assert out.getvalue() == expected
    start, stop = sorted((data.draw(st.integers(0, source.size)), data.draw(st.integers(0, source.size))))
    assert source.read(start, stop - start) == expected[start:stop]

    again, at = b"", 0  # the changes alone turn the original into the result
    for old, new, put in source.changes():
        again += original[at : old.start]
        assert (new.start, new.stop) == (len(again), len(again) + len(put))
        again, at = again + put, old.stop
    assert again + original[at:] == expected


def test_edits_keep_their_order_in_one_place() -> None:
    source = EditedSource(BufferSource(b"ad")).edited(
        [Edit(Span(1, 1), b"b"), Edit(Span(1, 1), b"c"), Edit(Span(1, 2), b"D")]
    )
    assert source.read(0, source.size) == b"abcD"


@pytest.mark.parametrize("spans", [[(0, 3), (2, 4)], [(0, 4), (2, 2)], [(3, 9)], [(4, 3)]])
def test_edits_that_overlap_or_lie_outside_are_refused(spans: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="overlaps another one, or is outside"):
        EditedSource(BufferSource(b"12345")).edited([Edit(Span(*span), b"x") for span in spans])


def test_no_byte_outside_the_file_is_read() -> None:
    source = EditedSource(BufferSource(b"123")).edited([Edit(Span(0, 1), b"")])
    for start, length in ((0, 3), (2, 1), (-1, 1)):
        with pytest.raises(FormatError, match="S903"):
            source.read(start, length)


def test_zeros_share_their_memory() -> None:
    assert bytes(zeros(3)) == bytes(3)
    assert bytes(zeros(3 << 20)) == bytes(3 << 20)
    assert zeros(1 << 20).obj is zeros(5).obj


def test_the_original_is_never_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "hard")
    source = EditedSource(FileSource(path)).edited([Edit(Span(0, 1), b"x")])
    for name in ("a", "link", "hard"):
        with pytest.raises(FileExistsError):
            write_edited(source, tmp_path / name, force=True)
    assert path.read_bytes() == b"12345"
    assert write_edited(source, tmp_path / "b") == 5
    assert (tmp_path / "b").read_bytes() == b"x2345"
    with pytest.raises(FileExistsError):
        write_edited(source, tmp_path / "b")
    told: list[tuple[int, int]] = []
    write_edited(source, tmp_path / "b", force=True, progress=lambda *seen: told.append(seen))
    assert told[-1] == (5, 5)
    stream = io.BytesIO()
    write_edited(source, stream)
    assert stream.getvalue() == b"x2345"


def test_a_file_that_changes_meanwhile_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    source = EditedSource(FileSource(path)).edited([Edit(Span(0, 1), b"x")])
    path.write_bytes(b"123456")
    with pytest.raises(FormatError, match="S903"):
        write_edited(source, tmp_path / "b")
    assert os.listdir(tmp_path) == ["a"]
