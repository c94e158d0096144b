"""This module defines a small sound GGUF file, and how to break it in one place.

The file holds every kind of value and of tensor that matters to a container, in about a kilobyte. It is changed in two
ways: by editing the records that the schema parses it into (`Draft.edit`), or by overwriting the bytes of one field,
found by its path in the schema (`Draft.patch`). Lengths, counts and offsets may lie; nothing is corrected.

    >>> from i2s_spec.schema import gguf
    >>> draft = Draft()
    >>> data = draft.patch("header.version", (4).to_bytes(4, "little"))
    >>> data[4]
    4
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Literal

from construct import Container

from i2s_spec.schema import checks, gguf
from i2s_spec.schema.types import BY_NAME, ValueType, padded

ByteOrder = Literal["little", "big"]


def key_value(key: bytes, kind: ValueType, value: Any) -> Container:
    """A key-value record; `value` in the schema's form (bytes for strings)."""
    return Container(key=key, type=int(kind), value=value)


def array(element: ValueType, items: Iterable[Any]) -> Container:
    """An array value."""
    items = list(items)
    return Container(type=int(element), count=len(items), items=items)


def tensor_info(name: bytes, ne: tuple[int, ...], number: int, offset: int) -> Container:
    """A tensor info record; `ne` in ggml's order."""
    return Container(name=name, n_dims=len(ne), ne=list(ne), type=number, offset=offset)


def i2s_bytes(weights: int, scale: float = 0.75, order: ByteOrder = "little") -> bytes:
    """A canonical I2_S tensor of `weights` elements: a fixed pattern of the codes 0, 1 and 2, the scale, 28 zeros."""
    payload = bytes(
        (0x15, 0x4A, 0x56, 0x29, 0x58, 0xA4, 0x62, 0x90, 0x88, 0x40, 0x21)[i % 11] for i in range(weights // 4)
    )
    return payload + struct.pack("<f" if order == "little" else ">f", scale) + bytes(28)


class Draft:
    """A sound file that can be changed; every call starts from the sound one again.

    :param order: byte order of the file
    :param last: which tensor comes last: `i2s` (its tail ends the file) or `f32`
    """

    def __init__(self, order: ByteOrder = "little", last: str = "i2s") -> None:
        self.order: ByteOrder = order
        self._last = last
        self._data = gguf.build(self.records())
        trace: list[Any] = []
        gguf.parse(self._data, trace)
        self._spans = {node.path: (node.start, node.stop) for node in trace}

    @property
    def data(self) -> bytes:
        """The sound file."""
        return self._data

    def span(self, path: str) -> tuple[int, int]:
        """The bytes of a field, by its path in the schema."""
        return self._spans[path]

    def records(self) -> Container:
        """The sound file as records, fresh at every call."""
        floats = struct.pack(("<" if self.order == "little" else ">") + "8f", *(1 + i / 8 for i in range(8)))
        parts = [
            (b"embedding.weight", (8, 1), "F32", floats),
            (b"first.weight", (128, 4), "I2_S", i2s_bytes(512, 0.75, self.order)),
            (b"second.weight", (256, 2), "I2_S", i2s_bytes(512, 1.25, self.order)),
        ]
        if self._last == "f32":
            parts = [*parts[1:], parts[0]]
        infos, data = [], b""
        for name, ne, kind, content in parts:
            infos.append(tensor_info(name, ne, BY_NAME[kind].number, len(data)))
            data += content.ljust(padded(len(content), 32), b"\0")
        return self.relaid(
            Container(
                header=Container(magic=b"GGUF", version=3, tensor_count=0, key_count=0),
                key_values=[
                    key_value(b"general.architecture", ValueType.STRING, b"sample"),
                    key_value(b"general.name", ValueType.STRING, b"probe"),
                    key_value(b"general.quantization_version", ValueType.UINT32, 2),
                    key_value(b"sample.eps", ValueType.FLOAT32, 1e-5),
                    key_value(b"sample.flag", ValueType.BOOL, 1),
                    key_value(b"sample.words", ValueType.ARRAY, array(ValueType.STRING, [b"a", b"", b"word"])),
                    key_value(b"sample.numbers", ValueType.ARRAY, array(ValueType.INT16, [-1, 0, 32767])),
                    key_value(b"sample.flags", ValueType.ARRAY, array(ValueType.BOOL, [0, 1])),
                ],
                tensor_infos=infos,
                padding=b"",
                data=data,
                byte_order=self.order,
            )
        )

    def relaid(self, file: Container, alignment: int = 32) -> Container:
        """Set the counts and the padding before the data section to what the records ask for."""
        file.header.key_count = len(file.key_values)
        file.header.tensor_count = len(file.tensor_infos)
        bare = file.copy()
        bare.padding = bare.data = b""
        end = len(gguf.build(bare))
        file.padding = bytes(checks.data_start(end, alignment) - end)
        return file

    def built(self, file: Container, alignment: int = 32) -> bytes:
        """The bytes of changed records, laid out again."""
        return gguf.build(self.relaid(file, alignment))

    def patch(self, path: str, data: bytes) -> bytes:
        """The sound file with the bytes of one field overwritten."""
        start, stop = self._spans[path]
        if len(data) != stop - start:
            raise ValueError(f"{path} has {stop - start} bytes, not {len(data)}")
        return self._data[:start] + data + self._data[stop:]

    def number(self, path: str, value: int) -> bytes:
        """The sound file with another number in one field; the value wraps to the field's width."""
        start, stop = self._spans[path]
        width = stop - start
        return self.patch(path, (value % (1 << 8 * width)).to_bytes(width, self.order))
