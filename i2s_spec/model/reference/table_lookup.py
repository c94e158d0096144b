"""Products with lookup tables, which T-MAC and an article on inference in plain C use instead of multiplying.

Half a byte of an I2_S payload holds the codes of two columns, which has 16 values. For a token with activation codes q,
tables hold the sums for all 16 pairs of codes; they depend on the token and not on the weights:

    T[j, 0, 4a + b] = a q[j] + b q[32 + j]           the upper half of byte j of a block (clause 5.5)
    T[j, 1, 4a + b] = a q[64 + j] + b q[96 + j]      its lower half
    dot             = sum over all bytes w of T[w >> 4] + T[w & 15]

This is the sum of `bitlinear.dot` in another order, and equal to it bit for bit, because nothing is rounded. (T-MAC and
TL1 round tables to int8 in some of their kernels, which gives other numbers.) `lookup_tables` and `lookup_dot` are the
definition in NumPy; `LookupMatrix` is the compiled twin, which first interleaves 32 rows.

    >>> from i2s_spec.model.reference import bitlinear
    >>> codes = np.arange(128, dtype=np.int8)[None, :]
    >>> tables = lookup_tables(codes)
    >>> tables.shape, tables[0, 5, 0, 0b0110].item()  # 1 * 5 + 2 * 37
    ((1, 32, 2, 16), 79)
    >>> payload = np.full(32, 0b01011010, dtype=np.uint8)
    >>> lookup_dot(payload, 1, 128, codes).tolist(), bitlinear.dot(payload, 1, 128, codes).tolist()
    ([[14240]], [[14240]])
"""

from __future__ import annotations

from functools import cache
from os import environ
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.isa import VARIABLE, KernelSet, chosen, table
from i2s_spec.codec.shape import as_codes
from i2s_spec.errors import counted
from i2s_spec.model import _matmul
from i2s_spec.model.reference.bitlinear import check_product
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK: Final = CANONICAL.layout.block
_BLOCK_BYTES: Final = _BLOCK // CODES_PER_BYTE

#: Rows that the compiled kernels interleave, and bytes of the tables for a byte of weights.
ROWS: Final = 32
TABLE_BYTES: Final = 64


@cache
def lookup_sets() -> tuple[KernelSet, ...]:
    """Return every compiled set of lookup kernels, the slowest first."""
    return table(_matmul.lookup_sets())


def lookup_tables(codes: NDArray[np.int8]) -> NDArray[np.int16]:
    """Return the tables of tokens: the sums for all pairs of codes.

    :param codes: int8 [T, K] activation codes, K a multiple of 128
    :returns: int16 [T, K/4, 2, 16], by byte of a row, half and pair
    :raises ValueError: for rows that are not whole blocks
    """
    tokens, columns = codes.shape
    if columns % _BLOCK:
        raise ValueError(f"rows of {counted(columns, 'code')} are not whole blocks of {_BLOCK}")
    fields = codes.reshape(tokens, columns // _BLOCK, 4, _BLOCK_BYTES).astype(np.int16)  # the four columns of a byte
    pairs = np.arange(16, dtype=np.int16)
    upper, lower = pairs >> 2, pairs & 3
    first, second = fields[:, :, 0::2, :, None], fields[:, :, 1::2, :, None]
    sums: NDArray[np.int16] = upper * first + lower * second  # [T, block, half, byte, pair]
    return sums.transpose(0, 1, 3, 2, 4).reshape(tokens, columns // CODES_PER_BYTE, 2, 16)


def lookup_dot(payload: Any, rows: int, columns: int, codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """Return the sums of weight codes times activation codes, by lookup; equal to `bitlinear.dot` bit for bit.

    :param payload: rows * columns / 4 bytes in the canonical layout, rows being whole blocks
    :param codes: int8 [T, columns]
    :returns: int32 [T, rows]
    :raises ValueError: for sizes that do not fit
    """
    weights = _checked(payload, rows, columns, codes)
    tables = lookup_tables(codes)
    place = np.arange(weights.shape[1])
    sums = np.empty((len(codes), rows), dtype=np.int32)
    for token, made in enumerate(tables):
        found = made[place, 0, weights >> 4].astype(np.int32) + made[place, 1, weights & 15]
        sums[token] = found.sum(axis=1, dtype=np.int32)
    return sums


class LookupMatrix:
    """A matrix with 32 rows interleaved, as the compiled kernels need it; it takes as much memory as its payload.

    :param payload: rows * columns / 4 bytes in the canonical layout
    :raises ValueError: for sizes that do not fit, and rows that are not whole blocks
    """

    def __init__(self, payload: Any, rows: int, columns: int) -> None:
        weights = _checked(payload, rows, columns, np.empty((0, columns), dtype=np.int8))
        self.rows, self.columns = rows, columns
        self._groups = -(-rows // ROWS)
        self._arranged = np.empty(self._groups * ROWS * weights.shape[1], dtype=np.uint8)
        _matmul.lookup_arrange(np.ascontiguousarray(weights).reshape(-1), rows, weights.shape[1], self._arranged)

    def dot(self, codes: NDArray[np.int8]) -> NDArray[np.int32]:
        """Return the sums of weight codes times activation codes; like `lookup_dot`.

        :param codes: int8 [T, columns]
        :returns: int32 [T, rows]
        """
        check_product(codes, self.rows, self.columns)
        sums = np.zeros((len(codes), self._groups * ROWS), dtype=np.int32)
        tables = np.empty(self.columns // CODES_PER_BYTE * TABLE_BYTES, dtype=np.uint8)
        for token, row in zip(np.ascontiguousarray(codes), sums, strict=True):
            _matmul.lookup_tables(token, tables)
            _matmul.lookup_product(_row(environ.get(VARIABLE)), self._arranged, tables, row)
        return np.ascontiguousarray(sums[:, : self.rows])

    def run(self, row: int, tables: NDArray[np.uint8], out: NDArray[np.int32], repeats: int = 1) -> None:
        """Multiply with existing tables and one set of kernels; for measurements."""
        _matmul.lookup_product(row, self._arranged, tables, out, repeats)

    @property
    def padded_rows(self) -> int:
        """The number of rows with the padding of the last group."""
        return self._groups * ROWS


@cache
def _row(name: str | None) -> int:  # the value of the variable is part of the key of the cache
    return chosen(lookup_sets()).row


def _checked(payload: Any, rows: int, columns: int, codes: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Return the payload as bytes [rows, columns / 4]."""
    check_product(codes, rows, columns)
    if columns % _BLOCK:
        raise ValueError(f"rows of {counted(columns, 'weight')} are not whole blocks of {_BLOCK}")
    return as_codes(payload, rows, columns).reshape(rows, columns // CODES_PER_BYTE)
