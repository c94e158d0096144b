"""This module draws nodes in the manner of fq: on the left the bytes of each field, on the right the tree of fields.

Of a line of bytes only those of the field are shown, each in the column of its address. `document` gives the same nodes
as data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from i2s_spec.draw import hexdump
from i2s_spec.draw.terminal import Line, Piece
from i2s_spec.draw.text import json_string
from i2s_spec.draw.text import width as columns
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.inspect.dump.labels import NodeLabels
from i2s_spec.inspect.dump.selector import Target
from i2s_spec.inspect.show import SCHEMA_VERSION, fault
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.walk import Elided, Head, Opened, is_leaf

#: Columns of the tree before the byte ranges: as many as there is room for, between these two.
NARROWEST_TREE: Final = 32
WIDEST_TREE: Final = 60

#: Bytes of one leaf that are read at once; a multiple of every line width.
_STEP: Final = 1 << 16


def lines(file: File, target: Target, width: int = 16, available: int | None = None) -> Iterator[Line]:
    """The lines of a dump, a ruler first.

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
        self.address = len("0x") + hexdump.digits_for(file.size)
        self._ruler, self._blank = hexdump.ruler(width), hexdump.blank(width)
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

    def left(self, row: hexdump.HexRow) -> list[Piece]:
        return [
            Piece(f"0x{row.address:0{self.address - 2}x}", "dim"),
            Piece(f"  {row.hex} "),
            Piece(f"|{row.ascii}|  ", "dim"),
        ]

    def byte(self, node: FieldNode) -> list[Piece]:
        """One byte by itself, where there is no room for its column."""
        return [Piece(f"0x{node.start:0{self.address - 2}x}", "dim"), Piece(f"  {node.value:02x}  ")]


def document(file: File, target: Target) -> dict[str, Any]:
    """The nodes of a dump as data; `nodes` is an iterator that reads as it goes."""
    labels = NodeLabels(file)
    return {
        "schema_version": SCHEMA_VERSION,
        "path": json_string(file.name),
        "size": file.size,
        "fault": None if file.fault is None else fault(file.fault),
        "nodes": (_data(labels, node) for _, _, node in chosen(target)),
    }


def chosen(target: Target) -> Iterator[tuple[int, FieldNode | None, FieldNode]]:
    """The nodes of a target with their depth and the record that they are in; of a range, those that have bytes in it."""
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


def _rows(file: File, target: Target, node: FieldNode, width: int) -> Iterator[hexdump.HexRow]:
    """The lines of bytes of a leaf; where some are left out, an empty one at the end that carries where they end."""
    start, stop = max(node.start, target.start), min(node.stop, target.stop, file.size)
    stepped_over = isinstance(node.value, Opened) or (isinstance(node.value, Elided) and node.value.left is not None)
    if stepped_over or start >= stop:
        return
    opaque = node.value is None or isinstance(node.value, Elided)
    most = target.data_lines if opaque else target.lines
    end = stop if most is None else min(stop, (start // width + most) * width)
    while start < end:
        until = min(end, (start // _STEP + 1) * _STEP)
        yield from hexdump.rows(file.source.read(start, until - start), start, width)
        start = until
    if end < stop:
        yield hexdump.blank(width)._replace(address=stop)


def _tree(labels: NodeLabels, depth: int, parent: FieldNode | None, node: FieldNode, pane: _Pane) -> Iterator[Piece]:
    """The right side of a node's first line: its name, its value, its range."""
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
    """What a field means, the first time that it is met."""
    if node.field is not None and node.field.meaning not in reported:
        reported.add(node.field.meaning)
        yield Piece(f"  {node.field.meaning} [{node.field.clause}]", "dim italic")


def _data(labels: NodeLabels, node: FieldNode) -> dict[str, Any]:
    """A node as data for JSON."""
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
