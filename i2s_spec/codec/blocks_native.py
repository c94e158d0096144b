"""The fast path of the block types: the definitions of `blocks` with compiled kernels, and the quantizers.

Same names, same parameters, same answers and same errors; two more parameters, `out` and `threads`. What is rare, an
error to be worded or a code to be replaced, is left to the definition. A property test checks that both give equal
bits.

I2_SR, whose scales are behind all codes, has functions of its own (`pack_apart` and others; `fetching` and
`in_file_order` for windows of it). `quantize` makes blocks of floats.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec import _blocks, blocks, kernels
from i2s_spec.codec.blocks import Blocks, blocks_of, scales_of, stored_floats, stored_scales, unused_code_answer
from i2s_spec.codec.isa import KernelSet, chosen, table
from i2s_spec.codec.native import ALIGNED, array_to_fill, bytes_to_fill, count_codes
from i2s_spec.codec.observation import KINDS
from i2s_spec.codec.reference import Scan, UnusedCode
from i2s_spec.codec.shape import Weights
from i2s_spec.schema.blocks import FOURTH_CODE, FOURTH_WEIGHT, BlockLayout
from i2s_spec.schema.dialect import CANONICAL
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

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
    """Return the bytes of a tensor; as `blocks.pack`, which says what the other parameters are.

    :param out: a writable buffer of exactly the result's size, which is returned instead of bytes
    :param threads: how many threads may work on it
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise TypeError(f"weights without their scale are integers -1, 0 and +1, not {array.dtype}")
    tensor = blocks_of(array.shape, type)
    if tensor.layout.scale.apart:
        return pack_apart(tensor, array, scales, byte_order, out, threads)
    if array.dtype != np.int8:
        blocks.require_values(array, tensor)
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
        blocks.require_values(array, tensor)  # says which value it is
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
    """Return the weights without their scales, and the scale of each group; as `blocks.unpack`.

    :param out: a contiguous int8 array of the shape, which is filled and returned
    :param threads: how many threads may work on it
    """
    tensor = blocks_of(shape, type)
    raw = tensor.take(data)
    answer = unused_code_answer(tensor.layout, unused_code)
    array = array_to_fill(tuple(shape), np.dtype(np.int8), out)
    flat = array.reshape(-1)
    if tensor.layout.scale.apart:
        unpack_apart(tensor, raw, answer, array, threads)
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
            raise blocks.unused_code_error(tensor, int(np.count_nonzero(found)), int(found.argmax()))
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
    """Return the weights of a tensor, one multiplication of float32 each; as `blocks.dequantize`.

    :param out: a contiguous float32 array of the shape, which is filled and returned
    :param threads: how many threads may work on it
    """
    tensor = blocks_of(shape, type)
    raw = tensor.take(data)
    answer = unused_code_answer(tensor.layout, unused_code)
    array = array_to_fill(tuple(shape), np.dtype(np.float32), out)
    flat = array.reshape(-1)
    if tensor.layout.scale.apart:
        return dequantize_apart(tensor, raw, answer, scales_of(tensor, raw, byte_order), array, threads)
    row, kind, swap = chosen(kernel_sets()).row, KINDS[type], byte_order == "big"
    stream = array.nbytes >= STREAM_FROM
    seen: list[bool] = []

    def part(first: int, last: int, rows: int, blocks: int, front: int) -> None:
        source, start, stop = _part_of(tensor, raw, first, last)
        seen.append(_blocks.floats(row, kind, source, rows, blocks, front, swap, flat[start:stop], stream))

    _spread(tensor, part, threads)
    if any(seen) and answer != "plus-two":
        array[...] = blocks.dequantize(raw, shape, type, byte_order=byte_order, unused_code=unused_code)
    return array


def histogram(data: Any, shape: Sequence[int], type: str, *, threads: int = 1) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs; as `blocks.histogram`."""
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
    """Return the scale of each group of a tensor, float32 [groups]; as `blocks.read_scales`."""
    tensor = blocks_of(shape, type)
    return _scales(tensor, tensor.take(data), byte_order)


def scan(data: Any, shape: Sequence[int], type: str, *, threads: int = 1) -> Scan:
    """How often code 3 occurs, and at which flat element first; as `blocks.scan`."""
    count = histogram(data, shape, type, threads=threads)[FOURTH_CODE]
    return blocks.scan(data, shape, type) if count else Scan(0, None)


def _scales(tensor: Blocks, raw: NDArray[np.uint8], byte_order: ByteOrder) -> NDArray[np.float32]:
    if tensor.layout.scale.per == "row":
        return scales_of(tensor, raw, byte_order)
    scales = np.empty(tensor.groups, dtype=np.float32)
    _blocks.scales(KINDS[str(tensor.layout)], raw, tensor.count, byte_order == "big", scales)
    return scales


def _part_of(tensor: Blocks, raw: NDArray[np.uint8], first: int, last: int) -> tuple[NDArray[np.uint8], int, int]:
    """Return the bytes of rows, or of blocks where these have scales of their own, and which elements they are."""
    by_row = tensor.layout.scale.per == "row"
    width, elements = (raw.size // tensor.rows, tensor.cols) if by_row else (tensor.layout.nbytes, tensor.layout.block)
    return raw[first * width : last * width], first * elements, last * elements


def _spread(tensor: Blocks, part: Callable[[int, int, int, int, int], None], threads: int) -> None:
    """Call `part(first, last, rows, blocks, front)` for ranges of rows, or of blocks where those have the scales."""
    by_row = tensor.layout.scale.per == "row"
    units = tensor.rows if by_row else tensor.count
    blocks, front = tensor.cols // tensor.layout.block, tensor.layout.type.row_bytes
    threads = min(kernels.thread_count(threads), max(1, tensor.count // THREAD_BLOCKS), units)
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


# --- rows apart ------------------------------------------------------------------------------------------------------
# I2_SR: the codes of I2_S, whose kernels are called, and the scale of each row behind all of them.
#
# `blocks` defines what comes out, from the declaration of the layout. The 32 bytes at the end mean nothing: they are
# written as zeros, and not read.


def pack_apart(
    tensor: Blocks, values: NDArray[Any], scales: ArrayLike, byte_order: ByteOrder, out: Any, threads: int
) -> Any:
    """Pack values, whose shape `tensor` has, as `pack` does."""
    if values.dtype != np.int8:
        blocks.require_values(values, tensor)
    stored = stored_scales(tensor, scales, byte_order)
    made, view = bytes_to_fill(tensor.nbytes, out)
    codes = tensor.count * tensor.layout.nbytes
    flat = np.ascontiguousarray(values.astype(np.int8, copy=False)).reshape(-1)
    where = kernels.run_layout(CANONICAL.layout, tensor.rows, tensor.cols)
    if not kernels.pack(flat.view(np.uint8), where, CANONICAL.code_map, view[:codes], threads):
        # code 3, which no kernel of I2_S writes, or a value that has no code
        data = blocks.pack(values, scales, str(tensor.layout), byte_order=byte_order)
        view[:] = np.frombuffer(data, dtype=np.uint8)
        return made
    view[codes : codes + stored.size] = stored.reshape(-1)
    view[codes + stored.size :] = 0
    return made


def unpack_apart(
    tensor: Blocks, raw: NDArray[np.uint8], answer: UnusedCode, out: NDArray[np.int8], threads: int
) -> None:
    """Fill `out` with the weights without their scales, as `unpack` does."""
    payload = raw[: tensor.count * tensor.layout.nbytes]
    where = kernels.run_layout(CANONICAL.layout, tensor.rows, tensor.cols)
    flat = out.reshape(-1)
    if not kernels.unpack(payload, where, CANONICAL.code_map, flat.view(np.uint8), threads, sought=FOURTH_CODE):
        return
    kernels.unpack(payload, where, None, flat.view(np.uint8), threads)
    flat -= 1
    found = flat == FOURTH_WEIGHT
    if answer == "reject":
        raise blocks.unused_code_error(tensor, int(np.count_nonzero(found)), int(found.argmax()))
    if answer == "zero":
        flat[found] = 0


def dequantize_apart(
    tensor: Blocks,
    raw: NDArray[np.uint8],
    answer: UnusedCode,
    scales: NDArray[np.float32],
    out: NDArray[np.float32],
    threads: int,
) -> NDArray[np.float32]:
    """Fill `out` with the weights, as `dequantize` does."""
    payload = raw[: tensor.count * tensor.layout.nbytes]
    if not kernels.row_floats(payload, CANONICAL.code_map, scales, out.reshape(-1), threads):
        return out
    values = np.empty((tensor.rows, tensor.cols), dtype=np.int8)
    unpack_apart(tensor, raw, answer, values, threads)
    with np.errstate(all="ignore"):  # an infinity or NaN for a scale gives what IEEE 754 says
        np.multiply(values, scales[:, None], out=out.reshape(values.shape), dtype=np.float32)
    return out


# --- apart windows ---------------------------------------------------------------------------------------------------
# Windows of a tensor whose scales are behind all codes, read and written: each window is such a tensor itself.
#
# A window of rows has their codes, their scales, and 32 zeros. Its place is given as if each row had its scale beside
# its codes, so that windows follow each other without gaps.


def fetching(
    layout: BlockLayout, rows: int, cols: int, read: Callable[[int, int], bytes]
) -> Callable[[int, int], bytes]:
    """Give windows from one place to another, both of whole rows.

    :param layout: with scales that are apart
    :param read: gives so many bytes of the tensor, from an offset on
    """
    codes, scale = cols // layout.block * layout.nbytes, layout.scale.nbytes

    def fetch(start: int, stop: int) -> bytes:
        first, last = start // (codes + scale), stop // (codes + scale)
        count = last - first
        return (
            read(first * codes, count * codes) + read(rows * codes + first * scale, count * scale) + bytes(TAIL_BYTES)
        )

    return fetch


def in_file_order(layout: BlockLayout, cols: int, windows: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes of the whole tensor, of windows in order: the codes of all, then the scales, then 32 zeros.

    Of a layout whose scales are not apart, the windows as they are.
    """
    if not layout.scale.apart:
        yield from windows
        return
    codes, scales = cols // layout.block * layout.nbytes, bytearray()
    for data in windows:
        split = (len(data) - TAIL_BYTES) // (codes + layout.scale.nbytes) * codes
        scales += data[split:-TAIL_BYTES]
        yield data[:split]
    yield bytes(scales)
    yield bytes(TAIL_BYTES)


# --- block quantize --------------------------------------------------------------------------------------------------
# Blocks of floats by the rules of ggml and ik_llama.cpp, bit for bit where C defines what they do.
#
#     Q2_0, PQ2_0, PTQ1_0, TQ1_0, TQ2_0   d is the largest magnitude of the block; a code is round(w / d) + 1, where w / d is
#                                         w times the float32 reciprocal of d, and halves are rounded away from 0
#     IQ1_BN, IQ2_BN                      d is the largest magnitude of the row; what is below half of it becomes 0
#
# The float16 of d is written, while codes are computed with d itself. Source: ggml `ggml-quants.c`
# (`quantize_row_q2_0_ref`, `_tq1_0_ref`, `_tq2_0_ref`), ik_llama.cpp `iqk_quantize.cpp` (`IQ1BNQuantizer`).


def quantize(weights: ArrayLike, type: str, *, byte_order: ByteOrder = "little") -> bytes:
    """Return the bytes that the type's own quantizer makes of floats.

    :param weights: floats of any width, or bfloat16 as its bits in uint16, [..., ne0]
    :param type: the name of a type of `schema.blocks`
    :raises ValueError: for infinities and NaN, whose codes C leaves undefined; for magnitudes beyond float16; and for rows
        that are not whole blocks
    """
    source = Weights(weights)
    tensor = blocks_of(source.shape, type)
    values = np.empty(tensor.elements, dtype=np.int8)
    scales = np.empty(tensor.groups, dtype=np.float32)
    step = max(1, (1 << 18) // tensor.group)
    for group in range(0, tensor.groups, step):
        stop = min(group + step, tensor.groups)
        part = source.values(group * tensor.group, stop * tensor.group).reshape(stop - group, tensor.group)
        codes, scales[group:stop] = _rounded(part) if tensor.layout.scale.per == "block" else _halved(part)
        values[group * tensor.group : stop * tensor.group] = codes.reshape(-1)
    stored: NDArray[np.float32] | NDArray[np.float16] = scales
    if tensor.layout.scale.type == "F16":
        with np.errstate(all="ignore"):  # what is too small becomes 0, as there
            stored = scales.astype(np.float16)
        if not np.isfinite(stored).all():
            raise ValueError(f"magnitudes go up to {scales.max():.9g}, which is beyond float16: its largest is 65504")
    data: bytes = pack(values.reshape(source.shape), stored, type, byte_order=byte_order)
    return data


def _largest(part: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the largest magnitude of each group.

    :raises ValueError: where it is not a number
    """
    largest: NDArray[np.float32] = np.abs(part).max(axis=1)
    if not np.isfinite(largest).all():
        raise ValueError("infinities or NaN are among the weights; what quantizers make of them is not defined")
    return largest


def _rounded(part: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return the weights over the largest magnitude of their block, rounded, and that magnitude."""
    largest = _largest(part)
    with np.errstate(all="ignore"):
        gain = np.float32(1) / largest
        # Of the smallest magnitudes the reciprocal is infinite, and C does not say what becomes of the codes: 0 here.
        gain = np.where(np.isfinite(gain), gain, np.float32(0))
        scaled = (part * gain[:, None]).astype(np.float64)
    return np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int8), largest


def _halved(part: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return the signs of the weights that are at least half the largest magnitude of their row, and that magnitude."""
    largest = _largest(part)
    least = np.float32(0.5) * largest[:, None]
    # Of a row of zeros nothing is below the half, and what is not negative counts as +1.
    return np.where(np.abs(part) < least, 0, np.where(part < 0, -1, 1)).astype(np.int8), largest
