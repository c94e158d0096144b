"""This module packs and unpacks TQ1_0 and TQ2_0, the ternary types of upstream llama.cpp: blocks of 256 with a half scale.

Element e of a block (0 <= e < 256, in the order of the row) is digit j of byte b, where its run says how:

    run (first element f, first byte p, width w):    b = p + (e - f) % w,    j = (e - f) // w
    TQ2_0, 64 bytes of codes + f16 at byte 64:       byte = sum of (trit + 1) * 4**j           j = 0..3
    TQ1_0, 52 bytes of codes + f16 at byte 52:       byte = ceil(v * 256 / 243), v = sum of (trit + 1) * 3**(4 - j)
                                                     digit j of a byte = (byte * 3**j % 256) * 3 // 256

The runs are those of `BLOCK_TYPES`. The last run of TQ1_0 has four digits; its fifth is 0. Source: ggml-common.h
(`block_tq1_0`, `block_tq2_0`), ggml-quants.c (`quantize_row_tq1_0_ref`, `dequantize_row_tq1_0`, and those of tq2_0).
Other than I2_S these types have a scale in every block. As ggml's quantiser does, a block without weights gets 0.

    >>> data = pack_blocks(np.array([[1, 0, -1, 0] * 64], dtype=np.int8), 0.5, "TQ2_0")
    >>> trits, scales = unpack_blocks(data, (1, 256), "TQ2_0")
    >>> len(data), trits[0, :4].tolist(), scales.tolist()
    (66, [1, 0, -1, 0], [0.5])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.types import BY_NAME

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Elements of a block; every row is whole blocks.
BLOCK: Final = 256


class Run(NamedTuple):
    """Elements of a block that share bytes: from `element` on, `digits` times `width` of them, in `width` bytes."""

    element: int
    byte: int
    width: int
    digits: int

    @property
    def stop(self) -> int:
        """The element behind the last."""
        return self.element + self.width * self.digits


@dataclass(frozen=True, slots=True)
class BlockType:
    """One of the two types.

    :param runs: which elements share bytes, and which
    :param weights: what each digit counts for in the number that a byte stands for
    :param byte: the byte of such a number
    :param digit: digit j of a byte, for arrays
    :param scale_at: the byte of the half-precision scale
    """

    name: str
    runs: tuple[Run, ...]
    weights: tuple[int, ...]
    byte: Callable[[Any], Any]
    digit: Callable[[Any, int], Any]
    scale_at: int

    @property
    def nbytes(self) -> int:
        """Bytes of a block."""
        return BY_NAME[self.name].bytes


BLOCK_TYPES: Final = {
    block.name: block
    for block in (
        BlockType(
            "TQ1_0",
            (Run(0, 0, 32, 5), Run(160, 32, 16, 5), Run(240, 48, 4, 4)),
            (81, 27, 9, 3, 1),
            byte=lambda number: (number * 256 + 242) // 243,
            digit=lambda byte, j: byte * 3**j % 256 * 3 // 256,
            scale_at=52,
        ),
        BlockType(
            "TQ2_0",
            (Run(0, 0, 32, 4), Run(128, 32, 32, 4)),
            (1, 4, 16, 64),
            byte=lambda number: number,
            digit=lambda byte, j: byte // 4**j % 4,
            scale_at=64,
        ),
    )
}

#: What each digit of each byte value stands for, int8 [5 or 4, 256]; +2 is the digit that stands for nothing.
_TRITS: Final = {
    block.name: np.stack([block.digit(np.arange(256), j) - 1 for j in range(len(block.weights))]).astype(np.int8)
    for block in BLOCK_TYPES.values()
}


def pack_blocks(
    trits: NDArray[np.int8], scale: float | np.float32, type: str, byte_order: ByteOrder = "little"
) -> bytes:
    """The bytes of trits with one scale for all.

    :param trits: -1, 0 and +1, int8 [..., ne0]; ne0 is a multiple of 256
    :param scale: what +1 stands for; stored as float16, rounded to nearest, ties to even
    :param type: TQ1_0 or TQ2_0
    :param byte_order: of the file that the scale is written for
    :raises ValueError: for rows that are no whole blocks, other values, and a scale that float16 has no number for
    """
    block = _block_type(type)
    count = _blocks(trits.shape, block)
    half = half_scale(scale)
    if trits.size and (int(trits.min()) < -1 or int(trits.max()) > 1):
        raise ValueError(f"trits are -1, 0 and +1; there are {int(trits.min())} to {int(trits.max())}")
    each = trits.reshape(count, BLOCK)
    data = np.empty((count, block.nbytes), dtype=np.uint8)
    for run in block.runs:
        digits = each[:, run.element : run.stop].reshape(count, run.digits, run.width)
        number = np.zeros((count, run.width), dtype=np.uint16)
        for j in range(run.digits):
            number += (digits[:, j] + np.int8(1)).astype(np.uint16) * np.uint16(block.weights[j])
        data[:, run.byte : run.byte + run.width] = block.byte(number)
    scales = np.where(each.any(axis=1), half, np.float16(0)).astype(_half(byte_order))
    data[:, block.scale_at :] = scales.view(np.uint8).reshape(count, 2)
    return data.tobytes()


def unpack_blocks(
    data: Any, shape: Sequence[int], type: str, byte_order: ByteOrder = "little"
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The trits of each element and the scale of each block.

    :param data: the bytes of the tensor, or of whole rows of it, anything with the buffer protocol
    :param shape: of the elements, [..., ne0]
    :param type: TQ1_0 or TQ2_0
    :returns: int8 trits of the shape, float32 scales [blocks]: their own of blocks that hold no weight but 0 too
    :raises ValueError: for rows that are no whole blocks, data of another size, and a TQ2_0 code 3
    """
    block = _block_type(type)
    count = _blocks(shape, block)
    raw = np.frombuffer(data, dtype=np.uint8)
    if raw.size != count * block.nbytes:
        raise ValueError(
            f"{count:,} blocks of {type} take {count * block.nbytes:,} bytes; there are {raw.size:,} bytes"
        )
    each = raw.reshape(count, block.nbytes)
    trits = np.empty((count, BLOCK), dtype=np.int8)
    for run in block.runs:
        coded = np.ascontiguousarray(each[:, run.byte : run.byte + run.width])
        for j in range(run.digits):
            first = run.element + j * run.width
            trits[:, first : first + run.width] = np.take(_TRITS[type][j], coded)
    flat = trits.reshape(-1)
    if flat.size and (wrong := flat > 1).any():
        at, cols = int(wrong.argmax()), shape[-1]
        times = f"{int(np.count_nonzero(wrong)):,} times, first at element {at:,} (row {at // cols:,}, column {at % cols:,})"
        raise ValueError(f"code 3 stands for nothing in {type}; it occurs {times}")
    scales = np.ascontiguousarray(each[:, block.scale_at :]).view(_half(byte_order)).astype(np.float32).reshape(-1)
    return trits.reshape(tuple(shape)), scales


def scales_in_use(trits: NDArray[np.int8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """The different scales of blocks that hold a weight other than 0, sorted; those of the others mean nothing.

    :param trits: of whole blocks
    :param scales: one for each block
    """
    used = trits.reshape(-1, BLOCK).any(axis=1)
    return np.unique(scales[used])


def half_scale(scale: float | np.float32) -> np.float16:
    """A scale as float16, rounded to nearest, ties to even.

    :raises ValueError: for infinities and NaN, and for what becomes one, or becomes 0
    """
    with np.errstate(all="ignore"):
        half = np.float16(scale)
    if not np.isfinite(half) or (half == 0 and scale != 0):
        raise ValueError(f"the scale {float(scale):.9g} has no float16: it would become {float(half)}")
    return half


def _block_type(type: str) -> BlockType:
    if type not in BLOCK_TYPES:
        raise ValueError(f"{type} is none of {', '.join(BLOCK_TYPES)}")
    return BLOCK_TYPES[type]


def _blocks(shape: Sequence[int], block: BlockType) -> int:
    """Blocks of a tensor, whose rows must be whole ones."""
    if not shape or shape[-1] % BLOCK:
        columns = shape[-1] if shape else 1
        raise ValueError(
            f"{block.name} packs rows in blocks of {BLOCK}; rows of {columns:,} elements are no whole blocks"
        )
    return prod(shape) // BLOCK


def _half(byte_order: ByteOrder) -> np.dtype[np.float16]:
    return np.dtype("<f2" if byte_order == "little" else ">f2")
