"""Single bytes of ternary payloads: four codes, their bits, their trits, and the elements they belong to.

Bytes of I2_S are shown in the canonical layout (interleave-128, clause 5.3), whatever wrote the file: the layout is not
marked in it, and only all the weights together tell it.

    >>> decoded((2, 128), 33, 0x9a)[0]
    Code(bits='7:6', code=2, trit=1, element=129, at=(1, 1))

Types with a scale for each group have codes, weights and elements, and a walk of their blocks (`block_nodes`):

    >>> from i2s_spec.schema.blocks import BLOCK_LAYOUTS
    >>> decoded_block(BLOCK_LAYOUTS["Q2_0"], (2, 128), 20, 0x9a)[1]
    BlockCode(place='3:2', code=2, weight=1, element=65, at=(0, 65))
    >>> [code.code for code in decoded_block(BLOCK_LAYOUTS["PTQ1_0"], (2, 128), 0, 255)]
    [2, 2, 2, 2, 2]
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from math import prod
from typing import Final, NamedTuple

from construct import Bytes

from i2s_spec.errors import TrustedText
from i2s_spec.schema import i2s
from i2s_spec.schema.blocks import DIGITS_PER_BYTE, FOURTH_CODE, BlockLayout
from i2s_spec.schema.container import Elided, Opened, Read, Scope, numbers
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE
from i2s_spec.schema.faults import ByteOrder, order_prefix
from i2s_spec.schema.field import Field, FieldNode, Word

#: What the columns say, in one line.
LEGEND: Final = f"canonical layout ({CANONICAL.layout}): code, trit, @element"


class Code(NamedTuple):
    """One code: its bits in the byte, the code, its trit (None for code 3), its element (None after the last), and the
    row and column of that.
    """

    bits: str
    code: int
    trit: int | None
    element: int | None
    at: tuple[int, ...] | None

    @property
    def weight(self) -> int | None:
        """The weight without the scale, under the name that it has in every type: the trit."""
        return self.trit


def decoded(shape: Sequence[int], byte: int, value: int) -> tuple[Code, ...]:
    """Return the four codes of byte `byte` of a payload, bits 7:6 first.

    :param shape: of the tensor, in NumPy's order
    """
    count = prod(shape)
    codes = []
    for bits, code, element in zip(i2s.BITS, i2s.codes_of(value), i2s.elements_of(byte), strict=True):
        inside = element < count
        at = unraveled(element, shape) if inside else None
        codes.append(Code(bits, code, CANONICAL.code_map.trits[code], element if inside else None, at))
    return tuple(codes)


def unraveled(element: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the index of a flat, row-major element: (row, column) of a matrix."""
    index: list[int] = []
    for length in reversed(shape):
        element, at = divmod(element, length)
        index.insert(0, at)
    return tuple(index)


class Columns:
    """Four codes to a line, in columns as wide as the largest element of the tensor needs."""

    #: Columns of a terminal that a line takes with the indent before it.
    room: Final = 76

    def __init__(self, shape: Sequence[int]) -> None:
        self.shape = shape
        count = prod(shape)
        self._label = max(len("bits"), len(f"[{max(count // CODES_PER_BYTE - 1, 0)}]"))
        self._element = len(str(max(count - 1, 0)))

    def heading(self) -> str:
        """Return the line above: which bits are in which column."""
        width = len("00 +1 @") + self._element
        return f"{'bits':{self._label}} " + "  ".join(f"{bits:<{width}}" for bits in i2s.BITS).rstrip()

    def label(self, label: str) -> str:
        return label.ljust(self._label)

    def codes(self, byte: int, value: int) -> tuple[Code, ...]:
        """Return the codes of one byte, as data."""
        return decoded(self.shape, byte, value)

    def line(self, byte: int, value: int) -> str:
        """Return the codes of one byte; `?` stands for a code without a trit, and for a place after the last
        element.
        """
        return "  ".join(
            f"{code.code:02b} {'?' if code.trit is None else format(code.trit, '+d') if code.trit else '0':>2} "
            f"@{'?' if code.element is None else code.element:<{self._element}}"
            for code in self.codes(byte, value)
        ).rstrip()


# --- block codes -----------------------------------------------------------------------------------------------------

_BITS: Final = {0: "1:0", 2: "3:2", 4: "5:4", 6: "7:6"}
_DIGITS: Final = {n: f"digit {n}" for n in range(DIGITS_PER_BYTE)}

#: Columns in front of a line of codes: depth in the tree, and the label of the widest record.
_INDENT: Final = 16


class BlockCode(NamedTuple):
    """One code: its bits in the byte or its digit, the code, its weight without the scale (None for a reserved code), its
    element (None for a digit that no element has), and the index of that in the tensor.
    """

    place: str
    code: int
    weight: int | None
    element: int | None
    at: tuple[int, ...] | None


def legend(layout: BlockLayout) -> str:
    """Return the legend of the columns."""
    return f"{'code' if layout.coding == 'bits' else 'digit'}, weight without scale, @element"


def decoded_block(layout: BlockLayout, shape: Sequence[int], offset: int, value: int) -> tuple[BlockCode, ...]:
    """Return the codes of a byte, lowest bits or first digit first.

    :param shape: of the tensor, in NumPy's order
    :param offset: of the byte from the start of the tensor; one that holds codes
    """
    row, within = divmod(offset, layout.type.row_bytes + shape[-1] // layout.block * layout.nbytes)
    block, byte = divmod(within - layout.type.row_bytes, layout.nbytes)
    first, count = row * shape[-1] + block * layout.block, prod(shape)
    found = []
    for place, words in (_BITS if layout.coding == "bits" else _DIGITS).items():
        code = value >> place & 3 if layout.coding == "bits" else (value * 3**place % 256) * 3 >> 8
        k = _elements(layout)[byte].get(place)
        element = first + k if k is not None and first + k < count else None
        weight = None if code == FOURTH_CODE and layout.fourth != "weight" else code - 1
        found.append(BlockCode(words, code, weight, element, None if element is None else unraveled(element, shape)))
    return tuple(found)


@cache
def _elements(layout: BlockLayout) -> tuple[dict[int, int], ...]:
    """Of each byte of a block its elements by their places."""
    held: tuple[dict[int, int], ...] = tuple({} for _ in range(layout.nbytes))
    for k in range(layout.block):
        byte, place = layout.find(k)
        held[byte][place] = k
    return held


class BlockColumns:
    """The codes of a byte in a line, in columns as wide as the largest element of the tensor needs."""

    def __init__(self, layout: BlockLayout, shape: Sequence[int]) -> None:
        self.layout, self.shape = layout, shape
        self._label = max(len("bits"), len(f"[{layout.nbytes - 1}]"))
        self._element = len(str(max(prod(shape) - 1, 0)))

    @property
    def room(self) -> int:
        """Columns of a terminal that a line takes with what is in front of it."""
        return _INDENT + len(self.heading()) + self._element

    def heading(self) -> str:
        """Return the line above: which bits or digit are in which column."""
        places = _BITS if self.layout.coding == "bits" else _DIGITS
        width = self._code + len(" +1 @") + self._element
        label = "bits" if self.layout.coding == "bits" else ""
        return f"{label:{self._label}} " + "  ".join(f"{words:<{width}}" for words in places.values()).rstrip()

    @property
    def _code(self) -> int:
        return 2 if self.layout.coding == "bits" else 1

    def label(self, label: str) -> str:
        return label.ljust(self._label)

    def codes(self, offset: int, value: int) -> tuple[BlockCode, ...]:
        """Return the codes of one byte, as data."""
        return decoded_block(self.layout, self.shape, offset, value)

    def line(self, offset: int, value: int) -> str:
        """Return the codes of one byte; `?` stands for a reserved code, and for a digit that no element has."""
        form = f"0{self._code}b" if self.layout.coding == "bits" else "d"
        return "  ".join(
            f"{code.code:{form}} {'?' if code.weight is None else format(code.weight, '+d') if code.weight else '0':>2} "
            f"@{'?' if code.element is None else code.element:<{self._element}}"
            for code in self.codes(offset, value)
        ).rstrip()


# --- block walk ------------------------------------------------------------------------------------------------------
# A walk of a tensor with a scale for each group: rows or blocks, and in each its scale and its codes.
#
# The declaration in `schema.blocks` says what is where. A path is `data[2].blocks[7].codes[3]`, or
# `data[2].rows[1].blocks[7].codes[3]` where each row has a scale in front of its blocks.

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
    """Yield the nodes of the data between two bytes, which rows of whole blocks fill as far as the file has them.

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
    """Yield the fields in front of a row: its scale, and the bytes beside it if there are any."""
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
