"""This module defines the key-values of an open file: where each is, and its value, decoded when it is asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from i2s_spec.errors import FormatError, Span, Words
from i2s_spec.gguf import _scanner
from i2s_spec.schema import faults, limits, types
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.types import ValueType

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File


class Entry:
    """One key-value as it stands in the file."""

    __slots__ = ("count", "element", "index", "name", "span", "type", "value_span")

    def __init__(
        self, index: int, name: bytes, type: int, element: int, count: int, span: Span, value_span: Span
    ) -> None:
        self.index = index
        self.name = name
        self.type = type
        #: Element type of an array, else -1.
        self.element = element
        #: Elements of an array, bytes of a string, 1 otherwise.
        self.count = count
        #: The whole record.
        self.span = span
        #: The value; of strings and arrays without their lengths and types.
        self.value_span = value_span

    @property
    def key(self) -> str:
        return self.name.decode("utf-8", "surrogateescape")

    @property
    def label(self) -> str:
        """The value's type as people write it: `u32`, `str`, `arr[str]`."""
        label = ValueType(self.type).label
        return f"{label}[{ValueType(self.element).label}]" if self.type == ValueType.ARRAY else label


class Metadata(Mapping[str, Any]):
    """The key-values of a file; values are decoded on access.

    Numbers come as `int`, `float` or `bool`, strings as `str` (bytes that are not UTF-8 as surrogate escapes), arrays of
    numbers as NumPy arrays, arrays of strings or booleans and nested arrays as lists.
    """

    def __init__(self, file: File) -> None:
        self._file = file

    @cached_property
    def _places(self) -> dict[str, int]:
        places: dict[str, int] = {}
        for i in range(self._file.index.keys):
            places.setdefault(self._file.index.key(i)[1].decode("utf-8", "surrogateescape"), i)
        return places

    def row(self, i: int) -> Entry:
        """Key-value `i` of the file, whether or not its key occurs twice."""
        start, name, kind, element, count, value, stop = self._file.index.key(i)
        path = f"key_values[{i}]"
        return Entry(i, name, kind, element, count, Span(start, stop, path), Span(value, stop, f"{path}.value"))

    @property
    def rows(self) -> Iterator[Entry]:
        """Every key-value of the file, in order."""
        return map(self.row, range(self._file.index.keys))

    def entry(self, key: str) -> Entry:
        """Where and what the value of `key` is, without decoding it."""
        return self.row(self._places[key])

    def decode(self, entry: Entry, limit: int | None = None) -> Any:
        """The value of one entry; of an array of fixed-size elements at most the first `limit`."""
        source, order = self._file.source, self._file.byte_order
        start, stop = entry.value_span[:2]
        if entry.type == ValueType.STRING:
            return source.read(start, stop - start).decode("utf-8", "surrogateescape")
        if entry.type != ValueType.ARRAY:
            return _scalar(entry.type, source.read(start, stop - start), order)
        if entry.element == ValueType.STRING:
            return _scanner.strings(source.read(start, stop - start), entry.count, order == "big")
        if entry.element == ValueType.ARRAY:
            return _nested(source.read(start, stop - start), entry.count, order)
        count = entry.count if limit is None else min(limit, entry.count)
        width = struct.calcsize(types.VALUE_FORMATS[entry.element])
        data = source.read(start, count * width)
        if entry.element == ValueType.BOOL:
            return [byte != 0 for byte in data]
        import numpy as np

        array = np.frombuffer(data, dtype=("<" if order == "little" else ">") + _NUMPY_VALUES[entry.element])
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def __getitem__(self, key: str) -> Any:
        return self.decode(self.entry(key))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places


_NUMPY_VALUES = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 10: "u8", 11: "i8", 12: "f8"}


def _scalar(kind: int, data: bytes, order: ByteOrder) -> int | float | bool:
    value: int | float = struct.unpack(("<" if order == "little" else ">") + types.VALUE_FORMATS[kind], data)[0]
    return value != 0 if kind == ValueType.BOOL else value


def _nested(data: bytes, count: int, order: ByteOrder) -> list[Any]:
    """The elements of an array of arrays, as deep as the scanner lets them nest; it has seen that they fill the bytes."""
    mark = "<" if order == "little" else ">"
    at = 0

    def array(kind: int, count: int, depth: int) -> list[Any]:
        nonlocal at
        items: list[Any] = []
        for _ in range(count):
            if kind == ValueType.ARRAY and depth < limits.MAX_ARRAY_DEPTH:
                inner, inner_count = struct.unpack_from(mark + "IQ", data, at)
                at += 12
                items.append(array(inner, inner_count, depth + 1))
            elif kind == ValueType.STRING:
                (length,) = struct.unpack_from(mark + "Q", data, at)
                items.append(data[at + 8 : at + 8 + length].decode("utf-8", "surrogateescape"))
                at += 8 + length
            elif kind in types.VALUE_FORMATS:
                width = struct.calcsize(types.VALUE_FORMATS[kind])
                items.append(_scalar(kind, data[at : at + width], order))
                at += width
            else:
                raise _changed()
        return items

    try:
        items = array(ValueType.ARRAY, count, 1)
    except struct.error as error:
        raise _changed() from error
    if at != len(data):
        raise _changed()
    return items


def _changed() -> FormatError:
    return FormatError(faults.CHANGED, Span(0, 0), reason=Words("a nested array no longer fills its bytes"))
