"""This module is the part of `block_native` for I2_SR: the codes of I2_S, whose kernels it calls, and the scale of each row
behind all of them.

`block_reference` defines what comes out, from the declaration of the layout. The 32 bytes at the end mean nothing: they
are written as zeros, and not read.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.blocks import block_reference
from i2s_spec.codec.blocks.block_shape import Blocks, stored_scales
from i2s_spec.codec.payload import UnusedCode
from i2s_spec.codec.payload_native import bytes_to_fill, count_codes, pack_trits, unpack_codes, unpack_trits
from i2s_spec.schema.block_layout import FOURTH_CODE, FOURTH_WEIGHT
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: No thread gets fewer elements than this.
_THREAD_ELEMENTS: Final = 1 << 20
#: Elements that are scaled while they are in the cache.
_CACHED: Final = 1 << 16


def pack(tensor: Blocks, values: NDArray[Any], scales: ArrayLike, byte_order: ByteOrder, out: Any, threads: int) -> Any:
    """As `block_native.pack`, of values whose shape `tensor` has."""
    if values.dtype != np.int8 or (values.size and (values.min() < -1 or values.max() > 1)):
        block_reference.require_values(values, tensor)
    if values.size and values.max() > 1:  # code 3, which no kernel of I2_S writes
        return _filled(out, block_reference.pack(values, scales, str(tensor.layout), byte_order=byte_order), tensor)
    stored = stored_scales(tensor, scales, byte_order)
    made, view = bytes_to_fill(tensor.nbytes, out)
    codes = tensor.count * tensor.layout.nbytes
    matrix = values.astype(np.int8, copy=False).reshape(1, -1)
    pack_trits(matrix, CANONICAL, out=view[:codes], threads=threads)
    view[codes : codes + stored.size] = stored.reshape(-1)
    view[codes + stored.size :] = 0
    return made


def unpack(tensor: Blocks, raw: NDArray[np.uint8], answer: UnusedCode, out: NDArray[np.int8], threads: int) -> None:
    """Fill `out` with the weights without their scales; as `block_native.unpack`."""
    payload = raw[: tensor.count * tensor.layout.nbytes]
    flat = out.reshape(1, -1)
    if not count_codes(payload, threads=threads)[FOURTH_CODE]:
        unpack_trits(payload, flat.shape, CANONICAL, out=flat, threads=threads)
        return
    unpack_codes(payload, flat.shape, CANONICAL.layout, out=flat.view(np.uint8), threads=threads)
    flat -= 1
    found = flat.reshape(-1) == FOURTH_WEIGHT
    if answer == "reject":
        raise block_reference.unused_code_error(tensor, int(np.count_nonzero(found)), int(found.argmax()))
    if answer == "zero":
        flat[0, found] = 0


def dequantize(
    tensor: Blocks,
    raw: NDArray[np.uint8],
    answer: UnusedCode,
    scales: NDArray[np.float32],
    out: NDArray[np.float32],
    threads: int,
) -> NDArray[np.float32]:
    """Fill `out` with the weights; as `block_native.dequantize`."""
    weights = out.reshape(tensor.rows, tensor.cols)
    values = np.empty(weights.shape, dtype=np.int8)
    unpack(tensor, raw, answer, values, threads)
    step = max(1, _CACHED // tensor.cols)

    def scaled(first: int, last: int) -> None:
        with np.errstate(all="ignore"):  # an infinity or NaN for a scale gives what IEEE 754 says
            for row in range(first, last, step):
                part = slice(row, min(row + step, last))
                weights[part] = values[part]
                weights[part] *= scales[part, None]

    threads = min(threads, max(1, tensor.elements // _THREAD_ELEMENTS), tensor.rows)
    if threads == 1:
        scaled(0, tensor.rows)
        return out
    each = -(-tensor.rows // threads)
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(scaled, row, min(row + each, tensor.rows)) for row in range(0, tensor.rows, each)]:
            done.result()
    return out


def _filled(out: Any, data: bytes, tensor: Blocks) -> Any:
    made, view = bytes_to_fill(tensor.nbytes, out)
    view[:] = np.frombuffer(data, dtype=np.uint8)
    return made
