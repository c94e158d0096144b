"""This module changes data and their positions: it moves the data section, and adds, retypes, recodes and realigns tensors.

These need a file whose header can be read; the result is sound unless an operator breaks it on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from construct import Container

from i2s_spec.errors import FormatError, counted
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.schema import checks, gguf, limits
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS, Dialect
from i2s_spec.schema.gguf import ALIGNMENT_KEY
from i2s_spec.schema.types import I2_S, TENSOR_TYPES, TensorType, ValueType, padded
from i2s_spec.testing.mutator.anatomy import Anatomy
from i2s_spec.testing.mutator.edit import Mutation, operator
from i2s_spec.testing.mutator.fields import dictionary
from i2s_spec.testing.sample import i2s_bytes, key_value, tensor_info

#: Upper limit of the size of new tensors.
_MOST_BYTES = 1 << 14

_SHAPES = (
    (128, 1),
    (128, 4),
    (256, 2),
    (8,),
    (32,),
    (1,),
    (256,),
    (64, 2),
    (128, 1, 2),
    (132, 1),
    (4, 3),
    (128, 0),
    (),
)


def begun(order: str = "little") -> bytes:
    """A file that is only a header, as a starting point."""
    header = Container(magic=b"GGUF", version=3, tensor_count=0, key_count=0)
    built: bytes = gguf.header(order).build(header)
    return built


def laid_out(file: Container, contents: Iterable[bytes], alignment: int = limits.DEFAULT_ALIGNMENT) -> bytes:
    """A file of these records with the tensors' bytes one after the other; counts, offsets and padding are updated."""
    data = b""
    for info, content in zip(file.tensor_infos, contents, strict=True):
        info.offset = len(data)
        data += content.ljust(padded(len(content), alignment), b"\0")
    file.header.key_count, file.header.tensor_count = len(file.key_values), len(file.tensor_infos)
    file.padding, file.data = b"", b""
    end = len(gguf.build(file))
    file.padding, file.data = bytes(checks.data_start(end, alignment) - end), data
    return gguf.build(file)


def contents_of(file: File) -> list[bytes]:
    """The bytes of every tensor, as far as the file has them."""
    return [
        bytes(file.source.read(start, max(0, min(stop, file.size) - start)))
        for start, stop in (_extent(file, i) for i in range(file.index.tensors))
    ]


def _extent(file: File, i: int) -> tuple[int, int]:
    tensor = file.tensors.by_index(i)
    start = min(file.size, (file.data_start or 0) + tensor.offset)
    try:
        return start, max(start, start + tensor.nbytes)
    except FormatError:
        return start, start + (file.tensors.allotted_bytes(tensor.offset) or 0)


@operator(10)
def add_tensor(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """A tensor is added, of any type, with the bytes that it needs."""
    opened = _opened(anatomy)
    if opened is None:
        return None
    records, contents = opened
    kind, ne = _kind(chance), chance.choice(_SHAPES)
    content = _content(kind, ne, chance, anatomy.order)
    if content is None:
        return None
    at = chance.randrange(len(contents) + 1)
    name = chance.choice(dictionary())
    records.tensor_infos.insert(at, tensor_info(name, ne, kind.number, 0))
    contents.insert(at, content)
    data = laid_out(records, contents, anatomy.alignment or limits.DEFAULT_ALIGNMENT)
    return Mutation(data, f"a tensor of {kind.name} made", f"tensor_infos[{at}]")


@operator(5)
def retype(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """A tensor gets another type, with the bytes that this type needs, or with its old bytes."""
    opened = _opened(anatomy)
    if opened is None or not opened[1]:
        return None
    records, contents = opened
    at = chance.randrange(len(contents))
    info, kind = records.tensor_infos[at], _kind(chance)
    info.type = kind.number
    if chance.random() < 0.8:
        content = _content(kind, info.ne, chance, anatomy.order)
        if content is None:
            return None
        contents[at] = content
    data = laid_out(records, contents, anatomy.alignment or limits.DEFAULT_ALIGNMENT)
    return Mutation(data, f"made {kind.name}", f"tensor_infos[{at}]")


@operator(6)
def realign(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """The file gets another alignment, with or without being laid out for it."""
    opened = _opened(anatomy)
    if opened is None:
        return None
    records, contents = opened
    alignment = 1 << chance.randrange(13)
    held = [pair for pair in records.key_values if pair.key == ALIGNMENT_KEY]
    for pair in held[:1]:
        pair.type, pair.value = int(ValueType.UINT32), alignment
    if not held:
        place = chance.randrange(len(records.key_values) + 1)
        records.key_values.insert(place, key_value(ALIGNMENT_KEY, ValueType.UINT32, alignment))
    honored = chance.random() < 0.8
    data = laid_out(records, contents, alignment if honored else limits.DEFAULT_ALIGNMENT)
    return Mutation(data, f"aligned to {alignment}" if honored else f"said to be aligned to {alignment}", "padding")


@operator(4)
def shift(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """The data section begins some bytes later, or earlier, than the header says."""
    if anatomy.infos_end is None or anatomy.data_start is None or anatomy.data_start > len(anatomy.data):
        return None
    start, data = anatomy.data_start, anatomy.data
    by = chance.choice((1, 4, 8, 16, 32, 64, 4096, -1, -4, -(start - anatomy.infos_end)))
    if by < 0:
        return Mutation(
            data[: start + by] + data[start:], f"the data section moved by {counted(by, 'byte')}", "padding"
        )
    return Mutation(
        data[:start] + chance.choice((b"\0", b"\xa5")) * by + data[start:], f"the data section "
                                                                            f"moved by {counted(by, 'byte')}",
        "padding",
    )  # fmt: skip


@operator(5)
def recode(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """An I2_S tensor is written in another dialect: the same weights, other bytes."""
    file = File(BufferSource(anatomy.data))
    if file.fault is not None:
        return None
    start = file.data_start or 0
    ternary = [tensor for tensor in file.tensors.rows if tensor.number == I2_S.number and len(tensor.ne) == 2]
    whole = [tensor for tensor in ternary if start + tensor.offset + tensor.nbytes <= file.size]
    if not whole:
        return None
    tensor = chance.choice(whole)
    target = Dialect(
        chance.choice([layout for layout in LAYOUTS.values() if layout.in_gguf]),
        chance.choice(tuple(CODE_MAPS.values())),
        chance.choice(tuple(TAILS.values())),
    )
    start += tensor.offset
    from i2s_spec.codec import native

    try:
        new = native.transcode(
            anatomy.data[start : start + tensor.nbytes], tensor.shape, "canonical", target, byte_order=anatomy.order
        )
    except ValueError:
        return None  # a shape that one of the layouts cannot hold
    data = anatomy.data[:start] + bytes(new) + anatomy.data[start + len(new) :]
    return Mutation(data, f"written as {target}", f"data[{tensor.index}]")


@operator(3)
def turn(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """The header is written in the other byte order; the data stay unchanged, or their scales are swapped, too."""
    opened = _opened(anatomy)
    if opened is None:
        return None
    records, contents = opened
    records.byte_order = "big" if anatomy.order == "little" else "little"
    swapped = chance.random() < 0.7
    if swapped:
        for i, info in enumerate(records.tensor_infos):
            if info.type == I2_S.number and len(contents[i]) >= 32:
                contents[i] = contents[i][:-32] + contents[i][-32:-28][::-1] + contents[i][-28:]
    data = laid_out(records, contents, anatomy.alignment or limits.DEFAULT_ALIGNMENT)
    return Mutation(data, f"written in {records.byte_order}-endian order{'' if swapped else ', its data not'}")


@operator(2)
def behind(anatomy: Anatomy, chance: Random) -> Mutation | None:
    """Bytes are appended to the file."""
    more = chance.choice((bytes(32), b"\xff" * 7, b"PK\x03\x04" + bytes(60), begun(), b"\0"))
    return Mutation(anatomy.data + more, f"{counted(len(more), 'byte')} put after the file")


def _opened(anatomy: Anatomy) -> tuple[Any, list[bytes]] | None:
    """A new copy of the records of a file, and the bytes of its tensors."""
    if not anatomy.sound:
        return None
    try:
        return gguf.parse(anatomy.data), contents_of(File(BufferSource(anatomy.data)))
    except FormatError:
        return None


def _kind(chance: Random) -> TensorType:
    return I2_S if chance.random() < 0.4 else chance.choice(TENSOR_TYPES)


def _content(kind: TensorType, ne: Iterable[int], chance: Random, order: str) -> bytes | None:
    """Bytes for a tensor of that type, None if it would be too large for a test."""
    size = kind.nbytes(tuple(ne))
    if not 0 <= size <= _MOST_BYTES:
        return None
    if kind is I2_S and size >= 32:
        return i2s_bytes(4 * (size - 32), chance.choice((0.75, 1.0, 0.02)), "big" if order == "big" else "little")
    return bytes(size) if chance.random() < 0.5 else chance.randbytes(size)
