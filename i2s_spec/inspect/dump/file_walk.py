"""This module walks a whole file: header, key-values, tensor infos, padding, data, and whatever lies between and after.

The scanner has noted where each record is; a record is parsed by the schema when the walk comes to it, and the data of
a tensor are only stepped over unless they are asked for. Every byte of the file lies in exactly one leaf. Where the
scan was stopped by a fault, the fault itself is a leaf, and one more stands for what nobody has examined.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

from i2s_spec.errors import FormatError, TrustedText
from i2s_spec.gguf.header_index import KeyValue, TensorInfo
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import FetchingSource
from i2s_spec.inspect.dump.server_data import affordable_nodes
from i2s_spec.schema import gguf, walk
from i2s_spec.schema.checks import HEADER_BYTES, MAGIC
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.types import ValueType
from i2s_spec.schema.walk import Elided, Opened, Read, Scope, is_leaf

#: How much is read at once: most fields are a few bytes.
WINDOW: Final = 1 << 16

EVERYTHING: Final = Scope()


def reader(file: File) -> Read:
    """A function that reads ranges of a file through a window, so that a field costs no call of the system.

    Of a file on a server a window is taken only of what is here: all else is asked for as it is wanted.
    """
    base, window, source = 0, b"", file.source
    fetched = source if isinstance(source, FetchingSource) else None

    def read(start: int, length: int) -> bytes:
        nonlocal base, window
        if not base <= start <= start + length <= base + len(window):
            stop = min(start + WINDOW, file.size)
            if length > WINDOW or not 0 <= start <= start + length <= file.size:
                return source.read(start, length)  # large, or refused
            if fetched is not None and not fetched.holds(start, stop):
                return source.read(start, length)
            base, window = start, source.read(start, stop - start)
        return window[start - base : start - base + length]

    return read


def file_nodes(file: File, scope: Scope = EVERYTHING) -> Iterator[FieldNode]:
    """Every node of a file that the scope covers, each record before its fields, in the order of the file.

    Sections and records that lie outside the scope are left out; inside, what is stepped over is an `Elided` leaf. Bytes
    that several tensors claim belong to the one that starts first.

    :param file: a `File`, which may carry a fault
    """
    read = reader(file)
    cursor = 0
    for node in chain(_header(file, read, scope), _records(file, read, scope)):
        yield node
        if is_leaf(node):
            cursor = node.stop

    infos_end, data_start = file.infos_end, file.data_start
    if infos_end is None or data_start is None:
        cursor = _indexed_end(file) or cursor
        yield from (node for node in _unindexed(file, read, scope, cursor) if scope.covers(node.start, node.stop))
        return
    stop = min(data_start, file.size)
    if stop > infos_end and scope.covers(infos_end, stop):
        zeros = TrustedText("not all zero" if any(read(infos_end, stop - infos_end)) else "zeros")
        yield FieldNode("padding", infos_end, stop, zeros, section("padding"))
    yield from affordable_nodes(file, read, scope)


def key_value(file: File, i: int, scope: Scope = EVERYTHING, read: Read | None = None) -> Iterator[FieldNode]:
    """The nodes of key-value `i`."""
    read = read or reader(file)
    entry = file.index.key(i)
    start, stop, path = entry.span
    yield FieldNode(path, start, stop, Opened(entry.name), None)
    head = walk.key_nodes(read, file.byte_order, start, stop, path)
    yield from head
    yield from walk.value_nodes(read, file.byte_order, entry.type, head[-1].stop, stop, f"{path}.value", scope)


def tensor_info(file: File, i: int, read: Read | None = None) -> Iterator[FieldNode]:
    """The nodes of tensor info `i`."""
    info = file.index.tensor(i)
    start, stop, path = info.span
    yield FieldNode(path, start, stop, Opened(info.name), None)
    yield from walk.info_nodes(read or reader(file), file.byte_order, start, stop, path)


def section(name: str) -> Any:
    """The field that declares a section of the file."""
    return next(field for field in gguf.container("little").fields if field.name == name)


def _header(file: File, read: Read, scope: Scope) -> Iterator[FieldNode]:
    stop = min(HEADER_BYTES, file.size)
    if scope.covers(0, stop) and stop >= len(MAGIC) and read(0, len(MAGIC)) == MAGIC:
        nodes = walk.header_nodes(read, file.byte_order, stop)
        yield FieldNode("header", 0, nodes[-1].stop, Opened(TrustedText("")), section("header"))
        yield from nodes


def _records(file: File, read: Read, scope: Scope) -> Iterator[FieldNode]:
    """Key-values and tensor infos, as far as they were indexed."""
    index = file.index
    yield from _table("key_values", index.keys, index.key, lambda i: key_value(file, i, scope, read), scope)
    yield from _table("tensor_infos", index.tensors, index.tensor, lambda i: tensor_info(file, i, read), scope)


def _table(
    name: str,
    count: int,
    record: Callable[[int], KeyValue | TensorInfo],
    nodes: Callable[[int], Iterator[FieldNode]],
    scope: Scope,
) -> Iterator[FieldNode]:
    """The records that the scope covers; of the rest, those that it would cover without its limit are one leaf."""
    if not count:
        return
    start, stop = record(0).start, record(count - 1).stop
    first = bisect_right(range(count), scope.start, key=lambda i: record(i).stop)
    end = bisect_left(range(count), scope.stop, lo=first, key=lambda i: record(i).start)
    if first == end:
        return
    yield FieldNode(name, start, stop, Opened(TrustedText(""), count), section(name))
    last = end if scope.records is None else min(end, first + scope.records)
    for i in range(first, last):
        yield from nodes(i)
    if last < end:
        yield FieldNode(f"{name}[{last}..{count}]", record(last).start, stop, Elided(count - last, "records"), None)


def _indexed_end(file: File) -> int:
    """Where the last record ends that the scanner has noted."""
    index = file.index
    if index.tensors:
        return index.tensor(index.tensors - 1).stop
    return index.key(index.keys - 1).stop if index.keys else 0


def _unindexed(file: File, read: Read, scope: Scope, cursor: int) -> Iterator[FieldNode]:
    """What follows the last record that could be indexed: the broken one up to its fault, the fault, and the rest."""
    fault = file.fault
    assert fault is not None
    start, stop, path = fault.span
    if start >= cursor:
        for node in _broken_record(file, read, fault, scope, cursor):
            yield node
            if is_leaf(node):
                cursor = node.stop
        if start > cursor:
            yield FieldNode("not_examined", cursor, start, Elided(None, "not examined"), None)
            cursor = start
    if stop > cursor or start == cursor:  # a fault has no bytes where the file ends in front of a field
        yield FieldNode(path, cursor, stop, fault, None)
        cursor = stop
    if file.size > cursor:
        yield FieldNode("not_examined", cursor, file.size, Elided(None, "not examined"), None)


def _broken_record(file: File, read: Read, fault: FormatError, scope: Scope, start: int) -> Iterator[FieldNode]:
    """The fields that lie before a fault in the record that begins at `start`."""
    path = fault.span.path.split(".")[0]
    if path.startswith("tensor_infos["):
        nodes = iter(walk.info_nodes(read, file.byte_order, start, file.size, path))
    elif path.startswith("key_values["):
        nodes = _broken_key_value(file, read, fault, scope, start, path)
    else:
        return
    yield FieldNode(path, start, fault.span.stop, Opened(TrustedText("")), None)
    try:
        for node in nodes:
            if is_leaf(node) and node.stop > fault.span.start:
                return
            yield node
    except FormatError:
        return  # the walk ran into the fault


def _broken_key_value(
    file: File, read: Read, fault: FormatError, scope: Scope, start: int, path: str
) -> Iterator[FieldNode]:
    head = walk.key_nodes(read, file.byte_order, start, file.size, path)
    yield from head
    if head and head[-1].path == f"{path}.type" and head[-1].value == ValueType.ARRAY:
        value, stop = head[-1].stop, fault.span.start
        yield from walk.value_nodes(read, file.byte_order, ValueType.ARRAY, value, stop, f"{path}.value", scope)
