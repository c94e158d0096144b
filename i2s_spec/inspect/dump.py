"""This module finds what `i2s dump FILE WHAT` means by WHAT: a byte range, an address, a path, a key, or a tensor.

Nothing at all is the whole structure, with arrays and data elided. A range is written `0x1000..0x1040`, `0x1000+64` or
`4096:64`; a path as the dump itself writes it, such as `header`, `key_values[3].value` or `data[2].tail`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import chain
from math import prod
from sys import maxsize
from typing import Final, NamedTuple

from i2s_spec.draw.text import visible
from i2s_spec.errors import counted
from i2s_spec.gguf.reader import File
from i2s_spec.inspect.dump.block_walk import range_of
from i2s_spec.inspect.dump.data_walk import ELEMENT_FORMATS, extent, tensor_nodes
from i2s_spec.inspect.dump.file_walk import file_nodes, key_value, reader, tensor_info
from i2s_spec.schema.block_layout import BLOCK_LAYOUTS, ROW_SCALES_APART
from i2s_spec.schema.dialect import CODES_PER_BYTE
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.types import VALUE_FORMATS, ValueType
from i2s_spec.schema.walk import Scope, is_leaf

#: What is shown of long things by default: elements of an array and lines of a text, in the whole structure and in a
#: part of it; bytes of codes or elements of a tensor: one block of I2_S.
WHOLE_LIMIT: Final = 8
PART_LIMIT: Final = 16
TENSOR_LIMIT: Final = 32

#: Records of one table that the whole structure shows.
RECORDS: Final = 1000

#: Names that are compared with a WHAT that nobody knows.
_COMPARED: Final = 20_000

_NUMBER: Final = r"(0[xX][0-9a-fA-F]{1,20}|[0-9]{1,20})"
_RANGE: Final = re.compile(rf"{_NUMBER}(?:(\.\.|\+|:){_NUMBER})?")
_PATH: Final = re.compile(
    r"(header|key_values|tensor_infos|padding|data|not_examined)(?:\[([0-9]{1,20})\])?((?:[.\[].*)?)"
)
_LAST_INDEX: Final = re.compile(r"(.*)\[([0-9]{1,20})\]")
_SECTIONS: Final = ("header", "key_values", "tensor_infos", "padding", "data", "data.trailing")


class Target(NamedTuple):
    """Nodes to show, in order, and how much of them."""

    nodes: Iterator[FieldNode]
    #: Only bytes between these two are shown; nodes that have none are left out.
    start: int
    stop: int
    #: Lines of one leaf that are shown, for fields and for data; None for all.
    lines: int | None
    data_lines: int | None
    windowed: bool = False


class Unknown(ValueError):
    """WHAT is nothing that the file has; the message says what is near."""


def target(file: File, what: str | None, limit: int | None = None, everything: bool = False) -> Target:
    """What is to be shown of a file.

    :param what: a range, an address, a path, the name of a key or of a tensor, or None for everything
    :param limit: elements of an array and lines of bytes that are shown, instead of the defaults
    :param everything: no limit
    :raises Unknown: where the file has nothing of that name, or ends before
    """

    def bound(default: int | None) -> int | None:
        return None if everything else default if limit is None else limit

    if not what:
        scope = Scope(bound(WHOLE_LIMIT), None if everything else RECORDS)
        return Target(file_nodes(file, scope), 0, maxsize, bound(4), bound(1))
    try:
        if match := _RANGE.fullmatch(what):
            start, stop = _range(file, match, what)
            nodes = file_nodes(file, Scope(bound(None), None, start, stop, deep=True))
            return Target(nodes, start, stop, bound(None), bound(None), windowed=True)
        if match := _PATH.fullmatch(what):
            nodes = _at_path(file, what, match, bound(PART_LIMIT), bound(TENSOR_LIMIT))
            return Target(nodes, 0, maxsize, bound(PART_LIMIT), bound(PART_LIMIT))
        raise _unknown(file, what)
    except Unknown:
        named = _named(file, what, bound(PART_LIMIT), bound(TENSOR_LIMIT))
        if named is None:
            raise
        return Target(named, 0, maxsize, bound(PART_LIMIT), bound(4))


def _range(file: File, match: re.Match[str], what: str) -> tuple[int, int]:
    start = int(match[1], 0 if match[1][:2] in ("0x", "0X") else 10)
    stop = start + 1
    if match[2]:
        second = int(match[3], 0 if match[3][:2] in ("0x", "0X") else 10)
        stop = second if match[2] == ".." else start + second
    if stop <= start:
        raise Unknown(f"the range {what} is empty: a range is START..STOP, START+LENGTH or START:LENGTH")
    if stop > file.size:
        where = f"starts at byte {start:,}" if start >= file.size else f"ends at byte {stop:,}"
        raise Unknown(f"the range {what} {where}; the file has {counted(file.size, 'byte')} (0x0..0x{file.size:x})")
    return start, stop


def _named(file: File, what: str, limit: int | None, data_limit: int | None) -> Iterator[FieldNode] | None:
    """Every key-value and every tensor of that name, if there are any; a name that occurs twice is shown twice."""
    name, index, read = os.fsencode(what), file.index, reader(file)
    keys = [i for i in range(index.keys) if index.key(i).name == name]
    tensors = [i for i in range(index.tensors) if index.tensor(i).name == name]
    if not keys and not tensors:
        return None
    parts = [key_value(file, i, Scope(limit), read) for i in keys]
    for i in tensors:
        parts.append(tensor_info(file, i, read))
        if file.data_start is not None:  # else nobody knows where the data are
            parts.append(tensor_nodes(file, file.tensors.by_index(i), read, Scope(data_limit, deep=True)))
    return chain(*parts)


def _at_path(
    file: File, what: str, match: re.Match[str], limit: int | None, data_limit: int | None
) -> Iterator[FieldNode]:
    """The nodes at a path and below it, with the records that lead to it."""
    section, number, rest = match[1], match[2], match[3]
    read = reader(file)
    if number is None or section not in ("key_values", "tensor_infos", "data") or rest == ".padding":
        nodes = file_nodes(file, Scope(limit, RECORDS if limit is not None and number is None else None))
    else:
        i, index = int(number), file.index
        count = index.keys if section == "key_values" else index.tensors
        if section == "data" and file.data_start is None:
            raise _unknown(file, what)  # nobody knows where the data are
        if i >= count:
            few = f"{section}[0] to {section}[{count - 1}]" if count else "none of them"
            raise Unknown(f"there is no {section}[{i}]: the file has {few}")
        if section == "key_values":
            nodes = key_value(file, i, _value_scope(file, i, rest, limit), read)
        elif section == "tensor_infos":
            nodes = tensor_info(file, i, read)
        else:
            nodes = tensor_nodes(file, file.tensors.by_index(i), read, _data_scope(file, i, rest, data_limit))
    return _below(file, nodes, what)


def _below(file: File, nodes: Iterator[FieldNode], what: str) -> Iterator[FieldNode]:
    """Of some nodes those at or below a path, which are consecutive, and those that lead to them."""
    leading: list[FieldNode] = []
    for node in nodes:
        leading = [known for known in leading if _within(node.path, known.path)]
        if _within(node.path, what):
            return chain(leading, [node], _while_within(nodes, what))
        if not is_leaf(node):
            leading.append(node)
    raise _unknown(file, what)


def _while_within(nodes: Iterator[FieldNode], what: str) -> Iterator[FieldNode]:
    for node in nodes:
        if not _within(node.path, what):
            return
        yield node


def _within(path: str, root: str) -> bool:
    return path.startswith(root) and path[len(root) : len(root) + 1] in ("", ".", "[")


def _value_scope(file: File, i: int, rest: str, limit: int | None) -> Scope:
    """Of an array, the element that a path names; elements of fixed size can be gone to directly."""
    if "[" not in rest:
        return Scope(limit)
    match = _LAST_INDEX.fullmatch(rest)
    entry = file.metadata.by_index(i)
    if match and match[1] == ".value.items" and entry.type == ValueType.ARRAY and entry.element in VALUE_FORMATS:
        width = (entry.value_span.stop - entry.value_span.start) // max(entry.count, 1)
        start = entry.value_span.start + int(match[2]) * width
        return Scope(None, None, start, start + width)
    return Scope()


def _data_scope(file: File, i: int, rest: str, limit: int | None) -> Scope:
    match = _LAST_INDEX.fullmatch(rest)
    tensor = file.tensors.by_index(i)
    kind = tensor.type.name if tensor.type is not None else ""
    if kind in BLOCK_LAYOUTS and (place := range_of(BLOCK_LAYOUTS[kind], tensor.shape[-1], rest)) is not None:
        start = extent(file, tensor)[0]
        return Scope(None, None, start + place[0], start + place[1], deep=True)
    apart = kind == ROW_SCALES_APART.name
    if match is not None and apart and match[1] == ".scales" and tensor.type is not None:
        width = ROW_SCALES_APART.scale.nbytes
        start = extent(file, tensor)[0] + prod(tensor.ne) // CODES_PER_BYTE + int(match[2]) * width
        return Scope(None, None, start, start + width, deep=True)
    has_codes = kind == "I2_S" or apart
    if match is None or match[1] not in (".payload", ".elements") or (not has_codes and kind not in ELEMENT_FORMATS):
        return Scope(limit, deep=True)
    width = 1 if has_codes or tensor.type is None else tensor.type.bytes
    start = extent(file, tensor)[0] + int(match[2]) * width
    return Scope(None, None, start, start + width, deep=True)


def _unknown(file: File, what: str) -> Unknown:
    """What to say where nothing has that name: the nearest names."""
    index = file.index
    names = [index.key(i).name for i in range(index.keys)] + [index.tensor(i).name for i in range(index.tensors)]
    texts = [*_SECTIONS, *(name.decode("utf-8", "surrogateescape") for name in names)]
    near = [text for text in texts if what.lower() in text.lower()][:5]
    near = near or get_close_matches(what, texts[:_COMPARED], 5, 0.6)
    message = f"this file has no key, tensor, path or byte range {visible(what)}"
    if near:
        message += "; did you mean " + ", ".join(visible(text, bare=True) for text in near) + "?"
    if file.fault is not None:
        message += f" (which could be read up to a fault only: {file.fault.code} {file.fault.fault.slug})"
    return Unknown(message)
