"""This module tells that a file went through a text decoder: all of it is UTF-8, which files of weights are not (12.1)."""

from __future__ import annotations

from typing import Final

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.gguf.source import Source
from i2s_spec.schema import faults
from i2s_spec.schema.checks import MAGIC

#: How many bytes are looked at from the start, and in each of so many windows through the rest of the file.
_HEAD: Final = 1 << 16
_WINDOW: Final = 1 << 14
_WINDOWS: Final = 8

#: So many characters beyond ASCII are no accident. Of those, a vocabulary has few that are U+FFFD or controls; of bytes
#: that were decoded nearly all are U+FFFD, or a quarter is a control character of Latin-1.
_LEAST: Final = 16
_SHARE: Final = 8

_REPLACED: Final = "bytes that are not UTF-8 became U+FFFD (EF BF BD), and what they were is lost"
_LATIN_1: Final = "each byte above 127 became the two bytes of a Latin-1 character in UTF-8, which can be undone"


def text_decoded(source: Source) -> FormatError | None:
    """The fault of a file that was decoded as text and encoded as UTF-8; None where some bytes are not UTF-8.

    A bounded part of the file is read. Vocabularies are UTF-8 too, so the file has to hold many characters that only a
    decoder puts there.

    :raises FormatError: S901, S903 where the file cannot be read
    """
    size = source.size
    if size < len(MAGIC) or source.read(0, len(MAGIC)) != MAGIC:
        return None
    step = max(_WINDOW, (size - _HEAD) // _WINDOWS)
    starts = [(0, _HEAD), *((at, _WINDOW) for at in range(_HEAD, max(size - _WINDOW, _HEAD), step))]
    if size > _HEAD:
        starts.append((max(_HEAD, size - _WINDOW), _WINDOW))
    beyond = replaced = controls = 0
    for start, length in starts:
        text = _text(source.read(start, min(length, size - start)), first=start == 0)
        if text is None:
            return None
        beyond += sum(1 for character in text if character > "\x7f")
        replaced += text.count("\ufffd")
        controls += sum(1 for character in text if "\x80" <= character <= "\x9f")
    if beyond < _LEAST:
        return None
    kind = _REPLACED if replaced * _SHARE >= beyond else _LATIN_1 if controls * _SHARE >= beyond else None
    return (
        None
        if kind is None
        else FormatError(faults.TEXT_DECODED, Span(0, len(MAGIC), "header.magic"), kind=TrustedText(kind))
    )


def _text(data: bytes, *, first: bool) -> str | None:
    """A window as text; characters that its edges cut are left out."""
    start = 0
    while not first and start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    try:
        return data[start:].decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(data) - start - error.start < 4:
            return data[start : start + error.start].decode("utf-8")
        return None
