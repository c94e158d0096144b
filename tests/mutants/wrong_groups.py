"""Decoders of types with a scale for each group that are wrong in one way each."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from mutants.mutant import Mutant, method
from mutants.plain_numbers import PlainNumbers

if TYPE_CHECKING:
    from numpy.typing import NDArray


class GroupCodes(PlainNumbers):
    """Codes 0, 1, 2 of groups read as 0, +1, -1."""

    def code_value(self, code: int) -> int:
        return (0, 1, -1, 2)[code]


class Q2Reversed(PlainNumbers):
    """Q2_0 with the highest bits first."""

    def q2_shift(self, j: int) -> int:
        return 6 - j % 4 * 2


class Q2DLast(PlainNumbers):
    """Q2_0 with its scale behind the codes."""

    def q2_bytes(self, block: bytes) -> bytes:
        return block[:-2]

    def half(self, block: bytes, at: int) -> float:
        return super().half(block, len(block) - 2 if at == 0 else at)


class Q2Interleaved(PlainNumbers):
    """Q2_0 read as I2_S is: codes a quarter of the block apart."""

    def block_codes(self, type: str, block: bytes) -> list[int]:
        if "q2_0" not in type:
            return super().block_codes(type, block)
        qs = block[2:]
        return [qs[j % len(qs)] >> 6 - 2 * (j // len(qs)) & 3 for j in range(4 * len(qs))]


def _other_group(elements: int, size: int) -> type[PlainNumbers]:
    """Q2_0 in groups of another size."""

    class OtherGroup(PlainNumbers):
        def block(self, type: str) -> tuple[int, int, int | None, str]:
            return (elements, size, 0, "<e") if "q2_0" in type else super().block(type)

        def groups(self, data: bytes, args: Any) -> tuple[NDArray[Any], NDArray[np.float32]]:
            if "q2_0" not in args["type"]:
                return super().groups(data, args)
            cols, rows = args["shape"]
            padded = data.ljust(rows * (cols // elements) * size, b"\0")[: rows * (cols // elements) * size]
            return super().groups(padded, args)

    return OtherGroup


def _places(name: str, place: Any) -> type[PlainNumbers]:
    """Elements of one type at other places."""
    return type("Places", (PlainNumbers,), {name: method(place)})


class QhFirst(PlainNumbers):
    """The bytes of the last digits in front of the others."""

    sizes: ClassVar[dict[str, tuple[int, int]]] = {"ptq1_0": (24, 2), "tq1_0": (48, 4)}

    def block_codes(self, type: str, block: bytes) -> list[int]:
        if type not in self.sizes:
            return super().block_codes(type, block)
        qs, qh = self.sizes[type]
        return super().block_codes(type, block[qh : qh + qs] + block[:qh] + block[qs + qh :])


class DFirst(PlainNumbers):
    """Scales of PTQ1_0 and TQ2_0 read in front of the codes."""

    def block_codes(self, type: str, block: bytes) -> list[int]:
        return super().block_codes(type, block[2:] + block[:2] if type in ("ptq1_0", "tq2_0") else block)

    def half(self, block: bytes, at: int) -> float:
        return super().half(block, 0 if len(block) in (28, 66) else at)

    def values(self, type: str, block: bytes) -> list[int]:
        return [code - 1 for code in self.block_codes(type, block)]


class DigitsDivided(PlainNumbers):
    """Digits taken by dividing the byte as a number of base 3."""

    def digit(self, byte: int, n: int) -> int:
        found: int = byte // 3 ** (4 - n) % 3
        return found


class DigitsReversed(PlainNumbers):
    """The last digit taken for the first."""

    def digit(self, byte: int, n: int) -> int:
        return super().digit(byte, 4 - n)


class DigitsNotCut(PlainNumbers):
    """Products of digits not cut to a byte, and digits not to 0, 1, 2."""

    def digit(self, byte: int, n: int) -> int:
        return byte * 3**n * 3 >> 8


class Tq2Reversed(PlainNumbers):
    """TQ2_0 with the highest bits first."""

    def tq2_place(self, e: int) -> tuple[int, int]:
        byte, shift = super().tq2_place(e)
        return byte, 6 - shift


class Iq2Reversed(PlainNumbers):
    """IQ2_BN with the highest bits first."""

    def iq2_place(self, e: int) -> tuple[int, int]:
        byte, shift = super().iq2_place(e)
        return byte, 6 - shift


class Neighbour(PlainNumbers):
    """Each group with the scale of the next one."""

    def groups(self, data: bytes, args: Any) -> tuple[NDArray[Any], NDArray[np.float32]]:
        values, scales = super().groups(data, args)
        elements = self.block(args["type"])[0]
        return values, np.roll(scales.reshape(-1), -elements).reshape(scales.shape)


class FirstScale(PlainNumbers):
    """The first scale for the whole tensor."""

    def groups(self, data: bytes, args: Any) -> tuple[NDArray[Any], NDArray[np.float32]]:
        values, scales = super().groups(data, args)
        return values, np.full_like(scales, scales.reshape(-1)[0])


class HalfFlushed(PlainNumbers):
    """Subnormal F16 scales taken for 0."""

    def half(self, block: bytes, at: int) -> float:
        found = super().half(block, at)
        return 0.0 if abs(found) < 2.0**-14 else found


class HalfAsBfloat16(PlainNumbers):
    """F16 scales read as bfloat16."""

    def half(self, block: bytes, at: int) -> float:
        found: float = struct.unpack("<f", b"\0\0" + block[at : at + 2])[0]
        return found


class OtherTiles(PlainNumbers):
    """TL1 in tiles as wide as the matrix."""

    def tiles(self, args: Any) -> tuple[int, int, int]:
        rows, _, group = super().tiles(args)
        return rows, args["shape"][0], group


#: Every decoder of groups that is wrong, by the bug that it has.
MUTANTS: Final = (
    Mutant("group-codes", "group-code-map", GroupCodes),
    Mutant("q2_0-reversed", "q2_0-bits-reversed", Q2Reversed),
    Mutant("q2_0-d-last", "q2_0-d-last", Q2DLast),
    Mutant("q2_0-interleaved", "group-as-interleave", Q2Interleaved),
    Mutant("q2_0-64-as-128", "q2_0-64-as-128", _other_group(128, 34)),
    Mutant("q2_0-128-as-64", "q2_0-128-as-64", _other_group(64, 18)),
    Mutant("ptq1_0-sequential", "ptq1_0-sequential", _places("ptq1_place", lambda e: (e // 5, e % 5))),
    Mutant("tq1_0-sequential", "tq1_0-sequential", _places("tq1_place", lambda e: (min(e // 5, 51), e % 5))),
    Mutant("qh-first-ptq1_0", "ptq1_0-qh-first", QhFirst),
    Mutant("qh-first-tq1_0", "tq1_0-qh-first", QhFirst),
    Mutant("d-first-ptq1_0", "ptq1_0-d-first", DFirst),
    Mutant("d-first-tq2_0", "tq2_0-d-first", DFirst),
    Mutant("digits-divided", "digits-by-division", DigitsDivided),
    Mutant("digits-reversed", "digits-reversed", DigitsReversed),
    Mutant("digits-not-cut", "digits-not-cut", DigitsNotCut),
    Mutant("tq2_0-reversed", "tq2_0-bits-reversed", Tq2Reversed),
    Mutant("tq2_0-sequential", "tq2_0-sequential", _places("tq2_place", lambda e: (e // 4, e % 4 * 2))),
    Mutant("iq1_bn-sequential", "iq1_bn-sequential", _places("iq1_place", lambda e: (e // 5, e % 5))),
    Mutant("iq2_bn-sequential", "iq2_bn-sequential", _places("iq2_place", lambda e: (e // 4, e % 4 * 2))),
    Mutant("iq2_bn-reversed", "iq2_bn-bits-reversed", Iq2Reversed),
    Mutant("scale-of-next", "group-scale-neighbour", Neighbour),
    Mutant("first-scale", "scale-per-tensor", FirstScale),
    Mutant("f16-flushed", "f16-subnormal-flushed", HalfFlushed),
    Mutant("f16-as-bf16", "f16-as-bf16", HalfAsBfloat16),
    Mutant("tl-tiles", "tl-tiles-ignored", OtherTiles),
)  # fmt: skip
