"""This module is the part of `block_native` for I2_SR: the codes of I2_S, whose kernels it calls, and the scale of each row
behind all of them.

`block_reference` defines what comes out, from the declaration of the layout. The 32 bytes at the end mean nothing: they
are written as zeros, and not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec import kernels
from i2s_spec.codec.blocks import block_reference
from i2s_spec.codec.blocks.block_shape import Blocks, stored_scales
from i2s_spec.codec.payload import UnusedCode
from i2s_spec.codec.payload_native import bytes_to_fill
from i2s_spec.schema.block_layout import FOURTH_CODE, FOURTH_WEIGHT
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def pack(tensor: Blocks, values: NDArray[Any], scales: ArrayLike, byte_order: ByteOrder, out: Any, threads: int) -> Any:
    """As `block_native.pack`, of values whose shape `tensor` has."""
    if values.dtype != np.int8:
        block_reference.require_values(values, tensor)
    stored = stored_scales(tensor, scales, byte_order)
    made, view = bytes_to_fill(tensor.nbytes, out)
    codes = tensor.count * tensor.layout.nbytes
    flat = np.ascontiguousarray(values.astype(np.int8, copy=False)).reshape(-1)
    where = kernels.run_layout(CANONICAL.layout, tensor.rows, tensor.cols)
    if not kernels.pack(flat.view(np.uint8), where, CANONICAL.code_map, view[:codes], threads):
        # code 3, which no kernel of I2_S writes, or a value that has no code
        data = block_reference.pack(values, scales, str(tensor.layout), byte_order=byte_order)
        view[:] = np.frombuffer(data, dtype=np.uint8)
        return made
    view[codes : codes + stored.size] = stored.reshape(-1)
    view[codes + stored.size :] = 0
    return made


def unpack(tensor: Blocks, raw: NDArray[np.uint8], answer: UnusedCode, out: NDArray[np.int8], threads: int) -> None:
    """Fill `out` with the weights without their scales; as `block_native.unpack`."""
    payload = raw[: tensor.count * tensor.layout.nbytes]
    where = kernels.run_layout(CANONICAL.layout, tensor.rows, tensor.cols)
    flat = out.reshape(-1)
    if not kernels.unpack(payload, where, CANONICAL.code_map, flat.view(np.uint8), threads, sought=FOURTH_CODE):
        return
    kernels.unpack(payload, where, None, flat.view(np.uint8), threads)
    flat -= 1
    found = flat == FOURTH_WEIGHT
    if answer == "reject":
        raise block_reference.unused_code_error(tensor, int(np.count_nonzero(found)), int(found.argmax()))
    if answer == "zero":
        flat[found] = 0


def dequantize(
    tensor: Blocks,
    raw: NDArray[np.uint8],
    answer: UnusedCode,
    scales: NDArray[np.float32],
    out: NDArray[np.float32],
    threads: int,
) -> NDArray[np.float32]:
    """Fill `out` with the weights; as `block_native.dequantize`."""
    payload = raw[: tensor.count * tensor.layout.nbytes]
    if not kernels.row_floats(payload, CANONICAL.code_map, scales, out.reshape(-1), threads):
        return out
    values = np.empty((tensor.rows, tensor.cols), dtype=np.int8)
    unpack(tensor, raw, answer, values, threads)
    with np.errstate(all="ignore"):  # an infinity or NaN for a scale gives what IEEE 754 says
        np.multiply(values, scales[:, None], out=out.reshape(values.shape), dtype=np.float32)
    return out
