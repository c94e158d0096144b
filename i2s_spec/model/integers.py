"""This module computes the integer sums of a projection, exactly, by whatever is fastest: every way gives the same.

The compiled kernels (`matmul`) read packed weights. Where they are not built, weights are unpacked in windows and multiplied
as float32, which is exact as long as no partial sum can reach 2^24; beyond that the definition does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec import kernels
from i2s_spec.codec.kernels import Scheme
from i2s_spec.model import bitlinear

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Columns up to which sums of codes 0 to 3 times -128 to 127 are exact in float32, in any order.
EXACT_COLUMNS: Final = (1 << 24) // (3 * 128)

#: Weights that are unpacked at a time.
WINDOW: Final = 1 << 22

_INTERLEAVED: Final = Scheme(32, False)


def dot(payload: Any, rows: int, columns: int, codes: NDArray[np.int8], threads: int = 1) -> NDArray[np.int32]:
    """The sums of weight codes times activation codes, int32 [T, rows]; as `bitlinear.dot`."""
    try:
        from i2s_spec.model import matmul
    except ImportError:
        return _windowed(payload, rows, columns, codes, threads)
    found: NDArray[np.int32] = matmul.dot(payload, rows, columns, codes, threads=threads)
    return found


def accumulate(payload: Any, rows: int, columns: int, codes: NDArray[np.int8], threads: int = 1) -> NDArray[np.int32]:
    """The sums of trits times activation codes, int32 [T, rows]; as `bitlinear.accumulate`."""
    sums = dot(payload, rows, columns, codes, threads)
    sums -= codes.sum(axis=1, dtype=np.int32)[:, None]
    return sums


def _windowed(payload: Any, rows: int, columns: int, codes: NDArray[np.int8], threads: int) -> NDArray[np.int32]:
    bitlinear.check_product(codes, rows, columns)
    if columns > EXACT_COLUMNS or columns % 128:
        return bitlinear.dot(payload, rows, columns, codes)
    data = np.frombuffer(payload, dtype=np.uint8)
    activations = codes.astype(np.float32)
    sums = np.empty((len(codes), rows), dtype=np.int32)
    step = max(1, WINDOW // columns)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        unpacked = np.empty((stop - start) * columns, dtype=np.uint8)
        kernels.unpack(data[start * columns // 4 : stop * columns // 4], _INTERLEAVED, None, unpacked, threads)
        sums[:, start:stop] = activations @ unpacked.reshape(stop - start, columns).astype(np.float32).T
    return sums
