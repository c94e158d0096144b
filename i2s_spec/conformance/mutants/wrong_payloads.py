"""This module declares decoders of payloads that are wrong in one way each."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from i2s_spec.conformance.mutants.mutant import Mutant, method
from i2s_spec.conformance.mutants.plain_decoder import CODES
from i2s_spec.conformance.mutants.plain_numbers import PlainNumbers

if TYPE_CHECKING:
    from numpy.typing import NDArray


def _reads(layout: str) -> type[PlainNumbers]:
    """Every payload read as this layout, whatever the caller says."""

    class Reads(PlainNumbers):
        def places(self, _: str, rows: int, cols: int) -> tuple[NDArray[Any], NDArray[Any]]:
            return super().places(layout, rows, cols)

    return Reads


class BitsReversed(PlainNumbers):
    """The lowest bits first."""

    def places(self, layout: str, rows: int, cols: int) -> tuple[NDArray[Any], NDArray[Any]]:
        byte, shift = super().places(layout, rows, cols)
        return byte, 6 - shift


class NibblesSwapped(PlainNumbers):
    """The two halves of each byte exchanged."""

    def places(self, layout: str, rows: int, cols: int) -> tuple[NDArray[Any], NDArray[Any]]:
        byte, shift = super().places(layout, rows, cols)
        return byte, (shift + 4) % 8


class StrideOf16(PlainNumbers):
    """Groups of 16 in blocks of 128: the stride of ARM in the blocks of x86."""

    def places(self, layout: str, rows: int, cols: int) -> tuple[NDArray[Any], NDArray[Any]]:
        byte, shift = super().places(layout, rows, cols)
        if layout != "x86-128":
            return byte, shift
        k = np.arange(rows * cols)
        return k // 128 * 32 + k % 16 + k % 128 // 64 * 16, 6 - k % 64 // 16 * 2


class ShapeSwapped(PlainNumbers):
    """The first number of the shape taken for the rows."""

    def shape(self, args: Any) -> tuple[int, int]:
        rows, cols = super().shape(args)
        return cols, rows


class OneLater(PlainNumbers):
    """Every element taken for the one before it."""

    def ordered(self, trits: NDArray[Any]) -> NDArray[Any]:
        return np.roll(trits, 1)


class GroupLater(PlainNumbers):
    """Every element taken for the one 32 before it."""

    def ordered(self, trits: NDArray[Any]) -> NDArray[Any]:
        return np.roll(trits, 32)


class Transposed(PlainNumbers):
    """Columns read as rows."""

    def ordered(self, trits: NDArray[Any]) -> NDArray[Any]:
        return trits.T.copy()


class BlocksRestart(PlainNumbers):
    """Blocks that begin anew at each row."""

    def places(self, layout: str, rows: int, cols: int) -> tuple[NDArray[Any], NDArray[Any]]:
        if layout != "x86-128":
            return super().places(layout, rows, cols)
        byte, shift = super().places(layout, 1, cols)
        starts = np.repeat(np.arange(rows) * (cols // 4), cols)
        return np.tile(byte, rows) + starts, np.tile(shift, rows)


class LastBlockDropped(PlainNumbers):
    """The last 128 elements left at 0."""

    def ordered(self, trits: NDArray[Any]) -> NDArray[Any]:
        flat = trits.reshape(-1).copy()
        flat[-128:] = 0
        return flat.reshape(trits.shape)


def _codes(*worth: int) -> type[PlainNumbers]:
    """Codes 0 to 3 worth something else."""

    class Codes(PlainNumbers):
        def codes_map(self, name: str) -> tuple[int | None, ...]:
            return worth

        def unused(self) -> int | None:
            return 0

    return Codes


class MapIgnored(PlainNumbers):
    """Every code map taken for the canonical one."""

    def codes_map(self, name: str) -> tuple[int | None, ...]:
        return CODES["offset-1"]

    def unused(self) -> int | None:
        return 0


class SignedShift(PlainNumbers):
    """Bytes as signed integers, shifted and not masked."""

    def bits(self, raw: NDArray[np.uint8], shift: NDArray[Any]) -> NDArray[Any]:
        shifted = raw.view(np.int8).astype(np.int64) >> shift
        found: NDArray[Any] = np.where(shift == 6, shifted, shifted & 3) % 3
        return found


class ZeroBytesMissing(PlainNumbers):
    """Bytes of 0 taken for four missing weights."""

    def trits(self, data: bytes, args: Any) -> NDArray[Any]:
        found = super().trits(data, args)
        if args["type"] != "i2_s":
            return found
        rows, cols = self.shape(args)
        byte, _ = self.places(args["layout"], rows, cols)
        raw = np.frombuffer(data, dtype=np.uint8)
        return np.where(raw[byte].reshape(rows, cols) == 0, 0, found)


class Unsigned(PlainNumbers):
    """Codes given out instead of trits."""

    def ordered(self, trits: NDArray[Any]) -> NDArray[Any]:
        return trits + 1


def _code_three(worth: int) -> type[PlainNumbers]:
    """Code 3 accepted."""

    class CodeThree(PlainNumbers):
        def unused(self) -> int | None:
            return worth

        def values(self, type: str, block: bytes) -> list[int]:
            return [worth if code == 3 else code - 1 for code in self.block_codes(type, block)]

    return CodeThree


class AnySize(PlainNumbers):
    """Data of any size accepted, and elements in no whole block."""

    def check(self, data: bytes, rows: int, cols: int, args: Any) -> None:
        """Nothing is refused."""

    def unused(self) -> int | None:
        return 0


class NoTail(PlainNumbers):
    """Data without a tail accepted: the scale is 1 where there is none."""

    def check(self, data: bytes, rows: int, cols: int, args: Any) -> None:
        """Nothing is refused."""

    def scale(self, data: bytes, args: Any) -> np.float32:
        rows, cols = self.shape(args)
        return super().scale(data, args) if len(data) >= rows * cols // 4 + 4 else np.float32(1)


class AnyScale(PlainNumbers):
    """Every scale accepted."""

    def check_scale(self, scale: np.float32, data: bytes, args: Any) -> None:
        """Nothing is refused."""


def _scale(change: Any) -> type[PlainNumbers]:
    """The scale changed after it was read."""

    class Scale(PlainNumbers):
        def scale(self, data: bytes, args: Any) -> np.float32:
            with np.errstate(all="ignore"):
                return np.float32(change(super().scale(data, args)))

    return Scale


def _bfloat16(scale: np.float32) -> np.float32:
    bits = np.array([scale], dtype=np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return np.float32(bits.view(np.float32)[0])


def _scale_at(place: Any) -> type[PlainNumbers]:
    """The scale read at another place."""

    class ScaleAt(PlainNumbers):
        def scale_at(self, elements: int) -> int:
            return int(place(elements))

        def check_scale(self, scale: np.float32, data: bytes, args: Any) -> None:
            """Nothing is refused."""

    return ScaleAt


class InFront(PlainNumbers):
    """The scale taken from the first bytes, the payload from behind it."""

    def scale_at(self, elements: int) -> int:
        return 0

    def check_scale(self, scale: np.float32, data: bytes, args: Any) -> None:
        """Nothing is refused."""


class PerRow(PlainNumbers):
    """A scale for each row, one after the other in the tail."""

    def product(self, trits: NDArray[Any], scale: Any) -> NDArray[np.float32]:
        return super().product(trits, self.rows)

    rows: ClassVar[Any] = None

    def scale(self, data: bytes, args: Any) -> np.float32:
        rows, cols = self.shape(args)
        self.rows = np.frombuffer(data[rows * cols // 4 :].ljust(4 * rows, b"\0"), dtype="<f4")[:rows, None]  # type: ignore[misc]
        return super().scale(data, args)


class Averaged(PlainNumbers):
    """The mean of the eight floats of the tail."""

    def scale(self, data: bytes, args: Any) -> np.float32:
        if args.get("tail") == "replicated-8":
            return super().scale(data, args)
        with np.errstate(all="ignore"):
            return np.float32(np.frombuffer(data[-32:], dtype="<f4").mean())


class TailCompared(PlainNumbers):
    """A tail refused where its other bytes are neither zeros nor copies."""

    def scale(self, data: bytes, args: Any) -> np.float32:
        if data[-28:] != bytes(28) and data[-32:] != data[-32:-28] * 8:
            raise ValueError("the tail")
        return super().scale(data, args)


class NativeOrder(PlainNumbers):
    """The scale always read as little-endian."""

    def scale(self, data: bytes, args: Any) -> np.float32:
        return super().scale(data, {key: value for key, value in args.items() if key != "byte_order"})


class BigAlways(PlainNumbers):
    """The scale always read as big-endian."""

    def scale(self, data: bytes, args: Any) -> np.float32:
        return super().scale(data, {**args, "byte_order": "big"})

    def check_scale(self, scale: np.float32, data: bytes, args: Any) -> None:
        """Nothing is refused."""


class PayloadSwapped(PlainNumbers):
    """The payload of a big-endian file swapped in words of four bytes."""

    def trits(self, data: bytes, args: Any) -> NDArray[Any]:
        if args.get("byte_order") == "big":
            cut = len(data) - 32
            data = b"".join(data[i : i + 4][::-1] for i in range(0, cut, 4)) + data[cut:]
        return super().trits(data, args)


class Flushed(PlainNumbers):
    """Subnormal numbers flushed to 0."""

    def product(self, trits: NDArray[Any], scale: Any) -> NDArray[np.float32]:
        found = super().product(trits, scale)
        return np.where(np.abs(found) < np.float32(1.1754944e-38), np.float32(0), found)


class MinusZero(PlainNumbers):
    """Zeros as -0.0: trits taken for 0 - 1 + code, with the sign of the first."""

    def product(self, trits: NDArray[Any], scale: Any) -> NDArray[np.float32]:
        return np.where(trits == 0, np.float32(-0.0), super().product(trits, scale))


# Types with a scale for each group.


class GroupCodes(PlainNumbers):
    """Codes 0, 1, 2 of groups worth 0, +1, -1."""

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


#: Every decoder of payloads that is wrong, by the bug that it has.
MUTANTS: Final = (
    *(Mutant(f"reads-{layout}", f"layout-not-{own}", _reads(layout))
      for own in ("x86-128", "arm-64", "rows-1x4", "sequential-msb", "sequential-lsb")
      for layout in (("arm-64",) if own == "x86-128" else ("x86-128",))),
    Mutant("sequential", "layout-as-sequential", _reads("sequential-msb")),
    Mutant("bits-reversed", "bit-order", BitsReversed),
    Mutant("nibbles-swapped", "nibbles-swapped", NibblesSwapped),
    Mutant("stride-of-16", "group-stride", StrideOf16),
    Mutant("one-later", "offset-by-one", OneLater),
    Mutant("group-later", "offset-by-a-group", GroupLater),
    Mutant("transposed", "transposed", Transposed),
    Mutant("shape-swapped", "rows-as-ne0", ShapeSwapped),
    Mutant("blocks-restart", "blocks-restart-at-rows", BlocksRestart),
    Mutant("last-block-dropped", "last-block-dropped", LastBlockDropped),
    Mutant("codes-zero-first", "code-map", _codes(0, 1, -1, 0)),
    Mutant("codes-swapped", "sign-swapped", _codes(1, 0, -1, 0)),
    Mutant("code-map-ignored", "code-map-ignored", MapIgnored),
    Mutant("signed-shift", "signed-shift", SignedShift),
    Mutant("zero-bytes-missing", "zero-byte-as-zero", ZeroBytesMissing),
    Mutant("codes-as-they-are", "unsigned-trits", Unsigned),
    *(Mutant(f"code-3-is-{worth:+d}" if worth else "code-3-is-0", "code-three", _code_three(worth))
      for worth in (-1, 0, 1, 2)),
    *(Mutant(f"q2_0-code-3-is-{worth:+d}" if worth else "q2_0-code-3-is-0", "code-three-weight", _code_three(worth))
      for worth in (-1, 0, 1)),
    Mutant("any-size", "remainder-accepted", AnySize),
    Mutant("no-tail", "tail-forgotten", NoTail),
    Mutant("any-scale", "scale-not-checked", AnyScale),
    Mutant("scale-ignored", "scale-ignored", _scale(lambda s: 1)),
    Mutant("scale-reciprocal", "scale-reciprocal", _scale(lambda s: np.float32(1) / s)),
    Mutant("scale-twice", "scale-twice", _scale(lambda s: s * s)),
    Mutant("scale-half", "scale-as-f16", _scale(np.float16)),
    Mutant("scale-bfloat16", "scale-as-bf16", _scale(_bfloat16)),
    Mutant("scale-4-before", "scale-place", _scale_at(lambda n: n // 4 - 4)),
    Mutant("scale-4-behind", "scale-place", _scale_at(lambda n: n // 4 + 4)),
    Mutant("scale-last", "tail-last-float", _scale_at(lambda n: n // 4 + 28)),
    Mutant("scale-rounded-up", "scale-rounded-up", _scale_at(lambda n: -(-n // 16) * 4)),
    Mutant("scale-in-front", "scale-in-front", InFront),
    Mutant("scale-per-row", "scale-per-row", PerRow),
    Mutant("tail-averaged", "tail-averaged", Averaged),
    Mutant("tail-compared", "tail-compared", TailCompared),
    Mutant("scale-little", "scale-byte-order", NativeOrder),
    Mutant("scale-big", "scale-byte-order", BigAlways),
    Mutant("payload-swapped", "payload-swapped", PayloadSwapped),
    Mutant("flushed", "subnormal-flushed", Flushed),
    Mutant("minus-zero", "minus-zero", MinusZero),
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
