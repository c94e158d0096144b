"""Errors are data; words are made at the edge, and quote whatever came from a file."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.errors import Fault, FormatError, Span, TrustedText, quote, render

FAULT = Fault("G999", "sample", "{name} has {got} of {want}")


def test_message_and_place() -> None:
    error = FormatError(FAULT, Span(16, 32, "header.name"), got=1234567, want=2, name=b"\x1b[2Jx")
    assert str(error) == "G999 sample at 0x10..0x20 (header.name): '\\x1b[2Jx' has 1,234,567 of 2"
    assert error.code == "G999"
    nowhere = FormatError(FAULT, Span(0, 0), got=1, want=2, name="a")
    assert str(nowhere) == "G999 sample: 'a' has 1 of 2"


def test_errors_pickle() -> None:
    error = FormatError(FAULT, Span(0, 1, "a"), got=1, want=2, name=b"n")
    again = pickle.loads(pickle.dumps(error))
    assert (again.fault, again.span, again.message) == (error.fault, error.span, error.message)


def test_templates_in_values_are_not_filled() -> None:
    assert render("{a}", a="{b} %s {0}") == "'{b} %s {0}'"


@given(st.text() | st.binary())
def test_quoted_text_is_one_printable_line(text: str | bytes) -> None:
    shown = quote(text)
    assert shown.isprintable()
    assert len(shown) <= 10 * 80 + 40


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "'plain'"),
        ("it's", "'it\\'s'"),
        ("back\\slash", "'back\\\\slash'"),
        ("a\nb", "'a\\x0ab'"),
        ("\u202e", "'\\u202e'"),
        ("\U000e0001", "'\\U000e0001'"),
        (b"\xff\xfe", "'\\xff\\xfe'"),
        ("é" * 80, "'" + "é" * 80 + "'"),
        (("é" * 80).encode(), "'" + "é" * 80 + "'"),
        ("x" * 81, "'" + "x" * 80 + "'… (81 characters)"),
        (b"x" * 81, "'" + "x" * 80 + "'… (81 bytes)"),
    ],
)
def test_quote(text: str | bytes, shown: str) -> None:
    assert quote(text) == shown


def test_words_are_shown_as_they_are() -> None:
    assert render("{a} {b}", a=TrustedText("ours"), b="theirs") == "ours 'theirs'"
