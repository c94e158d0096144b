"""This module converts tensors exactly between I2_S and the types with a scale for each group, and among the latter.

    one scale to one for each group    the scale is rounded to the type's float, and by how much is said
    a group of 128 to two of 64        the scale twice
    groups to one scale, or to larger  only where the scales that matter are the same; refused otherwise

A scale matters where its group holds a weight that is not 0. Codes are moved, never computed anew: what comes out stands
for the same weights, but for the rounding of one float32 scale to float16.

    >>> import numpy as np
    >>> data = block_native.pack(np.array([[1, -1] * 64], dtype=np.int8), 0.5, "PQ2_0")
    >>> converted = convert(data, (1, 128), "PQ2_0", "Q2_0")
    >>> len(converted.data), converted.rounding, block_native.read_scales(converted.data, (1, 128), "Q2_0").tolist()
    (36, 0.0, [0.5, 0.5])
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec import native
from i2s_spec.codec.blocks import block_native
from i2s_spec.codec.blocks.block_shape import blocks_of, rounded_scales
from i2s_spec.codec.shape import place
from i2s_spec.errors import counted
from i2s_spec.schema.block_layout import FOURTH_WEIGHT, GROUP_LAYOUTS, block_layout
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.dialect import Dialect

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
    """A tensor in another type, with the same weights.

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
        values, scales = block_native.unpack(data, shape, source, byte_order=byte_order, threads=threads)
        group = blocks_of(shape, source).group
    if target == ONE_SCALE:
        _require_no_fourth(values, target)
        needed = regroup(values, scales, group, values.size, target)
        packed = native.pack(values, needed[0], dialect, byte_order=target_order or byte_order, threads=threads)
        return Converted(packed, 0.0)
    layout = block_layout(target)
    if not layout.fourth:
        _require_no_fourth(values, target)
    tensor = blocks_of(shape, target)
    needed = regroup(values, scales, group, tensor.group, target)
    if source == ONE_SCALE:  # as ggml's quantizers have it: a group of zeros has the scale 0
        needed = np.where(values.reshape(-1, tensor.group).any(axis=1), needed, np.float32(0))
    stored = rounded_scales(needed, layout)
    packed = block_native.pack(values, stored, target, byte_order=target_order or byte_order, threads=threads)
    return Converted(packed, rounding_of(needed, stored))


def regroup(
    values: NDArray[np.int8], scales: NDArray[np.float32], group: int, target: int, name: str
) -> NDArray[np.float32]:
    """The scales of groups of another size.

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
    """The largest relative error between scales and what is stored for them; 0 where nothing was rounded."""
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
