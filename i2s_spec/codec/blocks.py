"""The definition of the block types: what the bytes of rows of blocks, with a scale for each group, mean.

`blocks_of` gives the shape of a tensor in blocks:

    >>> tensor = blocks_of((4, 128), "PQ2_0")
    >>> tensor.nbytes, tensor.groups
    (136, 4)
    >>> tensor = blocks_of((4, 128), "IQ2_BN")
    >>> tensor.nbytes, tensor.groups
    (144, 4)

`pack`, `unpack`, `dequantize`, `histogram` and `scan` follow from the formulas of `schema.blocks` alone:

    >>> import numpy as np
    >>> data = pack(np.array([[1, 0, -1, 2] * 16], dtype=np.int8), 0.5, "Q2_0")
    >>> len(data), dequantize(data, (1, 64), "Q2_0")[0, :4].tolist()
    (18, [0.5, 0.0, -0.5, 1.0])

`observe_groups` says what a survey sees of the groups:

    >>> from i2s_spec.codec.blocks import pack
    >>> import numpy as np
    >>> data = pack(np.array([[1, 0, -1, 2] * 16], dtype=np.int8), 0.5, "Q2_0")
    >>> seen = observe_groups(data, "Q2_0", 64)
    >>> seen.odd, seen.first_odd, seen.scales, seen.octaves[14]
    (16, 2, 1, 1)

This is the definition, not the fast path, which is `blocks_native`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.observation import OCTAVES, Groups
from i2s_spec.codec.reference import Scan, UnusedCode, UnusedCodeError
from i2s_spec.codec.shape import WINDOW, octets, place
from i2s_spec.errors import counted
from i2s_spec.schema.blocks import DIGITS_PER_BYTE, FOURTH_CODE, FOURTH_WEIGHT, BlockLayout, block_layout
from i2s_spec.schema.faults import ByteOrder, order_prefix

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_FLOATS: Final = {"F16": "f2", "F32": "f4"}


@dataclass(frozen=True)
class Blocks:
    """A tensor of `rows` x `cols` elements in a layout."""

    layout: BlockLayout
    rows: int
    cols: int

    @cached_property
    def elements(self) -> int:
        return self.rows * self.cols

    @cached_property
    def count(self) -> int:
        """How many blocks there are."""
        return self.elements // self.layout.block

    @cached_property
    def nbytes(self) -> int:
        return self.layout.type.nbytes((self.cols, self.rows))

    @cached_property
    def groups(self) -> int:
        """How many scales there are."""
        return self.layout.groups(self.rows, self.cols)

    @cached_property
    def group(self) -> int:
        """How many elements share a scale."""
        return self.layout.group_elements(self.cols)

    def rows_of(self, data: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Split rows into what is in front of each, or its scale [rows, bytes], and blocks [rows, blocks, bytes]; views."""
        if self.layout.scale.apart:
            codes = self.count * self.layout.nbytes
            scales = data[codes : codes + self.groups * self.layout.scale.nbytes]
            return scales.reshape(self.rows, -1), data[:codes].reshape(self.rows, -1, self.layout.nbytes)
        front = self.layout.type.row_bytes
        each = data.reshape(self.rows, -1)
        return each[:, :front], each[:, front:].reshape(self.rows, self.cols // self.layout.block, self.layout.nbytes)

    def scale_bytes(self, data: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the bytes of the scales, [groups, bytes of one], a view."""
        front, blocks = self.rows_of(data)
        scale = self.layout.scale
        place = slice(scale.offset, scale.offset + scale.nbytes)
        return (front if scale.per == "row" else blocks.reshape(self.count, self.layout.nbytes))[:, place]

    def take(self, data: Any) -> NDArray[np.uint8]:
        """Return the bytes of a buffer, which must be as many as the tensor has.

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
    """Return the blocks of a tensor of a shape, in NumPy's order; every row is whole blocks.

    :raises ValueError: for types without blocks, shapes without elements, and rows that are not whole blocks
    """
    return _blocks_of(tuple(map(operator.index, shape)), type)


@lru_cache(maxsize=256)
def _blocks_of(sizes: tuple[int, ...], type: str) -> Blocks:
    """Return the blocks of tensors of one form, which are many in some files."""
    layout = block_layout(type)
    if not sizes or min(sizes) < 1:
        raise ValueError(f"the shape {sizes} holds no elements")
    if sizes[-1] % layout.block:
        raise ValueError(
            f"{layout} packs rows in blocks of {layout.block}; rows of {counted(sizes[-1], 'element')} are not whole blocks"
        )
    return Blocks(layout, prod(sizes[:-1]), sizes[-1])


def scale_dtype(layout: BlockLayout, byte_order: ByteOrder) -> np.dtype[Any]:
    """Return the float that a scale of the layout is, in a file's byte order."""
    return np.dtype(order_prefix(byte_order) + _FLOATS[layout.scale.type])


def read_scales(data: Any, shape: Sequence[int], type: str, byte_order: ByteOrder = "little") -> NDArray[np.float32]:
    """Return the scale of each group of a tensor, float32 [groups]; what float16 holds, float32 holds exactly."""
    tensor = blocks_of(shape, type)
    return scales_of(tensor, tensor.take(data), byte_order)


def scales_of(tensor: Blocks, raw: NDArray[np.uint8], byte_order: ByteOrder) -> NDArray[np.float32]:
    """Return the scale of each group, float32 [groups]."""
    scales = np.ascontiguousarray(tensor.scale_bytes(raw)).view(scale_dtype(tensor.layout, byte_order))
    return scales.reshape(-1).astype(np.float32)


def stored_scales(tensor: Blocks, scales: ArrayLike, byte_order: ByteOrder) -> NDArray[np.uint8]:
    """Return the bytes of scales as a file holds them, [groups, bytes of one].

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
    if rounded.all() and np.isfinite(rounded).all():
        return rounded
    lost = ~np.isfinite(rounded) | ((rounded == 0) & (scales != 0))
    if lost.any():
        at = int(lost.argmax())
        value, becomes = float(scales.reshape(-1)[at]), float(rounded.reshape(-1)[at])
        raise ValueError(f"the scale {value:.9g} has no float{name[1:]}: it would become {becomes}")
    return rounded


# --- block reference -------------------------------------------------------------------------------------------------
# Elements are worked through in windows of whole rows or blocks, so that few megabytes are in use beside input and
# output.

_WORDS: Final = {"reject": "reject", "zero": "zero", "plus-two": "plus-two"}


def pack(values: ArrayLike, scales: ArrayLike, type: str, *, byte_order: ByteOrder = "little") -> bytes:
    """Return the bytes of a tensor.

    :param values: integers -1, 0 and +1, and +2 where the type has a code for it, [..., ne0]
    :param scales: what +1 stands for: one for all groups, or one for each; as `blocks.stored_scales` says
    :param type: the name of a type of `schema.blocks`
    :param byte_order: of the file that the scales are written for
    :raises TypeError: if `values` are not integers
    :raises ValueError: for other values, rows that are not whole blocks, and scales that the type has no number for
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"weights without their scale are integers -1, 0 and +1, not {array.dtype}")
    tensor = blocks_of(array.shape, type)
    require_values(array, tensor)
    raw = np.zeros(tensor.nbytes, dtype=np.uint8)
    _, blocks = tensor.rows_of(raw)
    each = array.reshape(tensor.rows, -1, tensor.layout.block)
    for rows, columns in _windows(tensor):
        blocks[rows, columns] = blocks_of_codes(each[rows, columns].astype(np.int16) + 1, tensor.layout)
    tensor.scale_bytes(raw)[...] = stored_scales(tensor, scales, byte_order)
    return raw.tobytes()


def unpack(
    data: Any,
    shape: Sequence[int],
    type: str,
    *,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode | None = None,
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return the weights without their scales, and the scale of each group.

    :param data: the bytes of a tensor, anything with the buffer protocol
    :param shape: of the tensor, in NumPy's order
    :param type: the name of a type of `schema.blocks`
    :param byte_order: of the file that the bytes come from; concerns the scales only
    :param unused_code: what code 3 becomes: `plus-two`, `zero`, or `reject` (an error). None is `plus-two` for a type
        in which it is a weight, and `reject` where it is reserved
    :returns: int8 of the shape, -1, 0, +1 and +2; float32 [groups]
    :raises ValueError: for rows that are not whole blocks, and data of another size
    :raises UnusedCodeError: for code 3 where it is rejected
    """
    tensor = blocks_of(shape, type)
    raw = tensor.take(data)
    answer = unused_code_answer(tensor.layout, unused_code)
    values = np.empty((tensor.rows, tensor.cols // tensor.layout.block, tensor.layout.block), dtype=np.int8)
    _, blocks = tensor.rows_of(raw)
    for rows, columns in _windows(tensor):
        values[rows, columns] = (codes_of_blocks(blocks[rows, columns], tensor.layout) - 1).astype(np.int8)
    flat = values.reshape(-1)
    if answer != "plus-two" and (found := flat == FOURTH_WEIGHT).any():
        if answer == "reject":
            raise unused_code_error(tensor, int(np.count_nonzero(found)), int(found.argmax()))
        flat[found] = 0
    return values.reshape(tuple(shape)), scales_of(tensor, raw, byte_order)


def dequantize(
    data: Any,
    shape: Sequence[int],
    type: str,
    *,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode | None = None,
) -> NDArray[np.float32]:
    """Return the weights of a tensor: each its code minus 1, times the scale of its group, one multiplication of
    float32.

    The parameters and errors are those of `unpack`.
    """
    values, scales = unpack(data, shape, type, byte_order=byte_order, unused_code=unused_code)
    with np.errstate(all="ignore"):  # an infinity or NaN for a scale gives what IEEE 754 says
        weights = values.reshape(scales.size, -1).astype(np.float32) * scales[:, None]
    return weights.reshape(tuple(shape))


def histogram(data: Any, shape: Sequence[int], type: str) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs."""
    tensor = blocks_of(shape, type)
    _, blocks = tensor.rows_of(tensor.take(data))
    counts = np.zeros(4, dtype=np.int64)
    for rows, columns in _windows(tensor):
        counts += np.bincount(codes_of_blocks(blocks[rows, columns], tensor.layout).reshape(-1), minlength=4)
    zero, one, two, three = (int(count) for count in counts)
    return zero, one, two, three


def scan(data: Any, shape: Sequence[int], type: str) -> Scan:
    """How often code 3 occurs, and at which flat element first."""
    values, _ = unpack(data, shape, type, unused_code="plus-two")
    found = values.reshape(-1) == FOURTH_WEIGHT
    count = int(np.count_nonzero(found))
    return Scan(count, int(found.argmax()) if count else None)


# What the fast path asks too.


def unused_code_answer(layout: BlockLayout, unused_code: UnusedCode | None) -> UnusedCode:
    """Return what code 3 becomes: what a caller asks for, or what the type says.

    :raises ValueError: for an answer that there is not
    """
    if unused_code is None:
        return "reject" if layout.fourth == "reserved" else "plus-two"
    if unused_code not in _WORDS:
        raise ValueError(f"code 3 can become {', '.join(_WORDS)}, not {unused_code!r}")
    return unused_code


def unused_code_error(tensor: Blocks, count: int, first: int) -> UnusedCodeError:
    """Return the error for code 3 where it is rejected."""
    return UnusedCodeError(FOURTH_CODE, str(tensor.layout), count, first, tensor.cols)


def require_values(array: NDArray[Any], tensor: Blocks) -> None:
    """Refuse values that a layout has no code for.

    :raises ValueError: with the first one, and where it is
    """
    most = FOURTH_WEIGHT if tensor.layout.fourth else 1
    wrong = (array.reshape(-1) < -1) | (array.reshape(-1) > most)
    if wrong.any():
        first = int(wrong.argmax())
        raise ValueError(
            f"{tensor.layout} has codes for {', '.join(f'{value:+d}' if value else '0' for value in range(-1, most + 1))}; "
            f"{int(array.reshape(-1)[first])} is {place(first, tensor.cols)}"
        )


# The formulas, applied.


@cache
def _places(layout: BlockLayout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the byte and the place of each element of a block."""
    found = np.array([layout.find(k) for k in range(layout.block)], dtype=np.int64)
    return found[:, 0], found[:, 1]


def codes_of_blocks(blocks: NDArray[np.uint8], layout: BlockLayout) -> NDArray[np.int16]:
    """Return the code of each element of blocks [..., bytes], int16 [..., elements]."""
    at, where = _places(layout)
    held = blocks[..., at].astype(np.int32)
    if layout.coding == "bits":
        return (held >> where & 3).astype(np.int16)
    return (held * 3**where % 256 * 3 >> 8).astype(np.int16)


def blocks_of_codes(codes: NDArray[np.int16], layout: BlockLayout) -> NDArray[np.uint8]:
    """Return the bytes of blocks from the codes of their elements; 0 where a scale will be."""
    at, where = _places(layout)
    number = np.zeros((*codes.shape[:-1], layout.nbytes), dtype=np.int32)
    step = 1 << where if layout.coding == "bits" else 3 ** (DIGITS_PER_BYTE - 1 - where)
    for k in range(layout.block):
        number[..., at[k]] += codes[..., k] * step[k]
    if layout.coding == "digits":
        number = (number * 256 + 242) // 243
    return number.astype(np.uint8)


def _windows(tensor: Blocks) -> Iterator[tuple[slice, slice]]:
    """Ranges of rows, and of blocks in them, of about a window of elements each."""
    columns = tensor.cols // tensor.layout.block
    if tensor.cols <= WINDOW:
        step = max(1, WINDOW // tensor.cols)
        for row in range(0, tensor.rows, step):
            yield slice(row, row + step), slice(None)
        return
    step = WINDOW // tensor.layout.block
    for row in range(tensor.rows):
        for column in range(0, columns, step):
            yield slice(row, row + 1), slice(column, column + step)


# --- group observation -----------------------------------------------------------------------------------------------
# What a survey sees of the groups of a payload: codes that are reserved, bytes that no packer writes, and scales that
# are odd. It is the slow twin of the compiled survey.

#: The exponent of a float32 that is the exponent 0 of a float16.
_LOWEST = 127 - 15
_ZERO_CODE = 1


def observe_groups(data: Any, type: str, cols: int, pos: int = 0, byte_order: ByteOrder = "little") -> Groups:
    """Observe a stretch of a payload.

    :param data: its bytes, anything with the buffer protocol
    :param type: the name of a type of `schema.blocks`
    :param cols: elements of a row
    :param pos: where in the payload the stretch begins; of groups that are cut only the codes are examined
    :param byte_order: of the file
    """
    layout, raw = block_layout(type), np.frombuffer(data, dtype=np.uint8)
    unit = layout.group_bytes(cols)
    odd_by, some_by = tables_of_bytes(layout, cols)
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
    return observe_scales(int(odd.sum()), first_odd, scales, some, first, byte_order)


def observe_row_scales(odd: int, first_odd: int, scales: Iterable[bytes], byte_order: ByteOrder = "little") -> Groups:
    """Observe a tensor of I2_SR by its scales; its codes were examined before, and all scales count.

    :param odd: how many codes are 3, and in which byte of the payload the first is
    :param scales: the bytes of the scales of all rows, in parts
    :param byte_order: of the file
    """
    found = Groups(odd, first_odd, 0, 0, -1, 0, -1, 0, -1, 0, -1, (0,) * OCTAVES)
    for part in scales:
        raw = np.frombuffer(part, dtype=np.uint8).reshape(-1, 4)
        new = observe_scales(0, -1, raw, np.zeros(len(raw), dtype=bool), found.scales, byte_order)
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


def observe_scales(
    odd: int, first_odd: int, scales: NDArray[np.uint8], some: NDArray[np.bool_], first: int, byte_order: ByteOrder
) -> Groups:
    """Summarize scales.

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
def tables_of_bytes(layout: BlockLayout, cols: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For every byte of a group and every value of it: how many odd codes it has, or whether it is odd itself; and whether
    it has a code that is not that of 0."""
    unit = layout.group_bytes(cols)
    places: list[list[int]] = [[] for _ in range(layout.nbytes)]
    for k in range(layout.block):
        at, place = layout.find(k)
        places[at].append(place)
    odd, some = np.zeros((unit, 256), dtype=np.int64), np.zeros((unit, 256), dtype=bool)
    front = layout.type.row_bytes
    for column in range(front, unit):
        where = places[(column - front) % layout.nbytes]
        codes = np.array([_codes_of_byte(value, where, layout) for value in range(256)]).reshape(256, -1)
        some[column] = (codes != _ZERO_CODE).any(axis=1)
        if layout.coding == "bits":
            odd[column] = np.count_nonzero(codes == FOURTH_CODE, axis=1)
        elif where:
            odd[column] = [value != _written(value, where) for value in range(256)]
    return odd, some


def _codes_of_byte(value: int, where: list[int], layout: BlockLayout) -> list[int]:
    if layout.coding == "bits":
        return [value >> place & 3 for place in where]
    return [value * 3**place % 256 * 3 >> 8 for place in where]


def _written(value: int, where: list[int]) -> int:
    """Return the byte that a packer writes for the digits that a value stands for; digits that are not in use are 0."""
    number: int = sum((value * 3**place % 256 * 3 >> 8) * 3 ** (DIGITS_PER_BYTE - 1 - place) for place in where)
    return -(-number * 256 // 243)
