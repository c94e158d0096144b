"""What a GGUF file is on one page: `describe` as data (show.schema.json), for JSON and for text alike.

Header, keys with the beginnings of their values, tensors with place, size and scale, and totals by type. Nothing is
checked: what does not fit (an unknown type, data after the end of the file) is shown as it is.

`beginning` gives the beginning of a value, `placements_of` where tensors are and what room they have.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from math import prod
from typing import Any, Final, NamedTuple

from i2s_spec.draw.text import json_string
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File, KeyValue, Tensor
from i2s_spec.gguf.source import FetchingSource, affordable
from i2s_spec.gguf.split_set import split_set
from i2s_spec.schema import faults
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.types import RETIRED, VALUE_FORMATS, ValueType

SCHEMA_VERSION: Final = 1

#: How many first and last rows of a long table are wanted; None for all of it.
Rows = tuple[int, int] | None

#: Elements of an array that are shown unless all are asked for.
ELEMENTS: Final = 8


def listed(about: dict[str, Any]) -> dict[str, Any]:
    """Return the result of `members` with its tables as lists."""
    return {name: list(value) if isinstance(value, Iterator) else value for name, value in about.items()}


def describe(file: File, limit: int | None = ELEMENTS, rows: Rows = None) -> dict[str, Any]:
    """Return a file as plain data that JSON can carry: what `members` gives, its tables as lists."""
    return listed(members(file, limit, rows))


def members(file: File, limit: int | None = ELEMENTS, rows: Rows = None) -> dict[str, Any]:
    """Return a file as plain data, its keys and tensors as iterators that read as they go.

    :param file: a `File`, which may carry a fault; then what lies before it is described
    :param limit: elements of each array that are given (and 64 KiB of each string or array); None for all
    :param rows: where there are more keys (or tensors) than both numbers together, only so many first and last ones
    :returns: `schema_version`, `path`, `size`, `header`, `totals`, `fault`, `keys`, `tensors`; strings that are not
        UTF-8 are `{"hex": ...}`, numbers that JSON lacks (NaN) are left as they are. A tensor has `scale_unread` where its
        scale would be a request of its own to a server, and more than a sample of them were needed
    """
    index = file.index
    header = {
        "version": file.version,
        "byte_order": index.byte_order,
        "tensor_count": index.tensor_count,
        "key_count": index.key_count,
        "alignment": file.alignment,
        "alignment_declared": index.alignment_key is not None
        and not any(error.fault in faults.ALIGNMENTS for error in file.passed),
        "header_bytes": file.infos_end,
        "data_start": file.data_start,
        "data_bytes": None if file.data_start is None else max(0, file.size - file.data_start),
    }
    return {
        "schema_version": SCHEMA_VERSION,
        "path": json_string(file.name),
        "size": file.size,
        "header": header,
        "totals": _totals(file),
        "fault": None if file.fault is None else fault(file.fault),
        "passed": [fault(error) for error in file.passed],
        "keys": (_key(file, file.metadata.by_index(i), limit) for i in _chosen(index.keys, rows)),
        "tensors": _tensors(file, _chosen(index.tensors, rows)),
    }


def split_members(file: File, rows: Rows = None, tensors: bool = True) -> dict[str, Any] | None:
    """Return the split model that a file is a part of; None for any other file.

    :param rows: of each part, as for `members`
    :param tensors: whether tensors are listed
    :returns: `part`, from 1, `of`, and `complete`: whether the file is the first part, and all others are beside it with
        the tensors that it announces. Then `totals` of all parts, and of each of the others `number`, `path`, `size`,
        `tensor_count`, `tensors`; else `totals` is None and `parts` empty
    :raises FormatError: if another part goes away meanwhile
    """
    whole = split_set(file)
    if whole is None or whole.number is None:
        return None
    found: dict[str, Any] = {
        "part": whole.number + 1, "of": whole.count, "complete": whole.is_whole, "totals": None, "parts": [],
    }  # fmt: skip
    if not whole.is_whole:
        return found
    every: list[dict[str, Any]] = []
    for number, part in enumerate(whole.files()):
        every += _totals(part)["by_type"]
        if number:
            chosen = _chosen(part.index.tensors, rows) if tensors else ()
            found["parts"].append(
                {
                    "number": number + 1,
                    "path": json_string(part.name),
                    "size": part.size,
                    "tensor_count": part.index.tensors,
                    "tensors": list(_tensors(part, chosen)),
                }
            )
    return {**found, "totals": _sum(every)}


def fault(error: FormatError) -> dict[str, Any]:
    """Return a fault as data: code, slug, sentence and span."""
    start, stop, path = error.span
    span = {"start": start, "stop": stop, "path": path}
    return {"code": error.code, "slug": error.fault.slug, "message": error.message, "span": span}


def unreadable(path: str, error: FormatError) -> dict[str, Any]:
    """Return the description of a file that could not be opened."""
    return {
        "schema_version": SCHEMA_VERSION,
        "path": json_string(path),
        "size": None,
        "header": None,
        "totals": None,
        "fault": fault(error),
        "keys": [],
        "tensors": [],
    }


def _chosen(count: int, rows: Rows) -> Iterable[int]:
    if rows is None or count <= sum(rows):
        return range(count)
    return chain(range(rows[0]), range(count - rows[1], count))


def key_row(file: File, i: int) -> dict[str, Any]:
    """Key-value `i`, as `describe` gives it."""
    return _key(file, file.index.key(i), ELEMENTS)


def tensor_row(file: File, i: int) -> dict[str, Any]:
    """Tensor `i`, as `describe` gives it, without its scale."""
    return _tensor(file, file.tensors.by_index(i), True)


def _key(file: File, entry: KeyValue, limit: int | None) -> dict[str, Any]:
    value, whole = beginning(file, entry, limit)
    counted = entry.type in (ValueType.STRING, ValueType.ARRAY)
    return {
        "index": entry.index,
        "key": json_string(entry.name),
        "type": entry.label,
        "count": entry.count if counted else None,
        "start": entry.span.start,
        "stop": entry.span.stop,
        "value": _plain(value, whole),
        "whole": whole,
    }


def _plain(value: Any, whole: bool = True) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, bytes):
        return value
    for cut in range(1 if whole else 4):  # a text that was cut may end inside a character
        shown = json_string(value[: len(value) - cut])
        if isinstance(shown, str):
            return shown
    return json_string(value)


def _tensors(file: File, chosen: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield the tensors of these numbers; of a server that gives one range at a time some scales are read.

    Nothing is read before the first of them is asked for.
    """
    unread: set[int] = set()
    if isinstance(file.source, FetchingSource):
        chosen = list(chosen)
        places = [(i, place) for i in chosen if (place := _scale_place(file, file.tensors.by_index(i))) is not None]
        read = affordable(file.source, [(place, place + 4) for _, place in places])
        unread = {i for i, _ in places} - {places[number][0] for number in read}
    for i in chosen:
        yield _tensor(file, file.tensors.by_index(i), i in unread)


def _tensor(file: File, tensor: Tensor, unread: bool) -> dict[str, Any]:
    start = None if file.data_start is None else file.data_start + tensor.offset
    place = None if unread else _scale_place(file, tensor)
    size, problem = None, None
    try:
        size = tensor.nbytes
        if start is not None:
            tensor.require(tensor.span)
    except FormatError as error:
        problem = error
    return {
        "index": tensor.index,
        "name": json_string(tensor.raw_name),
        "type": type_name(tensor),
        "type_number": tensor.number,
        "shape": list(tensor.shape),
        "ne": list(tensor.ne),
        "elements": tensor.elements,
        "offset": tensor.offset,
        "start": start,
        "bytes": size,
        "scale": None if place is None else _scale(file, place),
        "problem": None if problem is None else fault(problem),
        **({"scale_unread": True} if unread else {}),
    }


def type_name(tensor: Tensor) -> str | None:
    """Return the name of a tensor's type, also of one that ggml has taken back; None for a number that no program
    assigned.
    """
    return tensor.type.name if tensor.type is not None else RETIRED.get(tensor.number)


def _scale_place(file: File, tensor: Tensor) -> int | None:
    """Where an I2_S tensor's tail starts, if the file has a float32 there (clause 6.1)."""
    if file.data_start is None or tensor.type is None or tensor.type.name != "I2_S":
        return None
    at = file.data_start + tensor.offset + prod(tensor.ne) // 4
    return at if at + 4 <= file.size else None


def _scale(file: File, at: int) -> float:
    prefix = order_prefix(file.byte_order)
    scale: float = struct.unpack(prefix + "f", file.source.read(at, 4))[0]
    return scale


def _totals(file: File) -> dict[str, Any]:
    """Tensors, elements and bytes of each type, in the order in which the types first occur, and of all together."""
    types: dict[tuple[int, str | None], dict[str, Any]] = {}
    for tensor in file.tensors.rows:
        name = type_name(tensor)
        total = types.setdefault(
            (tensor.number, name),
            {"type": name, "type_number": tensor.number, "tensors": 0, "elements": 0, "bytes": 0},
        )
        total["tensors"] += 1
        total["elements"] += tensor.elements
        try:
            total["bytes"] = None if total["bytes"] is None else total["bytes"] + tensor.nbytes
        except FormatError:
            total["bytes"] = None
    return _sum(types.values())


def _sum(totals: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Totals of types, those of one type in one, with bits per element and the sum of all."""
    types: dict[tuple[int, str | None], dict[str, Any]] = {}
    for each in totals:
        total = types.setdefault((each["type_number"], each["type"]), {**each, "tensors": 0, "elements": 0, "bytes": 0})
        total["tensors"] += each["tensors"]
        total["elements"] += each["elements"]
        unknown = total["bytes"] is None or each["bytes"] is None
        total["bytes"] = None if unknown else total["bytes"] + each["bytes"]
    by_type = list(types.values())
    known = all(total["bytes"] is not None for total in by_type)
    whole = {
        "tensors": sum(total["tensors"] for total in by_type),
        "elements": sum(total["elements"] for total in by_type),
        "bytes": sum(total["bytes"] for total in by_type) if known else None,
    }
    for total in (*by_type, whole):
        bits = total["bytes"] is not None and total["elements"]
        total["bits_per_element"] = round(8 * total["bytes"] / total["elements"], 4) if bits else None
    return {"by_type": by_type, **whole}


# --- value preview ---------------------------------------------------------------------------------------------------
# The beginnings of metadata values: enough to show, whatever their size, and no more bytes than that.

#: No more than this is read of any one value unless all of it is asked for.
WINDOW: Final = 1 << 16


class Beginning(NamedTuple):
    """The start of a value. Strings are bytes; `whole` says whether there is nothing more."""

    value: Any
    whole: bool


def beginning(file: File, entry: KeyValue, limit: int | None) -> Beginning:
    """Return the value of a key-value, or its start.

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
    """Return the elements that lie in `data`, and where they end; None where not all were met.

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
