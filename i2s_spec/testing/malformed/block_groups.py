"""This module breaks the payloads of types with a scale for each group: reserved codes, foreign digits, odd scales."""

from __future__ import annotations

import struct
from collections.abc import Callable

from i2s_spec.schema.block_layout import block_layout
from i2s_spec.schema.types import padded
from i2s_spec.testing.malformed.case import add
from i2s_spec.testing.sample import Draft, block_bytes, tensor_info

#: Rows and columns of the only tensor.
_ROWS, _COLS = 64, 512


def _file(kind: str, change: Callable[[bytearray], object]) -> bytes:
    """A sound file with one tensor of a type, after a change of its bytes."""
    draft, layout = Draft(), block_layout(kind)
    file, data = draft.records(), bytearray(block_bytes(b"first.weight", (_COLS, _ROWS), kind))
    change(data)
    file.tensor_infos = [tensor_info(b"first.weight", (_COLS, _ROWS), layout.type.number, 0)]
    file.data = bytes(data).ljust(padded(len(data), 32), b"\0")
    return draft.built(file)


def _put(at: int, value: bytes) -> Callable[[bytearray], object]:
    def change(data: bytearray) -> None:
        data[at : at + len(value)] = value

    return change


def _scale(kind: str, group: int, value: bytes) -> bytes:
    """The file with other bytes of one scale."""
    layout = block_layout(kind)
    each = layout.nbytes if layout.scale.per == "block" else layout.type.nbytes((_COLS, 1))
    return _file(kind, _put(group * each + layout.scale.offset, value))


def _half(value: float) -> bytes:
    return struct.pack("<e", value)


_BLOCK, _SCALE = "data[0].block", "data[0].scale"

#: Type numbers that occur only in rotated models; the keys that declare the rotation are missing here.
_UNROTATED = ("M042",)

add("tq2_reserved_code", "B101", _BLOCK, lambda: _file("TQ2_0", _put(1000, b"\xff")))
add("iq2_reserved_code", "B101", _BLOCK, lambda: _file("IQ2_BN", _put(1000, b"\xc0")))
add("q2_plus_two", "B102", _BLOCK, lambda: _file("Q2_0", _put(1000, b"\xc0")))
add("pq2_plus_two", "B102", _BLOCK, lambda: _file("PQ2_0", _put(1000, b"\xc0")), _UNROTATED)
add("tq1_foreign_byte", "B103", _BLOCK, lambda: _file("TQ1_0", _put(54 * 20, b"\x01")))
add("ptq1_foreign_byte", "B103", _BLOCK, lambda: _file("PTQ1_0", _put(28 * 40 + 3, b"\xed")), _UNROTATED)
add("ptq1_fifth_of_four", "B103", _BLOCK, lambda: _file("PTQ1_0", _put(28 * 40 + 24, b"\x02")), _UNROTATED)
add("iq1_foreign_byte", "B103", _BLOCK, lambda: _file("IQ1_BN", _put(2 + 13 + 12, b"\xf0")))
add("tq1_scale_infinite", "B201", _BLOCK, lambda: _scale("TQ1_0", 17, b"\0\x7c"))
add("q2_scale_nan", "B201", _BLOCK, lambda: _scale("Q2_0", 17, b"\x01\x7e"))
add("iq2_scale_nan", "B201", _SCALE, lambda: _scale("IQ2_BN", 17, b"\0\0\xc0\x7f"))
add("q2_scale_negative", "B202", _BLOCK, lambda: _scale("Q2_0", 17, _half(-0.02)))
add("tq1_scale_zero", "B203", _BLOCK, lambda: _scale("TQ1_0", 17, b"\0\0"))
add("tq1_scale_far", "B204", _BLOCK, lambda: _scale("TQ1_0", 17, _half(1310.7)))
add("ptq1_scales_spread", "B204", _BLOCK,
    lambda: _file("PTQ1_0", lambda data: [_put(28 * i + 26, _half(2.0 ** (i % 28 - 13)))(data) for i in range(256)]),
    _UNROTATED)  # fmt: skip
