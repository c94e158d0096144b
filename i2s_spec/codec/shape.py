"""This module says what the shape of a tensor means for its bytes: a matrix, a payload with its tail, windows to work in.

A ternary tensor is a matrix. Where there are more dimensions, programs disagree whether each slice has a tail of its own
or all share the last one (clause 5.1): such tensors are refused.

    >>> payload_shape((4, 128))
    PayloadShape(rows=4, cols=128)
    >>> payload_shape((1, 4, 128)).nbytes
    160
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CODES_PER_BYTE
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Elements that are worked on at a time; the index arrays of a window take some 10 MB.
WINDOW: int = 1 << 18

#: Most dimensions of an array.
MOST_DIMENSIONS = 32


@dataclass(frozen=True, slots=True)
class PayloadShape:
    """What the bytes of a tensor are: the payload of `rows` x `cols` elements, and a tail."""

    rows: int
    cols: int

    @property
    def elements(self) -> int:
        """Elements of the tensor."""
        return self.rows * self.cols

    @property
    def payload_bytes(self) -> int:
        """Bytes of the payload: what does not fill a byte has none (clause 5.2)."""
        return self.elements // CODES_PER_BYTE

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.payload_bytes + TAIL_BYTES

    def split(self, data: Any) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """The payload and the tail, as views of the data.

        :raises ValueError: for data of another size
        """
        raw = octets(data)
        if raw.size != self.nbytes:
            raise ValueError(
                f"{self.rows:,} x {self.cols:,} elements take {counted(self.payload_bytes, 'byte')} of payload and "
                f"{TAIL_BYTES} of tail; there are {counted(raw.size, 'byte')}"
            )
        return raw[: self.payload_bytes], raw[self.payload_bytes :]


def payload_shape(shape: Sequence[int]) -> PayloadShape:
    """What the bytes of a tensor of a shape, in NumPy's order, are. Dimensions of 1 in front of the last two mean nothing.

    :raises ValueError: for shapes without elements, and for tensors of several matrices
    """
    sizes = [operator.index(size) for size in shape]
    if any(size <= 0 for size in sizes):
        raise ValueError(f"the shape {tuple(sizes)} holds no elements")
    if (leading := prod(sizes[:-2])) != 1:
        raise ValueError(
            f"a tensor of shape {tuple(sizes)} is {counted(leading, 'slice')}, and programs "
            f"disagree whether each has a tail of "
            "its own or all share one: store every slice as a matrix"
        )
    return PayloadShape(*matrix(sizes[-2:]))


def matrix(shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a shape (rows, cols) or (n,); the latter is one row."""
    sizes = [operator.index(size) for size in shape]
    if any(size <= 0 for size in sizes):
        raise ValueError(f"the shape {tuple(sizes)} holds no elements")
    if len(sizes) not in {1, 2}:
        raise ValueError(f"a ternary tensor has 1 or 2 dimensions, not {len(sizes)}")
    return (1, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


def octets(data: Any) -> NDArray[np.uint8]:
    """The bytes of anything with the buffer protocol, without a copy and wherever in memory they begin.

    :raises TypeError: for what has no buffer
    :raises ValueError: for a buffer with gaps
    """
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError("the bytes of a tensor follow each other; those of this buffer do not")
    return np.frombuffer(view, dtype=np.uint8)


def windows(n: int) -> Iterator[tuple[int, int]]:
    """Ranges of at most `WINDOW` elements that cover `n`."""
    return ((start, min(start + WINDOW, n)) for start in range(0, n, WINDOW))


def place(k: int, cols: int) -> str:
    """Where element `k` is, for a message."""
    return f"at element {k:,} (row {k // cols:,}, column {k % cols:,})"


def is_shape(shape: object) -> bool:
    """Whether an array can have a shape from a file: few dimensions, each of at most 63 bits."""
    if not isinstance(shape, tuple | list) or len(shape) > MOST_DIMENSIONS:
        return False
    return all(type(length) is int and 0 <= length < 1 << 63 for length in shape)
