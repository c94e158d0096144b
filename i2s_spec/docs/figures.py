"""This module draws the schema: byte maps of records, the bits of a byte, a block of a layout.

Every figure is one SVG with a title, a description for who cannot see it, and words on each of its parts; its colors are
classes of the site's style sheet. Nothing in a figure is placed by hand: boxes follow the fields' sizes, cells the
layout's formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from i2s_spec.draw.svg import drawing, rect, text
from i2s_spec.exports.description import Shape, fixed_offsets, records
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, CodeMap, Layout
from i2s_spec.schema.field import RecordStruct
from i2s_spec.schema.i2s import BITS, SHIFTS, codes_of, elements_of

#: Bytes in a row of a byte map, and the size of one of them.
ACROSS: Final = 16
CELL: Final = 46
HIGH: Final = 40

#: Cells that a field takes in a map whose size only the file knows.
UNSIZED: Final = 4

_TRITS: Final = {-1: "−1", 0: "0", 1: "+1", None: "nothing"}


def record_named(title: str) -> RecordStruct:
    """A record of the schema by its title.

    :raises ValueError: where none has it
    """
    for record in records():
        if record.title == title:
            return record
    raise ValueError(f"no record is called {title!r}; there are {', '.join(each.title for each in records())}")


def byte_map(title: str) -> str:
    """The fields of a record side by side, sixteen bytes to a row; fields of any size are dashed and take four cells."""
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
    """A field as one box, or as several where it goes over the end of a row."""
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
    """A stretch of cells, cut where rows end."""
    runs = []
    while cells:
        length = min(cells, ACROSS - at % ACROSS)
        runs.append((at, length))
        at, cells = at + length, cells - length
    return runs


def kind_words(shape: Shape) -> str:
    """What a field is, in a few words."""
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
    for place, (code, element) in enumerate(zip(codes_of(value), elements_of(byte, layout), strict=True)):
        trit, x = code_map.trits[code], left + 2 * cell * place
        says = f"bits {BITS[place]}: code {code}, element {element}, {_TRITS[trit]}"
        message.append(says)
        for i, bit in enumerate(f"{code:02b}"):
            parts.append(rect(x + i * cell, 12, cell, 34, f"bit g{place}", says))
            parts.append(text(x + (i + 0.5) * cell, 35, bit, "digit", "middle"))
            parts.append(text(x + (i + 0.5) * cell, 9, str(SHIFTS[place] + 1 - i), "offset", "middle"))
        parts.append(rect(x, 66, 2 * cell, 92, f"lane g{place}", says))
        for y, words in ((86, str(code)), (116, str(element)), (146, _TRITS[trit])):
            parts.append(text(x + cell, y, words, "digit", "middle"))
        parts.append(rect(x + cell - 1, 46, 2, 20, "stem"))
    title = f"Byte {byte}, {value:02x}, in {layout}"
    return drawing(left + 8 * cell + 2, 162, title, "; ".join(message) + ".", *parts, style="i2s-figure i2s-byte")


def block(payload: Sequence[int], layout: Layout = CANONICAL.layout, code_map: CodeMap = CANONICAL.code_map) -> str:
    """A block: a column for each byte, a line for each pair of bits, in each cell the trit and which element it is.

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
        for line, (code, element) in enumerate(zip(codes_of(payload[byte]), elements_of(byte, layout), strict=True)):
            trit, y = code_map.trits[code], below + top + high * line
            says = f"byte {byte}, bits {BITS[line]}: code {code}, element {element}, {_TRITS[trit]}"
            parts.append(rect(x, y, wide, high, f"trit t{'x' if trit is None else trit + 1}", says))
            parts.append(text(x + wide / 2, y + 17, _TRITS[trit] if trit is not None else "·", "digit", "middle"))
            parts.append(text(x + wide / 2, y + 32, str(element), "number", "middle"))
    more = (
        f"{count} columns, one for each byte, and four lines, one for each pair of bits from the highest down. Each cell "
        f"has a trit and the number of its element. The line of bits {BITS[0]} holds elements "
        f"{elements_of(0, layout)[0]} to {elements_of(count - 1, layout)[0]}."
    )
    width, height = left + wide * min(count, ACROSS) + 2, -(-count // ACROSS) * half
    return drawing(width, height, f"A block of {layout}", more, *parts, style="i2s-figure i2s-block")
