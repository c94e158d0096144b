"""Exact conversion of tensors between I2_S and the types with a scale for each group, and among the latter.

    one scale to one for each group    the scale is rounded to the type's float; the rounding is returned
    a group of 128 to two of 64        the scale twice
    groups to one scale, or to larger  only where the scales that matter are the same; refused otherwise

A scale matters where its group holds a weight that is not 0. Codes are moved, never computed anew: what comes out
stands for the same weights, but for the rounding of one float32 scale to float16.

    >>> import numpy as np
    >>> data = blocks_native.pack(np.array([[1, -1] * 64], dtype=np.int8), 0.5, "PQ2_0")
    >>> converted = convert(data, (1, 128), "PQ2_0", "Q2_0")
    >>> len(converted.data), converted.rounding, blocks_native.read_scales(converted.data, (1, 128), "Q2_0").tolist()
    (36, 0.0, [0.5, 0.5])

`pack_blocks` and `unpack_blocks` do the same for trits:

    >>> data = pack_blocks(np.array([[1, 0, -1, 0] * 64], dtype=np.int8), 0.5, "TQ2_0")
    >>> trits, scales = unpack_blocks(data, (1, 256), "TQ2_0")
    >>> len(data), trits[0, :4].tolist(), scales.tolist()
    (66, [1, 0, -1, 0], [0.5])
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec import blocks_native, native
from i2s_spec.codec.blocks import Blocks, blocks_of, rounded_scales
from i2s_spec.codec.reference import UnusedCodeError
from i2s_spec.codec.shape import place
from i2s_spec.errors import counted
from i2s_spec.schema.blocks import FOURTH_WEIGHT, GROUP_LAYOUTS, block_layout
from i2s_spec.schema.dialect import Dialect
from i2s_spec.schema.faults import ByteOrder

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The type with one scale for the whole tensor.
ONE_SCALE: Final = "I2_S"

#: Every type that can be converted from and to.
CONVERTIBLE: Final = (ONE_SCALE, *GROUP_LAYOUTS)


class ScalesDifferError(ValueError):
    """Groups that one scale would have to stand for have several: `count` of them, from `least` to `most`."""

    def __init__(self, target: str, count: int, least: float, most: float) -> None:
        super().__init__(target, count, least, most)
        self.target, self.count, self.least, self.most = target, count, least, most

    def __str__(self) -> str:
        apart = f", {self.most / self.least:.6g} times as much" if self.least > 0 else ""
        return (
            f"{self.target} has one scale where {self.count:,} different ones are in use, from {self.least:.9g} to "
            f"{self.most:.9g}{apart}: it cannot hold these weights exactly"
        )


class Converted(NamedTuple):
    """The bytes of a tensor in its new type, and the largest relative error that rounding its scales made."""

    data: bytes
    rounding: float


def convert(
    data: Any,
    shape: Sequence[int],
    source: str,
    target: str,
    *,
    dialect: str | Dialect = "canonical",
    byte_order: ByteOrder = "little",
    target_order: ByteOrder | None = None,
    threads: int = 1,
) -> Converted:
    """Return a tensor in another type, with the same weights.

    :param data: the bytes of the tensor, for I2_S with its tail
    :param shape: of the tensor, in NumPy's order
    :param source, target: names of types in `CONVERTIBLE`
    :param dialect: of I2_S, on whichever side it is
    :param byte_order: of the file that the bytes come from; `target_order` of the one that they go to, if it is another
    :raises ScalesDifferError: where the target has fewer scales than the weights need
    :raises ValueError: for a weight +2 that the target has no code for, rows that are not whole blocks of either type, and
        scales that are not numbers, or none in the target's float type
    """
    for name in (source, target):
        if name not in CONVERTIBLE:
            raise ValueError(f"{name} cannot be converted exactly; there are {', '.join(CONVERTIBLE)}")
    if source == ONE_SCALE:
        values, one = native.unpack(data, shape, dialect, byte_order=byte_order, threads=threads)
        scales, group = np.array([one], dtype=np.float32), values.size
    else:
        values, scales = blocks_native.unpack(data, shape, source, byte_order=byte_order, threads=threads)
        group = blocks_of(shape, source).group
    if target == ONE_SCALE:
        _require_no_fourth(values, target)
        needed = change_group_size(values, scales, group, values.size, target)
        packed = native.pack(values, needed[0], dialect, byte_order=target_order or byte_order, threads=threads)
        return Converted(packed, 0.0)
    tensor = blocks_of(shape, target)
    needed = scales_for(values, scales, group, tensor)
    if source == ONE_SCALE:  # as ggml's quantizers have it: a group of zeros has the scale 0
        needed = np.where(values.reshape(-1, tensor.group).any(axis=1), needed, np.float32(0))
    stored = rounded_scales(needed, tensor.layout)
    packed = blocks_native.pack(values, stored, target, byte_order=target_order or byte_order, threads=threads)
    return Converted(packed, rounding_of(needed, stored))


def scales_for(
    values: NDArray[np.int8], scales: NDArray[np.float32], group: int, target: Blocks
) -> NDArray[np.float32]:
    """Return the scales that weights need in a block type, float32 [groups]; parameters as of `change_group_size`.

    :raises ValueError: for a weight +2 that the type has no code for, and as `change_group_size` does
    """
    if not target.layout.fourth:
        _require_no_fourth(values, str(target.layout))
    return change_group_size(values, scales, group, target.group, str(target.layout))


def change_group_size(
    values: NDArray[np.int8], scales: NDArray[np.float32], group: int, target: int, name: str
) -> NDArray[np.float32]:
    """Return the scales of groups of another size.

    :param values: the weights without their scales
    :param scales: one for each `group` elements; `target` elements are to share one
    :param name: of the type that they are for, for the message
    :returns: float32 [elements // target]; of a group of zeros its own scale, or 0 if it has several
    :raises ScalesDifferError: where a group would need several
    """
    if not np.isfinite(scales).all():
        raise ValueError(
            f"{counted(int(np.count_nonzero(~np.isfinite(scales))), 'scale is', 'scales are')} infinite or NaN"
        )
    if group % target == 0:
        return np.repeat(scales, group // target)
    if target % group:
        raise ValueError(f"groups of {counted(group, 'element')} do not make groups of {target:,}")
    used = values.reshape(-1, group).any(axis=1).reshape(-1, target // group)
    each = scales.reshape(used.shape)
    least = np.where(used, each, np.inf).min(axis=1)
    most = np.where(used, each, -np.inf).max(axis=1)
    differ = used.any(axis=1) & (least != most)
    if differ.any():
        found = np.unique(each[used])
        raise ScalesDifferError(name, found.size, float(found.min()), float(found.max()))
    same = each.min(axis=1) == each.max(axis=1)
    return np.where(used.any(axis=1), most, np.where(same, each[:, 0], 0)).astype(np.float32)


def rounding_of(scales: NDArray[np.float32], stored: NDArray[Any]) -> float:
    """Return the largest relative error between scales and what is stored for them; 0 where nothing was rounded."""
    exact, retained = scales.astype(np.float64), stored.astype(np.float64)
    apart = np.abs(retained - exact)
    with np.errstate(all="ignore"):
        relative = np.where(apart == 0, 0, apart / np.abs(exact))
    return float(relative.max(initial=0.0))


def _require_no_fourth(values: NDArray[np.int8], target: str) -> None:
    found = values.reshape(-1) == FOURTH_WEIGHT
    if found.any():
        cols = values.shape[-1]
        raise ValueError(
            f"{target} has no code for {FOURTH_WEIGHT:+d} times the scale, which {int(np.count_nonzero(found)):,} of "
            f"{counted(prod(values.shape), 'weight is', 'weights are')}, the first {place(int(found.argmax()), cols)}"
        )


# --- ternary types ---------------------------------------------------------------------------------------------------
# Trits with one scale for all, packed into types that have one for each group, and taken apart again.
#
# The types and their bytes are those of `schema.blocks`; `blocks` packs any values with any scales. Here every value is
# a trit. As ggml's quantizers do, a group without weights gets the scale 0.

#: Every type with a scale for each group, by name.
BLOCK_TYPES: Final = GROUP_LAYOUTS


class NotTernaryError(ValueError):
    """Weights that are not -s, 0 and +s with one s for all of them."""


def pack_blocks(
    trits: NDArray[np.int8], scale: float | np.float32, type: str, byte_order: ByteOrder = "little"
) -> bytes:
    """Return the bytes of trits with one scale for all.

    :param trits: -1, 0 and +1, int8 [..., ne0]; ne0 is a multiple of the type's block
    :param scale: what +1 stands for; stored in the type's float, rounded to nearest, ties to even
    :param type: the name of a type of `schema.blocks`
    :param byte_order: of the file that the scale is written for
    :raises ValueError: for rows that are not whole blocks, other values, and a scale that the float has no number for
    """
    tensor = blocks_of(trits.shape, type)
    stored = stored_scale(scale, type)
    if trits.size and (int(trits.min()) < -1 or int(trits.max()) > 1):
        raise ValueError(f"trits are -1, 0 and +1; there are {int(trits.min())} to {int(trits.max())}")
    scales = np.where(trits.reshape(-1, tensor.group).any(axis=1), stored, stored.dtype.type(0))
    data: bytes = blocks_native.pack(trits, scales, type, byte_order=byte_order)
    return data


def unpack_blocks(
    data: Any, shape: Sequence[int], type: str, byte_order: ByteOrder = "little"
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return the trits of each element and the scale of each group.

    :param data: the bytes of the tensor, or of whole rows of it, anything with the buffer protocol
    :param shape: of the elements, [..., ne0]
    :param type: the name of a type of `schema.blocks`
    :returns: int8 trits of the shape, float32 scales [groups]: their own of groups that hold no weight but 0 too
    :raises ValueError: for rows that are not whole blocks, and data of another size
    :raises UnusedCodeError: for code 3 where it is reserved
    :raises NotTernaryError: for code 3 where it is the weight +2
    """
    try:
        return blocks_native.unpack(data, shape, type, byte_order=byte_order, unused_code="reject")
    except UnusedCodeError as error:
        if block_layout(type).fourth == "reserved":
            raise
        raise NotTernaryError(
            f"the weights are not ternary: {error.count:,} of them are {FOURTH_WEIGHT:+d} times the scale, which {type} has "
            "a code for"
        ) from None


def scales_in_use(trits: NDArray[np.int8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the different scales of groups that hold a weight other than 0, sorted; those of the others mean nothing.

    :param trits: of whole groups
    :param scales: one for each group
    """
    used = trits.reshape(scales.size, -1).any(axis=1)
    return np.array(sorted(set(scales[used].tolist())), dtype=np.float32)


def stored_scale(scale: float | np.float32, type: str) -> Any:
    """Return a scale in the float that a type stores, rounded to nearest, ties to even: a NumPy scalar.

    :raises ValueError: for infinities and NaN, and for what becomes one, or becomes 0
    """
    return rounded_scales(np.asarray(scale, dtype=np.float32), block_layout(type))[()]


def half_scale(scale: float | np.float32) -> np.float16:
    """Return a scale as float16, as `stored_scale` has it."""
    half: np.float16 = stored_scale(scale, "TQ2_0")
    return half
