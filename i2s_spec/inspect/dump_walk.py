"""A walk of a whole file: header, key-values, tensor infos, padding, data, and whatever lies between and after.

The scanner has noted where each record is; a record is parsed by the schema when the walk comes to it, and the data of
a tensor are only stepped over unless they are asked for. Every byte of the file lies in exactly one leaf. Where the
scan was stopped by a fault, the fault itself is a leaf, and one more stands for the bytes that were not examined.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import chain
from math import prod
from typing import Any, Final

from i2s_spec.errors import FormatError, TrustedText
from i2s_spec.gguf.header import KeyValue, TensorInfo
from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.gguf.source import FetchingSource, affordable
from i2s_spec.inspect.dump_codes import LEGEND, block_nodes
from i2s_spec.schema import container, i2s
from i2s_spec.schema.blocks import BLOCK_LAYOUTS, ROW_SCALES_APART
from i2s_spec.schema.container import Elided, Opened, Read, Scope, is_leaf, numbers
from i2s_spec.schema.faults import HEADER_BYTES, MAGIC
from i2s_spec.schema.field import Field, FieldNode, ParseState, Word
from i2s_spec.schema.types import TAIL_BYTES, ValueType, padded

#: How much is read at once: most fields are a few bytes.
WINDOW: Final = 1 << 16

EVERYTHING: Final = Scope()


def reader(file: File) -> Read:
    """Return a function that reads ranges of a file through a window, so that a field costs no call of the system.

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
        yield FieldNode("padding", infos_end, stop, _zeros(read(infos_end, stop - infos_end)), section("padding"))
    yield from affordable_nodes(file, read, scope)


def key_value(file: File, i: int, scope: Scope = EVERYTHING, read: Read | None = None) -> Iterator[FieldNode]:
    """Yield the nodes of key-value `i`."""
    read = read or reader(file)
    entry = file.index.key(i)
    start, stop, path = entry.span
    yield FieldNode(path, start, stop, Opened(entry.name), None)
    head = container.key_nodes(read, file.byte_order, start, stop, path)
    yield from head
    yield from container.value_nodes(read, file.byte_order, entry.type, head[-1].stop, stop, f"{path}.value", scope)


def tensor_info(file: File, i: int, read: Read | None = None) -> Iterator[FieldNode]:
    """Yield the nodes of tensor info `i`."""
    info = file.index.tensor(i)
    start, stop, path = info.span
    yield FieldNode(path, start, stop, Opened(info.name), None)
    yield from container.info_nodes(read or reader(file), file.byte_order, start, stop, path)


def section(name: str) -> Any:
    """Return the field that declares a section of the file."""
    return next(field for field in container.container("little").fields if field.name == name)


def _header(file: File, read: Read, scope: Scope) -> Iterator[FieldNode]:
    stop = min(HEADER_BYTES, file.size)
    if scope.covers(0, stop) and stop >= len(MAGIC) and read(0, len(MAGIC)) == MAGIC:
        nodes = container.header_nodes(read, file.byte_order, stop)
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
    """Yield the records that the scope covers; of the rest, those that it would cover without its limit are one
    leaf.
    """
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
    """Yield the fields after the last record that could be indexed: the broken one up to its fault, the fault, the rest."""
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
    """Yield the fields that lie before a fault in the record that begins at `start`."""
    path = fault.span.path.split(".")[0]
    if path.startswith("tensor_infos["):
        nodes = iter(container.info_nodes(read, file.byte_order, start, file.size, path))
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
    head = container.key_nodes(read, file.byte_order, start, file.size, path)
    yield from head
    if head and head[-1].path == f"{path}.type" and head[-1].value == ValueType.ARRAY:
        value, stop = head[-1].stop, fault.span.start
        yield from container.value_nodes(read, file.byte_order, ValueType.ARRAY, value, stop, f"{path}.value", scope)


# --- data walk -------------------------------------------------------------------------------------------------------
# The data section: the tensors in the order of their bytes, padding, gaps, and what lies after.
#
# Nothing in the tensor table is trusted: tensors may overlap, begin anywhere, end after the file, or be of a
# type of unknown size. Each byte is given once, to the tensor that starts first.

#: `struct` letters of the types whose elements are numbers; BF16 is read as the upper half of a float32.
ELEMENT_FORMATS: Final = {
    "F32": "f", "F16": "e", "BF16": "H", "F64": "d", "I8": "b", "I16": "h", "I32": "i", "I64": "q",
}  # fmt: skip


def data_nodes(file: File, read: Read, scope: Scope) -> Iterator[FieldNode]:
    """Every node from the data section's start to the end of the file that the scope covers."""
    assert file.data_start is not None
    size, alignment = file.size, file.alignment or 1
    cursor = min(max(file.data_start, file.infos_end or 0), size)
    if not scope.covers(cursor, size):
        return
    count = file.index.tensors
    in_order = sorted(range(count), key=lambda i: file.index.tensor(i).offset)
    if count or cursor < size:
        yield FieldNode("data", cursor, size, Opened(TrustedText(""), count), section("data"))

    previous: str | None = None
    gaps = shown = 0
    for tensor in map(file.tensors.by_index, in_order):
        start, stop = extent(file, tensor)
        if start > cursor:
            until = min(start, size)
            yield from _between(cursor, until, alignment, previous, f"data.gaps[{gaps}]", read)
            gaps += padded(cursor, alignment) < until if previous else 1
            cursor = max(cursor, until)
        if scope.records is not None and shown >= scope.records:
            break
        if scope.covers(max(start, cursor), max(stop, cursor)) or start >= size:
            yield from tensor_nodes(file, tensor, read, scope, cursor)
            shown += 1
        cursor = max(cursor, min(stop, size))
        previous = f"data[{tensor.index}]"
    else:
        yield from _between(cursor, size, alignment, previous, "data.trailing", read)
        return
    yield FieldNode(f"data[{shown}..{count}]", cursor, size, Elided(count - shown, "tensors"), None)


def extent(file: File, tensor: Tensor) -> tuple[int, int]:
    """Where a tensor's data begin and end by its tensor info; to where the next begins if its size is not known."""
    start = (file.data_start or 0) + tensor.offset
    try:
        return start, start + tensor.nbytes
    except FormatError:
        return start, start + (file.tensors.allotted_bytes(tensor.offset) or 0)


def tensor_nodes(file: File, tensor: Tensor, read: Read, scope: Scope, floor: int = 0) -> Iterator[FieldNode]:
    """Yield the data of one tensor, without the bytes before `floor`, which belong to another one."""
    start, stop = extent(file, tensor)
    path = f"data[{tensor.index}]"
    yield FieldNode(path, start, stop, Opened(tensor.raw_name, None, _note(file, tensor, floor)), None)
    for node in _fields(file, tensor, read, scope, start, stop, max(floor, start)):
        first, last = max(node.start, floor), min(node.stop, file.size)
        if first >= last:
            continue
        if is_leaf(node) and (first, last) != (node.start, node.stop):
            yield node._replace(start=first, stop=last, value=None)
        else:
            yield node


def _fields(
    file: File, tensor: Tensor, read: Read, scope: Scope, start: int, stop: int, floor: int
) -> Iterator[FieldNode]:
    kind = tensor.type.name if tensor.type is not None else None
    path, order = f"data[{tensor.index}]", file.byte_order
    split = max(start, stop - tensor.type.tail_bytes) if tensor.type is not None else stop
    scales = split  # of I2_SR those of rows lie between payload and tail
    if kind == ROW_SCALES_APART.name:
        split -= ROW_SCALES_APART.scale.nbytes * prod(tensor.ne[1:])
    has_codes = kind in ("I2_S", ROW_SCALES_APART.name)
    deep = scope.deep and start >= floor and start < file.size

    layout = BLOCK_LAYOUTS.get(kind or "")
    if deep and layout is not None and tensor.shape and tensor.shape[-1] % layout.block == 0:
        held = min(stop, file.size)
        yield from block_nodes(layout, tensor.shape, order, read, (start, held), path, scope)
        if held < stop:
            yield FieldNode(f"{path}.bytes", held, stop, None, None)
        return

    # payload: codes of I2_S, numbers of the plain types, opaque bytes of all others
    code = "B" if has_codes else ELEMENT_FORMATS.get(kind or "")
    name = "payload" if split < stop or kind == "I2_S" else "elements" if code else "bytes"
    field = i2s.extent(order).fields[0] if has_codes else None
    if deep and code is not None:
        word = Word(order, code)
        count = (min(split, file.size) - start) // word.length
        yield FieldNode(
            f"{path}.{name}",
            start,
            split,
            Opened(TrustedText(kind or ""), None, LEGEND if has_codes else ""),
            field,
        )
        for node in numbers(read, word, start, count, f"{path}.{name}", scope):
            yield _widened(node) if kind == "BF16" else node
        rest = start + count * word.length
        if rest < split:
            yield FieldNode(f"{path}.{name}[{count}..]", rest, split, None, field)
    else:
        yield FieldNode(f"{path}.{name}", start, split, None, field)

    if split < scales:
        yield from _row_scales(file, read, (split, scales), path, deep, scope)
        split = scales

    # tail
    if kind == "I2_S":
        yield from _tail(file, read, split, f"{path}.tail", floor)
    elif split < stop:
        yield FieldNode(f"{path}.tail", split, stop, None, None)


def _row_scales(
    file: File, read: Read, extent: tuple[int, int], path: str, deep: bool, scope: Scope
) -> Iterator[FieldNode]:
    """Yield the scale of each row of an I2_SR tensor, as far as the file has them."""
    start, stop = extent
    word = Word(file.byte_order, "f")
    field = Field("scales", word, "What the weights of each row are multiplied by, F32.", "5.6")
    count = max(0, min(stop, file.size) - start) // word.length if deep else 0
    yield FieldNode(f"{path}.scales", start, stop, Opened(TrustedText("F32")) if count else None, field)
    if count:
        yield from numbers(read, word, start, count, f"{path}.scales", scope)
        if start + count * word.length < stop:
            yield FieldNode(f"{path}.scales[{count}..]", start + count * word.length, stop, None, field)


def _tail(file: File, read: Read, start: int, path: str, floor: int) -> Iterator[FieldNode]:
    at = start
    yield FieldNode(path, start, start + TAIL_BYTES, Opened(TrustedText("")), i2s.extent(file.byte_order).fields[1])
    for field in i2s.tail(file.byte_order).fields:
        width = field.sizeof()
        value: object = None
        if at >= floor and at + width <= file.size:
            data = read(at, width)
            parsed = field.subcon.parse(data, reading=ParseState(width))
            value = parsed if field.name == "scale" else _zeros(data)
        yield FieldNode(f"{path}.{field.name}", at, at + width, value, field)
        at += width


def _widened(node: FieldNode) -> FieldNode:
    """Return a BF16 element as the float32 whose upper half it is."""
    if not isinstance(node.value, int):
        return node
    return node._replace(value=struct.unpack("<f", struct.pack("<I", node.value << 16))[0])


def _between(start: int, stop: int, alignment: int, previous: str | None, name: str, read: Read) -> Iterator[FieldNode]:
    """Bytes that no tensor claims: padding up to the next multiple of the alignment, then a gap."""
    split = min(stop, padded(start, alignment)) if previous else start
    if start < split:
        yield FieldNode(f"{previous}.padding", start, split, _zeros(read(start, split - start)), None)
    if split < stop:
        yield FieldNode(name, split, stop, None, None)


def _zeros(data: bytes) -> TrustedText:
    """Describe bytes that mean nothing."""
    return TrustedText("not all zero" if any(data) else "zeros")


def _note(file: File, tensor: Tensor, floor: int) -> str:
    """Describe a tensor, and anything unusual about its position."""
    start, stop = extent(file, tensor)
    kind = tensor.type.name if tensor.type is not None else f"type {tensor.number}, of unknown size"
    shape = " x ".join(map(str, tensor.shape)) or "scalar"
    odd = ""
    if start >= file.size and (stop > start or start > file.size):
        odd = ", beyond the end of the file"
    elif stop > file.size:
        odd = ", cut off by the end of the file"
    if floor > start:
        odd += ", overlapped by the tensor before"
    return f"{kind} {shape}{odd}"


# --- server data -----------------------------------------------------------------------------------------------------
# The data of a file on a server: what the walk will show is asked for together, before it begins.
#
# A server of single ranges would take a request for every tensor. There a dump of the whole structure shows as many
# scales as a sample may cost (`--remote-limit sample=N`), evenly spread, and says of the rest that it was not read.

#: Bytes of the widest line.
LINE: Final = 32

UNREAD: Final = "bytes, not read: they would be a request of their own"


def affordable_nodes(file: File, read: Read, scope: Scope) -> Iterator[FieldNode]:
    """Yield the nodes of the data section that the scope covers, as `data_nodes` gives them.

    :raises FormatError: where the server does not give what is asked for
    """
    source = file.source
    if not isinstance(source, FetchingSource) or scope.limit is None or scope.records is None or scope.deep:
        yield from data_nodes(file, read, scope)
        return
    from i2s_spec.remote.http_source import NEAR, merged

    def shown(node: FieldNode) -> tuple[int, int]:
        """Return the bytes that a leaf takes: all for its value, else those of its lines."""
        if not is_leaf(node) or isinstance(node.value, Elided):
            return node.start, node.start
        stop = node.stop if _has_value(node) else min(node.stop, node.start + LINE * (scope.limit or 0))
        return node.start, min(stop, file.size)

    nodes = list(data_nodes(file, _nothing, scope))
    spans = merged(map(shown, nodes), NEAR)
    # Scales and padding tell more than the first numbers of a tensor.
    starts = [start for start, _ in spans]
    first = sorted(
        {bisect_right(starts, node.start) - 1 for node in nodes if _has_value(node) and node.start < file.size}
    )
    valued = [spans[place] for place in first]
    if len(affordable(source, valued)) == len(valued):
        source.prefetch(valued)
        left = [span for span in spans if not source.holds(*span)]
        if len(affordable(source, left)) == len(left):
            source.prefetch(left)
            yield from data_nodes(file, read, scope)
            return

    def held(start: int, length: int) -> bytes:
        return read(start, length) if source.holds(start, start + length) else _nothing(start, length)

    for node in data_nodes(file, held, scope):
        start, stop = shown(node)
        is_here = start >= stop or source.holds(start, stop)
        yield node if is_here else node._replace(value=Elided(node.stop - node.start, UNREAD))


def _has_value(node: FieldNode) -> bool:
    """Whether the value of a leaf needs all its bytes."""
    return node.value is not None and is_leaf(node) and not isinstance(node.value, Elided)


def _nothing(start: int, length: int) -> bytes:
    """Return zeros for bytes that are not here; they are not displayed, and no field of the data section is longer."""
    return bytes(min(length, TAIL_BYTES))
