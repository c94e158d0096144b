"""This module reproduces the wrong results of released kernels: named mistakes, in plain NumPy.

All are deterministic and reproduce the recorded outputs of those kernels bit for bit, so a report can say which of them
explains a sum. Each takes the weights as codes 0 to 3, uint8 [N, K], and activation codes, int8 [T, K], and gives the
kernel's result for `dot`, int32 [T, N]: codes times activation codes, before the offset is subtracted.

Two more mistakes are only named, because their results depend on the contents of memory: `nrc-4`, where an ARM build
with dot products passes four tokens to a kernel for one, and `row-split`, where two threads share rows that are not a
multiple of four and write to each other's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from i2s_spec.codec.payload import pack_codes
from i2s_spec.codec.remainder.dropped import whole_blocks
from i2s_spec.schema.dialect import CODES_PER_BYTE, LAYOUTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Emulation = Callable[[NDArray[np.uint8], NDArray[np.int8]], NDArray[np.int32]]

#: Columns of a block, number of 16-bit lanes, and neighboring columns that go to one lane, by kernel.
_KERNELS: Final = {"avx2": (128, 16, 2), "neon": (64, 8, 1)}
#: How many blocks are added before the lanes are widened.
_GROUP: Final = 32

Kernel = Literal["avx2", "neon"]


def int16_wrap(weights: NDArray[np.uint8], codes: NDArray[np.int8], kernel: Kernel = "avx2") -> NDArray[np.int32]:
    """Sums of 32 blocks in 16-bit lanes, which wrap around: builds without VNNI or dot products.

    A lane adds 256 products of up to 254, or of -256. Sums that fit are right; a sum that overflows is off by 65,536.

    :param kernel: `avx2`: lanes take neighboring pairs, 4,096 columns at a time; `neon`, ARM since November 2025: every
        eighth column, 2,048 at a time
    """
    block, lanes, neighbors = _KERNELS[kernel]
    sums = np.zeros((len(codes), len(weights)), dtype=np.int32)
    step = block * _GROUP
    for start in range(0, weights.shape[1], step):
        by_lane = [
            each[:, start : start + step]
            .astype(np.float32)
            .reshape(len(each), -1, lanes, neighbors)
            .transpose(2, 0, 1, 3)
            for each in (codes, weights)
        ]
        tokens, rows = (np.ascontiguousarray(each).reshape(lanes, each.shape[1], -1) for each in by_lane)
        lane = np.matmul(tokens, rows.transpose(0, 2, 1))  # exact: below 2^24
        sums += lane.astype(np.int32).astype(np.int16).sum(axis=0, dtype=np.int32)
    return sums


def rows_of_four(weights: NDArray[np.uint8], codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """A payload in `rows-1x4` read as blocks of 128 columns: an x86 build without ACT_PARALLEL on its own files."""
    return _as_blocks(_packed(weights, "rows-1x4"), weights.shape[0], weights.shape[1], codes)


def truncated_rows(weights: NDArray[np.uint8], codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """Rows read from byte row * K // 4 in whole blocks, where K is not a multiple of 128.

    Such rows begin inside a block, and their last K % 128 columns are left out. If K is a multiple of 128, the result
    is right.
    """
    return _as_blocks(_packed(weights, "interleave-128"), weights.shape[0], weights.shape[1], codes)


def truncated_columns(weights: NDArray[np.uint8], codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """The last K % 128 columns are left out; otherwise right: a kernel that does read `rows-1x4`."""
    whole = weights.shape[1] // LAYOUTS["interleave-128"].block * LAYOUTS["interleave-128"].block
    return int16_wrap(weights[:, :whole], codes[:, :whole])


#: Every mistake that can be computed, by its name.
KERNEL_BUGS: Final[Mapping[str, Emulation]] = MappingProxyType(
    {
        "int16-wrap/avx2": int16_wrap,
        "int16-wrap/neon": lambda weights, codes: int16_wrap(weights, codes, "neon"),
        "rows-of-four": rows_of_four,
        "truncated-rows": truncated_rows,
        "truncated-columns": truncated_columns,
    }
)


def _packed(weights: NDArray[np.uint8], layout: str) -> NDArray[np.uint8]:
    """The payload as released quantizers write it: bytes of incomplete blocks are 0."""
    rows, columns = whole_blocks(LAYOUTS[layout], *weights.shape)
    payload = np.zeros(weights.size // CODES_PER_BYTE, dtype=np.uint8)
    whole = pack_codes(weights.reshape(-1)[: rows * columns].reshape(rows, columns), LAYOUTS[layout])
    payload[: len(whole)] = np.frombuffer(whole, dtype=np.uint8)
    return payload


def _as_blocks(payload: NDArray[np.uint8], rows: int, columns: int, codes: NDArray[Any]) -> NDArray[np.int32]:
    """The sums of a kernel that reads whole blocks from byte row * columns // 4 on, whatever the bytes are."""
    layout = LAYOUTS["interleave-128"]
    k = np.arange(columns // layout.block * layout.block)
    byte, shift = layout.byte_of(k, 1, columns), layout.shift_of(k, 1, columns).astype(np.uint8)
    starts = np.arange(rows)[:, None] * (columns // CODES_PER_BYTE)
    return int16_wrap(payload[starts + byte] >> shift & 3, codes[:, : k.size])
