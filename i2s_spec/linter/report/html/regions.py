"""This module divides a file into the regions of its map: every byte is in exactly one, in the order of the file.

The map is drawn from the index alone; no byte of the file is read for it. If a table is too long for a page, its
remaining records are one region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from i2s_spec.gguf.header_index import KeyValue, TensorInfo
from i2s_spec.gguf.reader import File
from i2s_spec.inspect.dump.data_walk import extent
from i2s_spec.schema.checks import HEADER_BYTES
from i2s_spec.schema.types import TAIL_BYTES, padded

#: Gives a record of a table by its number.
Record = Callable[[int], KeyValue | TensorInfo]

#: How many key-values, tensor infos and tensors have a region of their own.
RECORDS: Final = 1000

#: The kinds of regions, in words.
KINDS: Final = {
    "header": "header",
    "key": "key-value",
    "info": "tensor info",
    "padding": "padding",
    "payload": "payload",
    "tail": "tail",
    "elements": "elements",
    "gap": "gap",
    "trailing": "trailing bytes",
    "rest": "not shown one by one",
    "broken": "before the fault",
    "fault": "fault",
    "unexamined": "not examined",
}


class FileRegion(NamedTuple):
    """A range of bytes of one kind; `number` is the number of the key or tensor, or how many of them it covers."""

    start: int
    stop: int
    kind: str
    number: int | None = None


def regions(file: File, records: int = RECORDS) -> Iterator[FileRegion]:
    """The regions of a file, which may be damaged."""
    index, size = file.index, file.size
    if file.version is None:
        yield from _unindexed(file, 0)
        return
    tables: tuple[tuple[str, int, Record], ...] = (
        ("key", index.keys, index.key),
        ("info", index.tensors, index.tensor),
    )
    firsts = [record(0).start for _, count, record in tables if count]
    cursor = min(firsts[0] if firsts else HEADER_BYTES, size)
    if not firsts and file.fault is not None:
        cursor = min(cursor, file.fault.span.start)
    if cursor:
        yield FileRegion(0, cursor, "header")
    for kind, count, record in tables:
        yield from _table(kind, count, record, records)
        cursor = record(count - 1).stop if count else cursor
    if file.infos_end is None or file.data_start is None:
        yield from _unindexed(file, cursor)
        return
    start = min(file.data_start, size)
    if start > cursor:
        yield FileRegion(cursor, start, "padding")
    yield from _data(file, start, records)


def _table(kind: str, count: int, record: Record, records: int) -> Iterator[FileRegion]:
    for i in range(min(count, records)):
        found = record(i)
        yield FileRegion(found.start, found.stop, kind, i)
    if count > records:
        yield FileRegion(record(records).start, record(count - 1).stop, "rest", count - records)


def _unindexed(file: File, cursor: int) -> Iterator[FileRegion]:
    """The bytes after the last record that could be indexed: the broken record up to its fault, the fault, and the rest."""
    if file.fault is not None:
        start = min(max(file.fault.span.start, cursor), file.size)
        stop = min(max(file.fault.span.stop, start), file.size)
        if start > cursor:
            yield FileRegion(cursor, start, "broken")
        yield FileRegion(start, stop, "fault")
        cursor = stop
    if cursor < file.size:
        yield FileRegion(cursor, file.size, "unexamined")


def _data(file: File, cursor: int, records: int) -> Iterator[FileRegion]:
    """The data section: each byte belongs to the tensor that starts first."""
    size, alignment, count = file.size, file.alignment or 1, file.index.tensors
    in_order = sorted(range(count), key=lambda i: file.index.tensor(i).offset)
    previous: int | None = None
    for place, i in enumerate(in_order):
        if place == records:
            if cursor < size:
                yield FileRegion(cursor, size, "rest", count - records)
            return
        tensor = file.tensors.by_index(i)
        start, stop = (min(at, size) for at in extent(file, tensor))
        yield from _between(cursor, start, alignment, previous)
        cursor = max(cursor, start)
        has_tail = tensor.type is not None and tensor.type.size is not None
        split = max(cursor, extent(file, tensor)[1] - TAIL_BYTES) if has_tail else stop
        split = min(split, stop)
        if split > cursor:
            yield FileRegion(cursor, split, "payload" if has_tail else "elements", i)
        if has_tail and stop > max(split, cursor):
            yield FileRegion(max(split, cursor), stop, "tail", i)
        cursor, previous = max(cursor, stop), i
    yield from _between(cursor, size, alignment, previous, "trailing")


def _between(start: int, stop: int, alignment: int, previous: int | None, kind: str = "gap") -> Iterator[FileRegion]:
    """Bytes that no tensor claims: padding up to the next multiple of the alignment, then a gap."""
    if stop <= start:
        return
    split = min(stop, padded(start, alignment)) if previous is not None else start
    if split > start:
        yield FileRegion(start, split, "padding", previous)
    if stop > split:
        yield FileRegion(split, stop, kind)
