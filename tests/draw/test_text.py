from __future__ import annotations

import json
import math
import re
import struct
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec._version import __version__
from i2s_spec.draw import text
from i2s_spec.draw.terminal import Column, plain, table
from i2s_spec.errors import FormatError, Span
from i2s_spec.schema import faults

#: Escape sequences, C1 controls, bidirectional and invisible characters, line ends, lone surrogates.
HARMFUL = "\x1b\x07\x00\x7f\x9b\x85\r\n\u202e\u2066\u200b\u2028\ufeff\u3164\ufe0f\U000e0101\udc80"


@given(st.text(max_size=30) | st.binary(max_size=30) | st.sampled_from(HARMFUL), st.integers(1, 40))
@examples(60)
def test_visible_text_is_printable(value: str | bytes, limit: int) -> None:
    for shown in (text.visible(value, limit), text.visible(value, limit, bare=True)):
        assert shown.isprintable()


@pytest.mark.parametrize("char", HARMFUL)
def test_harmful_characters_become_escapes(char: str) -> None:
    assert text.visible(f"a{char}b", bare=True).startswith("a\\")


def test_bytes_that_fit_are_shown_whole() -> None:
    assert text.visible("é".encode() * 30, 40) == "'" + "é" * 30 + "'"
    assert text.visible(b"x" * 50, 40) == "'" + "x" * 40 + "'… (50 characters)"
    assert text.visible(b"x" * 500, 40).endswith("… (500 bytes)")


def test_width_counts_columns() -> None:
    assert text.width("abc") == 3
    assert text.width("\u4e2d\uff21") == 4
    assert text.width("e\u0301") == 1


@given(st.text(max_size=30), st.integers(1, 30), st.booleans())
@examples(60)
def test_cut_text_fits(value: str, columns: int, middle: bool) -> None:
    cut = text.cut(value, columns, middle)
    assert text.width(cut) <= columns
    assert cut == value or "…" in cut


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1.00 KiB"),
        (479_616, "468.4 KiB"),
        (1 << 70, "1024.0 EiB"),
    ],
)
def test_sizes(size: int, words: str) -> None:
    assert text.size_words(size) == words


@pytest.mark.parametrize(
    ("count", "words"), [(999, "999"), (1000, "1.00 K"), (2_412_820_480, "2.41 B"), (335_424, "335 K")]
)
def test_counts(count: int, words: str) -> None:
    assert text.count_words(count) == words


@given(st.floats(width=32))
@examples(60)
def test_float32_words_tell_floats_apart(value: float) -> None:
    shown = text.float32_words(value)
    if math.isfinite(value):
        assert struct.pack("<f", float(shown)) == struct.pack("<f", value)
        assert len(shown) <= 15
    else:
        assert shown in ("nan", "inf", "-inf")


@pytest.mark.parametrize(("value", "words"), [(1.0, "1.0"), (1e-5, "1e-05"), (3.4028234663852886e38, "3.4028235e+38")])
def test_float32_words(value: float, words: str) -> None:
    assert text.float32_words(struct.unpack("<f", struct.pack("<f", value))[0]) == words


def test_fault_words() -> None:
    fault = FormatError(faults.VERSION_UNKNOWN, Span(4, 8, "header.version"), got=7)
    assert text.fault_words(fault).startswith("G104 version-unknown at 0x4..0x8 (header.version): the version is 7")
    assert " at " not in text.fault_words(FormatError(faults.EMPTY_FILE, Span(0, 0)))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(_json)
@examples(60)
def test_json_is_strict_and_printable(value: Any) -> None:
    shown = text.json_text(value)
    assert shown.isascii()
    assert shown.isprintable()
    json.loads(shown, parse_constant=pytest.fail)


@given(st.dictionaries(st.text(max_size=4), _json, max_size=4))
@examples(60)
def test_a_json_document_is_its_members(members: dict[str, Any]) -> None:
    whole = json.loads("".join(text.json_document(members)))
    assert whole == {name: json.loads(text.json_text(value)) for name, value in members.items()}
    lists = {name: iter([value, value]) for name, value in members.items()}
    assert json.loads("".join(text.json_document(lists))) == {name: [value, value] for name, value in whole.items()}


def test_an_empty_document() -> None:
    assert json.loads("".join(text.json_document({}))) == {}
    assert json.loads("".join(text.json_document({"a": []}))) == {"a": []}


def test_json_strings() -> None:
    assert text.json_string(b"caf\xc3\xa9") == "café"
    assert text.json_string(b"\xff") == {"hex": "ff"}
    assert text.json_string("\udcff") == {"hex": "ff"}


def test_tables_are_aligned_whatever_is_in_them() -> None:
    columns = (Column("name", gives=True), Column("bytes", right=True), Column("last", gives=True))
    rows = [("\u4e2d\u6587", "1", "x"), ("a", "1,000", "y" * 50), ("… 7 rows are not shown",)]
    lines = [plain(line) for line in table(columns, rows)]
    assert lines[0] == "  name  bytes  last"
    assert lines[1] == "  \u4e2d\u6587      1  x"
    assert lines[2].startswith("  a     1,000  yyy")
    assert lines[3] == "  … 7 rows are not shown"
    assert max(text.width(plain(line)) for line in table(columns, rows, available=35)) <= 35


def test_a_page_says_what_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert text.report_footer() == f"made by i2s-spec {__version__}, 1970-01-02 00:00 UTC"
    said = text.report_footer("i2s lint '<script>\x1b.gguf'")
    assert "<script>" not in said
    assert "\x1b" not in said
    assert said.endswith("</code>")
    for odd in ("yesterday", "\N{SUPERSCRIPT TWO}", "9" * 30):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", odd)
        assert re.search(r", 20\d\d-\d\d-\d\d \d\d:\d\d UTC$", text.report_footer())
