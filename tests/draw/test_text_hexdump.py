from __future__ import annotations

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.draw import text


@given(st.binary(max_size=100), st.integers(0, 1 << 40), st.sampled_from([8, 16, 32]))
@examples(60)
def test_every_byte_stands_in_the_column_of_its_address(data: bytes, start: int, width: int) -> None:
    seen = {}
    for row in text.rows(data, start, width):
        assert row.address % width == 0
        assert (len(row.hex), len(row.ascii)) == (3 * width - 1, width)
        for column in range(width):
            cell = row.hex[3 * column : 3 * column + 2]
            inside = row.first <= column < row.last
            assert (cell != "  ") == inside
            if inside:
                seen[row.address + column] = int(cell, 16)
    assert seen == {start + i: byte for i, byte in enumerate(data)}


def test_only_printable_ascii_is_shown() -> None:
    shown = text.ascii_of(bytes(range(256)))
    assert shown == "." * 32 + "".join(map(chr, range(32, 127))) + "." * 129


def test_a_whole_dump() -> None:
    assert text.hexdump(b"GGUF\x03\0\0\0", 0x1C, 8) == (
        "0018              47 47 55 46  |    GGUF|\n"
        "0020  03 00 00 00              |....    |"
    )  # fmt: skip


def test_an_empty_range_has_no_rows() -> None:
    assert text.hexdump(b"", 5) == ""


@pytest.mark.parametrize(("size", "digits"), [(0, 4), (0xFFFF, 4), (0x10000, 6), (0x1000000, 8), (1 << 32, 10)])
def test_digits(size: int, digits: int) -> None:
    assert text.digits_for(size) == digits


@pytest.mark.parametrize("width", [8, 16, 32])
def test_ruler_and_blank_are_as_wide_as_rows(width: int) -> None:
    (row,) = text.rows(bytes(width), 0, width)
    for other in (text.ruler(width), text.blank(width)):
        assert (len(other.hex), len(other.ascii)) == (len(row.hex), len(row.ascii))
