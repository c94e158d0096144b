"""Errors are data; their text is made when it is shown, and quotes everything that comes from a file."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import i2s_spec as i2s
from i2s_spec.errors import (
    Fault,
    FileError,
    FormatError,
    Span,
    TrustedText,
    all_of,
    counted,
    file_error,
    plural,
    quote,
    render,
)  # fmt: skip
from i2s_spec.schema.faults import UNREADABLE

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


def test_a_file_that_cannot_be_opened_is_an_os_error_too(tmp_path: Path) -> None:
    missing = tmp_path / "missing.gguf"
    for read in (i2s.open, i2s.load_model, i2s.identify):
        with pytest.raises(FileNotFoundError) as caught:
            read(missing)
        error = caught.value
        assert isinstance(error, FormatError)
        assert (error.code, error.errno, error.filename) == ("S901", errno.ENOENT, str(missing))
        assert str(error) == "S901 unreadable: the file cannot be read: No such file or directory"
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.errno, again.filename) == (
            type(error), str(error), error.errno, error.filename,
        )  # fmt: skip
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(FileError) as looped:
        i2s.open(tmp_path / "loop")
    assert (looped.value.errno, isinstance(looped.value, FileNotFoundError)) == (errno.ELOOP, False)
    made = file_error(UNREADABLE, PermissionError(errno.EACCES, "Permission denied", "x"))
    assert isinstance(made, PermissionError)
    with pytest.raises(FormatError) as caught_bytes:  # invalid bytes are no error of the operating system
        i2s.open(b"GGUF")
    assert not isinstance(caught_bytes.value, OSError)


def test_the_noun_follows_its_number() -> None:
    template = "{got:byte}, {want:matrix is|matrices are} of {name}"
    assert render(template, got=1, want=1, name="a") == "1 byte, 1 matrix is of 'a'"
    assert render(template, got=0, want=2_000, name="a") == "0 bytes, 2,000 matrices are of 'a'"
    assert render("{got:byte}", got=TrustedText("many")) == "many bytes"
    assert plural(template) == "{got} bytes, {want} matrices are of {name}"
    assert (counted(1, "entry", "entries"), counted(2, "entry", "entries")) == ("1 entry", "2 entries")
    assert (all_of(1, "scale is", "scales are"), all_of(3, "scale is", "scales are")) == (
        "the one scale is",
        "all 3 scales are",
    )


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
