"""Dumps of a file in the manner of fq: on the left the bytes of each field, on the right the tree of fields.

Of a line of bytes only those of the field are shown, each in the column of its address. `document` gives the same nodes
as data, `NodeLabels` says what a node is, and `target` finds the part of the file that is asked for.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain, takewhile
from math import prod
from sys import maxsize
from typing import Any, Final, NamedTuple

from i2s_spec.draw import text
from i2s_spec.draw.terminal import Line, Piece
from i2s_spec.draw.text import float32_words, json_string, visible
from i2s_spec.draw.text import width as columns
from i2s_spec.errors import FormatError, TrustedText, counted
from i2s_spec.gguf.reader import File
from i2s_spec.inspect.dump_codes import BlockColumns, Columns, range_of
from i2s_spec.inspect.dump_walk import ELEMENT_FORMATS, extent, file_nodes, key_value, reader, tensor_info, tensor_nodes
from i2s_spec.inspect.show import SCHEMA_VERSION, fault, type_name
from i2s_spec.schema.blocks import BLOCK_LAYOUTS, ROW_SCALES_APART
from i2s_spec.schema.container import Elided, Head, Opened, Scope, is_leaf
from i2s_spec.schema.dialect import CODES_PER_BYTE
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.types import VALUE_FORMATS, ValueType

#: Columns of the tree before the byte ranges: as many as there is room for, between these two.
NARROWEST_TREE: Final = 32
WIDEST_TREE: Final = 60

#: Bytes of one leaf that are read at once; a multiple of every line width.
_STEP: Final = 1 << 16


def lines(file: File, target: Target, width: int = 16, available: int | None = None) -> Iterator[Line]:
    """Yield the lines of a dump, a ruler first.

    :param width: bytes in a line: 8, 16 or 32
    :param available: columns of the terminal, if the lines have to fit
    """
    pane = _Pane(file, width, available)
    yield pane.ruler()
    labels = NodeLabels(file)
    reported: set[str] = set()
    for depth, parent, node in chosen(target):
        labels.note(node)
        is_narrow = pane.is_narrow(labels.room(node))
        if is_narrow and labels.code(node) is not None:
            yield [*pane.byte(node), *_tree(labels, 0, parent, node, pane)]
            continue
        rows = _rows(file, target, node, width)
        first = next(rows, None)
        left = [pane.empty()] if first is None else pane.left(first)
        yield [*left, *_tree(labels, depth, parent, node, pane), *_remark(node, reported)]
        for row in rows:
            if row.last > row.first:
                yield pane.left(row)
            else:
                yield [pane.empty("*"), Piece(f"{'  ' * depth}… until 0x{row.address:x}", "dim")]
        below = labels.below(node)
        if below is not None:
            is_legend = isinstance(node.value, Opened)
            narrow = [Piece(" " * (pane.address + 4))] if is_legend and is_narrow else None
            yield [
                *(narrow or [pane.empty(), Piece("  " * (depth + is_legend))]),
                Piece(below, "" if is_legend else "red"),
            ]


class _Pane:
    """The left side of a dump, and how much room it leaves."""

    def __init__(self, file: File, width: int, available: int | None) -> None:
        self.address = len("0x") + text.digits_for(file.size)
        self._ruler, self._blank = text.ruler(width), text.blank(width)
        self.tree, self.has_ranges = WIDEST_TREE, True
        self._available = available
        if available is not None:
            ranges = 2 * self.address + len("  .. (99,999)")
            room = available - len(self.empty().text) - ranges
            self.tree = max(NARROWEST_TREE, min(WIDEST_TREE, room))
            self.has_ranges = room >= NARROWEST_TREE

    def is_narrow(self, room: int) -> bool:
        """Whether so many columns have no place beside the bytes."""
        return self._available is not None and self._available < len(self.empty().text) + room

    def ruler(self) -> Line:
        return [Piece(f"{'':{self.address}}  {self._ruler.hex}  {self._ruler.ascii}", "dim")]

    def empty(self, mark: str = "") -> Piece:
        return Piece(f"{'':{self.address}}  {mark:{len(self._blank.hex)}}  {self._blank.ascii}   ", "dim")

    def left(self, row: text.HexRow) -> list[Piece]:
        return [
            Piece(f"0x{row.address:0{self.address - 2}x}", "dim"),
            Piece(f"  {row.hex} "),
            Piece(f"|{row.ascii}|  ", "dim"),
        ]

    def byte(self, node: FieldNode) -> list[Piece]:
        """One byte by itself, where there is no room for its column."""
        return [Piece(f"0x{node.start:0{self.address - 2}x}", "dim"), Piece(f"  {node.value:02x}  ")]


def document(file: File, target: Target) -> dict[str, Any]:
    """Return the nodes of a dump as data; `nodes` is an iterator that reads as it goes."""
    labels = NodeLabels(file)
    return {
        "schema_version": SCHEMA_VERSION,
        "path": json_string(file.name),
        "size": file.size,
        "fault": None if file.fault is None else fault(file.fault),
        "passed": [fault(error) for error in file.passed],
        "nodes": (_data(labels, node) for _, _, node in chosen(target)),
    }


def chosen(target: Target) -> Iterator[tuple[int, FieldNode | None, FieldNode]]:
    """Yield the nodes of a target with their depth and the record that they are in; of a range, those that have
    bytes in it.
    """
    above: list[FieldNode] = []
    given = 0  # how many of `above` were given already
    for node in target.nodes:
        while above and not node.path.startswith((f"{above[-1].path}.", f"{above[-1].path}[")):
            above.pop()
        given = min(given, len(above))
        if not is_leaf(node):
            above.append(node)
            if target.windowed:
                continue
        elif target.windowed and not (node.start < target.stop and node.stop > target.start):
            continue
        for depth in range(given, len(above)):
            yield depth, above[depth - 1] if depth else None, above[depth]
        given = len(above)
        if is_leaf(node):
            yield given, above[-1] if above else None, node


def _rows(file: File, target: Target, node: FieldNode, width: int) -> Iterator[text.HexRow]:
    """Yield the lines of bytes of a leaf; where some are left out, an empty one at the end that carries where they
    end.
    """
    start, stop = max(node.start, target.start), min(node.stop, target.stop, file.size)
    stepped_over = isinstance(node.value, Opened) or (isinstance(node.value, Elided) and node.value.left is not None)
    if stepped_over or start >= stop:
        return
    opaque = node.value is None or isinstance(node.value, Elided)
    most = target.data_lines if opaque else target.lines
    end = stop if most is None else min(stop, (start // width + most) * width)
    while start < end:
        until = min(end, (start // _STEP + 1) * _STEP)
        yield from text.rows(file.source.read(start, until - start), start, width)
        start = until
    if end < stop:
        yield text.blank(width)._replace(address=stop)


def _tree(labels: NodeLabels, depth: int, parent: FieldNode | None, node: FieldNode, pane: _Pane) -> Iterator[Piece]:
    """Yield the right side of a node's first line: its name, its value, its range."""
    label = labels.label(parent, node)
    value, style = labels.value(node)
    code = labels.code(node)
    name = "  " * depth + label + ("" if not value else " " if code or not is_leaf(node) else ": ")
    yield Piece(name, "cyan" if is_leaf(node) else "bold cyan")
    yield Piece(value, style)
    if pane.has_ranges and node.stop > node.start and code is None:
        shown = f"0x{node.start:x}..0x{node.stop:x} ({node.stop - node.start:,})"
        yield Piece(" " * max(2, pane.tree - columns(name) - columns(value)) + shown, "dim")


def _remark(node: FieldNode, reported: set[str]) -> Iterator[Piece]:
    """Yield the meaning of a field, the first time that it occurs."""
    if node.field is not None and node.field.meaning not in reported:
        reported.add(node.field.meaning)
        yield Piece(f"  {node.field.meaning} [{node.field.clause}]", "dim italic")


def _data(labels: NodeLabels, node: FieldNode) -> dict[str, Any]:
    """Return a node as data for JSON."""
    labels.note(node)
    value = node.value
    about: dict[str, Any] = {"path": node.path, "start": node.start, "stop": node.stop}
    code = labels.code(node)
    if isinstance(value, Opened):
        about |= {"kind": "record", "title": json_string(value.title), "parts": value.parts, "note": value.note}
    elif isinstance(value, Elided):
        about |= {"kind": "elided", "what": value.what, "left": value.left}
    elif isinstance(value, FormatError):
        about |= {"kind": "fault", "fault": fault(value)}
    elif value is None:
        about |= {"kind": "bytes"}
    elif code is not None:
        codes = [{**item._asdict(), "weight": item.weight} for item in labels.columns(code[0]).codes(code[1], value)]
        about |= {"kind": "codes", "value": value, "codes": codes}
    elif isinstance(value, bytes):
        length = value.length if isinstance(value, Head) else len(value)
        about |= {"kind": "field", "value": json_string(value), "length": length}
    else:
        about |= {"kind": "field", "value": value != 0 if labels.is_bool(node) else value}
    if node.field is not None:
        about |= {"meaning": node.field.meaning, "clause": node.field.clause}
    return about


# --- labels ----------------------------------------------------------------------------------------------------------
# The label of a node in the tree, and its value in words.

#: Characters of a text that are shown.
TEXT: Final = 48

_TABLES: Final = ("key_values", "tensor_infos", "data")
_PAYLOAD: Final = re.compile(r"data\[(\d+)\]\.(?:payload|(?:rows\[\d+\]\.)?blocks\[\d+\]\.codes)(?:\[(\d+)\])?")
_INFO: Final = re.compile(r"tensor_infos\[(\d+)\]\.(type|offset|ne)")
_VALUE: Final = re.compile(r"key_values\[(\d+)\]\.value(\.items\[\d+\])*")


class NodeLabels:
    """The labels of the nodes of one file."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.tensor = lru_cache(4)(file.tensors.by_index)
        self.columns = lru_cache(4)(self._columns)
        self._types = lru_cache(4)(self._value_types)
        self._inner_type = -1  # of the array inside an array that was met last

    def note(self, node: FieldNode) -> None:
        """Take note of a node: the labels of later ones may depend on it."""
        if node.path.endswith(".type") and ".items[" in node.path:
            self._inner_type = node.value

    def label(self, parent: FieldNode | None, node: FieldNode) -> str:
        """Return the name of a node, without the path of the record that it is in."""
        if parent is None or (parent.path in _TABLES and node.path[len(parent.path)] == "["):
            return node.path
        label = node.path[len(parent.path) :].lstrip(".")
        if label.startswith("[") and isinstance(parent.value, Opened) and not parent.value.title:
            label = parent.path.rpartition(".")[2] + label
        code = self.code(node)
        return label if code is None else self.columns(code[0]).label(label)

    def value(self, node: FieldNode) -> tuple[str, str]:
        """Return the value of a node in words, and the style that they have on a terminal."""
        value = node.value
        if value is None:
            return "", ""
        if isinstance(value, Opened):
            title = str(value.title) if isinstance(value.title, TrustedText) else visible(value.title, TEXT)
            parts = "" if value.parts is None else counted(value.parts, "element") if title else f"({value.parts:,})"
            words = self._meaning(node).lstrip() or " ".join(filter(None, (title, parts, value.note)))
            return words, "bold" if title else ""
        if isinstance(value, Elided):
            return "" if value.left is None else f"… {value.left:,} {value.what}", "dim"
        if isinstance(value, FormatError):
            return _fault(value), "bold red"
        if isinstance(value, TrustedText):
            return value, ""
        if isinstance(value, Head):
            return visible(value[:TEXT], 4 * TEXT) + f"… ({counted(value.length, 'byte')})", "green"
        if isinstance(value, bytes):
            return visible(value, TEXT), "green"
        code = self.code(node)
        if code is not None:
            return self.columns(code[0]).line(code[1], value), ""
        return self._number(node) + self._meaning(node), "yellow"

    def below(self, node: FieldNode) -> str | None:
        """Return the text of a separate line below a node: the fault in it, or the meaning of its columns."""
        if isinstance(node.value, Opened):
            match = _PAYLOAD.fullmatch(node.path)
            return self.columns(int(match[1])).heading() if match and node.value.note else None
        faults = (*self.file.passed, *([self.file.fault] if self.file.fault is not None else []))
        for error in () if node.value is self.file.fault or isinstance(node.value, Elided) else faults:
            if node.start <= error.span.start < error.span.stop <= node.stop:
                return _fault(error)
        return None

    def code(self, node: FieldNode) -> tuple[int, int] | None:
        """Tensor, and byte from its start, of a node that is one byte of codes, else None."""
        if not isinstance(node.value, int) or not node.path.startswith("data["):
            return None
        match = _PAYLOAD.fullmatch(node.path)
        if match is None or match[2] is None:
            return None
        i = int(match[1])
        return i, node.start - (self.file.data_start or 0) - self.tensor(i).offset

    def _columns(self, i: int) -> Columns | BlockColumns:
        kind, shape = self.tensor(i).kind, self.tensor(i).shape
        return BlockColumns(BLOCK_LAYOUTS[kind], shape) if kind in BLOCK_LAYOUTS else Columns(shape)

    def room(self, node: FieldNode) -> int:
        """Columns that a node's line takes if it is a byte of codes, or is followed by their heading; else 0."""
        match = _PAYLOAD.fullmatch(node.path)
        return self.columns(int(match[1])).room if match else 0

    def is_bool(self, node: FieldNode) -> bool:
        """Whether a number is the value of a boolean, or an element of an array of them."""
        match = _VALUE.fullmatch(node.path)
        if match is None or int(match[1]) >= self.file.index.keys:
            return False
        kind, element = self._types(int(match[1]))
        if kind == ValueType.ARRAY:
            kind = self._inner_type if element == ValueType.ARRAY else element
        return kind == ValueType.BOOL

    def _value_types(self, i: int) -> tuple[int, int]:
        entry = self.file.metadata.by_index(i)
        return entry.type, entry.element

    def _number(self, node: FieldNode) -> str:
        value = node.value
        if isinstance(value, float):
            width = node.stop - node.start
            return float32_words(value) if width == 4 else f"{value:.5g}" if width == 2 else repr(value)
        if self.is_bool(node):
            return ("true" if value else "false") + (f" (the byte is {value})" if value not in (0, 1) else "")
        return str(value)

    def _meaning(self, node: FieldNode) -> str:
        """Return the meaning of a number that another table defines; else nothing."""
        path, value = node.path, node.value
        if path.startswith("key_values[") and path.endswith(".type"):
            return f" ({ValueType(value).label})" if 0 <= value < len(ValueType) else ""
        match = _INFO.fullmatch(path)
        if match is None or int(match[1]) >= self.file.index.tensors:
            return ""
        tensor = self.tensor(int(match[1]))
        if match[2] == "type":
            return f" ({type_name(tensor) or 'no known type'})"
        if match[2] == "offset":
            return "" if self.file.data_start is None else f" (at 0x{self.file.data_start + tensor.offset:x})"
        return f" (shape {' x '.join(map(str, tensor.shape))})" if len(tensor.ne) > 1 else ""


def _fault(error: FormatError) -> str:
    return f"! {error.code} {error.fault.slug}: {error.message}"


# --- selector --------------------------------------------------------------------------------------------------------
# What `i2s dump FILE WHAT` means by WHAT: a byte range, an address, a path, a key, or a tensor.
#
# Nothing at all is the whole structure, with arrays and data elided. A range is written `0x1000..0x1040`, `0x1000+64`
# or `4096:64`; a path as the dump itself writes it, such as `header`, `key_values[3].value` or `data[2].tail`.

#: What is shown of long things by default: elements of an array and lines of a text, in the whole structure and in a
#: part of it; bytes of codes or elements of a tensor: one block of I2_S.
WHOLE_LIMIT: Final = 8
PART_LIMIT: Final = 16
TENSOR_LIMIT: Final = 32

#: Records of one table that the whole structure shows.
RECORDS: Final = 1000

#: Names that are compared with an unknown WHAT.
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
    """The file has no WHAT; the message lists similar names."""


def target(file: File, what: str | None, limit: int | None = None, everything: bool = False) -> Target:
    """Find the part of a file that is to be shown.

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
        if file.data_start is not None:  # else the position of the data is unknown
            parts.append(tensor_nodes(file, file.tensors.by_index(i), read, Scope(data_limit, deep=True)))
    return chain(*parts)


def _at_path(
    file: File, what: str, match: re.Match[str], limit: int | None, data_limit: int | None
) -> Iterator[FieldNode]:
    """Return the nodes at a path and below it, with the records that lead to it."""
    section, number, rest = match[1], match[2], match[3]
    read = reader(file)
    if number is None or section not in ("key_values", "tensor_infos", "data") or rest == ".padding":
        nodes = file_nodes(file, Scope(limit, RECORDS if limit is not None and number is None else None))
    else:
        i, index = int(number), file.index
        count = index.keys if section == "key_values" else index.tensors
        if section == "data" and file.data_start is None:
            raise _unknown(file, what)  # the position of the data is unknown
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
    """Return the nodes at or below a path, which are consecutive, and those that lead to them."""
    leading: list[FieldNode] = []
    for node in nodes:
        leading = [known for known in leading if _within(node.path, known.path)]
        if _within(node.path, what):
            return chain(leading, [node], takewhile(lambda each: _within(each.path, what), nodes))
        if not is_leaf(node):
            leading.append(node)
    raise _unknown(file, what)


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
    """Return the error for an unknown name, with the nearest names."""
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
