"""This module counts the bits of a payload, down its columns and along its rows: what profiles of every layout are made of.

A payload is taken as a matrix of bytes whose rows hold four rows of the tensor. How often each bit of each column of bytes
is set, and of each quarter of a row, gives how many zeros there are in each row and column under any layout and code map.
`bit_sums_reference` is the definition; `BitSums` adds pieces up with the compiled kernel.

    >>> sums = bit_sums_reference(bytes([1, 2, 3, 4]), width=2, segment=1)
    >>> sums[0][:, :3].tolist(), sums[1][:, :3].tolist()
    ([[2, 1, 0], [0, 1, 1]], [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1]])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec.isa import chosen
from i2s_spec.inspect.evidence import _bit_sums

if TYPE_CHECKING:
    from numpy.typing import NDArray


def kernel_row() -> int:
    """The row of the kernel set in use; portable where there is none of that name."""
    name = chosen().name
    rows = (row for row, (each, available) in enumerate(_bit_sums.kernel_sets()) if each == name and available)
    return next(rows, 0)


def bit_sums_reference(data: Any, width: int, segment: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """How often each bit is set, in each column of a matrix of bytes and in each stretch of it.

    :param data: whole rows of `width` bytes
    :param segment: bytes of a stretch, which divide a row
    :returns: uint32 [width, 8] and uint32 [stretches, 8]; bit 0 is the least
    """
    raw = np.frombuffer(data, dtype=np.uint8)
    bits = np.unpackbits(raw[:, None], axis=1, bitorder="little").astype(np.uint32)
    columns = bits.reshape(-1, width, 8).sum(axis=0, dtype=np.uint32)
    segments = bits.reshape(-1, segment, 8).sum(axis=1, dtype=np.uint32)
    return columns, segments


class BitSums:
    """The sums of a payload that comes in pieces of whole rows.

    :param rows: of the matrix of bytes
    :param width: bytes of each row
    :param segment: bytes of a stretch, which divide a row
    """

    def __init__(self, rows: int, width: int, segment: int) -> None:
        self.columns: NDArray[np.uint32] = np.zeros((width, 8), dtype=np.uint32)
        self.segments: NDArray[np.uint32] = np.zeros((rows * (width // segment), 8), dtype=np.uint32)
        self._width, self._segment, self._seen = width, segment, 0
        self._row = kernel_row()

    def add(self, data: Any) -> None:
        """The next whole rows.

        :raises ValueError: for a part of a row, or more rows than there are
        """
        count = len(data) // self._segment
        part = self.segments[self._seen : self._seen + count]
        _bit_sums.add_bit_sums(self._row, data, self._width, self._segment, self.columns, part)
        self._seen += count
