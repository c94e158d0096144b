"""Figures of the schema: byte maps of records, the bits of a byte, blocks of layouts and of types, layouts side by side,
and the same weights under each rule of quantization.

Every figure is one SVG with a title, a description for who cannot see it, and words on each of its parts; its colors are
classes of the site's style sheet. Nothing in a figure is placed by hand: boxes follow the fields' sizes, cells the
layout's formulas.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import groupby
from typing import Final

import numpy as np

from i2s_spec.codec import blocks
from i2s_spec.codec.quantize import quantize
from i2s_spec.codec.reference import unpack
from i2s_spec.draw.svg import drawing, element, number, rect, text
from i2s_spec.exports.json_form import Shape, fixed_offsets, records
from i2s_spec.schema.blocks import DIGITS_PER_BYTE, BlockLayout, block_layout
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, LAYOUTS, CodeMap, Layout
from i2s_spec.schema.field import RecordStruct
from i2s_spec.schema.i2s import BITS, SHIFTS, codes_of, elements_of
from i2s_spec.schema.types import TAIL_BYTES

#: Bytes in a row of a byte map, and the size of one of them.
ACROSS: Final = 16
CELL: Final = 46
HIGH: Final = 40

#: Cells that a field takes in a map whose size only the file knows.
UNSIZED: Final = 4

_TRITS: Final = {-1: "−1", 0: "0", 1: "+1", None: "nothing"}


def record_named(title: str) -> RecordStruct:
    """Return a record of the schema by its title.

    :raises ValueError: where none has it
    """
    for record in records():
        if record.title == title:
            return record
    raise ValueError(f"no record is called {title!r}; there are {', '.join(each.title for each in records())}")


def byte_map(title: str) -> str:
    """Return the fields of a record side by side, sixteen bytes to a row; fields of any size are dashed and take
    four cells.
    """
    record = record_named(title)
    at, boxes, message = 0, [], []
    for field, shape, offset in fixed_offsets(record):
        cells = shape.size or UNSIZED
        where = (
            f"bytes {offset} to {offset + shape.size - 1}" if offset is not None and shape.size else kind_words(shape)
        )
        message.append(f"{field.name}, {where}")
        boxes.append(_field(at, cells, field.name, offset, shape, f"{field.name}: {where}. {field.meaning}"))
        at += cells
    rows = -(-at // ACROSS)
    height = rows * (HIGH + 22) + 4
    words = f"{record.title}: {'; '.join(message)}."
    return drawing(
        ACROSS * CELL + 2, height, f"{record.title}, clause {record.clause}", words, *boxes, style="i2s-figure"
    )


def _field(at: int, cells: int, name: str, offset: int | None, shape: Shape, says: str) -> str:
    """Return a field as one box, or as several where it goes over the end of a row."""
    parts, style = [], "field" if shape.size else "field unsized"
    first, begun = at, offset
    longest = max(_runs(at, cells), key=lambda run: run[1])
    for start, length in _runs(at, cells):
        row, column = divmod(start, ACROSS)
        x, y = column * CELL + 1, row * (HIGH + 22) + 16
        parts.append(rect(x, y, length * CELL, HIGH, style, says))
        if start == first and begun is not None:
            parts.append(text(x + 2, y - 4, str(begun), "offset"))
        if (start, length) == longest:
            parts.append(text(x + length * CELL / 2, y + 17, name, "name", "middle"))
            parts.append(text(x + length * CELL / 2, y + 32, kind_words(shape), "kind", "middle"))
    return "".join(parts)


def _runs(at: int, cells: int) -> list[tuple[int, int]]:
    """Return a stretch of cells, cut where rows end."""
    runs = []
    while cells:
        length = min(cells, ACROSS - at % ACROSS)
        runs.append((at, length))
        at, cells = at + length, cells - length
    return runs


def kind_words(shape: Shape) -> str:
    """Describe a field in a few words."""
    match shape.kind:
        case "number":
            return shape.number
        case "string":
            return f"{shape.number} length, text"
        case "repeat":
            item = shape.item.number if shape.item is not None and shape.item.number else "record"
            return f"{item} × {shape.count.rpartition('.')[2]}"
        case "choice":
            return f"by {shape.count}"
        case "rest":
            return "up to where the next part begins"
        case "record":
            return f"{shape.record.title if shape.record is not None else ''}"
    return f"{shape.size} bytes" if shape.size else "n // 4 bytes"


def byte_bits(value: int, byte: int, layout: Layout = CANONICAL.layout, code_map: CodeMap = CANONICAL.code_map) -> str:
    """One byte of a payload: its eight bits, the four codes that they are, whose codes, and the trits."""
    cell, left = 58, 92
    parts = [text(0, y, words, "side") for y, words in ((34, "bits"), (86, "code"), (116, "element"), (146, "trit"))]
    message = []
    for place, (code, k) in enumerate(zip(codes_of(value), elements_of(byte, layout), strict=True)):
        trit, x = code_map.trits[code], left + 2 * cell * place
        says = f"bits {BITS[place]}: code {code}, element {k}, {_TRITS[trit]}"
        message.append(says)
        for i, bit in enumerate(f"{code:02b}"):
            parts.append(rect(x + i * cell, 12, cell, 34, f"bit g{place}", says))
            parts.append(text(x + (i + 0.5) * cell, 35, bit, "digit", "middle"))
            parts.append(text(x + (i + 0.5) * cell, 9, str(SHIFTS[place] + 1 - i), "offset", "middle"))
        parts.append(rect(x, 66, 2 * cell, 92, f"lane g{place}", says))
        for y, words in ((86, str(code)), (116, str(k)), (146, _TRITS[trit])):
            parts.append(text(x + cell, y, words, "digit", "middle"))
        parts.append(rect(x + cell - 1, 46, 2, 20, "stem"))
    title = f"Byte {byte}, {value:02x}, in {layout}"
    return drawing(left + 8 * cell + 2, 162, title, "; ".join(message) + ".", *parts, style="i2s-figure i2s-byte")


def block(payload: Sequence[int], layout: Layout = CANONICAL.layout, code_map: CodeMap = CANONICAL.code_map) -> str:
    """Return a block: a column for each byte, a line for each pair of bits, in each cell the trit and which element
    it is.

    Sixteen bytes stand side by side, the next sixteen below them.

    :param payload: the bytes of the first block
    :raises ValueError: where they are fewer than a block
    """
    count = layout.block // CODES_PER_BYTE
    if len(payload) < count:
        raise ValueError(f"a block of {layout} has {count} bytes, not {len(payload)}")
    wide, high, left, top = 40, 38, 72, 40
    half = top + 4 * high + 14
    parts = []
    for below in range(0, -(-count // ACROSS) * half, half):
        parts += [text(0, below + 14, "byte", "side"), text(0, below + 32, "hex", "side")]
        parts += [text(0, below + top + high * line + 23, f"bits {bits}", "side") for line, bits in enumerate(BITS)]
    for byte in range(count):
        x, below = left + wide * (byte % ACROSS), byte // ACROSS * half
        parts.append(text(x + wide / 2, below + 14, str(byte), "offset", "middle"))
        parts.append(text(x + wide / 2, below + 32, f"{payload[byte]:02x}", "hex", "middle"))
        for line, (code, k) in enumerate(zip(codes_of(payload[byte]), elements_of(byte, layout), strict=True)):
            trit, y = code_map.trits[code], below + top + high * line
            says = f"byte {byte}, bits {BITS[line]}: code {code}, element {k}, {_TRITS[trit]}"
            parts.append(rect(x, y, wide, high, f"trit t{'x' if trit is None else trit + 1}", says))
            parts.append(text(x + wide / 2, y + 17, _TRITS[trit] if trit is not None else "·", "digit", "middle"))
            parts.append(text(x + wide / 2, y + 32, str(k), "number", "middle"))
    more = (
        f"{count} columns, one for each byte, and four lines, one for each pair of bits from the highest down. Each cell "
        f"has a trit and the number of its element. The line of bits {BITS[0]} holds elements "
        f"{elements_of(0, layout)[0]} to {elements_of(count - 1, layout)[0]}."
    )
    width, height = left + wide * min(count, ACROSS) + 2, -(-count // ACROSS) * half
    return drawing(width, height, f"A block of {layout}", more, *parts, style="i2s-figure i2s-block")


#: Bytes side by side, and the size of a cell.
BLOCK_ACROSS: Final = 16
_BLOCK_WIDE: Final = 40
_BLOCK_HIGH: Final = 36
_BLOCK_LEFT: Final = 72
_TOP: Final = 40

#: The scale that is drawn: 0.75, which both float types hold exactly.
SCALE: Final = 0.75

_WEIGHTS: Final = {-1: "−1", 0: "0", 1: "+1"}


def example(layout: BlockLayout) -> tuple[list[int], bytes]:
    """Return the weights that are drawn, and the bytes of a row of one block that holds them."""
    weights = [(k * k // 7 + k) % 3 - 1 for k in range(layout.block)]
    values = np.array([weights], dtype=np.int8)
    return weights, blocks.pack(values, SCALE, layout.name)


def places(layout: BlockLayout) -> dict[int, str]:
    """Return the places in a byte, from the lowest bits or the first digit on, and their names."""
    if layout.coding == "bits":
        return {shift: f"bits {shift + 1}:{shift}" for shift in (0, 2, 4, 6)}
    return {n: f"digit {n}" for n in range(DIGITS_PER_BYTE)}


def block_type(name: str) -> str:
    """One block, and the scale in it or in front of its row; or, of scales that are apart, a tensor of one row.

    :raises ValueError: for a type without blocks
    """
    layout = block_layout(name)
    weights, data = example(layout)
    front, lines = layout.type.row_bytes, places(layout)
    owner = {layout.find(k): k for k in range(layout.block)}
    at = layout.scale.offset + (front if layout.scale.per == "block" else 0)
    if layout.scale.apart:
        at += layout.nbytes
    scale = range(at, at + layout.scale.nbytes)
    band = _TOP + len(lines) * _BLOCK_HIGH + 14
    parts = []
    for below in range(0, -(-len(data) // BLOCK_ACROSS) * band, band):
        parts += [text(0, below + 14, "byte", "side"), text(0, below + 32, "hex", "side")]
        parts += [
            text(0, below + _TOP + _BLOCK_HIGH * i + 22, words, "side") for i, words in enumerate(lines.values())
        ]  # fmt: skip
    for byte, held in enumerate(data):
        x, below = _BLOCK_LEFT + _BLOCK_WIDE * (byte % BLOCK_ACROSS), byte // BLOCK_ACROSS * band
        number = str(byte - front) if byte >= front else ""
        parts.append(text(x + _BLOCK_WIDE / 2, below + 14, number, "offset", "middle"))
        parts.append(text(x + _BLOCK_WIDE / 2, below + 32, f"{held:02x}", "hex", "middle"))
        if byte in scale:
            parts.append(_scale_byte(layout, byte - at, x, below + _TOP, len(lines) * _BLOCK_HIGH))
            continue
        if byte - front >= layout.nbytes:
            parts.append(rect(x, below + _TOP, _BLOCK_WIDE, len(lines) * _BLOCK_HIGH, "trit tx", "means nothing"))
            continue
        for i, (place, words) in enumerate(lines.items()):
            k, y = owner.get((byte - front, place)), below + _TOP + _BLOCK_HIGH * i
            if k is None:
                parts.append(
                    rect(x, y, _BLOCK_WIDE, _BLOCK_HIGH, "trit tx", f"byte {byte - front}, {words}: no element")
                )
                continue
            weight = weights[k]
            says = f"byte {byte - front}, {words}: code {weight + 1}, element {k}, {_WEIGHTS[weight]}"
            parts.append(rect(x, y, _BLOCK_WIDE, _BLOCK_HIGH, f"trit t{weight + 1}", says))
            parts.append(text(x + _BLOCK_WIDE / 2, y + 16, _WEIGHTS[weight], "digit", "middle"))
            parts.append(text(x + _BLOCK_WIDE / 2, y + 30, str(k), "number", "middle"))
    more = (
        f"{layout.nbytes} bytes, a column for each, and in it the {len(lines)} codes that it has room for, each with the "
        f"weight it stands for and the number of its element, 0 to {layout.block - 1}. The scale, {layout.scale.type}, "
        + _place_of_scale(layout)
    )
    width, height = _BLOCK_LEFT + _BLOCK_WIDE * min(len(data), BLOCK_ACROSS) + 2, -(-len(data) // BLOCK_ACROSS) * band
    return drawing(width, height, f"A block of {layout}", more, *parts, style="i2s-figure i2s-block")


def _place_of_scale(layout: BlockLayout) -> str:
    if layout.scale.apart:
        return f"is behind the blocks of all rows, then {TAIL_BYTES} bytes that mean nothing."
    return f"is at byte {layout.scale.offset}." if layout.scale.per == "block" else "is in front of the row's blocks."


def _scale_byte(layout: BlockLayout, i: int, x: float, y: float, high: float) -> str:
    """Return a byte of the scale; the words are under its first two."""
    says = f"byte {i} of the scale, {layout.scale.type} {SCALE}, of the {layout.scale.per}"
    box = rect(x, y, _BLOCK_WIDE, high, "field", says)
    if i == 0:
        words = ("scale", layout.scale.type, str(SCALE))
        box += "".join(
            text(x + _BLOCK_WIDE / 2, y + high / 2 - 10 + 16 * j, word, "kind", "middle")
            for j, word in enumerate(words)
        )
    return box


#: The matrix that is drawn: its rows and columns, and how many of its first bytes.
ROWS: Final = 4
COLS: Final = 64
BYTES: Final = 16

_ORDER_WIDE: Final = 36
_ORDER_HIGH: Final = 16
_ORDER_LEFT: Final = 124
_STEP: Final = 104


def layout_order() -> str:
    """Return the first bytes of the same matrix in every layout."""
    marks = []
    for place, layout in enumerate(LAYOUTS.values()):
        marks.append(_layout(layout, place * _STEP))
    more = (
        f"For each layout the first {BYTES} bytes of a matrix of {ROWS} rows of {COLS} elements, a column for each byte "
        "and a line for each pair of bits. The deeper the color, the later the element in the row; a frame marks the "
        "elements of the first row."
    )
    return drawing(
        _ORDER_LEFT + BYTES * _ORDER_WIDE + 2, len(LAYOUTS) * _STEP - 8, "The same matrix in every layout", more, *marks,
        style="i2s-figure i2s-order",
    )  # fmt: skip


def _layout(layout: Layout, top: int) -> str:
    owner = {(layout.byte_of(k, ROWS, COLS), layout.shift_of(k, ROWS, COLS)): k for k in range(ROWS * COLS)}
    first = ", ".join(str(owner[0, shift]) for shift in SHIFTS)
    parts = [
        text(0, top + 12, layout.name, "word"),
        text(_ORDER_LEFT, top + 12, f"byte 0 holds elements {first}", "side"),
    ]
    for line, (bits, shift) in enumerate(zip(BITS, SHIFTS, strict=True)):
        y = top + 20 + line * _ORDER_HIGH
        parts.append(text(_ORDER_LEFT - 8, y + 12, f"bits {bits}", "offset", "end"))
        for byte in range(min(BYTES, ROWS * COLS // CODES_PER_BYTE)):
            k = owner[byte, shift]
            box = {
                "class": "element first" if k < COLS else "element", "x": _ORDER_LEFT + byte * _ORDER_WIDE + 0.5,
                "y": y + 0.5, "width": _ORDER_WIDE - 1, "height": _ORDER_HIGH - 1,
                "fill-opacity": 0.06 + 0.8 * k / (ROWS * COLS),
            }  # fmt: skip
            parts.append(element("rect", dict(box)))
            parts.append(text(_ORDER_LEFT + (byte + 0.5) * _ORDER_WIDE, y + 11.5, str(k), "kind", "middle"))
    return "".join(parts)


#: Rules that need nothing but the weights.
_RULES: Final = ("absmax", "hf-first", "embedding-mean")

_STEP_LEFT: Final = 146
_STEP_WIDE: Final = 540
_BAND: Final = 34
_SIGNS: Final = {-1: "−1", 0: "0", 1: "+1"}


def quantizer_steps() -> str:
    """1,024 weights from −1 to 1 as each rule rounds them; the first is 0.75."""
    weights = np.linspace(-1, 1, 1024, dtype=np.float32)
    order = np.concatenate([np.array([0.75], np.float32), weights[1:-1], np.array([1.0], np.float32)])
    marks, words = [], []
    for place, rule in enumerate(_RULES):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # these weights are meant to be anything but ternary
            trits, scale = unpack(quantize(order.reshape(1, -1), rule=rule), (1, len(order)))
        y, x = 4 + place * (_BAND + 14), float(_STEP_LEFT)
        marks.append(text(0, y + 15, rule, "word"))
        marks.append(text(0, y + 30, f"scale {scale:.3g}", "offset"))
        for trit, run in groupby(trits[0][1:-1].tolist()):
            wide = len(list(run)) / (len(order) - 2) * _STEP_WIDE
            says = f"{rule}: {_SIGNS[trit]} for {wide / _STEP_WIDE:.0%} of the weights"
            words.append(says)
            marks.append(rect(x, y, wide, _BAND, f"band c{trit + 1}", says))
            if wide > 16:
                marks.append(text(x + wide / 2, y + 22, _SIGNS[trit], "part-name", "middle"))
            x += wide
    floor = 4 + len(_RULES) * (_BAND + 14)
    marks.append(element("path", {"class": "axis-line", "d": f"M{_STEP_LEFT} {number(floor)}h{_STEP_WIDE}"}))
    for value in (-1, -0.5, 0, 0.5, 1):
        x = _STEP_LEFT + (value + 1) / 2 * _STEP_WIDE
        marks.append(element("path", {"class": "axis-line", "d": f"M{number(x)} {number(floor)}v4"}))
        marks.append(text(x, floor + 17, f"{value:g}".replace("-", "−"), "offset", "middle"))
    marks.append(text(_STEP_LEFT + _STEP_WIDE / 2, floor + 34, "weight", "side", "middle"))
    return drawing(
        _STEP_LEFT + _STEP_WIDE + 12, floor + 40, "The same weights under each rule", "; ".join(words) + ".", *marks,
        style="i2s-figure i2s-steps",
    )  # fmt: skip
