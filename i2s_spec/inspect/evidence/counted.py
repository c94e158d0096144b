"""This module reads a payload once, in pieces, and keeps how many weights that are not 0 each row and column has.

What is kept serves every layout: `Counted.columns` and `Counted.rows` give the counts as a hypothesis reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from i2s_spec.inspect.evidence.bit_sums import BitSums

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.source import Source
    from i2s_spec.inspect.evidence.hypotheses import Hypothesis
    from i2s_spec.schema.dialect import CodeMap

#: Bytes that are read at once, about.
PIECE: Final = 1 << 18
#: Rows and columns of the largest tensor that is looked at.
MOST: Final = 1 << 18


class Counted:
    """The counts of one tensor.

    :param pairs: uint32 [cols, 4], weights that are not 0 by byte of a row of bytes and pair of bits
    :param stretches: uint32 [rows, 4], likewise by quarter of such a row
    """

    def __init__(self, pairs: NDArray[np.uint32], stretches: NDArray[np.uint32]) -> None:
        self.pairs = pairs
        self.stretches = stretches

    @property
    def cols_count(self) -> int:
        return len(self.pairs)

    @property
    def rows_count(self) -> int:
        return len(self.stretches)

    def base(self, in_rows: bool) -> NDArray[np.uint32]:
        """Weights that are not 0 by the place of a column, as `Hypothesis.places` numbers places, uint32 [cols]."""
        if in_rows:
            return _total(self.pairs.reshape(4, -1, 4), 0).reshape(-1)
        return _total(self.pairs, 1)

    def columns(self, each: Hypothesis) -> NDArray[np.uint32]:
        """Weights that are not 0 in each column, uint32 [cols]."""
        return self.base(each.in_rows)[each.places(self.cols_count)]

    def rows(self, each: Hypothesis) -> NDArray[np.uint32]:
        """Weights that are not 0 in each row, uint32 [rows]; those of shifted payloads are as of unshifted ones."""
        if each.in_rows:
            return _total(self.stretches, 1)
        groups = _total(self.stretches.reshape(-1, 4, 4), 1)
        return groups[:, ::-1].reshape(-1)  # the first row has the highest pair


def _total(counts: NDArray[np.uint32], axis: int) -> NDArray[np.uint32]:
    found: NDArray[np.uint32] = counts.sum(axis=axis, dtype=np.uint32)
    return found


def looked_at(rows: int, cols: int) -> bool:
    """Whether a tensor of this shape can be counted: whole blocks in a row, groups of four rows, and no huge side."""
    return 0 < rows <= MOST and 0 < cols <= MOST and cols % 128 == 0 and rows % 4 == 0


def count(source: Source, start: int, rows: int, cols: int, code_map: CodeMap) -> Counted:
    """Read a payload and count.

    :param start: of the payload in the source
    :param code_map: which code is 0
    :raises FormatError: where the source does not hold the payload
    """
    sums = BitSums(rows // 4, cols, cols // 4)
    step = max(1, PIECE // cols) * cols
    size = rows * cols // 4
    for at in range(0, size, step):
        sums.add(source.read(start + at, min(step, size - at)))
    return Counted(not_zero(sums.columns, rows // 4, code_map), not_zero(sums.segments, cols // 4, code_map))


def not_zero(bits: NDArray[np.uint32], many: int, code_map: CodeMap) -> NDArray[np.uint32]:
    """Weights that are not 0, from counts of bits.

    :param bits: uint32 [..., 8], how often each bit of a byte is set in `many` bytes
    :returns: uint32 [..., 4], by pair of bits

    The code that is unused is taken to be missing; then the bits of a pair tell how many codes are that of 0.
    """
    low, high = bits[..., 0::2], bits[..., 1::2]
    if code_map.unused != 3:
        return low.copy()  # code 3 and another one are not 0, and both have the low bit that the code of 0 has not
    if code_map.code_of(0) == 1:
        return np.uint32(many) - low
    return low + high
