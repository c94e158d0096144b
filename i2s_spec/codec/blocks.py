"""This module defines what packing and unpacking mean for the types of `block_layout`, from their formulas alone.

It is the definition, not the fast path, which is `block_native`. Elements are worked through in windows of whole rows or
blocks, so that few megabytes are in use beside input and output.

    >>> import numpy as np
    >>> data = pack(np.array([[1, 0, -1, 2] * 16], dtype=np.int8), 0.5, "Q2_0")
    >>> len(data), dequantize(data, (1, 64), "Q2_0")[0, :4].tolist()
    (18, [0.5, 0.0, -0.5, 1.0])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.blocks.block_shape import Blocks, blocks_of, read_scales, scales_of, stored_scales
from i2s_spec.codec.payload import UnusedCode, UnusedCodeError
from i2s_spec.codec.recode import Scan
from i2s_spec.codec.shape import WINDOW, place
from i2s_spec.schema.block_layout import DIGITS_PER_BYTE, FOURTH_CODE, FOURTH_WEIGHT, BlockLayout
from i2s_spec.schema.checks import ByteOrder

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["dequantize", "histogram", "pack", "read_scales", "scan", "unpack"]

_WORDS: Final = {"reject": "reject", "zero": "zero", "plus-two": "plus-two"}


def pack(values: ArrayLike, scales: ArrayLike, type: str, *, byte_order: ByteOrder = "little") -> bytes:
    """The bytes of a tensor.

    :param values: integers -1, 0 and +1, and +2 where the type has a code for it, [..., ne0]
    :param scales: what +1 stands for: one for all groups, or one for each; as `block_shape.stored_scales` says
    :param type: the name of a type of `block_layout`
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
        blocks[rows, columns] = _encoded(each[rows, columns].astype(np.int16) + 1, tensor.layout)
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
    """The weights without their scales, and the scale of each group.

    :param data: the bytes of a tensor, anything with the buffer protocol
    :param shape: of the tensor, in NumPy's order
    :param type: the name of a type of `block_layout`
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
        values[rows, columns] = (_codes(blocks[rows, columns], tensor.layout) - 1).astype(np.int8)
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
    """The weights of a tensor: each its code minus 1, times the scale of its group, one multiplication of float32.

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
        counts += np.bincount(_codes(blocks[rows, columns], tensor.layout).reshape(-1), minlength=4)
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
    """What code 3 becomes, where nobody says so too.

    :raises ValueError: for an answer that there is not
    """
    if unused_code is None:
        return "reject" if layout.fourth == "reserved" else "plus-two"
    if unused_code not in _WORDS:
        raise ValueError(f"code 3 can become {', '.join(_WORDS)}, not {unused_code!r}")
    return unused_code


def unused_code_error(tensor: Blocks, count: int, first: int) -> UnusedCodeError:
    """The error for code 3 where it is rejected."""
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
    """The byte and the place of each element of a block."""
    found = np.array([layout.find(k) for k in range(layout.block)], dtype=np.int64)
    return found[:, 0], found[:, 1]


def _codes(blocks: NDArray[np.uint8], layout: BlockLayout) -> NDArray[np.int16]:
    """The code of each element of blocks [..., bytes], int16 [..., elements]."""
    at, where = _places(layout)
    held = blocks[..., at].astype(np.int32)
    if layout.coding == "bits":
        return (held >> where & 3).astype(np.int16)
    return (held * 3**where % 256 * 3 >> 8).astype(np.int16)


def _encoded(codes: NDArray[np.int16], layout: BlockLayout) -> NDArray[np.uint8]:
    """The bytes of blocks from the codes of their elements; 0 where a scale will be."""
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
