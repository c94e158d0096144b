"""This module defines a header as some reader sees it: keys and tensor infos with their bytes, and why it stopped there.

Where our own reader found no fault, its index says it all (`indexed`); where it did, `header_walk` goes on as others do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from i2s_spec.errors import Span
from i2s_spec.schema.types import ValueType

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File


class SeenKey(NamedTuple):
    """A key-value: its name, its bytes, type, element type (-1 for none), length, its value if it is a number, depth."""

    name: bytes
    span: Span
    type: int
    element: int
    length: int
    value: Any
    depth: int


class SeenTensor(NamedTuple):
    """A tensor info, and its bytes."""

    name: bytes
    span: Span
    ne: tuple[int, ...]
    number: int
    offset: int


class Stop(NamedTuple):
    """Why a walk ended early: what the reader does then (`no`, `crash`, `unknown`), in words, and where."""

    outcome: str
    text: str
    span: Span


class Header(NamedTuple):
    """A header as one reader sees it; `end` is where its tensor infos end."""

    version: int
    big: bool
    keys: list[SeenKey]
    tensors: list[SeenTensor]
    end: int
    stop: Stop | None


def indexed(file: File) -> Header:
    """The header of a file that our reader found no fault in."""
    return Header(file.version or 0, file.byte_order == "big", list(_keys(file)), list(_tensors(file)),
                  file.infos_end or 24, None)  # fmt: skip


def _keys(file: File) -> Iterator[SeenKey]:
    for i in range(file.index.keys):
        start, name, kind, element, count, _, stop = file.index.key(i)
        value = None
        if name == b"general.alignment":
            value = file.metadata.decode(file.metadata.row(i))
        depth = 2 if element == ValueType.ARRAY else 1 if kind == ValueType.ARRAY else 0
        yield SeenKey(name, Span(start, stop, f"key_values[{i}]"), kind, element, count, value, depth)


def _tensors(file: File) -> Iterator[SeenTensor]:
    for i in range(file.index.tensors):
        start, name, ne, number, offset, stop = file.index.tensor(i)
        yield SeenTensor(name, Span(start, stop, f"tensor_infos[{i}]"), ne, number, offset)
