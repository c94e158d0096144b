"""The look at arrays of strings in single cases: where sixteen bytes end, what is just no byte token, lengths that lie."""

from __future__ import annotations

import struct
from itertools import product

import pytest

from i2s_spec.gguf import _scanner, strings
from i2s_spec.gguf.source import BufferSource
from i2s_spec.gguf.strings import Strings, is_utf8


def look(*items: bytes, texts: tuple[bytes, ...] = (), compared: int = strings.COMPARED) -> Strings:
    data = b"".join(struct.pack("<Q", len(item)) + item for item in items)
    seen = strings.look(BufferSource(data), 0, len(data), len(items), False, texts, compared)
    assert seen == strings.definition(items, texts, compared)
    return seen


@pytest.mark.parametrize("before", [0, 4, 5, 6, 7, 8, 12, 13, 14, 15, 16, 31])
def test_utf8_wherever_a_character_lies_in_sixteen_bytes(before: int) -> None:
    """First bytes of every sort, the bounds of those that may follow, and characters that are cut off."""
    firsts = [
        0x7F,
        0x80,
        0xBF,
        0xC0,
        0xC1,
        0xC2,
        0xDF,
        0xE0,
        0xE1,
        0xEC,
        0xED,
        0xEE,
        0xEF,
        0xF0,
        0xF1,
        0xF3,
        0xF4,
        0xF5,
        0xFF,
    ]
    seconds = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    ends = [b"", b"\x80", b"\xbf", b"\xc3", b"a", b"\x80\x80", b"\x80\xc2", b"\x80\x80\x80"]
    for first, second, end in product(firsts, [None, *seconds], ends):
        text = b"a" * before + bytes([first] if second is None else [first, second]) + end
        assert look(text).is_utf8 == is_utf8(text), text
        assert (_scanner.invalid_utf8(BufferSource(text), [(0, len(text))]) == []) == is_utf8(text), text


def test_only_so_many_strings_are_compared() -> None:
    items = [b"a", b"b", b"a", b"b"]
    assert [look(*items, compared=most).same for most in range(6)] == [None, None, None, (0, 2), (0, 2), (0, 2)]


@pytest.mark.parametrize("length", [1, 62, 63, 64, 65, 100, 127, 128, 1000, strings.LOOKED_AT])
def test_texts_of_every_length_are_found(length: int) -> None:
    text, near = b"t" * length, b"t" * (length - 1) + b"x"
    assert look(b"other", near, text, text, texts=(near, text, b"gone")).found == (1, 2, -1)


@pytest.mark.parametrize(
    ("text", "odd"),
    [(b"<0x0A>", False), (b"<0xff>", False), (b"<0x0A]", True), (b"<0x0A", True), (b"<0x0A>>", True), (b"<0xG0>", True),
     (b"<0x0G>", True), (b"<0x/0>", True), (b"<0x:0>", True), (b"<0x@0>", True), (b"<0x`0>", True), (b"<0x", False),
     (b"<1x0A>", False)],
)  # fmt: skip
def test_byte_tokens(text: bytes, odd: bool) -> None:
    assert look(b"first", text).byte_forms == ((1,) if odd else ())


@pytest.mark.parametrize(
    ("text", "pair"),
    [(b"a b", True), (b"a  b", False), (b" a b", False), (b"a b ", False), (b"ab", False), (b" ", False), (b"a ", False),
     (b"1234567 9", True), (b"1234 67 9", False), (b"12345678 0", True), (b"1234567  0", False), (b" 2345678", False)],
)  # fmt: skip
def test_pairs_have_one_space_inside(text: bytes, pair: bool) -> None:
    assert look(text).odd_pairs == (not pair)


@pytest.mark.parametrize("length", [4, 5, 100, 1 << 40])
def test_the_span_of_a_text_ends_with_its_array(length: int) -> None:
    data = struct.pack("<Q", 3) + b"one" + struct.pack("<Q", length) + b"two" + b"behind"
    stop = len(data) - len(b"behind")
    assert strings.span_of(BufferSource(data), 0, stop, False, 1) == (19, 22)
    assert strings.span_of(BufferSource(data), 0, stop, False, 0) == (8, 11)
