"""This module says what the bytes of a tensor of a block type are: rows of blocks, and a scale for each group.

>>> tensor = blocks_of((4, 128), "PQ2_0")
>>> tensor.nbytes, tensor.groups
(136, 4)
>>> tensor = blocks_of((4, 128), "IQ2_BN")
>>> tensor.nbytes, tensor.groups
(144, 4)
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.shape import octets
from i2s_spec.errors import counted
from i2s_spec.schema.block_layout import BlockLayout, block_layout
from i2s_spec.schema.checks import ByteOrder, order_prefix

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_FLOATS: Final = {"F16": "f2", "F32": "f4"}


@dataclass(frozen=True, slots=True)
class Blocks:
    """A tensor of `rows` x `cols` elements in a layout."""

    layout: BlockLayout
    rows: int
    cols: int

    @property
    def elements(self) -> int:
        return self.rows * self.cols

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return self.elements // self.layout.block

    @property
    def nbytes(self) -> int:
        return self.layout.type.nbytes((self.cols, self.rows))

    @property
    def groups(self) -> int:
        """How many scales there are."""
        return self.layout.groups(self.rows, self.cols)

    @property
    def group(self) -> int:
        """How many elements share a scale."""
        return self.layout.group_elements(self.cols)

    def rows_of(self, data: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """What is in front of each row, or its scale [rows, bytes], and its blocks [rows, blocks, bytes]; views."""
        if self.layout.scale.apart:
            codes = self.count * self.layout.nbytes
            scales = data[codes : codes + self.groups * self.layout.scale.nbytes]
            return scales.reshape(self.rows, -1), data[:codes].reshape(self.rows, -1, self.layout.nbytes)
        front = self.layout.type.row_bytes
        each = data.reshape(self.rows, -1)
        return each[:, :front], each[:, front:].reshape(self.rows, self.cols // self.layout.block, self.layout.nbytes)

    def scale_bytes(self, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bytes of the scales, [groups, bytes of one], a view."""
        front, blocks = self.rows_of(data)
        scale = self.layout.scale
        place = slice(scale.offset, scale.offset + scale.nbytes)
        return (front if scale.per == "row" else blocks.reshape(self.count, self.layout.nbytes))[:, place]

    def take(self, data: Any) -> NDArray[np.uint8]:
        """The bytes of a buffer, which must be as many as the tensor has.

        :raises ValueError: for another number
        """
        raw = octets(data)
        if raw.size != self.nbytes:
            raise ValueError(
                f"{self.rows:,} x {self.cols:,} elements of {self.layout} take {counted(self.nbytes, 'byte')}; "
                f"there are {counted(raw.size, 'byte')}"
            )
        return raw


def blocks_of(shape: Sequence[int], type: str) -> Blocks:
    """The blocks of a tensor of a shape, in NumPy's order; every row is whole blocks.

    :raises ValueError: for types without blocks, shapes without elements, and rows that are not whole blocks
    """
    layout = block_layout(type)
    sizes = [operator.index(size) for size in shape]
    if not sizes or min(sizes) < 1:
        raise ValueError(f"the shape {tuple(sizes)} holds no elements")
    if sizes[-1] % layout.block:
        raise ValueError(
            f"{layout} packs rows in blocks of {layout.block}; rows of {counted(sizes[-1], 'element')} are not whole blocks"
        )
    return Blocks(layout, prod(sizes[:-1]), sizes[-1])


def scale_dtype(layout: BlockLayout, byte_order: ByteOrder) -> np.dtype[Any]:
    """The float that a scale of the layout is, in a file's byte order."""
    return np.dtype(order_prefix(byte_order) + _FLOATS[layout.scale.type])


def read_scales(data: Any, shape: Sequence[int], type: str, byte_order: ByteOrder = "little") -> NDArray[np.float32]:
    """The scale of each group of a tensor, float32 [groups]; what float16 holds, float32 holds exactly."""
    tensor = blocks_of(shape, type)
    return scales_of(tensor, tensor.take(data), byte_order)


def scales_of(tensor: Blocks, raw: NDArray[np.uint8], byte_order: ByteOrder) -> NDArray[np.float32]:
    """The scale of each group, float32 [groups]."""
    scales = np.ascontiguousarray(tensor.scale_bytes(raw)).view(scale_dtype(tensor.layout, byte_order))
    return scales.reshape(-1).astype(np.float32)


def stored_scales(tensor: Blocks, scales: ArrayLike, byte_order: ByteOrder) -> NDArray[np.uint8]:
    """The bytes of scales as a file holds them, [groups, bytes of one].

    :param scales: one for all groups, or one for each. An array of the float type of the layout is stored bit for bit;
        what is rounded to it goes to the nearest, ties to even
    :raises ValueError: for another number of scales, and where rounding makes an infinity, a NaN, or 0 of what was none
    """
    each = np.broadcast_to(stored_floats(tensor, scales, byte_order), (tensor.groups,))
    return np.ascontiguousarray(each).view(np.uint8).reshape(tensor.groups, each.itemsize)


def stored_floats(tensor: Blocks, scales: ArrayLike, byte_order: ByteOrder) -> NDArray[Any]:
    """Scales as a file holds them, [groups], or [] where one of all groups was given; as `stored_scales`."""
    given = np.asarray(scales)
    if given.shape not in {(), (tensor.groups,)}:
        raise ValueError(
            f"{counted(tensor.groups, 'group has', 'groups have')} one scale, or one each, not an "
            f"array of shape {given.shape}"
        )
    stored = scale_dtype(tensor.layout, byte_order)
    if given.dtype != stored.newbyteorder("="):
        given = rounded_scales(given, tensor.layout)
    return given.astype(stored, copy=False)


def rounded_scales(scales: NDArray[Any], layout: BlockLayout) -> NDArray[Any]:
    """Scales in the float type of a layout, to nearest, ties to even.

    :raises ValueError: for infinities and NaN, and for what becomes one, or becomes 0
    """
    name = layout.scale.type
    with np.errstate(all="ignore"):
        rounded = scales.astype(_FLOATS[name])
    lost = ~np.isfinite(rounded) | ((rounded == 0) & (scales != 0))
    if lost.any():
        at = int(lost.argmax())
        value, becomes = float(scales.reshape(-1)[at]), float(rounded.reshape(-1)[at])
        raise ValueError(f"the scale {value:.9g} has no float{name[1:]}: it would become {becomes}")
    return rounded
