"""This module reads an answer with several ranges (multipart/byteranges, RFC 9110 section 14.6), part by part.

A part is accepted only if its Content-Range is exactly a requested range that has not come yet; all requested ranges
must come, and nothing else. The size of a part's headers is limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

#: `bytes 0-99/1234`
CONTENT_RANGE = re.compile(r"bytes (?P<first>\d{1,19})-(?P<last>\d{1,19})/(?P<size>\d{1,19})")

_BOUNDARY = re.compile(r'(?i)multipart/byteranges\s*;\s*boundary="?(?P<boundary>[^";\s]{1,70})"?\s*')

#: Most bytes of the lines before the content of a part.
MOST_HEADERS = 2048


def boundary_of(content_type: str) -> bytes | None:
    """The boundary between parts, or None if the answer has no parts."""
    found = _BOUNDARY.fullmatch(content_type[:300])
    return found["boundary"].encode("ascii", "replace") if found is not None else None


def read_parts(
    read: Callable[[memoryview], int], boundary: bytes, ranges: Sequence[tuple[int, int]], size: int
) -> list[bytes]:
    """The content of each range.

    :param read: fills a buffer from the answer, and returns how many bytes came
    :param ranges: the requested ranges
    :param size: the size of the whole file, which every part must state
    :raises ValueError: if the answer is anything else; the text says what
    """
    place = {span: number for number, span in enumerate(ranges)}
    found: list[bytes | None] = [None] * len(ranges)
    delimiter = b"--" + boundary
    for _ in ranges:
        span = _span_of(_head(read, delimiter), size)
        number = place.get(span)
        if number is None or found[number] is not None:
            raise ValueError("sends a part that was not asked for")
        data = bytearray(span[1] - span[0])
        if read(memoryview(data)) != len(data):
            raise ValueError("sends a part that is too short")
        found[number] = bytes(data)
    end = b"\r\n" + delimiter + b"--"
    tail = bytearray(len(end))
    if read(memoryview(tail)) != len(end) or tail != end:
        raise ValueError("does not end its parts")
    return [part for part in found if part is not None]


def _head(read: Callable[[memoryview], int], delimiter: bytes) -> bytes:
    """The lines before the content of a part; they are read byte by byte, because content follows directly."""
    lines, byte = bytearray(), bytearray(1)
    while not lines.endswith(b"\r\n\r\n") or lines == b"\r\n\r\n":
        if len(lines) >= MOST_HEADERS or read(memoryview(byte)) != 1:
            raise ValueError("sends parts without an end of their headers")
        lines += byte
    text = bytes(lines).lstrip(b"\r\n")
    if not text.startswith(delimiter + b"\r\n"):
        raise ValueError("does not separate its parts by the announced boundary")
    return text


def _span_of(head: bytes, size: int) -> tuple[int, int]:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-range":
            found = CONTENT_RANGE.fullmatch(value.strip().decode("latin-1"))
            if found is not None and int(found["size"]) == size:
                return int(found["first"]), int(found["last"]) + 1
    raise ValueError("sends a part without a valid Content-Range")
