"""This module defines the key-values of an open file: where each is, and its value, decoded when it is asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from i2s_spec.codec.buffers import numbers
from i2s_spec.errors import FormatError, Span, TrustedText, counted
from i2s_spec.gguf import _scanner
from i2s_spec.gguf.header_index import HeaderIndex, KeyValue
from i2s_spec.schema import faults, limits, types
from i2s_spec.schema.checks import ByteOrder, order_prefix
from i2s_spec.schema.types import ValueType


class Metadata(Mapping[str, Any]):
    """The key-values of a file; values are decoded on access.

    Numbers come as `int`, `float` or `bool`, strings as `str` (bytes that are not UTF-8 as surrogate escapes), arrays of
    numbers as NumPy arrays, arrays of strings or booleans and nested arrays as lists.
    """

    def __init__(self, index: HeaderIndex) -> None:
        self._index = index

    def by_index(self, i: int) -> KeyValue:
        """Key-value `i` of the file, whether or not its key occurs twice."""
        return self._index.key(i)

    @property
    def rows(self) -> Iterator[KeyValue]:
        """Every key-value of the file, in order."""
        return map(self._index.key, range(self._index.keys))

    def entry(self, key: str) -> KeyValue:
        """Where and what the value of `key` is, without decoding it."""
        return self._index.key(self._index.key_places[key])

    def decode(self, entry: KeyValue, limit: int | None = None) -> Any:
        """The value of one entry; of an array of fixed-size elements at most the first `limit`."""
        source, order = self._index.source, self._index.byte_order
        start, stop = entry.value_start, entry.stop
        if entry.type == ValueType.STRING:
            return source.read(start, stop - start).decode("utf-8", "surrogateescape")
        if entry.type != ValueType.ARRAY:
            return _scalar(entry.type, source.read(start, stop - start), order)
        if entry.element == ValueType.STRING:
            return _scanner.strings(source.read(start, stop - start), entry.count, order == "big")
        if entry.element == ValueType.ARRAY:
            return _nested(source.read(start, stop - start), entry.count, order)
        count = entry.count if limit is None else min(limit, entry.count)
        width = types.SMALLEST_VALUE[entry.element]
        data = source.read(start, count * width)
        if entry.element == ValueType.BOOL:
            return [byte != 0 for byte in data]
        import numpy as np

        array = np.frombuffer(data, dtype=order_prefix(order) + _NUMPY_VALUES[entry.element])
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def __getitem__(self, key: str) -> Any:
        place = self._index.key_places.get(key)
        if place is None:
            from i2s_spec.display import MissingName

            raise MissingName("key", key, self)
        return self.decode(self._index.key(place))

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default` where the file does not have it."""
        place = self._index.key_places.get(key)
        return default if place is None else self.decode(self._index.key(place))

    def __iter__(self) -> Iterator[str]:
        return iter(self._index.key_places)

    def __len__(self) -> int:
        return len(self._index.key_places)

    def __contains__(self, key: object) -> bool:
        return key in self._index.key_places

    def __repr__(self) -> str:
        return f"<Metadata: {counted(self._index.keys, 'key')}>"

    def _repr_html_(self) -> str:
        """The first keys for a notebook: type, and the value of numbers and short texts."""
        from i2s_spec.display import ROWS, table

        rows = ((entry.name, entry.label, self.preview(entry)) for entry in islice(self.rows, ROWS))
        return table(counted(self._index.keys, "key"), (), ("key", "type", "value"), rows, self._index.keys)

    def preview(self, entry: KeyValue) -> Any:
        """The value of an entry, or how large it is where it is an array or a long text."""
        if entry.type == ValueType.ARRAY:
            return counted(entry.count, "element")
        length = entry.stop - entry.value_start
        return self.decode(entry) if length <= _LONGEST_PREVIEW else counted(length, "byte")


#: Bytes of a text that a preview decodes.
_LONGEST_PREVIEW = 4096

_NUMPY_VALUES = {0: "u1", 1: "i1", 2: "u2", 3: "i2", 4: "u4", 5: "i4", 6: "f4", 10: "u8", 11: "i8", 12: "f8"}


def _scalar(kind: int, data: bytes, order: ByteOrder) -> int | float | bool:
    value: int | float = numbers(types.VALUE_FORMATS[kind], data, order)[0]
    return value != 0 if kind == ValueType.BOOL else value


def _nested(data: bytes, count: int, order: ByteOrder) -> list[Any]:
    """The elements of an array of arrays, as deep as the scanner lets them nest; it has seen that they fill the bytes."""
    prefix = order_prefix(order)
    at = 0

    def array(kind: int, count: int, depth: int) -> list[Any]:
        nonlocal at
        items: list[Any] = []
        for _ in range(count):
            if kind == ValueType.ARRAY and depth < limits.MAX_ARRAY_DEPTH:
                inner, inner_count = struct.unpack_from(prefix + "IQ", data, at)
                at += 12
                items.append(array(inner, inner_count, depth + 1))
            elif kind == ValueType.STRING:
                (length,) = struct.unpack_from(prefix + "Q", data, at)
                items.append(data[at + 8 : at + 8 + length].decode("utf-8", "surrogateescape"))
                at += 8 + length
            elif kind in types.VALUE_FORMATS:
                width = types.SMALLEST_VALUE[kind]
                if at + width > len(data):
                    raise _changed()
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
    return FormatError(faults.CHANGED, Span(0, 0), reason=TrustedText("a nested array no longer fills its bytes"))
