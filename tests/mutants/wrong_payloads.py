"""Decoders of I2_S payloads that are wrong in one way each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from i2s_spec.conformance.vectors.vector import LAYOUT_NAMES
from mutants.mutant import Mutant
from mutants.plain_decoder import CODES
from mutants.plain_numbers import PlainNumbers

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
    """Other values for codes 0 to 3."""

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


class Absolute(PlainNumbers):
    """Weights without their signs."""

    def ordered(self, trits: NDArray[Any]) -> NDArray[Any]:
        return np.abs(trits)


def _code_three(worth: int) -> type[PlainNumbers]:
    """Code 3 accepted."""

    class CodeThree(PlainNumbers):
        def unused(self) -> int | None:
            return worth

        def values(self, type: str, block: bytes) -> list[int]:
            return [worth if code == 3 else code - 1 for code in self.block_codes(type, block)]

    return CodeThree


class AnySize(PlainNumbers):
    """Accepts data of any size, and an incomplete last block."""

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


class FirstRow(PlainNumbers):
    """The scale applied to the first row alone."""

    def product(self, trits: NDArray[Any], scale: Any) -> NDArray[np.float32]:
        found = super().product(trits, scale)
        if np.ndim(scale) == 0:
            found[1:] = trits[1:]
        return found


class InBlocks(PlainNumbers):
    """Blocks of 34 bytes, an F16 scale in front of each, where the data is long enough."""

    def trits(self, data: bytes, args: Any) -> NDArray[Any]:
        rows, cols = self.shape(args)
        if args["layout"] != "x86-128" or rows * cols // 128 * 34 > len(data):
            return super().trits(data, args)
        blocks = np.frombuffer(data, np.uint8, rows * cols // 128 * 34).reshape(-1, 34)
        return super().trits(blocks[:, 2:].tobytes() + bytes(32), args)

    def scale(self, data: bytes, args: Any) -> np.float32:
        rows, cols = self.shape(args)
        if args["layout"] != "x86-128" or rows * cols // 128 * 34 > len(data):
            return super().scale(data, args)
        blocks = np.frombuffer(data, np.uint8, rows * cols // 128 * 34).reshape(-1, 34)
        halves = np.repeat(np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32), 128)
        return halves.reshape(rows, cols)  # type: ignore[return-value]


class FourValues(PlainNumbers):
    """Codes 0 to 3 read as -2, -1, +1 and +2, four neighbours to a byte, without a scale."""

    def places(self, layout: str, rows: int, cols: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return super().places("sequential-lsb", rows, cols)

    def codes_map(self, name: str) -> tuple[int | None, ...]:
        return -2, -1, 1, 2

    def unused(self) -> int | None:
        return 0

    def scale(self, data: bytes, args: Any) -> np.float32:
        return np.float32(1)


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


#: Every decoder of I2_S payloads that is wrong, by the bug that it has.
MUTANTS: Final = (
    *(Mutant(f"reads-{layout}", f"layout-not-{own}", _reads(layout))
      for own in LAYOUT_NAMES.values()
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
    Mutant("absolute", "absolute-values", Absolute),
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
    Mutant("scale-first-row", "scale-first-row", FirstRow),
    Mutant("scale-in-blocks", "scale-in-blocks", InBlocks),
    Mutant("codes-four-values", "codes-four-values", FourValues),
    Mutant("tail-averaged", "tail-averaged", Averaged),
    Mutant("tail-compared", "tail-compared", TailCompared),
    Mutant("scale-little", "scale-byte-order", NativeOrder),
    Mutant("scale-big", "scale-byte-order", BigAlways),
    Mutant("payload-swapped", "payload-swapped", PayloadSwapped),
    Mutant("flushed", "subnormal-flushed", Flushed),
    Mutant("minus-zero", "minus-zero", MinusZero),
)  # fmt: skip
