"""Forms of GGUF files with I2_S tensors that single programs write, and the same models in the form of this specification.

`writer_form` recognises a file by its header. `restored` gives the model as readers of I2_S expect it, without a copy of
its weights: the codes stay as they are, in the layout of the form; scales are in tails, names and shapes are those of
other converters. Such a file is read only in this way, by `i2s convert`.

    >>> NEOGPU.dialect, SKAINET.dialect
    ('sequential-lsb', 'sequential-lsb')
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import prod
from typing import Final, NamedTuple

from i2s_spec.errors import quote
from i2s_spec.gguf.reader import File
from i2s_spec.schema.faults import data_start, order_prefix
from i2s_spec.schema.limits import DEFAULT_ALIGNMENT
from i2s_spec.schema.types import I2_S, TAIL_BYTES, ValueType, padded


class WriterForm(NamedTuple):
    """A form that a program writes.

    :param dialect: the dialect of its I2_S tensors
    :param tail: bytes that follow a payload: 4 for a scale, 0 for none
    :param words: what is different from other files, as a part of a sentence
    """

    name: str
    program: str
    source: str
    dialect: str
    tail: int
    words: str


NEOGPU: Final = WriterForm(
    "neogpu", "NeoGPU", "anjaustin/neogpu@fea9d50:tools/convert_bitnet_to_gguf.py", "sequential-lsb", 0,
    "no I2_S tensor has a tail, and a tensor NAME_scale holds what its products are divided by",
)  # fmt: skip
SKAINET: Final = WriterForm(
    "skainet", "SKaiNET", "SKaiNET-developers/SKaiNET@075bb2e", "sequential-lsb", 4,
    "keys come in the order of their names, general.alignment is an i32, and four bytes follow each payload",
)  # fmt: skip
#: Most tensors and keys that are examined.
_MOST: Final = 1 << 16
_SCALE: Final = b"_scale"
_EMBEDDING: Final = b"token_embd.weight"


def writer_form(file: File) -> WriterForm | None:
    """Return the form of a file; None for the usual one, and for a header that cannot be read to its end."""
    index = file.index
    if file.fault is not None or (file.version or 0) < 2 or not 0 < index.tensors <= _MOST or index.keys > _MOST:
        return None
    ternary = [i for i in range(index.tensors) if index.tensor(i).type == I2_S.number]
    if not ternary:
        return None
    if _without_tails(file, ternary):
        return NEOGPU
    place = index.alignment_key
    if place is None or index.key(place).type != ValueType.INT32:
        return None
    names = [index.key(i).name for i in range(index.keys)]
    return SKAINET if names == sorted(names) else None


def _without_tails(file: File, ternary: list[int]) -> bool:
    """Whether every I2_S tensor has a scale of its own in the table, and no room for one behind its payload."""
    index, places = file.index, file.index.tensor_places
    alignment = file.alignment or DEFAULT_ALIGNMENT
    for i in ternary:
        info = index.tensor(i)
        found = places.get((info.name + _SCALE).decode("utf-8", "surrogateescape"))
        if found is None or (index.tensor(found).type, prod(index.tensor(found).ne)) != (0, 1):
            return False
        if index.extent(info.offset)[1] != padded(prod(info.ne) // 4, alignment):
            return False
    return True


def usual_form(file: File) -> tuple[File, WriterForm | None]:
    """Return the file in the usual form, and the form that it has; the file itself if it has the usual one.

    :raises FormatError, ValueError: as `restored`
    """
    form = writer_form(file)
    return (file, None) if form is None else (restored(file, form), form)


class _Placed(NamedTuple):
    """A tensor of the restored file: its name, shape and type, where its bytes are in the origin, and what follows them."""

    name: bytes
    ne: tuple[int, ...]
    number: int
    start: int
    length: int
    more: bytes = b""


def restored(file: File, form: WriterForm) -> File:
    """Return the model of such a file in the usual form; its I2_S tensors have the dialect of the form.

    :returns: a file that shares the source, and ends with it
    :raises FormatError: where the file does not hold a tensor
    :raises ValueError: where a scale is 0, infinite or NaN
    """
    return File(_RestoredSource(file, list(_neogpu(file) if form is NEOGPU else _skainet(file))))


def _neogpu(file: File) -> Iterator[_Placed]:
    index, prefix = file.index, order_prefix(file.byte_order)
    width = file.metadata.get(f"{file.metadata.get('general.architecture')}.embedding_length")
    for i in range(index.tensors):
        info = index.tensor(i)
        if info.type == I2_S.number:
            found = index.tensor(index.tensor_places[(info.name + _SCALE).decode("utf-8", "surrogateescape")])
            (divisor,) = struct.unpack(prefix + "f", _bytes(file, found.offset, 4))
            if not 0 < abs(divisor) < float("inf"):
                raise ValueError(f"{quote(found.name)} is {divisor}: nothing can be divided by it")
            scale = struct.pack(prefix + "f", 1 / divisor)
            payload = prod(info.ne) // 4
            yield _Placed(
                info.name, info.ne, info.type, _start(file, info.offset, payload), payload, scale.ljust(32, b"\0")
            )
        elif not (info.name.endswith(_SCALE) and info.name.removesuffix(_SCALE).endswith(b".weight")):
            ne = info.ne
            if info.name == _EMBEDDING and len(ne) == 2 and ne[0] != width and ne[1] == width:
                ne = ne[::-1]
            yield _whole(file, i)._replace(ne=ne)


def _skainet(file: File) -> Iterator[_Placed]:
    index = file.index
    for i in range(index.tensors):
        info = index.tensor(i)
        if info.type == I2_S.number:
            length = prod(info.ne) // 4 + SKAINET.tail
            start = _start(file, info.offset, length)
            yield _Placed(info.name, info.ne, info.type, start, length, bytes(TAIL_BYTES - SKAINET.tail))
        else:
            yield _whole(file, i)


def _whole(file: File, i: int) -> _Placed:
    """Return a tensor as it is."""
    tensor = file.tensors.by_index(i)
    span = tensor.span
    tensor.require(span)
    info = file.index.tensor(i)
    return _Placed(info.name, info.ne, info.type, span.start, span.stop - span.start)


def _start(file: File, offset: int, length: int) -> int:
    """Where a tensor's bytes begin in the file."""
    start = (file.data_start or 0) + offset
    if start + length > file.size:
        file.source.read(start, length)  # which refuses
    return start


def _bytes(file: File, offset: int, length: int) -> bytes:
    return file.source.read((file.data_start or 0) + offset, length)


class _RestoredSource:
    """A file that consists of a new header, and of pieces of another file in a new order."""

    view = None

    def __init__(self, file: File, tensors: Sequence[_Placed]) -> None:
        self.origin, self.name = file.source, file.source.name
        index, order, alignment = file.index, file.byte_order, file.alignment or DEFAULT_ALIGNMENT
        prefix = order_prefix(order)
        keys_end = index.key(index.keys - 1).stop if index.keys else 24
        header = bytearray(self.origin.read(0, keys_end))
        header[8:16] = len(tensors).to_bytes(8, order)
        if index.alignment_key is not None:
            span = index.key(index.alignment_key).type_span
            header[span.start : span.stop] = int(ValueType.UINT32).to_bytes(4, order)
        offset = 0
        offsets = []
        for each in tensors:
            numbers = (len(each.ne), *each.ne, each.number, offset)
            header += struct.pack(f"{prefix}Q", len(each.name)) + each.name
            header += struct.pack(f"{prefix}I{len(each.ne)}QIQ", *numbers)
            offsets.append(offset)
            offset += padded(each.length + len(each.more), alignment)
        start = data_start(len(header), alignment)
        self.size = start + offset
        #: Where pieces begin; each is bytes, or where they begin in the origin. What is between them is zeros.
        self._pieces: list[tuple[int, int, bytes | int]] = [(0, len(header), bytes(header))]
        for at, each in zip(offsets, tensors, strict=True):
            self._pieces.append((start + at, each.length, each.start))
            if each.more:
                self._pieces.append((start + at + each.length, len(each.more), each.more))
        self._starts = [piece[0] for piece in self._pieces]

    def read(self, start: int, length: int) -> bytes:
        whole = bytearray(length)
        self.readinto(start, memoryview(whole))
        return bytes(whole)

    def readinto(self, start: int, buffer: memoryview) -> None:
        stop = start + len(buffer)
        if start < 0 or stop > self.size:
            self.origin.read(self.origin.size, max(stop - self.size, 1))  # which refuses
        buffer[:] = bytes(len(buffer))
        for at, length, content in self._pieces[max(bisect_right(self._starts, start) - 1, 0) :]:
            if at >= stop:
                break
            first, last = max(start, at), min(stop, at + length)
            if first < last:
                into = buffer[first - start : last - start]
                if isinstance(content, bytes):
                    into[:] = content[first - at : last - at]
                else:
                    self.origin.readinto(content + first - at, into)

    def changed(self) -> str | None:
        return self.origin.changed()

    def close(self) -> None:
        self.origin.close()
