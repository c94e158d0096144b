"""This module walks the data section: the tensors in the order of their bytes, padding, gaps, and what lies after.

Nothing that the tensor table says is believed: tensors may overlap, begin anywhere, end after the file, or be of a type
whose size nobody knows. Each byte is given once, to the tensor that starts first.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import prod
from typing import Final

from i2s_spec.errors import FormatError, TrustedText
from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.inspect.dump.block_walk import block_nodes
from i2s_spec.inspect.dump.codes import LEGEND
from i2s_spec.schema import gguf, i2s
from i2s_spec.schema.block_layout import BLOCK_LAYOUTS, ROW_SCALES_APART
from i2s_spec.schema.field import Field, FieldNode, ParseState, Word
from i2s_spec.schema.types import TAIL_BYTES, padded
from i2s_spec.schema.walk import Elided, Opened, Read, Scope, is_leaf, numbers

#: `struct` letters of the types whose elements are numbers; BF16 is read as the upper half of a float32.
ELEMENT_FORMATS: Final = {
    "F32": "f", "F16": "e", "BF16": "H", "F64": "d", "I8": "b", "I16": "h", "I32": "i", "I64": "q",
}  # fmt: skip


def data_nodes(file: File, read: Read, scope: Scope) -> Iterator[FieldNode]:
    """Every node from the data section's start to the end of the file that the scope covers."""
    assert file.data_start is not None
    size, alignment = file.size, file.alignment or 1
    cursor = min(file.data_start, size)
    if not scope.covers(cursor, size):
        return
    field = next(field for field in gguf.container("little").fields if field.name == "data")
    count = file.index.tensors
    in_order = sorted(range(count), key=lambda i: file.index.tensor(i).offset)
    if count or cursor < size:
        yield FieldNode("data", cursor, size, Opened(TrustedText(""), count), field)

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
    """The data of one tensor, without the bytes before `floor`, which belong to another one."""
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
    split = max(start, stop - TAIL_BYTES) if tensor.type is not None and tensor.type.size is not None else stop
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
    """The scale of each row of an I2_SR tensor, as far as the file has them."""
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
    """A BF16 element as the float32 whose upper half it is."""
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
    """What there is to say of bytes that mean nothing."""
    return TrustedText("not all zero" if any(data) else "zeros")


def _note(file: File, tensor: Tensor, floor: int) -> str:
    """What a tensor is, and what is odd about where it lies."""
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
