"""This module makes blocks of floats by the rules of ggml and ik_llama.cpp, bit for bit where C defines what they do.

    Q2_0, PQ2_0, PTQ1_0, TQ1_0, TQ2_0   d is the largest magnitude of the block; a code is round(w / d) + 1, where w / d is
                                        w times the float32 reciprocal of d, and halves are rounded away from 0
    IQ1_BN, IQ2_BN                      d is the largest magnitude of the row; what is below half of it becomes 0

The float16 of d is written, while codes are computed with d itself. Source: ggml `ggml-quants.c`
(`quantize_row_q2_0_ref`, `_tq1_0_ref`, `_tq2_0_ref`), ik_llama.cpp `iqk_quantize.cpp` (`IQ1BNQuantizer`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.blocks.block_shape import blocks_of
from i2s_spec.codec.weights import Weights
from i2s_spec.schema.checks import ByteOrder

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def quantize(weights: ArrayLike, type: str, *, byte_order: ByteOrder = "little") -> bytes:
    """The bytes that the type's own quantizer makes of floats.

    :param weights: floats of any width, or bfloat16 as its bits in uint16, [..., ne0]
    :param type: the name of a type of `block_layout`
    :raises ValueError: for infinities and NaN, whose codes C leaves undefined; for magnitudes beyond float16; and for rows
        that are not whole blocks
    """
    source = Weights(weights)
    tensor = blocks_of(source.shape, type)
    values = np.empty(tensor.elements, dtype=np.int8)
    scales = np.empty(tensor.groups, dtype=np.float32)
    step = max(1, (1 << 18) // tensor.group)
    for group in range(0, tensor.groups, step):
        stop = min(group + step, tensor.groups)
        part = source.values(group * tensor.group, stop * tensor.group).reshape(stop - group, tensor.group)
        codes, scales[group:stop] = _rounded(part) if tensor.layout.scale.per == "block" else _halved(part)
        values[group * tensor.group : stop * tensor.group] = codes.reshape(-1)
    stored: NDArray[np.float32] | NDArray[np.float16] = scales
    if tensor.layout.scale.type == "F16":
        with np.errstate(all="ignore"):  # what is too small becomes 0, as there
            stored = scales.astype(np.float16)
        if not np.isfinite(stored).all():
            raise ValueError(f"magnitudes go up to {scales.max():.9g}, which is beyond float16: its largest is 65504")
    data: bytes = block_native.pack(values.reshape(source.shape), stored, type, byte_order=byte_order)
    return data


def _largest(part: NDArray[np.float32]) -> NDArray[np.float32]:
    """The largest magnitude of each group.

    :raises ValueError: where it is not a number
    """
    largest: NDArray[np.float32] = np.abs(part).max(axis=1)
    if not np.isfinite(largest).all():
        raise ValueError("infinities or NaN are among the weights; what quantizers make of them is not defined")
    return largest


def _rounded(part: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The weights over the largest magnitude of their block, rounded, and that magnitude."""
    largest = _largest(part)
    with np.errstate(all="ignore"):
        gain = np.float32(1) / largest
        # Of the smallest magnitudes the reciprocal is infinite, and C does not say what becomes of the codes: 0 here.
        gain = np.where(np.isfinite(gain), gain, np.float32(0))
        scaled = (part * gain[:, None]).astype(np.float64)
    return np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int8), largest


def _halved(part: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The signs of the weights that are at least half the largest magnitude of their row, and that magnitude."""
    largest = _largest(part)
    least = np.float32(0.5) * largest[:, None]
    # Of a row of zeros nothing is below the half, and what is not negative counts as +1.
    return np.where(np.abs(part) < least, 0, np.where(part < 0, -1, 1)).astype(np.int8), largest
