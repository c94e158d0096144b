"""This module gives replacements for a number in a file: the edge values of its width, and lies.

A lie is a value that is wrong because of the position of the field: one more than the remaining bytes can hold, the
value that wraps a 64-bit sum, an offset one alignment further. Every lie that fits the width is tried for every number,
so no list of length fields is needed, and new fields are covered at once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from i2s_spec.schema import limits
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.types import READINGS, RETIRED, ValueType
from i2s_spec.testing.mutator.anatomy import Anatomy

#: Bits of the integers in which readers store numbers.
_BITS: Final = (7, 8, 15, 16, 24, 31, 32, 40, 47, 48, 52, 53, 56, 60, 61, 62, 63)

#: Numbers with a meaning in GGUF: value types and tensor types, their neighbors, and the limits of readers.
_MEANINGS: Final = tuple(
    sorted(
        {
            *range(-1, 18),
            *(number + near for number in (*READINGS, *RETIRED) for near in (-1, 0, 1)),
            *(number + near for limit in limits.NAMED.values() for number in (limit.default,) for near in (0, 1)),
            *(bound + near for bound in (limits.MAX_KEY_LENGTH, limits.TENSOR_NAME_BYTES) for near in (0, 1)),
            *(1 << i for i in range(17)),
            len(ValueType),
            100,
            127,
            129,
            255,
            257,
            288,
            320,
            1000,
        }
    )
)

#: Edge values of float32 and float64, by their bytes in big-endian order.
_FLOAT32: Final = tuple(
    bytes.fromhex(text)
    for text in (
        "00000000", "80000000", "3f800000", "bf800000", "7f800000", "ff800000", "7fc00000", "ffc00000", "7f800001",
        "7fffffff", "00000001", "80000001", "007fffff", "00800000", "7f7fffff", "ff7fffff", "358637bd", "3727c5ac",
        "49f42400", "501502f9",
    )
)  # fmt: skip
_FLOAT64: Final = tuple(
    struct.pack(">d", value)
    for value in (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 5e-324, 1e308, 1e-5)
)


def edges(width: int) -> Iterator[int]:
    """The edge values of an unsigned or signed field of `width` bytes, each once, smallest first."""
    top = 1 << 8 * width
    found = {0, 1, 2, top - 1, top - 2, top // 2, top // 2 - 1}
    for bits in _BITS:
        if bits <= 8 * width:
            found |= {(1 << bits) - 1, 1 << bits, (1 << bits) + 1}
    found |= {number % top for number in _MEANINGS if -top // 2 <= number < top}
    yield from sorted(value for value in found if 0 <= value < top)


def lies(anatomy: Anatomy, leaf: FieldNode) -> Iterator[tuple[int, str]]:
    """Values of a number that contradict the bytes around it, each with a description."""
    width, value, size = leaf.stop - leaf.start, anatomy.number(leaf), len(anatomy.data)
    top, left = 1 << 8 * width, size - leaf.stop
    yield (value + 1) % top, "one more"
    yield (value - 1) % top, "one less"
    yield value * 2 % top, "twice as many"
    yield value // 2, "half as many"
    yield int.from_bytes(anatomy.data[leaf.start : leaf.stop][::-1], anatomy.order), "its bytes in the other order"
    yield value ^ (top >> 1), "the sign bit flipped"
    if width < 4:
        return
    yield left, "the bytes that are left"
    yield left + 1, "one more than the bytes that are left"
    yield left // 8, "as many u64 as are left"
    yield left // 8 + 1, "one u64 more than are left"
    yield size, "the size of the file"
    if width == 8:
        aligned = anatomy.alignment or limits.DEFAULT_ALIGNMENT
        yield (value + aligned) % top, "one alignment further"
        yield (value - aligned) % top, "one alignment nearer"
        yield top - (leaf.stop % top), "what wraps to the start of the file"
        yield top - aligned, "one alignment below 2^64"
        yield (top // 4 + value) % top, "what wraps when it is multiplied by 4"
        yield (top // 2 - aligned) % top, "what wraps a signed sum"
        if anatomy.data_start is not None:
            yield top - anatomy.data_start, "what wraps the start of the data section to 0"
            yield max(0, size - anatomy.data_start), "the end of the data section"


def floats(width: int, order: str) -> Iterator[bytes]:
    """The bytes of edge values of floats: zeros, infinities, quiet and signalling NaN, subnormals, the largest."""
    for raw in {4: _FLOAT32, 8: _FLOAT64}.get(width, ()):
        yield raw if order == "big" else raw[::-1]
