"""This module holds matrices with a scale for each group of weights: the form in which block types are read (clause 9.8).

Weights without their scales are -1 to +2, packed as codes of canonical I2_S, so that the integer products of I2_S can
read them: there, code 3 counts as +2 as well. They are stored in slabs of 128 columns, [slabs, rows, 32 bytes], because
groups are multiplied separately; an incomplete slab is filled with codes 0, which are multiplied with 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from i2s_spec.codec import kernels
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns of a slab, and bytes of a slab in each row.
SLAB: Final = 128
SLAB_BYTES: Final = SLAB // CODES_PER_BYTE


@dataclass(frozen=True)
class Grouped:
    """A matrix with a scale for each group of a row.

    :param slabs: codes, uint8 [slabs, rows, 32]
    :param columns: columns of the matrix; they need not be whole slabs
    :param scales: float32 [rows, groups of a row]
    :param group: how many columns share a scale; all if each row has one scale
    """

    slabs: NDArray[np.uint8]
    columns: int
    scales: NDArray[np.float32]
    group: int

    @property
    def rows(self) -> int:
        return len(self.scales)

    @property
    def wide(self) -> int:
        """Columns of all slabs."""
        return len(self.slabs) * SLAB

    @cached_property
    def whole_rows(self) -> NDArray[np.uint8]:
        """The codes as one payload with rows of `wide` columns, for products over whole rows."""
        return np.ascontiguousarray(self.slabs.transpose(1, 0, 2)).reshape(-1)

    def part(self, start: int, stop: int) -> Grouped:
        """Some of the rows."""
        return Grouped(self.slabs[:, start:stop], self.columns, self.scales[start:stop], self.group)

    def values(self) -> NDArray[np.int8]:
        """The weights without their scales, int8 [rows, columns]: the decoded `slabs`."""
        codes = np.empty(self.rows * self.wide, dtype=np.uint8)
        kernels.unpack(self.whole_rows, kernels.run_layout(CANONICAL.layout, self.rows, self.wide), None, codes, 1)
        return codes.reshape(self.rows, self.wide)[:, : self.columns].astype(np.int8) - np.int8(1)

    def dequantized(self) -> NDArray[np.float32]:
        """The weights, one multiplication of float32 each, float32 [rows, columns]."""
        return self.values().astype(np.float32) * np.repeat(self.scales, self.group, axis=1)


def grouped(values: NDArray[np.int8], scales: NDArray[np.float32]) -> Grouped:
    """The matrix of weights and scales.

    :param values: -1 to +2, int8 [rows, columns]
    :param scales: float32 [rows, groups of a row]; groups have as many columns each
    """
    rows, columns = values.shape
    wide = -(-columns // SLAB) * SLAB
    codes = np.zeros((rows, wide), dtype=np.uint8)
    np.add(values, 1, out=codes[:, :columns], casting="unsafe")
    payload = np.empty(rows * wide // CODES_PER_BYTE, dtype=np.uint8)
    kernels.pack(codes.reshape(-1), kernels.run_layout(CANONICAL.layout, rows, wide), None, payload, 1)
    return Grouped(_in_slabs(payload, rows), columns, scales, columns // scales.shape[1])


def one_scale(payload: NDArray[np.uint8], rows: int, columns: int, scale: np.float32, group: int) -> Grouped:
    """A matrix of canonical I2_S as a grouped matrix whose groups share its scale: codes are moved, not changed.

    :param payload: a payload of whole rows, as `matmul.whole_rows` gives it
    :param columns: the number of columns before rows were padded
    """
    scales = np.broadcast_to(scale, (rows, -(-columns // group)))
    return Grouped(_in_slabs(payload, rows), columns, scales, group)


def _in_slabs(payload: NDArray[np.uint8], rows: int) -> NDArray[np.uint8]:
    return np.ascontiguousarray(payload.reshape(rows, -1, SLAB_BYTES).transpose(1, 0, 2))
