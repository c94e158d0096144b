"""Embedding tables of every type that occurs in files: rows for tokens, and whole tables as heads.

Rows are dequantized exactly: each number has the value that the file's type defines, rounded to float32 as in ggml's
definition. With an F16 scale d, Q8_0 is d q, and Q6_K is (d s) q with a scale s for every 16 elements. The ternary
types with a scale for each group are those of `schema.blocks`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec import blocks_native
from i2s_spec.codec.shape import from_bfloat16
from i2s_spec.errors import SettingError, quote
from i2s_spec.model.weights import DENSE, TYPES, Grouped, ModelWeights, Ternary
from i2s_spec.schema.blocks import BLOCK_LAYOUTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

#: How many elements of a table are dequantized at a time.
WINDOW: Final = 1 << 22


class EmbeddingTable:
    """The embedding table, or the head, of a model.

    :raises SettingError: for a type that is not supported here
    """

    def __init__(self, weights: ModelWeights, name: str) -> None:
        self.weights = weights
        self.name = name
        tensor = weights.tensor(name)
        self.type = tensor.type.name if tensor.type is not None else f"type {tensor.number}"
        if len(tensor.shape) != 2:
            raise SettingError(f"tensor {quote(name)} has the shape {list(tensor.shape)}; a matrix is needed")
        self.rows, self.columns = tensor.shape
        if self.type not in TYPES["embed"]:
            known = ", ".join(TYPES["embed"])
            raise SettingError(f"tensor {quote(name)} is {self.type}; embedding tables of {known} are read here")

    def take(self, tokens: NDArray[np.int64]) -> Floats:
        """Return the rows of tokens, float32 [T, columns]."""
        if self.type in DENSE:
            return _floats(self.dense[tokens])
        if self.type == "I2_S":
            matrix = self.ternary
            by_row = matrix.payload.reshape(self.rows, -1)
            return _ternary_rows(np.ascontiguousarray(by_row[tokens]), self.columns, matrix.scale)
        data = self.weights.blocks(self.name)[tokens]
        if self.type in BLOCK_LAYOUTS:
            order = self.weights.file.byte_order
            shape = (len(tokens), self.columns)
            return blocks_native.dequantize(data, shape, self.type, byte_order=order, unused_code="plus-two")
        return BLOCKS[self.type](data)

    @property
    def dense(self) -> NDArray[Any]:
        """The table itself, if its elements are floats: float32, float16, or uint16 for bfloat16."""
        matrix = self.weights.matrix(self.name)
        if isinstance(matrix, Ternary | Grouped):
            raise TypeError(f"{self.name} is {self.type}")
        return matrix

    @property
    def ternary(self) -> Ternary:
        """The table itself, if it is I2_S."""
        matrix = self.weights.matrix(self.name)
        if not isinstance(matrix, Ternary):
            raise TypeError(f"{self.name} is {self.type}")
        return matrix

    def windows(self) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield the whole table in parts: the first row of each, and its rows as numbers."""
        if self.type in DENSE:
            yield 0, self.dense
            return
        step = max(1, WINDOW // self.columns)
        for start in range(0, self.rows, step):
            yield start, self.take(np.arange(start, min(start + step, self.rows)))


def _floats(rows: NDArray[Any]) -> Floats:
    if rows.dtype == np.uint16:
        return from_bfloat16(rows)
    return rows.astype(np.float32)


def _ternary_rows(payload: NDArray[np.uint8], columns: int, scale: np.float32) -> Floats:
    from i2s_spec.codec.reference import unpack_codes
    from i2s_spec.schema.dialect import CANONICAL

    codes = unpack_codes(payload.reshape(-1), (len(payload), columns), CANONICAL.layout)
    trits = np.array([-1, 0, 1, 0], dtype=np.float32)  # the fork's get_rows reads code 3 as 0 (clause 5.4)
    return trits[codes] * scale


def _halves(data: NDArray[np.uint8]) -> Floats:
    """Read two bytes at the end of the last axis as an F16 scale."""
    return np.ascontiguousarray(data).view("<f2")[..., 0].astype(np.float32)


def _q8_0(rows: NDArray[np.uint8]) -> Floats:
    """Read blocks of 34 bytes: F16 d, 32 int8."""
    blocks = rows.reshape(len(rows), -1, 34)
    q = np.ascontiguousarray(blocks[..., 2:]).view(np.int8).astype(np.float32)
    return (_halves(blocks[..., :2])[..., None] * q).reshape(len(rows), -1)


def q6_k_parts(rows: NDArray[np.uint8]) -> tuple[NDArray[np.int8], NDArray[np.int8], Floats]:
    """Return the integers of Q6_K rows: q in -32..31, int8 [T, blocks, 256]; scales, int8 [T, blocks, 16]; d,
    float32 [T, blocks].

    A block has 210 bytes: 128 with low nibbles, 64 with high pairs of bits, 16 scales, F16 d. Each half of 128 elements has
    64 bytes of nibbles and 32 of pairs: element 32 j + l has pair j of byte l, and nibble j // 2 of byte 32 (j % 2) + l.
    """
    blocks = rows.reshape(len(rows), -1, 210)
    low = blocks[..., :128].reshape(*blocks.shape[:2], 2, 2, 32)
    high = blocks[..., 128:192].reshape(*blocks.shape[:2], 2, 32)
    q = np.empty((*blocks.shape[:2], 2, 4, 32), dtype=np.int8)
    for j in range(4):
        nibble = low[:, :, :, j % 2] >> np.uint8(4 * (j // 2)) & np.uint8(15)
        pair = high >> np.uint8(2 * j) & np.uint8(3)
        q[:, :, :, j] = (nibble | pair << np.uint8(4)).astype(np.int8) - np.int8(32)
    scales = np.ascontiguousarray(blocks[..., 192:208]).view(np.int8)
    return q.reshape(*blocks.shape[:2], 256), scales, _halves(blocks[..., 208:])


def _q6_k(rows: NDArray[np.uint8]) -> Floats:
    q, scales, d = q6_k_parts(rows)
    factor = np.repeat(d[..., None] * scales.astype(np.float32), 16, axis=-1)
    return (factor * q.astype(np.float32)).reshape(len(rows), -1)


#: Quantized types, each with the function that dequantizes rows.
BLOCKS: Final = {"Q8_0": _q8_0, "Q6_K": _q6_k}
