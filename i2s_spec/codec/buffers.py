"""Buffers of numbers for compiled code without NumPy, whose import takes longer than most runs of `i2s`.

They are plain `memoryview` objects: compiled code takes them as it takes arrays of NumPy, and `np.asarray` gives an array
of the same memory. Kinds are those of `struct`.

    >>> made = zeros("f", 2, 3)
    >>> made.shape, made.tolist()[0]
    ((2, 3), [0.0, 0.0, 0.0])
    >>> packed("q", [1, 2]).tolist()
    [1, 2]
    >>> list(numbers("f", bytes.fromhex("0000403f"), "little"))
    [0.75]
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal, cast

#: Bytes of a number of each kind.
BYTES: Final = {"b": 1, "B": 1, "i": 4, "I": 4, "q": 8, "f": 4, "d": 8}


def zeros(kind: str, *shape: int) -> memoryview[Any]:
    """Zeros of a kind; of more than one dimension each has to be at least 1."""
    size = BYTES[kind]
    for length in shape:
        size *= length
    made = memoryview(bytearray(size))
    return as_kind(made, kind) if len(shape) == 1 else shaped(made, kind, *shape)


def shaped(numbers: memoryview[Any], kind: str, *shape: int) -> memoryview[Any]:
    """Contiguous numbers as an array of a shape; each dimension has to be at least 1."""
    made: Any = numbers.cast("B")
    return cast("memoryview[Any]", made.cast(kind, shape))


def packed(kind: str, numbers: Collection[Any]) -> memoryview[Any]:
    """Numbers as an array of one dimension that cannot be written."""
    return as_kind(struct.pack(f"{len(numbers)}{kind}", *numbers), kind)


def as_kind(data: Any, kind: str) -> memoryview[Any]:
    """Return the bytes of a buffer as numbers of a kind."""
    made: Any = memoryview(data)
    return cast("memoryview[Any]", made.cast(kind))


def numbers(kind: str, data: bytes, order: Literal["little", "big"]) -> Sequence[Any]:
    """Bytes as numbers of a kind of `struct` that has one to eight bytes, except `e`.

    :param data: whole numbers
    :param order: the byte order of the data
    """
    if order == sys.byteorder:
        found: Sequence[Any] = as_kind(data, kind)
        return found
    return struct.unpack(f"{'<' if order == 'little' else '>'}{len(data) // struct.calcsize('=' + kind)}{kind}", data)
