"""The check of string arrays gives the same results as its definition, whatever the source of the bytes."""

from __future__ import annotations

import io
import struct
from itertools import product
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

import i2s_spec as i2s
from i2s_spec.errors import FormatError
from i2s_spec.gguf import _scanner, strings
from i2s_spec.gguf.source import BufferSource, Source, StreamSource
from i2s_spec.gguf.strings import Strings, is_utf8

_TEXTS = [
    b"", b"a", b"a b", b" a", b"a ", b"a b c", b" ", b"[PAD7]", b"[PAD]", b"[PAD", b"<dummy12>", b"<dummy>", b"<0x0A>",
    b"<0x0a>", b"<0x-1>", b"<0x", b"<0x1", b"<0x1>", b"<0x123>", b"<0xzz>", b"\x00", b"\xff" * 9,
    b"<|", b"<|>", b"<||>", b"<|a|>", b"<|a|", b"<|" + b"m" * 60 + b"|>", b"<|" + b"m" * 61 + b"|>",
    b"y" * (strings.LONGEST + 1), b"z" * strings.LONGEST,
]  # fmt: skip
_items = st.lists(
    st.sampled_from(_TEXTS) | st.binary(max_size=20) | st.text("ab <0x", max_size=9).map(str.encode), max_size=9
)


def encoded(items: list[bytes], big: bool) -> bytes:
    return b"".join(struct.pack(">Q" if big else "<Q", len(item)) + item for item in items)


def sources(data: bytes) -> list[Source]:
    return [BufferSource(data), StreamSource(io.BytesIO(data))]


@given(_items, st.booleans(), st.integers(0, 9), st.lists(st.sampled_from(_TEXTS), max_size=4))
@examples(60)
def test_look_equals_the_definition(items: list[bytes], big: bool, compared: int, texts: list[bytes]) -> None:
    data = b"before" + encoded(items, big) + b"behind"
    wanted = strings.examine_definition(items, texts, compared)
    for source in sources(data):
        assert strings.examine(source, 6, len(data) - 6, len(items), big, texts, compared) == wanted
        for i, item in enumerate(items):
            start, stop = strings.span_of(source, 6, len(data) - 6, big, i)
            assert data[start:stop] == item


@pytest.mark.parametrize("big", [False, True])
def test_arrays_of_many_parts(big: bool) -> None:
    items = [b"token %d" % i for i in range(100_000)]
    items[77] = items[99_990] = b"twice"
    items[50_000:50_000] = [b"x" * 60_000, b"y" * 300_000, b"z" * 65_536]
    data = encoded(items, big)
    wanted = strings.examine_definition(items, [b"token 99999"])
    assert wanted.same == (77, 99_993)
    for source in sources(data):
        assert strings.examine(source, 0, len(data), len(items), big, [b"token 99999"]) == wanted
        start, stop = strings.span_of(source, 0, len(data), big, 50_001)
        assert data[start:stop] == b"y" * 300_000


def test_real_vocabularies(shared: Path) -> None:
    paths = sorted((shared / "real").glob("ggml-vocab-*.gguf"))
    assert paths
    for path in paths:
        with i2s.open(path) as file:
            for name in ("tokenizer.ggml.tokens", "tokenizer.ggml.merges"):
                if name in file.metadata:
                    entry = file.metadata.entry(name)
                    items = [item.encode("utf-8", "surrogateescape") for item in file.metadata[name]]
                    seen = strings.examine(file.source, *entry.value_span[:2], entry.count, False, [b"<0x0A>"])
                    assert seen == strings.examine_definition(items, [b"<0x0A>"]), path.name


_merges = st.lists(
    st.builds(lambda a, b: f"{a} {b}".encode(), *[st.text("ab\u0120\u4e2d\U0001f600", min_size=1, max_size=3)] * 2)
    | st.sampled_from(_TEXTS) | st.binary(max_size=9),
    max_size=30,
)  # fmt: skip


@given(_merges, st.booleans())
@examples(120)
def test_merges_equal_the_definition(items: list[bytes], big: bool) -> None:
    data = b"before" + encoded(items, big) + b"behind"
    for source in sources(data):
        found = strings.merge_results(source, 6, len(data) - 6, len(items), big)
        assert found == strings.merge_results_definition(items)


def splits(words: list[bytes]) -> list[bytes]:
    """Merges as they are made from tiktoken's vocabularies: every split of each token into two."""
    known = {*words, *(bytes([byte]) for byte in range(256))}
    return [
        word[:at] + b" " + word[at:]
        for word in words
        for at in range(1, len(word))
        if word[:at] in known and word[at:] in known
    ]


def test_merges_of_many_parts() -> None:
    """All splits of 60,000 tokens, of which one is enough; the same list damaged."""
    words = [b"".join(each) for each in product([b"a", b"b", b"c"], repeat=2)]
    words += [b"".join(each) for size in range(3, 11) for each in product([b"a", b"b", b"c"], repeat=size)]
    merges = splits(words)
    for items in (merges, merges[::-1], merges[::2], merges[len(merges) // 2 :], [b"x" * 70_000, *merges[::3]]):
        data = encoded(items, False)
        wanted = strings.merge_results_definition(items)
        assert (wanted.unmade == 0) == (items is merges)
        for source in sources(data):
            assert strings.merge_results(source, 0, len(data), len(items), False) == wanted


@pytest.mark.parametrize(
    ("change", "unmade"),
    [(slice(None), 0), (slice(None, None, -1), 48_084), (slice(None, None, 2), 16_762), (slice(25_000, None), 24_135)],
)
def test_merges_of_gpt_2(shared: Path, change: slice, unmade: int) -> None:
    with i2s.open(shared / "real" / "ggml-vocab-gpt-2.gguf") as file:
        merges = [item.encode() for item in file.metadata["tokenizer.ggml.merges"]][change]
    data = encoded(merges, False)
    found = strings.merge_results(BufferSource(data), 0, len(data), len(merges), False)
    assert found == strings.merge_results_definition(merges)
    assert (found.results, found.unmade) == (len(merges), unmade)


@pytest.mark.parametrize("cut", [1, 8, 9, 15])
def test_arrays_that_no_longer_fill_their_bytes(cut: int) -> None:
    data = encoded([b"one", b"two", b"three"], False)
    for source in sources(data[:-cut]):
        with pytest.raises(FormatError) as error:
            strings.examine(source, 0, len(data) - cut, 3, False)
        assert error.value.code == "S903"


@pytest.mark.parametrize("length", [2**32, 2**62, 2**63, 2**64 - 1])
def test_wrong_lengths_are_refused(length: int) -> None:
    data = struct.pack("<Q", length) + b"abc" * 10
    for source in sources(data):
        with pytest.raises(FormatError):
            strings.examine(source, 0, len(data), 1, False)
        with pytest.raises(FormatError):
            strings.span_of(source, 0, len(data), False, 1)


def test_all_strings_the_same() -> None:
    items = [b"same"] * 200_000
    data = encoded(items, False)
    assert strings.examine(BufferSource(data), 0, len(data), len(items), False).same == (0, 1)


def test_too_many_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 64"):
        strings.examine(BufferSource(b""), 0, 0, 0, False, [b"%d" % i for i in range(65)])


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=12), st.booleans(), st.integers(-3, 3), st.integers(-3, 9))
@examples(60)
def test_first_value_outside_bounds(values: list[int], big: bool, least: int, most: int) -> None:
    data = b"\0" + struct.pack(f"{'>' if big else '<'}{len(values)}i", *values)
    wanted = next((i for i, value in enumerate(values) if not least <= value <= most), -1)
    for source in sources(data):
        assert strings.first_outside(source, 1, len(values), big, least, most) == wanted


def test_first_value_outside_bounds_of_many_parts() -> None:
    values = [1] * 700_000
    values[600_001] = 7
    data = struct.pack(f"<{len(values)}i", *values)
    assert strings.first_outside(BufferSource(data), 0, len(values), False, 0, 6) == 600_001


# --- single cases: at the 16-byte boundary, almost a byte token, wrong lengths ---


def look(*items: bytes, texts: tuple[bytes, ...] = (), compared: int = strings.COMPARED) -> Strings:
    data = b"".join(struct.pack("<Q", len(item)) + item for item in items)
    seen = strings.examine(BufferSource(data), 0, len(data), len(items), False, texts, compared)
    assert seen == strings.examine_definition(items, texts, compared)
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


@pytest.mark.parametrize("length", [1, 62, 63, 64, 65, 100, 127, 128, 1000, strings.LONGEST])
def test_texts_of_every_length_are_found(length: int) -> None:
    text, near = b"t" * length, b"t" * (length - 1) + b"x"
    assert look(b"other", near, text, text, texts=(near, text, b"gone")).found == (1, 2, -1)


def test_markers_are_kept_as_far_as_there_is_room() -> None:
    items = [b"<|%d|>" % (i // 2) for i in range(2 * strings.MARKED + 6)]
    seen = look(b"other", *items, b"<|" + b"m" * strings.LONGEST_MARKER + b"|>")
    assert (seen.markers, len(seen.marked)) == (len(items) + 1, strings.MARKED)
    assert (seen.marked[b"<|0|>"], seen.marked[b"<|1|>"]) == (1, 3)


@given(st.lists(st.integers(-2, 2) | st.integers(-(2**31), 2**31 - 1), max_size=12), st.booleans(), st.integers(-2, 2))
@examples(60)
def test_count_equal(values: list[int], big: bool, wanted: int) -> None:
    data = b"\0" + struct.pack(f"{'>' if big else '<'}{len(values)}i", *values)
    for source in sources(data):
        for sought in (wanted, *values[:2]):
            assert strings.count_equal(source, 1, len(values), big, sought) == values.count(sought)


def test_count_equal_of_many_parts() -> None:
    values = [0x01020304, 0x04030201] * 70_000
    for order in "<>":
        data = struct.pack(f"{order}{len(values)}i", *values)
        found = strings.count_equal(BufferSource(data), 0, len(values) - 1, order == ">", 0x04030201)
        assert found == 69_999


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
