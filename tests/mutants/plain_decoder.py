"""Decode payloads as plainly as possible, from the text of the chapters alone: what every answer is compared with.

It shares no code with the codec, so that the two are independent ways to the same answers. Each step is a method, which
a mutant can override with a wrong one. It is slow and written to be read.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.schema.dialect import LAYOUTS

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RefusedError(Exception):
    """The decoder does not accept its input."""


#: Code maps: the values of codes 0 to 3 (section 5.5); a code with None is refused.
CODES: Final[dict[str, tuple[int | None, ...]]] = {
    "offset-1": (-1, 0, 1, None),
    "zero-first": (0, 1, -1, None),
    "twos-complement": (0, 1, None, -1),
    "offset-2": (None, -1, 0, 1),
}

#: Types with a scale for each block or row: elements and bytes of a block, where the scale is, its struct format.
_BLOCKS: Final = {
    "q2_0": (64, 18, 0, "<e"),
    "q2_0.g128": (128, 34, 0, "<e"),
    "pq2_0": (128, 34, 0, "<e"),
    "ptq1_0": (128, 28, 26, "<e"),
    "tq1_0": (256, 54, 52, "<e"),
    "tq2_0": (256, 66, 64, "<e"),
    "iq1_bn": (64, 13, None, "<e"),
    "iq2_bn": (64, 16, None, "<f"),
}


class PlainDecoder:
    """Trits and weights of payloads.

    Methods take the `args` of a vector; they raise `RefusedError` for input that must not be accepted.
    """

    # I2_S.

    def places(self, layout: str, rows: int, cols: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The byte and the shift of every element."""
        k = np.arange(rows * cols)
        if layout == "x86-128":
            return k // 128 * 32 + k % 32, 6 - k % 128 // 32 * 2
        if layout == "arm-64":
            return k // 64 * 16 + k % 16, 6 - k % 64 // 16 * 2
        if layout == "rows-1x4":
            return k // cols // 4 * cols + k % cols, 6 - k // cols % 4 * 2
        if layout in ("sequential-msb", "sequential-lsb"):
            return k // 4, (k % 4 * 2 if layout == "sequential-lsb" else 6 - k % 4 * 2)
        declared = LAYOUTS[layout]  # one that this decoder does not know by itself
        return declared.byte_of(k, rows, cols), declared.shift_of(k, rows, cols)

    def codes_map(self, name: str) -> tuple[int | None, ...]:
        """The values of codes 0 to 3."""
        return CODES[name]

    def bits(self, raw: NDArray[np.uint8], shift: NDArray[Any]) -> NDArray[Any]:
        """The two bits of each byte at a shift."""
        found: NDArray[Any] = raw.astype(np.int64) >> shift & 3
        return found

    def shape(self, args: Any) -> tuple[int, int]:
        """Rows and columns."""
        cols, rows = args["shape"]
        return rows, cols

    def trits(self, data: bytes, args: Any) -> NDArray[Any]:
        """The trits of an I2_S tensor, [rows, cols]."""
        rows, cols = self.shape(args)
        self.check(data, rows, cols, args)
        byte, shift = self.places(args["layout"], rows, cols)
        raw = np.frombuffer(data, dtype=np.uint8)
        codes = self.bits(raw[np.minimum(byte, raw.size - 1)], shift)
        worth = self.codes_map(args.get("codes", "offset-1"))
        values = np.array([self.unused() if each is None else each for each in worth])
        if self.unused() is None and (codes == worth.index(None)).any():
            raise RefusedError("a code that stands for nothing")
        return self.ordered(np.where(values[codes] == None, 0, values[codes]).astype(np.int64).reshape(rows, cols))  # noqa: E711

    def ordered(self, trits: NDArray[Any]) -> NDArray[Any]:
        """The trits in the order in which they are returned."""
        return trits

    def unused(self) -> int | None:
        """The value of the unused code; None where it is refused."""
        return None

    def check(self, data: bytes, rows: int, cols: int, args: Any) -> None:
        """Refuse data that is not a whole tensor."""
        unit = {"x86-128": 128, "arm-64": 64}.get(args["layout"], 4)
        if rows * cols % unit:
            raise RefusedError("incomplete last block")
        if len(data) != rows * cols // 4 + 32:
            raise RefusedError("another size")

    def scale(self, data: bytes, args: Any) -> np.float32:
        """The scale of an I2_S tensor: the four bytes behind the payload."""
        rows, cols = self.shape(args)
        at = self.scale_at(rows * cols)
        word = data[at : at + 4]
        found = np.frombuffer(word, dtype=">f4" if args.get("byte_order") == "big" else "<f4")[0]
        self.check_scale(np.float32(found), data, args)
        return np.float32(found)

    def scale_at(self, elements: int) -> int:
        """Where the scale begins."""
        return elements // 4

    def check_scale(self, scale: np.float32, data: bytes, args: Any) -> None:
        """Refuse scales that no writer may write (section 6.2)."""
        if not np.isfinite(scale) or scale < 0 or np.signbit(scale):
            raise RefusedError("the scale")
        if scale == 0 and self.trits(data, args).any():
            raise RefusedError("the scale is 0, and codes are not")

    def product(self, trits: NDArray[Any], scale: Any) -> NDArray[np.float32]:
        """Trits times scales."""
        with np.errstate(all="ignore"):
            found: NDArray[np.float32] = trits.astype(np.float32) * scale
        return found

    # Types with a scale for each group.

    def block(self, type: str) -> tuple[int, int, int | None, str]:
        """Elements and bytes of a block, the place and format of its scale (None: in front of each row)."""
        return _BLOCKS[type]

    def groups(self, data: bytes, args: Any) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The codes minus 1 of a tensor, [rows, cols], and the scale of each element."""
        rows, cols = self.shape(args)
        type = args["type"]
        elements, size, at, form = self.block(type)
        per_row = cols // elements
        front = struct.calcsize(form) if at is None else 0
        values = np.zeros((rows, cols), dtype=np.int64)
        scales = np.zeros((rows, cols), dtype=np.float32)
        if len(data) != rows * (front + per_row * size):
            raise RefusedError("another size")
        for row in range(rows):
            start = row * (front + per_row * size)
            of_row = struct.unpack_from(form, data, start)[0] if at is None else None
            for i in range(per_row):
                block = data[start + front + i * size :][:size]
                here = slice(i * elements, (i + 1) * elements)
                values[row, here] = self.values(type, block)
                scales[row, here] = of_row if at is None else self.half(block, at)
        return self.ordered(values), scales

    def half(self, block: bytes, at: int) -> float:
        """The F16 scale of a block."""
        found: float = struct.unpack_from("<e", block, at)[0]
        return found

    def values(self, type: str, block: bytes) -> list[int]:
        """The codes of a block, minus 1."""
        codes = self.block_codes(type, block)
        if 3 in codes and type in ("tq2_0", "iq2_bn"):
            raise RefusedError("code 3")
        return [self.code_value(code) for code in codes]

    def code_value(self, code: int) -> int:
        """The value of a code."""
        return code - 1

    def block_codes(self, type: str, block: bytes) -> list[int]:
        """The codes of a block, in the order of its elements."""
        if type in ("q2_0", "q2_0.g128", "pq2_0"):
            qs = self.q2_bytes(block)
            return [qs[j // 4] >> self.q2_shift(j) & 3 for j in range(len(qs) * 4)]
        if type == "ptq1_0":
            return [self.digit(block[byte], n) for byte, n in map(self.ptq1_place, range(128))]
        if type == "tq1_0":
            return [self.digit(block[byte], n) for byte, n in map(self.tq1_place, range(256))]
        if type == "tq2_0":
            qs = self.tq2_bytes(block)
            return [qs[byte] >> shift & 3 for byte, shift in map(self.tq2_place, range(256))]
        if type == "iq1_bn":
            return [self.digit(block[byte], n) for byte, n in map(self.iq1_place, range(64))]
        return [block[byte] >> shift & 3 for byte, shift in map(self.iq2_place, range(64))]

    def q2_bytes(self, block: bytes) -> bytes:
        """The bytes of codes of a block of Q2_0."""
        return block[2:]

    def q2_shift(self, j: int) -> int:
        """Where code j is in its byte: the lowest bits first."""
        return j % 4 * 2

    def digit(self, byte: int, n: int) -> int:
        """Digit n of a byte that is ceil(256 N / 243)."""
        found: int = (byte * 3**n % 256) * 3 >> 8
        return found

    def ptq1_place(self, e: int) -> tuple[int, int]:
        """Byte and digit of an element of PTQ1_0: qs[24], then qh[2]."""
        if e < 80:
            return e & 15, e >> 4
        return (16 + (e - 80 & 7), e - 80 >> 3) if e < 120 else (24 + (e - 120 & 1), e - 120 >> 1)

    def tq1_place(self, e: int) -> tuple[int, int]:
        """Byte and digit of an element of TQ1_0: qs[48], then qh[4]."""
        if e < 160:
            return e % 32, e // 32
        return (32 + (e - 160) % 16, (e - 160) // 16) if e < 240 else (48 + (e - 240) % 4, (e - 240) // 4)

    def tq2_bytes(self, block: bytes) -> bytes:
        """The bytes of codes of a block of TQ2_0."""
        return block[:64]

    def tq2_place(self, e: int) -> tuple[int, int]:
        """Byte and shift of an element of TQ2_0."""
        return e // 128 * 32 + e % 32, e % 128 // 32 * 2

    def iq1_place(self, e: int) -> tuple[int, int]:
        """Byte and digit of an element of IQ1_BN: of 16, three bytes hold 15, and the last byte of all one of each."""
        group, inside = divmod(e, 16)
        return (group * 3 + inside // 5, 4 - inside % 5) if inside < 15 else (12, 4 - group)

    def iq2_place(self, e: int) -> tuple[int, int]:
        """Byte and shift of an element of IQ2_BN."""
        return e % 16, e // 16 * 2

    # TL1 and TL2: numbers of two and three weights in the tiles of a kernel.

    def tl1(self, data: bytes, args: Any) -> NDArray[Any]:
        """The trits of TL1: a number 3 a + b + 4 of four bits; 16 rows share 16 bytes for four columns."""
        rows, cols = self.shape(args)
        tile_rows, tile_cols, group = self.tiles(args)
        values = np.zeros((rows, cols), dtype=np.int64)
        step = 256 // group
        at = 0
        for r in range(0, rows, tile_rows):
            for c in range(0, cols, tile_cols):
                for g in range(r, r + tile_rows, group):
                    for s in range(c, c + tile_cols, step):
                        for sixteen in range(g, g + group, 16):
                            for four in range(s, s + step, 4):
                                for row in range(16):
                                    for half, number in enumerate((data[at + row] >> 4, data[at + row] & 15)):
                                        place = sixteen + row, four + 2 * half
                                        values[place] = number // 3 - 1
                                        values[place[0], place[1] + 1] = number % 3 - 1
                                at += 16
        return values

    def tiles(self, args: Any) -> tuple[int, int, int]:
        """Rows and columns of a tile, and rows of a group."""
        rows, cols, group = args["tiles"]
        return rows, cols, group
