"""The numbers of GGUF and ggml: value types, tensor types, their sizes, and the programs that use them.

Sizes are declared once, as blocks of elements and bytes or as a special formula (I2_S, TL1, TL2, I2_SR); everything
else (extent checks, the writer, the tables of the specification) uses `TensorType.nbytes`. The same number can mean
different types in different forks; `READINGS` lists them all, and `reading` chooses by the distance to the next tensor.

Sources: ggml `ggml.h` and `gguf.h`; microsoft/BitNet's llama.cpp fork `ggml.c` (`ggml_nbytes`); ik_llama.cpp `ggml.c`;
PrismML-Eng/llama.cpp `ggml-common.h` as ggml-org/llama.cpp#29058 quotes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from math import prod
from typing import Final, NamedTuple


class ValueType(IntEnum):
    """The type of a metadata value (clause 2.5)."""

    UINT8 = 0
    INT8 = 1
    UINT16 = 2
    INT16 = 3
    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    UINT64 = 10
    INT64 = 11
    FLOAT64 = 12

    @property
    def label(self) -> str:
        """The type's short name in tables and dumps: `u32`, `str`, `arr`."""
        return VALUE_LABELS[self]


VALUE_LABELS: Final = ("u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64")

#: `struct` letter of each value type of fixed size; a bool is one byte, 0 or 1.
VALUE_FORMATS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}

#: Fewest bytes of a value of each type; all bytes, where its size is fixed. An empty string has its length, an empty
#: array its type and count.
SMALLEST_VALUE: Final = (1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8)


class TensorType(NamedTuple):
    """One meaning of a ggml type number.

    `block` elements take `bytes` bytes, and a row (ne0 elements) is whole blocks plus `row_bytes`. `size`, if given,
    replaces that rule. `words` are the (offset, width) of the multi-byte words of a block, which a change of byte order
    swaps; None means that they are not known. `row_words` are those in the bytes before a row. `family` names the
    programs with this meaning.
    """

    number: int
    name: str
    block: int
    bytes: int
    words: tuple[tuple[int, int], ...] | None = ()
    row_bytes: int = 0
    size: Callable[[Sequence[int]], int] | None = None
    family: str = "ggml"
    note: str = ""
    row_words: tuple[tuple[int, int], ...] = ()

    def nbytes(self, ne: Sequence[int]) -> int:
        """Size in bytes of a contiguous tensor of `ne` elements (ggml order, ne0 first), in exact arithmetic."""
        if self.size is not None:
            return self.size(ne)
        row = (ne[0] if ne else 1) // self.block * self.bytes + self.row_bytes
        return row * prod(ne[1:])

    @property
    def is_plain(self) -> bool:
        """Whether each element is a separate number (F32, I8, ...)."""
        return self.block == 1 and self.size is None

    @property
    def tail_bytes(self) -> int:
        """Bytes after the payload, of which the first four are the scale (clause 6.1)."""
        return TAIL_BYTES if self.size in (two_bits_and_tail, two_bits_row_scales, tl2_size) else 0

    @property
    def is_quantized(self) -> bool:
        return not self.is_plain

    def __str__(self) -> str:
        return self.name


class NumberForm(NamedTuple):
    """How a number is stored: its bytes, those of each of its words, and the bits that are all 1 in infinities and NaN
    alone, as a little-endian number. Without such bits every value is finite."""

    bytes: int
    word: int
    mask: int

    def mask_in(self, big: bool) -> int:
        """`mask` for the bytes of a file; in a big-endian one, the bytes of each word are swapped."""
        if not big:
            return self.mask
        data = self.mask.to_bytes(self.bytes, "little")
        words = (data[at : at + self.word][::-1] for at in range(0, self.bytes, self.word))
        return int.from_bytes(b"".join(words), "little")


#: The forms of floats, and of scales, by name. The scale of an IQ1_M block is a float16 in four pieces: the upper four
#: bits of four 16-bit words, the lowest first.
NUMBER_FORMS: Final = {
    "F16": NumberForm(2, 2, 0x7C00),
    "BF16": NumberForm(2, 2, 0x7F80),
    "F32": NumberForm(4, 4, 0x7F80 << 16),
    "F64": NumberForm(8, 8, 0x7FF0 << 48),
    "F16 in four words": NumberForm(8, 2, 0x7000_C000 << 32),
    "E8M0": NumberForm(1, 1, 0xFF),
    "UE4M3": NumberForm(1, 1, 0),
}

#: Bytes after the payload of I2_S, TL1, TL2 and I2_SR tensors; the float32 scale is the first four (clause 6.1).
TAIL_BYTES: Final = 32
SCALE_BYTES: Final = 4


def two_bits_and_tail(ne: Sequence[int]) -> int:
    """I2_S and TL1: floor(n/4) bytes of codes, then the tail (clause 5.2)."""
    return prod(ne) // 4 + TAIL_BYTES


def two_bits_row_scales(ne: Sequence[int]) -> int:
    """I2_SR: like I2_S, with one float32 for each row between payload and tail."""
    return prod(ne) // 4 + 4 * prod(ne[1:]) + TAIL_BYTES


def tl2_size(ne: Sequence[int]) -> int:
    """TL2: five bits for three weights, the last 256 columns as four bits for two, padded to 32 bytes, then the tail.

    The divisions are those of the fork, one after another and towards zero (`ggml_nbytes`); only ne0 and ne1 are used.
    Below 256 columns the first term is negative and reduces the size: the fork has no other formula for such a matrix.
    """
    columns, rows = (ne[0] if ne else 1), (ne[1] if len(ne) > 1 else 1)
    threes = abs(columns - 256) * rows // 3 * 5 // 8
    size = (threes if columns >= 256 else -threes) + 256 * rows // 2 * 4 // 8
    return -(-size // 32) * 32 + TAIL_BYTES


def _plain(number: int, name: str, width: int) -> TensorType:
    return TensorType(number, name, 1, width, ((0, width),) if width > 1 else ())


_D = ((0, 2),)  # a half-precision scale before the row

#: Every meaning of every number, the most likely in a BitNet file first.
TENSOR_TYPES: Final[tuple[TensorType, ...]] = (
    _plain(0, "F32", 4),
    _plain(1, "F16", 2),
    TensorType(2, "Q4_0", 32, 18, _D),
    TensorType(3, "Q4_1", 32, 20, ((0, 2), (2, 2))),
    # The words of Q5_0, Q5_1 and Q3_K are not certain: ggml copies their qh, or scales, into a uint32 to read them.
    TensorType(6, "Q5_0", 32, 22, None),
    TensorType(7, "Q5_1", 32, 24, None),
    TensorType(8, "Q8_0", 32, 34, _D),
    TensorType(9, "Q8_1", 32, 36, ((0, 2), (2, 2))),
    TensorType(10, "Q2_K", 256, 84, ((80, 2), (82, 2))),
    TensorType(11, "Q3_K", 256, 110, None),
    TensorType(12, "Q4_K", 256, 144, ((0, 2), (2, 2))),
    TensorType(13, "Q5_K", 256, 176, ((0, 2), (2, 2))),
    TensorType(14, "Q6_K", 256, 210, ((208, 2),)),
    TensorType(15, "Q8_K", 256, 292, ((0, 4), *((260 + 2 * i, 2) for i in range(16)))),
    TensorType(16, "IQ2_XXS", 256, 66, None),
    TensorType(17, "IQ2_XS", 256, 74, None),
    TensorType(18, "IQ3_XXS", 256, 98, None),
    TensorType(19, "IQ1_S", 256, 50, None),
    TensorType(20, "IQ4_NL", 32, 18, _D),
    TensorType(21, "IQ3_S", 256, 110, None),
    TensorType(22, "IQ2_S", 256, 82, None),
    TensorType(23, "IQ4_XS", 256, 136, None),
    _plain(24, "I8", 1),
    _plain(25, "I16", 2),
    _plain(26, "I32", 4),
    _plain(27, "I64", 8),
    _plain(28, "F64", 8),
    TensorType(29, "IQ1_M", 256, 56, None),
    _plain(30, "BF16", 2),
    TensorType(34, "TQ1_0", 256, 54, ((52, 2),)),
    TensorType(35, "TQ2_0", 256, 66, ((64, 2),)),
    TensorType(36, "I2_S", 1, 1, size=two_bits_and_tail, family="BitNet", note="upstream: retired IQ4_NL_4_4"),
    TensorType(37, "I8_S", 1, 1, family="BitNet", note="activations in memory, never on disk"),
    TensorType(38, "TL1", 1, 1, size=two_bits_and_tail, family="BitNet", note="upstream: retired IQ4_NL_8_8"),
    TensorType(39, "MXFP4", 32, 17),
    TensorType(39, "TL2", 1, 1, None, size=tl2_size, family="BitNet", note="BitNet forks before May 2026"),
    TensorType(40, "NVFP4", 64, 36),
    TensorType(40, "I2_SR", 1, 1, size=two_bits_row_scales, family="one fork", note="row scales"),
    TensorType(41, "Q1_0", 128, 18, _D, note="ik_llama.cpp: Q1_0_G128, of the same size"),
    TensorType(42, "Q2_0", 64, 18, _D),
    TensorType(
        42, "Q2_0_G128", 128, 34, _D, family="PrismML", note="Q2_0 of PrismML before August 2026: groups of 128"
    ),
    TensorType(42, "TL2", 1, 1, None, size=tl2_size, family="BitNet", note="BitNet forks since May 2026"),
    TensorType(134, "IQ1_BN", 64, 13, (), 2, family="ik_llama.cpp", row_words=((0, 2),)),
    TensorType(135, "IQ2_BN", 64, 16, (), 4, family="ik_llama.cpp", row_words=((0, 4),)),
    TensorType(142, "PQ2_0", 128, 34, _D, family="PrismML", note="the bytes of Q2_0_G128 under another number"),
    TensorType(143, "PTQ1_0", 128, 28, ((26, 2),), family="PrismML"),
)

#: Numbers that ggml assigned once and retired; files with them were written by software of that time.
RETIRED: Final = {4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 37: "IQ4_NL_4_8"}

#: Weights of a block in the canonical layout of I2_S, which `dialect` defines.
I2_S_BLOCK: Final = 128

#: The names of retired tensor types of llama.cpp whose numbers BitNet's forks reuse.
TAKEN_OVER: Final = {36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8"}

#: Elements and bytes of a block of the retired types, however they were interleaved.
TAKEN_OVER_BLOCK: Final = (32, 18)

READINGS: Final[dict[int, tuple[TensorType, ...]]] = {}
for _type in sorted(TENSOR_TYPES, key=lambda t: t.number):
    READINGS[_type.number] = (*READINGS.get(_type.number, ()), _type)
BY_NAME: Final = {t.name: t for t in TENSOR_TYPES}

I2_S: Final = BY_NAME["I2_S"]

#: Numbers that I2_S had before its release; BF16 and a retired type today.
LEGACY_I2_S: Final = frozenset({30, 31})

#: Numbers to which a single program gave another meaning, whose size is known: `program_types` declares these.
SECOND_NUMBERS: Final = frozenset({29, 30, 39, 40, 41, 42, 43, 44, 143})

#: Types that no matrix of weights has: those of activations in memory, and numbers that ggml multiplies by no matrix of.
NOT_WEIGHTS: Final = ("Q8_1", "Q8_K", "I8", "I16", "I32", "I64", "F64")

#: The NumPy types of plain types; BF16 has none.
NUMPY_TYPES: Final = {
    "F32": "f4", "F16": "f2", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8",
}  # fmt: skip


def reading(
    number: int,
    ne: Sequence[int],
    room: int | None = None,
    alignment: int = 32,
    common: TensorType | None = None,
) -> TensorType | None:
    """Return the type that a number means for a tensor of `ne` elements with `room` bytes until the next tensor.

    If forks use one number for several types, the type whose padded size is exactly `room` is meant; without that
    evidence, the first declared one. A small tensor may fit several types: then `common`, the type of most tensors of
    the file with this number, is preferred. None for an undefined number.
    """
    candidates = READINGS.get(number)
    if candidates is None:
        return None
    first = candidates[0] if common is None else common
    if len(candidates) > 1 and room is not None:
        for candidate in (first, *candidates):
            if fits(candidate, ne, room, alignment):
                return candidate
    return first


def common_reading(
    number: int, tensors: Iterable[tuple[Sequence[int], int | None]], alignment: int = 32
) -> TensorType | None:
    """Return the type that a number means in a file: small tensors fit several types, but all tensors of a file have
    the same one.

    :param tensors: shape and room of each tensor with the number; None for a room that is not known
    :returns: the type that most tensors fit, the first of equals; None for an undefined number
    """
    candidates = READINGS.get(number, ())
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    counts = [0] * len(candidates)
    for ne, room in tensors:
        if room is not None:
            for i, kind in enumerate(candidates):
                counts[i] += fits(kind, ne, room, alignment)
    return candidates[counts.index(max(counts))]


def fits(kind: TensorType, ne: Sequence[int], room: int, alignment: int = 32) -> bool:
    """Whether the size of a tensor, with or without padding, is exactly its room."""
    return not (ne[0] if ne else 1) % kind.block and room in (size := kind.nbytes(ne), padded(size, alignment))


def padded(size: int, alignment: int) -> int:
    """Return the next multiple of `alignment` at or after `size`."""
    return -(-size // alignment) * alignment
