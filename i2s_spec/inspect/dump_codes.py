"""This module walks a tensor of a type with a scale for each group: rows or blocks, and in each its scale and its codes.

The declaration in `schema.block_layout` says what is where. A path is `data[2].blocks[7].codes[3]`, or
`data[2].rows[1].blocks[7].codes[3]` where each row has a scale in front of its blocks.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from construct import Bytes

from i2s_spec.errors import TrustedText
from i2s_spec.inspect.dump.block_codes import legend
from i2s_spec.schema.block_layout import BlockLayout
from i2s_spec.schema.checks import ByteOrder, order_prefix
from i2s_spec.schema.field import Field, FieldNode, Word
from i2s_spec.schema.walk import Elided, Opened, Read, Scope, numbers

_LETTERS: Final = {"F16": "e", "F32": "f"}
_PLACE: Final = re.compile(r"(?:\.rows\[([0-9]{1,20})\])?(?:\.blocks\[([0-9]{1,20})\])?(?:\.codes\[([0-9]{1,20})\])?")


def block_nodes(
    layout: BlockLayout,
    shape: Sequence[int],
    order: ByteOrder,
    read: Read,
    extent: tuple[int, int],
    path: str,
    scope: Scope,
) -> Iterator[FieldNode]:
    """The nodes of the data between two bytes, which rows of whole blocks fill as far as the file has them.

    :param shape: of the tensor, in NumPy's order; its last number is a multiple of the block
    :param path: of the tensor
    """
    start, stop = extent
    if layout.scale.per == "block":
        yield from _blocks(layout, order, read, (start, stop), path, scope)
        return
    width = row_bytes(layout, shape[-1])
    count = (stop - start) // width
    first, last = scope.chosen(start, width, count)
    if scope.limit is not None:
        last = min(last, first + 1)  # a row is as much of it as anybody looks at unasked
    yield FieldNode(f"{path}.rows", start, start + count * width, Opened(TrustedText(""), count), None)
    yield from _elided(f"{path}.rows", 0, first, start, width, "rows")
    for i in range(first, last):
        at, row = start + i * width, f"{path}.rows[{i}]"
        yield FieldNode(row, at, at + width, Opened(TrustedText("")), None)
        yield from _around_scale(layout, order, read, at, layout.type.row_bytes, row)
        yield from _blocks(layout, order, read, (at + layout.type.row_bytes, at + width), row, scope)
    yield from _elided(f"{path}.rows", last, count, start, width, "rows")
    if start + count * width < stop:
        yield FieldNode(f"{path}.rows[{count}..]", start + count * width, stop, None, None)


def row_bytes(layout: BlockLayout, cols: int) -> int:
    """Bytes of a row: what is in front, and its blocks."""
    return layout.type.row_bytes + cols // layout.block * layout.nbytes


def range_of(layout: BlockLayout, cols: int, rest: str) -> tuple[int, int] | None:
    """Which bytes of a tensor the row, block or byte takes that a path behind `data[2]` begins with; None for none."""
    met = _PLACE.match(rest)
    if met is None or not any(met.groups()) or cols % layout.block or (met[1] is None) == (layout.scale.per == "row"):
        return None
    at, size = 0, 0
    if met[1] is not None:
        size = row_bytes(layout, cols)
        at = int(met[1]) * size
    if met[2] is not None:
        at, size = at + layout.type.row_bytes + int(met[2]) * layout.nbytes, layout.nbytes
    if met[3] is not None:
        at, size = at + _codes_start(layout) + int(met[3]), 1
    return at, at + size


def _blocks(
    layout: BlockLayout, order: ByteOrder, read: Read, extent: tuple[int, int], path: str, scope: Scope
) -> Iterator[FieldNode]:
    start, stop = extent
    width, path = layout.nbytes, f"{path}.blocks"
    count = (stop - start) // width
    first, last = scope.chosen(start, width, count)
    if scope.limit is not None:
        last = min(last, first + max(1, scope.limit // width))
    yield FieldNode(path, start, start + count * width, Opened(TrustedText(""), count), None)
    yield from _elided(path, 0, first, start, width, "blocks")
    for i in range(first, last):
        at, block = start + i * width, f"{path}[{i}]"
        yield FieldNode(block, at, at + width, Opened(TrustedText("")), None)
        begin, end = at, at + width
        own = layout.scale.per == "block"
        if own and layout.scale.offset == 0:
            yield _scale(layout, order, read, at, block)
            begin += layout.scale.nbytes
        elif own:
            end -= layout.scale.nbytes
        yield FieldNode(
            f"{block}.codes", begin, end, Opened(TrustedText(layout.name), None, legend(layout)), _codes_field(layout)
        )
        yield from numbers(read, Word(order, "B"), begin, end - begin, f"{block}.codes", replace(scope, limit=None))
        if own and layout.scale.offset:
            yield _scale(layout, order, read, end, block)
    yield from _elided(path, last, count, start, width, "blocks")
    if start + count * width < stop:
        yield FieldNode(f"{path}[{count}..]", start + count * width, stop, None, None)


def _codes_start(layout: BlockLayout) -> int:
    """Where the codes begin in a block; the scale of a block is in front of them or after them."""
    return layout.scale.nbytes if layout.scale.per == "block" and layout.scale.offset == 0 else 0


def _around_scale(
    layout: BlockLayout, order: ByteOrder, read: Read, start: int, size: int, path: str
) -> Iterator[FieldNode]:
    """What is in front of a row: its scale, and bytes beside it where there are any."""
    at, end = start + layout.scale.offset, start + layout.scale.offset + layout.scale.nbytes
    if start < at:
        yield FieldNode(f"{path}.before_scale", start, at, None, None)
    yield _scale(layout, order, read, at, path)
    if end < start + size:
        yield FieldNode(f"{path}.after_scale", end, start + size, None, None)


def _scale(layout: BlockLayout, order: ByteOrder, read: Read, at: int, path: str) -> FieldNode:
    field = _scale_field(layout, order)
    letter, width = _LETTERS[layout.scale.type], layout.scale.nbytes
    (value,) = struct.unpack(order_prefix(order) + letter, read(at, width))
    return FieldNode(f"{path}.scale", at, at + width, value, field)


def _elided(path: str, first: int, last: int, start: int, width: int, what: str) -> Iterator[FieldNode]:
    if first < last:
        left = Elided(last - first, what)
        yield FieldNode(f"{path}[{first}..{last}]", start + first * width, start + last * width, left, None)


@cache
def _scale_field(layout: BlockLayout, order: ByteOrder) -> Field:
    meaning = f"What the weights of the {layout.scale.per} are multiplied by, {layout.scale.type}."
    return Field("scale", Word(order, _LETTERS[layout.scale.type]), meaning, "5.6")


@cache
def _codes_field(layout: BlockLayout) -> Field:
    size = layout.nbytes - (layout.scale.nbytes if layout.scale.per == "block" else 0)
    kind = "Two-bit codes" if layout.coding == "bits" else "Codes as digits of base 3, five to a byte"
    return Field("codes", Bytes(size), f"{kind}: {layout.block} weights of the row.", "5.6")
