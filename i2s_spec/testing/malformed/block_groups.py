"""This module breaks the payloads of types with a scale for each group: reserved codes, foreign digits, odd scales."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from i2s_spec.schema.block_layout import block_layout
from i2s_spec.schema.types import padded
from i2s_spec.testing.malformed.case import add
from i2s_spec.testing.sample import Draft, block_bytes, tensor_info

_BLOCK, _SCALE = "data[0].block", "data[0].scale"

#: Type numbers that occur only in rotated models; the keys that declare the rotation are missing here.
_UNROTATED = ("M042",)

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


def _put(at: int, value: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at : at + len(value)] = value

    return change


def _scale(kind: str, value: bytes, group: int = 17) -> Callable[[bytearray], None]:
    """Other bytes of one scale."""
    layout = block_layout(kind)
    each = layout.nbytes if layout.scale.per == "block" else layout.type.nbytes((_COLS, 1))
    return _put(group * each + layout.scale.offset, value)


def _add(name: str, code: str, kind: str, change: Callable[[bytearray], object], place: str = _BLOCK) -> None:
    """A case of one type, whose sound file is the same without the change."""
    also = _UNROTATED if kind.startswith("P") else ()
    add(name, code, place, partial(_file, kind, change), also, sound=partial(_file, kind, len))


def _half(value: float) -> bytes:
    return struct.pack("<e", value)


_add("tq2_reserved_code", "B101", "TQ2_0", _put(1000, b"\xff"))
_add("iq2_reserved_code", "B101", "IQ2_BN", _put(1000, b"\xc0"))
_add("q2_plus_two", "B102", "Q2_0", _put(1000, b"\xc0"))
_add("pq2_plus_two", "B102", "PQ2_0", _put(1000, b"\xc0"))
_add("tq1_foreign_byte", "B103", "TQ1_0", _put(54 * 20, b"\x01"))
_add("ptq1_foreign_byte", "B103", "PTQ1_0", _put(28 * 40 + 3, b"\xed"))
_add("ptq1_fifth_of_four", "B103", "PTQ1_0", _put(28 * 40 + 24, b"\x02"))
_add("iq1_foreign_byte", "B103", "IQ1_BN", _put(2 + 13 + 12, b"\xf0"))
_add("tq1_scale_infinite", "B201", "TQ1_0", _scale("TQ1_0", b"\0\x7c"))
_add("q2_scale_nan", "B201", "Q2_0", _scale("Q2_0", b"\x01\x7e"))
_add("iq2_scale_nan", "B201", "IQ2_BN", _scale("IQ2_BN", b"\0\0\xc0\x7f"), _SCALE)
_add("q2_scale_negative", "B202", "Q2_0", _scale("Q2_0", _half(-0.02)))
_add("tq1_scale_zero", "B203", "TQ1_0", _scale("TQ1_0", b"\0\0"))
_add("tq1_scale_far", "B204", "TQ1_0", _scale("TQ1_0", _half(1310.7)))
_add(
    "ptq1_scales_spread",
    "B204",
    "PTQ1_0",
    lambda data: [_put(28 * i + 26, _half(2.0 ** (i % 28 - 13)))(data) for i in range(256)],
)
