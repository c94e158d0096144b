"""This module describes what the schema's constructs read, as plain data from which code in any language can be made.

A construct is a program; what an export needs of it is its shape. `shape` tells the few kinds apart that the schema
uses: a number, a constant, bytes, a string, a repetition, a value chosen by a field before it, and the rest of the file.
A repetition's count is a function of what was read before: it is called with a stand-in that notes which field it asks
for. Nothing here knows a field by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from construct import Bytes, Const, Construct, Switch

from i2s_spec.schema import gguf, i2s
from i2s_spec.schema.field import Field, GgufString, Many, RecordStruct, Word
from i2s_spec.schema.types import VALUE_LABELS

Kind = Literal["number", "constant", "bytes", "string", "repeat", "choice", "record", "array", "rest"]

#: Names of number types by their `struct` letter, as the text calls them.
NUMBERS: Final = {
    "B": "u8", "b": "i8", "H": "u16", "h": "i16", "I": "u32", "i": "i32", "L": "u32", "l": "i32", "f": "f32",
    "Q": "u64", "q": "i64", "d": "f64",
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """The content of a field's bytes.

    :param number: of a number, its name (`u32`); of a string, that of its length
    :param size: bytes, where they are always the same
    :param value: of a constant, the bytes
    :param count: of a repetition, the dotted path of the field that counts it; of a choice, of the field that chooses
    :param item: of a repetition, the shape of one item
    :param record: of a record, its declaration
    """

    kind: Kind
    number: str = ""
    size: int | None = None
    value: bytes = b""
    count: str = ""
    item: Shape | None = None
    record: RecordStruct | None = None


class _Asked:
    """Takes the place of the values read so far, and records which of them a count uses."""

    def __init__(self, path: tuple[str, ...] = ()) -> None:
        self._path = path

    def __getattr__(self, name: str) -> _Asked:
        return _Asked((*self._path, name))


def shape(construct: Construct) -> Shape:
    """The shape of a construct of the schema.

    :raises TypeError: for a construct that the exports do not know, so that no new one is left out in silence
    """
    if isinstance(construct, RecordStruct):
        return Shape("record", record=construct)
    if isinstance(construct, Word):
        return Shape("number", NUMBERS[construct.code], construct.length)
    if isinstance(construct, Const):
        return Shape("constant", size=len(construct.value), value=construct.value)
    if isinstance(construct, Bytes):
        return Shape("bytes", size=construct.length or None)  # a payload has the size that its tensor gives it
    if isinstance(construct, GgufString):
        return Shape("string", NUMBERS[construct.length.code])
    if isinstance(construct, Many):
        counted: Any = construct.count(_Asked())
        return Shape("repeat", count=".".join(counted._path), item=shape(construct.subcon))
    if isinstance(construct, Switch):
        chosen: Any = construct.keyfunc(_Asked())
        return Shape("choice", count=".".join(chosen._path))
    if isinstance(construct, gguf.ArrayValue):
        return Shape("array", "u64")
    if isinstance(construct, gguf.RestOfFile):
        return Shape("rest")
    raise TypeError(f"no export knows what a {type(construct).__name__} is")


@cache
def records() -> tuple[RecordStruct, ...]:
    """Every record of the schema, parts before wholes: the container's, then a tensor's."""
    found: dict[str, RecordStruct] = {}
    for whole in (gguf.container("little"), i2s.extent("little")):
        for record in _parts(whole):
            found.setdefault(record.title, record)
    return tuple(found.values())


def _parts(record: RecordStruct) -> Iterator[RecordStruct]:
    for field in record.fields:
        inner = shape(field.subcon)
        inner = inner.item if inner.item is not None else inner
        if inner.record is not None:
            yield from _parts(inner.record)
    yield record


@cache
def value_shapes() -> dict[int, tuple[str, Shape]]:
    """For each value type number its label (`u32`, `str`, `arr`) and its shape."""
    return {number: (VALUE_LABELS[number], shape(construct)) for number, construct in _values()}


def _values() -> list[tuple[int, Construct]]:
    return sorted(gguf.values("little").items())


def fixed_offsets(record: RecordStruct) -> Iterator[tuple[Field, Shape, int | None]]:
    """Each field of a record with its shape and its offset from the record's start; None after a field of variable size."""
    at: int | None = 0
    for field in record.fields:
        is_what = shape(field.subcon)
        yield field, is_what, at
        at = at + is_what.size if at is not None and is_what.size is not None else None
