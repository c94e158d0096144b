"""This module counts pairs of bits of a payload, down its columns and along its rows: what profiles of layouts are made of.

A payload is taken as a matrix of bytes whose rows hold four rows of the tensor. How many codes of each column of bytes are
not that of 0, by their pair of bits, and of each quarter of a row, gives how many zeros there are in each row and column
under any layout. A code counts where its lower bit is set, or where either is. `bit_sums_reference` is the definition;
`BitSums` adds pieces up with the compiled kernel.

    >>> sums = bit_sums_reference(bytes([1, 2, 3, 4]), width=2, segment=1, either=False)
    >>> sums[0][:2].tolist(), sums[1].tolist()
    ([[2, 0], [0, 1]], [[1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0]])
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from i2s_spec.codec.buffers import zeros
from i2s_spec.codec.isa import KernelSet, row_of, table
from i2s_spec.inspect.evidence import _bit_sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@cache
def kernel_sets() -> tuple[KernelSet, ...]:
    """Every set of kernels for sums that was compiled, the slowest first."""
    return table(_bit_sums.kernel_sets())


def kernel_row() -> int:
    """The row of the kernel set in use."""
    return row_of(kernel_sets)


def bit_sums_reference(
    data: Any, width: int, segment: int, either: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """How often each pair of bits is set, in each column of a matrix of bytes and in each stretch of it.

    :param data: whole rows of `width` bytes
    :param segment: bytes of a stretch, which divide a row
    :param either: whether a pair is set where any of its bits is, or where the lower one is
    :returns: uint32 [4, width] and uint32 [stretches, 4]; pair 0 has the least bits
    """
    import numpy as np

    raw = np.frombuffer(data, dtype=np.uint8)
    codes = raw >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    is_set = (codes != 0) if either else (codes & 1 != 0)
    columns = is_set.reshape(4, -1, width).sum(axis=1, dtype=np.uint32)
    segments = is_set.reshape(4, -1, segment).sum(axis=2, dtype=np.uint32)
    return columns, np.ascontiguousarray(segments.T)


class BitSums:
    """The sums of a payload that comes in pieces of whole rows: `columns` and `segments`, as the definition has them.

    Both are whole when all rows were added; before that a part of the sums of columns is in planes of bits.

    :param rows: of the matrix of bytes
    :param width: bytes of each row
    :param segment: bytes of a stretch, which divide a row
    :param either: whether a pair is set where any of its bits is, or where the lower one is
    :param along: whether stretches are counted; else `segments` is None
    """

    def __init__(self, rows: int, width: int, segment: int, either: bool, along: bool = True) -> None:
        self._stretches = rows * (width // segment)
        self.columns = zeros("I", 4, width)
        self.segments = zeros("I", self._stretches, 4) if along and self._stretches else None
        self._planes = zeros("B", _bit_sums.planes_size(width, segment))
        self._width, self._segment, self._either = width, segment, either
        self._row, self._held, self._seen = kernel_row(), 0, 0

    def add(self, data: Any) -> None:
        """The next whole rows.

        :raises ValueError: for a part of a row, or more rows than there are
        """
        first, self._seen = self._seen, self._seen + len(data) // self._segment
        if self._seen > self._stretches:
            raise ValueError("more rows than there are")
        self._held = _bit_sums.add_bit_sums(
            self._row,
            data,
            self._width,
            self._segment,
            self._either,
            self.columns,
            self.segments,
            first,
            self._planes,
            self._held,
            self._seen == self._stretches,
        )
