"""This module is the fast path of the block types: the definition of `block_reference`, with compiled kernels for the loops.

Same names, same parameters, same answers and same errors; two more parameters, `out` and `threads`. What is rare, an
error to be worded or a code to be replaced, is left to the definition. A property test checks that both give equal bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.blocks import _blocks, block_reference, rows_apart
from i2s_spec.codec.blocks.block_reference import unused_code_answer
from i2s_spec.codec.blocks.block_shape import Blocks, blocks_of, scales_of, stored_floats
from i2s_spec.codec.blocks.kernel_kinds import KINDS
from i2s_spec.codec.isa import KernelSet, chosen, table
from i2s_spec.codec.payload import UnusedCode
from i2s_spec.codec.payload_native import ALIGNED, array_to_fill, bytes_to_fill, count_codes
from i2s_spec.codec.recode import Scan
from i2s_spec.errors import counted
from i2s_spec.schema.block_layout import FOURTH_CODE, FOURTH_WEIGHT
from i2s_spec.schema.checks import ByteOrder

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["dequantize", "histogram", "pack", "read_scales", "scan", "unpack"]

#: Results from this size on go past the cache: they would not stay in it anyway.
STREAM_FROM: Final = 16 << 20
#: No thread gets fewer blocks than this.
THREAD_BLOCKS: Final = 1 << 13


@cache
def kernel_sets() -> tuple[KernelSet, ...]:
    """Every set of these kernels that was compiled, the slowest first."""
    return table(_blocks.kernel_sets())


def pack(
    values: ArrayLike,
    scales: ArrayLike,
    type: str,
    *,
    byte_order: ByteOrder = "little",
    out: Any = None,
    threads: int = 1,
) -> Any:
    """The bytes of a tensor; as `block_reference.pack`, which says what the other parameters are.

    :param out: a writable buffer of exactly the result's size, which is returned instead of bytes
    :param threads: how many threads may work on it
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"weights without their scale are integers -1, 0 and +1, not {array.dtype}")
    tensor = blocks_of(array.shape, type)
    if tensor.layout.scale.apart:
        return rows_apart.pack(tensor, array, scales, byte_order, out, threads)
    if array.dtype != np.int8:
        block_reference.require_values(array, tensor)
        array = array.astype(np.int8)
    flat = np.ascontiguousarray(array).reshape(-1)
    floats = stored_floats(tensor, scales, byte_order)
    stored = np.ascontiguousarray(floats).reshape(-1).view(np.uint8)
    each = floats.itemsize if floats.ndim else 0  # one scale of all groups is not repeated in memory
    made, view = bytes_to_fill(tensor.nbytes, out)
    row, kind, most = chosen(kernel_sets()).row, KINDS[type], FOURTH_WEIGHT if tensor.layout.fourth else 1
    stream = view.size >= STREAM_FROM
    bad: list[bool] = []

    def part(first: int, last: int, rows: int, blocks: int, front: int) -> None:
        target, start, stop = _part_of(tensor, view, first, last)
        given = stored[first * each : last * each] if each else stored
        bad.append(_blocks.pack(row, kind, flat[start:stop], rows, blocks, front, given, each, most, target, stream))

    _spread(tensor, part, threads)
    if any(bad):
        block_reference.require_values(array, tensor)  # says which value it is
        raise AssertionError("the kernels refused what the definition takes")
    return made


def unpack(
    data: Any,
    shape: Sequence[int],
    type: str,
    *,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode | None = None,
    out: NDArray[np.int8] | None = None,
    threads: int = 1,
) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """The weights without their scales, and the scale of each group; as `block_reference.unpack`.

    :param out: a contiguous int8 array of the shape, which is filled and returned
    :param threads: how many threads may work on it
    """
    tensor = blocks_of(shape, type)
    raw = tensor.take(data)
    answer = unused_code_answer(tensor.layout, unused_code)
    array = array_to_fill(tuple(shape), np.dtype(np.int8), out)
    flat = array.reshape(-1)
    if tensor.layout.scale.apart:
        rows_apart.unpack(tensor, raw, answer, array, threads)
        return array, scales_of(tensor, raw, byte_order)
    row, kind, swap = chosen(kernel_sets()).row, KINDS[type], byte_order == "big"
    stream = flat.size >= STREAM_FROM
    # A second pass for the scales would read everything again: they are in the same lines as the codes.
    by_row = tensor.layout.scale.per == "row"
    scales = scales_of(tensor, raw, byte_order) if by_row else np.empty(tensor.groups, dtype=np.float32)
    none = np.empty(0, dtype=np.float32)
    seen: list[bool] = []

    def part(first: int, last: int, rows: int, blocks: int, front: int) -> None:
        source, start, stop = _part_of(tensor, raw, first, last)
        each = none if by_row else scales[first:last]
        seen.append(_blocks.unpack(row, kind, source, rows, blocks, front, flat[start:stop], stream, swap, each))

    _spread(tensor, part, threads)
    if any(seen) and answer != "plus-two":
        found = flat == FOURTH_WEIGHT
        if answer == "reject":
            raise block_reference.unused_code_error(tensor, int(np.count_nonzero(found)), int(found.argmax()))
        flat[found] = 0
    return array, scales


def dequantize(
    data: Any,
    shape: Sequence[int],
    type: str,
    *,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode | None = None,
    out: NDArray[np.float32] | None = None,
    threads: int = 1,
) -> NDArray[np.float32]:
    """The weights of a tensor, one multiplication of float32 each; as `block_reference.dequantize`.

    :param out: a contiguous float32 array of the shape, which is filled and returned
    :param threads: how many threads may work on it
    """
    tensor = blocks_of(shape, type)
    raw = tensor.take(data)
    answer = unused_code_answer(tensor.layout, unused_code)
    array = array_to_fill(tuple(shape), np.dtype(np.float32), out)
    flat = array.reshape(-1)
    if tensor.layout.scale.apart:
        return rows_apart.dequantize(tensor, raw, answer, scales_of(tensor, raw, byte_order), array, threads)
    row, kind, swap = chosen(kernel_sets()).row, KINDS[type], byte_order == "big"
    stream = array.nbytes >= STREAM_FROM
    seen: list[bool] = []

    def part(first: int, last: int, rows: int, blocks: int, front: int) -> None:
        source, start, stop = _part_of(tensor, raw, first, last)
        seen.append(_blocks.floats(row, kind, source, rows, blocks, front, swap, flat[start:stop], stream))

    _spread(tensor, part, threads)
    if any(seen) and answer != "plus-two":
        array[...] = block_reference.dequantize(raw, shape, type, byte_order=byte_order, unused_code=unused_code)
    return array


def histogram(data: Any, shape: Sequence[int], type: str, *, threads: int = 1) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs; as `block_reference.histogram`."""
    tensor = blocks_of(shape, type)
    raw = tensor.take(data)
    if tensor.layout.scale.apart:
        return count_codes(raw[: tensor.count * tensor.layout.nbytes], threads=threads)
    row, kind = chosen(kernel_sets()).row, KINDS[type]
    counts: list[tuple[int, int, int]] = []

    def part(first: int, last: int, rows: int, blocks: int, front: int) -> None:
        counts.append(_blocks.count(row, kind, _part_of(tensor, raw, first, last)[0], rows, blocks, front))

    _spread(tensor, part, threads)
    low, high, both = (sum(column) for column in zip(*counts, strict=True))
    return tensor.elements - low - high + both, low - both, high - both, both


def read_scales(data: Any, shape: Sequence[int], type: str, byte_order: ByteOrder = "little") -> NDArray[np.float32]:
    """The scale of each group of a tensor, float32 [groups]; as `block_shape.read_scales`."""
    tensor = blocks_of(shape, type)
    return _scales(tensor, tensor.take(data), byte_order)


def scan(data: Any, shape: Sequence[int], type: str, *, threads: int = 1) -> Scan:
    """How often code 3 occurs, and at which flat element first; as `block_reference.scan`."""
    count = histogram(data, shape, type, threads=threads)[FOURTH_CODE]
    return block_reference.scan(data, shape, type) if count else Scan(0, None)


def _scales(tensor: Blocks, raw: NDArray[np.uint8], byte_order: ByteOrder) -> NDArray[np.float32]:
    if tensor.layout.scale.per == "row":
        return scales_of(tensor, raw, byte_order)
    scales = np.empty(tensor.groups, dtype=np.float32)
    _blocks.scales(KINDS[str(tensor.layout)], raw, tensor.count, byte_order == "big", scales)
    return scales


def _part_of(tensor: Blocks, raw: NDArray[np.uint8], first: int, last: int) -> tuple[NDArray[np.uint8], int, int]:
    """The bytes of rows, or of blocks where these have scales of their own, and which elements they are."""
    by_row = tensor.layout.scale.per == "row"
    width, elements = (raw.size // tensor.rows, tensor.cols) if by_row else (tensor.layout.nbytes, tensor.layout.block)
    return raw[first * width : last * width], first * elements, last * elements


def _spread(tensor: Blocks, part: Callable[[int, int, int, int, int], None], threads: int) -> None:
    """Call `part(first, last, rows, blocks, front)` for ranges of rows, or of blocks where those have the scales."""
    if threads < 1:
        raise ValueError(f"{counted(threads, 'thread does', 'threads do')} nothing; at least 1 is needed")
    by_row = tensor.layout.scale.per == "row"
    units = tensor.rows if by_row else tensor.count
    blocks, front = tensor.cols // tensor.layout.block, tensor.layout.type.row_bytes
    threads = min(threads, max(1, tensor.count // THREAD_BLOCKS), units)
    step = -(-units // threads)
    if units >= ALIGNED * threads:
        step = -(-step // ALIGNED) * ALIGNED

    def call(first: int) -> None:
        last = min(first + step, units)
        part(first, last, last - first if by_row else 1, blocks if by_row else last - first, front)

    if threads == 1:
        call(0)
        return
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(call, first) for first in range(0, units, step)]:
            done.result()
