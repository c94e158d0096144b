"""This module packs trits with one scale for all into types that have one for each group, and takes them apart again.

The types and their bytes are those of `block_layout`; `blocks` packs any values with any scales. Here every value is a
trit. As ggml's quantizers do, a group without weights gets the scale 0.

    >>> data = pack_blocks(np.array([[1, 0, -1, 0] * 64], dtype=np.int8), 0.5, "TQ2_0")
    >>> trits, scales = unpack_blocks(data, (1, 256), "TQ2_0")
    >>> len(data), trits[0, :4].tolist(), scales.tolist()
    (66, [1, 0, -1, 0], [0.5])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.blocks.block_reference import unused_code_error
from i2s_spec.codec.blocks.block_shape import blocks_of, rounded_scales
from i2s_spec.schema.block_layout import FOURTH_WEIGHT, GROUP_LAYOUTS, block_layout
from i2s_spec.schema.checks import ByteOrder

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Every type with a scale for each group, by name.
BLOCK_TYPES: Final = GROUP_LAYOUTS


class NotTernaryError(ValueError):
    """Weights that are not -s, 0 and +s with one s for all of them."""


def pack_blocks(
    trits: NDArray[np.int8], scale: float | np.float32, type: str, byte_order: ByteOrder = "little"
) -> bytes:
    """The bytes of trits with one scale for all.

    :param trits: -1, 0 and +1, int8 [..., ne0]; ne0 is a multiple of the type's block
    :param scale: what +1 stands for; stored in the type's float, rounded to nearest, ties to even
    :param type: the name of a type of `block_layout`
    :param byte_order: of the file that the scale is written for
    :raises ValueError: for rows that are not whole blocks, other values, and a scale that the float has no number for
    """
    tensor = blocks_of(trits.shape, type)
    stored = stored_scale(scale, type)
    if trits.size and (int(trits.min()) < -1 or int(trits.max()) > 1):
        raise ValueError(f"trits are -1, 0 and +1; there are {int(trits.min())} to {int(trits.max())}")
    scales = np.where(trits.reshape(-1, tensor.group).any(axis=1), stored, stored.dtype.type(0))
    data: bytes = block_native.pack(trits, scales, type, byte_order=byte_order)
    return data


def unpack_blocks(
    data: Any, shape: Sequence[int], type: str, byte_order: ByteOrder = "little"
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The trits of each element and the scale of each group.

    :param data: the bytes of the tensor, or of whole rows of it, anything with the buffer protocol
    :param shape: of the elements, [..., ne0]
    :param type: the name of a type of `block_layout`
    :returns: int8 trits of the shape, float32 scales [groups]: their own of groups that hold no weight but 0 too
    :raises ValueError: for rows that are not whole blocks, and data of another size
    :raises UnusedCodeError: for code 3 where it is reserved
    :raises NotTernaryError: for code 3 where it is the weight +2
    """
    values, scales = block_native.unpack(data, shape, type, byte_order=byte_order, unused_code="plus-two")
    layout = block_layout(type)
    if layout.fourth and (found := values.reshape(-1) == FOURTH_WEIGHT).any():
        error = unused_code_error(blocks_of(shape, type), int(np.count_nonzero(found)), int(found.argmax()))
        if layout.fourth == "reserved":
            raise error
        raise NotTernaryError(
            f"the weights are not ternary: {error.count:,} of them are {FOURTH_WEIGHT:+d} times the scale, which {type} has "
            "a code for"
        )
    return values, scales


def scales_in_use(trits: NDArray[np.int8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """The different scales of groups that hold a weight other than 0, sorted; those of the others mean nothing.

    :param trits: of whole groups
    :param scales: one for each group
    """
    used = trits.reshape(scales.size, -1).any(axis=1)
    return np.unique(scales[used])


def stored_scale(scale: float | np.float32, type: str) -> Any:
    """A scale in the float that a type stores, rounded to nearest, ties to even: a NumPy scalar.

    :raises ValueError: for infinities and NaN, and for what becomes one, or becomes 0
    """
    return rounded_scales(np.asarray(scale, dtype=np.float32), block_layout(type))[()]


def half_scale(scale: float | np.float32) -> np.float16:
    """A scale as float16, as `stored_scale` has it."""
    half: np.float16 = stored_scale(scale, "TQ2_0")
    return half
