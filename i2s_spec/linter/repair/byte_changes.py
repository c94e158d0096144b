"""This module shows what a repair changes, byte by byte: as data and as text.

@@ padding: bytes 0x1d9 to 0x1e0 become 0x1d9 to 0x1e0
- 0x1d9  00 41 42 43 00 00 00
+ 0x1d9  7 bytes of 00
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from i2s_spec.convert.container.edits import EditedSource
from i2s_spec.errors import Span, counted, quote

#: How many changes of a file are listed, and how many bytes of each side of a change are shown; the rest are counted.
MOST_CHANGES: Final = 10_000
SHOWN_BYTES: Final = 64
_ROW: Final = 16


class ByteChange(NamedTuple):
    """One place where a repaired file differs: the spans before and after, and the first bytes of both."""

    old: Span
    new: Span
    before: bytes
    after: bytes

    @property
    def path(self) -> str:
        """The field, by its path in the schema; `[+]` for a new record."""
        return self.new.path

    def as_dict(self) -> dict[str, Any]:
        """The change as plain data."""
        return {
            "path": quote(self.path, bare=True),
            "old": {"start": self.old.start, "stop": self.old.stop, "bytes": self.before.hex(" ")},
            "new": {"start": self.new.start, "stop": self.new.stop, "bytes": self.after.hex(" ")},
            "complete": len(self.before) == _size(self.old) and len(self.after) == _size(self.new),
        }

    def lines(self) -> Iterator[str]:
        """The change as lines of text."""
        yield f"@@ {quote(self.path, bare=True)}: {_verb(self.old, self.new)}"
        yield from _side("-", self.old, self.before)
        yield from _side("+", self.new, self.after)


def byte_changes(source: EditedSource) -> tuple[tuple[ByteChange, ...], int]:
    """The changes of an edited file in the order of the bytes, at most `MOST_CHANGES`; and the number of all."""
    remaining = []
    changes = source.changes()
    for old, new, data in islice(changes, MOST_CHANGES):
        before = source.origin.read(old.start, min(_size(old), SHOWN_BYTES))
        remaining.append(ByteChange(old, new, before, bytes(data[:SHOWN_BYTES])))
    return tuple(remaining), len(remaining) + sum(1 for _ in changes)


def _size(span: Span) -> int:
    return span.stop - span.start


def _verb(old: Span, new: Span) -> str:
    if not _size(old):
        return f"{counted(_size(new), 'byte is', 'bytes are')} inserted at 0x{old.start:x}"
    if not _size(new):
        return f"{counted(_size(old), 'byte is', 'bytes are')} removed at 0x{old.start:x}"
    return f"bytes 0x{old.start:x} to 0x{old.stop:x} become 0x{new.start:x} to 0x{new.stop:x}"


def _side(sign: str, span: Span, data: bytes) -> Iterator[str]:
    size = _size(span)
    if size and len(set(data)) == 1 and len(data) in (size, SHOWN_BYTES) and size > 4 and not any(data):
        more = "" if len(data) == size else f", as far as {counted(len(data), 'byte shows', 'bytes show')}"
        yield f"{sign} 0x{span.start:x}  {counted(size, 'byte')} of 00{more}"
        return
    for at in range(0, len(data), _ROW):
        yield f"{sign} 0x{span.start + at:x}  {data[at : at + _ROW].hex(' ')}"
    if size > len(data):
        yield f"{sign} ... {counted(size - len(data), 'more byte')}"
