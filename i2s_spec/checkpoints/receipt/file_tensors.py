"""This module reads whole tensors of a GGUF file for comparison: trits and scales of every type that has them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.ternary_types import BLOCK_TYPES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import Tensor


class FileMatrix(NamedTuple):
    """A matrix of a file: int8 values [rows, cols], and float32 scales: [1, 1], or one for each group [rows, groups]."""

    trits: NDArray[np.int8]
    scales: NDArray[np.float32]


def type_name(tensor: Tensor) -> str:
    """The name of a tensor's type."""
    return tensor.type.name if tensor.type is not None else f"type {tensor.number}"


def floats_of(tensor: Tensor) -> NDArray[np.float32]:
    """A float tensor as float32."""
    return tensor.array().astype(np.float32)


def matrix_of(tensor: Tensor) -> FileMatrix | None:
    """The trits and scales of a matrix; None for float types.

    :raises ValueError: for unused codes
    """
    name = type_name(tensor)
    if name == "I2_S":
        return FileMatrix(tensor.trits(), np.full((1, 1), tensor.scale(), np.float32))
    if name in BLOCK_TYPES:
        values, scales = block_native.unpack(tensor.read(), tensor.shape, name)
        return FileMatrix(values, scales.reshape(len(values), -1))
    return None


def hashes(tensor: Tensor) -> dict[str, Any]:
    """The record of a tensor: its type, shape, the hash of its bytes; for trits also their hash, counts and scales.

    `trits` is the SHA-256 of int8 -1, 0, +1 row by row: equal in every type that holds the same trits.
    """
    found: dict[str, Any] = {
        "type": type_name(tensor), "shape": list(tensor.shape), "data": hashlib.sha256(tensor.read()).hexdigest()
    }  # fmt: skip
    matrix = matrix_of(tensor) if len(tensor.shape) == 2 else None
    if matrix is not None:
        counts = [int(np.count_nonzero(matrix.trits == value)) for value in (-1, 0, 1)]
        found |= {
            "trits": hashlib.sha256(np.ascontiguousarray(matrix.trits).data).hexdigest(), "counts": counts,
            "scales": hashlib.sha256(matrix.scales.astype("<f4").tobytes()).hexdigest(),
        }  # fmt: skip
        if matrix.scales.size == 1:
            found["scale"] = float(matrix.scales.item())
    return found
