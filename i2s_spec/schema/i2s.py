"""The extent of an I2_S tensor, payload and tail (chapters 5 and 6), and the contents of a byte of codes.

>>> tensor = parse(bytes(32) + bytes.fromhex("0000403f") + bytes(28), elements=128)
>>> len(tensor.payload), tensor.tail.scale
(32, 0.75)
>>> elements_of(1), codes_of(0x15)
((1, 33, 65, 97), (0, 1, 1, 1))
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from construct import Bytes, Container

from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, Layout
from i2s_spec.schema.field import Field, ParseState, RecordStruct, Word
from i2s_spec.schema.types import SCALE_BYTES, TAIL_BYTES

#: The shifts of the four codes of a byte, and their usual notation.
SHIFTS: Final = (6, 4, 2, 0)
BITS: Final = ("7:6", "5:4", "3:2", "1:0")


@cache
def tail(order: str) -> RecordStruct:
    """Return the 32 bytes after the payload."""
    return RecordStruct(
        "Tail",
        "6.1",
        Field("scale", Word(order, "f"), "The factor of every trit: one float32 for the whole tensor.", "6.1"),
        Field("unused", Bytes(TAIL_BYTES - SCALE_BYTES), "28 bytes without meaning: zeros or leftovers.", "6.2"),
    )


@cache
def extent(order: str, elements: int = 0) -> RecordStruct:
    """Return a whole I2_S tensor with this number of elements: floor(n/4) bytes of codes, then the tail."""
    payload = Bytes(elements // CODES_PER_BYTE)
    return RecordStruct(
        "I2S",
        "5.1",
        Field("payload", payload, "Two-bit codes, four to a byte, in blocks over the flattened tensor.", "5.1"),
        Field("tail", tail(order), "The scale, and bytes without meaning.", "6.1"),
    )


def parse(data: bytes, elements: int, order: str = "little") -> Container:
    """Parse the bytes of one I2_S tensor.

    :param data: exactly `elements // 4 + 32` bytes
    :returns: `payload` (bytes) and `tail` with `scale` (float) and `unused` (28 bytes)
    :raises ValueError: for another number of bytes
    """
    if len(data) != (size := elements // CODES_PER_BYTE + TAIL_BYTES):
        raise ValueError(
            f"an I2_S tensor of {counted(elements, 'element')} takes {counted(size, 'byte')}, not {len(data):,}"
        )
    return extent(order, elements).parse(data, reading=ParseState(len(data)))


def build(tensor: Any, order: str = "little") -> bytes:
    """Return the bytes of a tensor in the form that `parse` gives."""
    data: bytes = extent(order, len(tensor.payload) * CODES_PER_BYTE).build(tensor)
    return data


def codes_of(byte: int) -> tuple[int, int, int, int]:
    """Return the four codes in a byte, bits 7:6 first."""
    return byte >> 6, byte >> 4 & 3, byte >> 2 & 3, byte & 3


def elements_of(byte: int, layout: Layout = CANONICAL.layout) -> tuple[int, ...]:
    """Return the flat, row-major elements whose codes byte `byte` of a payload holds, bits 7:6 first (clause 5.3).

    :param layout: one whose blocks follow each other in the flattened tensor
    """
    block, within = divmod(byte, layout.block // CODES_PER_BYTE)
    return tuple(block * layout.block + element for element in _block(layout)[within])


@cache
def _block(layout: Layout) -> tuple[tuple[int, ...], ...]:
    """Return the four elements of each byte of a block, by the layout's formulas."""
    if layout.row_block > 1:
        raise ValueError(f"the elements of a byte depend on the shape in layout {layout}")
    place = {(layout.byte_of(k, 1, layout.block), layout.shift_of(k, 1, layout.block)): k for k in range(layout.block)}
    return tuple(tuple(place[byte, shift] for shift in SHIFTS) for byte in range(layout.block // CODES_PER_BYTE))
