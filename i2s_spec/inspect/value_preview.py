"""This module reads the beginnings of metadata values: enough to show, whatever their size, and no more bytes than that."""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from i2s_spec.gguf.reader import File, KeyValue
from i2s_spec.schema.checks import order_prefix
from i2s_spec.schema.types import VALUE_FORMATS, ValueType

#: No more than this is read of any one value unless all of it is asked for.
WINDOW: Final = 1 << 16


class Beginning(NamedTuple):
    """The start of a value. Strings are bytes; `whole` says whether there is nothing more."""

    value: Any
    whole: bool


def beginning(file: File, entry: KeyValue, limit: int | None) -> Beginning:
    """The value of a key-value, or its start.

    :param limit: elements of an array; None for the whole value
    :returns: numbers and booleans as they are, a string as bytes (its first 64 KiB), an array as a list of such values
    """
    start, stop = entry.value_span[:2]
    length = stop - start
    data = file.source.read(start, length if limit is None else min(length, WINDOW))
    prefix = order_prefix(file.byte_order)
    if entry.type == ValueType.STRING:
        return Beginning(data, len(data) == length)
    if entry.type != ValueType.ARRAY:
        return Beginning(_number(entry.type, data, 0, prefix), True)
    items, end = _items(data, 0, entry.element, entry.count, limit, prefix)
    return Beginning(items, end is not None)


def _number(kind: int, data: bytes, at: int, prefix: str) -> int | float | bool:
    value: int | float = struct.unpack_from(prefix + VALUE_FORMATS[kind], data, at)[0]
    return value != 0 if kind == ValueType.BOOL else value


def _items(data: bytes, at: int, kind: int, count: int, limit: int | None, prefix: str) -> tuple[list[Any], int | None]:
    """The elements that lie in `data`, and where they end; None where not all were met.

    Depth is bounded by the scanner, which has accepted the file.
    """
    items: list[Any] = []
    most = count if limit is None else min(count, limit)
    for _ in range(most):
        try:
            if kind == ValueType.STRING:
                (length,) = struct.unpack_from(prefix + "Q", data, at)
                if at + 8 + length > len(data):
                    return items, None
                items.append(data[at + 8 : at + 8 + length])
                at += 8 + length
            elif kind == ValueType.ARRAY:
                inner, inner_count = struct.unpack_from(prefix + "IQ", data, at)
                values, end = _items(data, at + 12, inner, inner_count, limit, prefix)
                items.append(values)
                if end is None:
                    return items, None
                at = end
            else:
                items.append(_number(kind, data, at, prefix))
                at += struct.calcsize(VALUE_FORMATS[kind])
        except (struct.error, KeyError):  # the window ends here, or the file has changed
            return items, None
    return items, at if most == count else None
