"""This module defines what a survey sees of the groups of a payload, from the formulas of the layout: codes that are
reserved, bytes that no packer writes, and scales that are odd. It is the slow twin of the compiled survey.

    >>> from i2s_spec.codec.blocks.block_reference import pack
    >>> import numpy as np
    >>> data = pack(np.array([[1, 0, -1, 2] * 16], dtype=np.int8), 0.5, "Q2_0")
    >>> seen = observe_groups(data, "Q2_0", 64)
    >>> seen.odd, seen.first_odd, seen.scales, seen.octaves[14]
    (16, 2, 1, 1)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec.blocks.kernel_kinds import group_bytes
from i2s_spec.codec.payload_facts import OCTAVES, Groups
from i2s_spec.schema.block_layout import DIGITS_PER_BYTE, FOURTH_CODE, BlockLayout, block_layout
from i2s_spec.schema.checks import ByteOrder, order_prefix

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The exponent of a float32 that is the exponent 0 of a float16.
_LOWEST = 127 - 15
_ZERO_CODE = 1


def observe_groups(data: Any, type: str, cols: int, pos: int = 0, byte_order: ByteOrder = "little") -> Groups:
    """Look at a stretch of a payload.

    :param data: its bytes, anything with the buffer protocol
    :param type: the name of a type of `block_layout`
    :param cols: elements of a row
    :param pos: where in the payload the stretch begins; of groups that are cut only the codes are looked at
    :param byte_order: of the file
    """
    layout, raw = block_layout(type), np.frombuffer(data, dtype=np.uint8)
    unit = group_bytes(layout, cols)
    odd_by, some_by = _tables(layout, cols)
    columns = np.arange(pos, pos + raw.size) % unit
    odd = odd_by[columns, raw]
    first_odd = pos + int((odd > 0).argmax()) if odd.any() else -1
    first = -(-pos // unit)
    count = max(0, (pos + raw.size) // unit - first)
    start = first * unit - pos
    groups = raw[start : start + count * unit].reshape(count, unit)
    some: NDArray[np.bool_] = np.asarray(some_by[np.arange(unit), groups].any(axis=1))
    offset, width = layout.scale.offset, layout.scale.nbytes
    scales = np.ascontiguousarray(groups[:, offset : offset + width])
    return _observed(int(odd.sum()), first_odd, scales, some, first, byte_order)


def observe_row_scales(odd: int, first_odd: int, scales: Iterable[bytes], byte_order: ByteOrder = "little") -> Groups:
    """What is in a tensor of I2_SR: its codes were looked at, its scales are given, and which of them matter is not asked.

    :param odd: how many codes are 3, and in which byte of the payload the first is
    :param scales: the bytes of the scales of all rows, in parts
    :param byte_order: of the file
    """
    found = Groups(odd, first_odd, 0, 0, -1, 0, -1, 0, -1, 0, -1, (0,) * OCTAVES)
    for part in scales:
        raw = np.frombuffer(part, dtype=np.uint8).reshape(-1, 4)
        new = _observed(0, -1, raw, np.zeros(len(raw), dtype=bool), found.scales, byte_order)
        larger = new if new.largest > found.largest else found
        found = found._replace(
            scales=found.scales + new.scales,
            infinite=found.infinite + new.infinite,
            first_infinite=found.first_infinite if found.infinite else new.first_infinite,
            negative=found.negative + new.negative,
            first_negative=found.first_negative if found.negative else new.first_negative,
            largest=larger.largest,
            first_largest=larger.first_largest,
            octaves=tuple(map(sum, zip(found.octaves, new.octaves, strict=True))),
        )
    return found


def _observed(
    odd: int, first_odd: int, scales: NDArray[np.uint8], some: NDArray[np.bool_], first: int, byte_order: ByteOrder
) -> Groups:
    """What is seen in scales.

    :param scales: their bytes, [groups, bytes of one]
    :param some: whether a group has a code that is not that of 0
    :param first: the number of the first group
    """
    count, width = scales.shape
    held = scales.view(f"{order_prefix(byte_order)}u{width}").reshape(-1).astype(np.int64)
    sign = 1 << 8 * width - 1
    size, infinity = held & sign - 1, 0x7F800000 if width == 4 else 0x7C00
    finite = size < infinity
    sound = finite & (size > 0)
    octave = (size >> 23) - _LOWEST if width == 4 else size >> 10
    octaves = np.bincount(np.clip(octave[sound], 0, OCTAVES - 1), minlength=OCTAVES)
    largest = int(size[sound].max(initial=0))
    return Groups(
        odd, first_odd, count,
        *_count(~finite, first), *_count(sound & (held >= sign), first), *_count((size == 0) & some, first),
        largest, first + int((size == largest).argmax()) if largest else -1, tuple(int(each) for each in octaves),
    )  # fmt: skip


def _count(found: NDArray[np.bool_], first: int) -> tuple[int, int]:
    """How many groups there are, and the number of the first."""
    return int(np.count_nonzero(found)), first + int(found.argmax()) if found.any() else -1


@cache
def _tables(layout: BlockLayout, cols: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For every byte of a group and every value of it: how many odd codes it has, or whether it is odd itself; and whether
    it has a code that is not that of 0."""
    unit = group_bytes(layout, cols)
    places: list[list[int]] = [[] for _ in range(layout.nbytes)]
    for k in range(layout.block):
        at, place = layout.find(k)
        places[at].append(place)
    odd, some = np.zeros((unit, 256), dtype=np.int64), np.zeros((unit, 256), dtype=bool)
    front = layout.type.row_bytes
    for column in range(front, unit):
        where = places[(column - front) % layout.nbytes]
        codes = np.array([_codes(value, where, layout) for value in range(256)]).reshape(256, -1)
        some[column] = (codes != _ZERO_CODE).any(axis=1)
        if layout.coding == "bits":
            odd[column] = np.count_nonzero(codes == FOURTH_CODE, axis=1)
        elif where:
            odd[column] = [value != _written(value, where) for value in range(256)]
    return odd, some


def _codes(value: int, where: list[int], layout: BlockLayout) -> list[int]:
    if layout.coding == "bits":
        return [value >> place & 3 for place in where]
    return [value * 3**place % 256 * 3 >> 8 for place in where]


def _written(value: int, where: list[int]) -> int:
    """What a packer writes for the digits that a byte stands for; those that are not in use are 0."""
    number: int = sum((value * 3**place % 256 * 3 >> 8) * 3 ** (DIGITS_PER_BYTE - 1 - place) for place in where)
    return -(-number * 256 // 243)
