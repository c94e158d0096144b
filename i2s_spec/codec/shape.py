"""This module says what the shape of a tensor means for its bytes: matrices, payloads with a tail each, windows to work in.

A ternary tensor is a matrix. Where there are more dimensions, programs disagree whether each slice has a tail of its own
or all share the last one (clause 5.1), so that somebody has to say which is meant.

    >>> payloads((4, 128))
    Payloads(count=1, rows=4, cols=128)
    >>> payloads((3, 4, 128), strict=False, slices="each").nbytes
    480
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from i2s_spec.schema.dialect import CODES_PER_BYTE
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Elements that are worked on at a time; the index arrays of a window take some 10 MB.
WINDOW: int = 1 << 18

#: Whether each slice of a tensor of more than two dimensions has a payload and a tail, or the whole tensor one of each.
Slices = Literal["each", "one"]


@dataclass(frozen=True, slots=True)
class Payloads:
    """What the bytes of a tensor are: `count` times the payload of `rows` x `cols` elements, and its tail."""

    count: int
    rows: int
    cols: int

    @property
    def elements(self) -> int:
        """Elements of one payload."""
        return self.rows * self.cols

    @property
    def payload_bytes(self) -> int:
        """Bytes of one payload: what does not fill a byte has none (clause 5.2)."""
        return self.elements // CODES_PER_BYTE

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.count * (self.payload_bytes + TAIL_BYTES)

    def split(self, data: Any) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8]]]:
        """Each payload with its tail, as views of the data.

        :raises ValueError: for data of another size
        """
        raw = octets(data)
        if raw.size != self.nbytes:
            slices = f"{self.count:,} slices of " if self.count > 1 else ""
            raise ValueError(
                f"{slices}{self.rows:,} x {self.cols:,} elements take {self.payload_bytes:,} bytes of payload and "
                f"{TAIL_BYTES} of tail{' each' if slices else ''}; there are {raw.size:,} bytes"
            )
        each = raw.reshape(self.count, -1)
        return [(part[: self.payload_bytes], part[self.payload_bytes :]) for part in each]


def payloads(shape: Sequence[int], *, strict: bool = True, slices: Slices | None = None) -> Payloads:
    """The payloads that a tensor of a shape, in NumPy's order, consists of.

    Dimensions of 1 in front of the last two mean nothing. Any others make slices: refused unless `strict` is False and
    `slices` says where the tails are.

    :raises ValueError: for shapes without elements, and for slices that nobody asked for
    """
    if slices is not None and slices not in get_args(Slices):
        raise ValueError(f"slices is 'each' or 'one', not {slices!r}")
    sizes = [operator.index(size) for size in shape]
    if any(size <= 0 for size in sizes):
        raise ValueError(f"the shape {tuple(sizes)} holds no elements")
    if (leading := prod(sizes[:-2])) == 1:
        return Payloads(1, *matrix(sizes[-2:]))
    if strict or slices is None:
        raise ValueError(
            f"a tensor of shape {tuple(sizes)} is {leading:,} slices, and programs disagree whether each has a tail of "
            f"its own or all share one: store every slice as a matrix, or say strict=False and slices='each' or 'one'"
        )
    rows, cols = sizes[-2:]
    return Payloads(leading, rows, cols) if slices == "each" else Payloads(1, leading * rows, cols)


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
