"""This module is the fast path of the codec: the definition of `reference`, with compiled kernels for the loops.

Same names, same parameters, same answers and same errors; two more parameters, `out` (a result of exactly the right size
to write into) and `threads`. Whatever is rare (an error to be worded, a code that stands for nothing, elements in no
whole block) is left to the definition. A property test checks that both are equal. Beside them: single rows of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec import kernels, payload_native, reference
from i2s_spec.codec.payload import UnusedCode, trits_of_codes
from i2s_spec.codec.payload_native import array_to_fill, bytes_to_fill, copied, filled, kernel_can_read, thread_count
from i2s_spec.codec.recode import Scan
from i2s_spec.codec.remainder.dropped import check_readable, check_writable, dropped_elements
from i2s_spec.codec.remainder.readers import read_as
from i2s_spec.codec.shape import PayloadShape, matrix, payload_shape
from i2s_spec.codec.tail import one_scale, read_tail, write_tail
from i2s_spec.deprecation import renamed_keyword
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, Dialect, Layout, parse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: What the dequantizer of the BitNet fork makes of the codes 0 to 3.
_DEQUANTIZED: Final = np.array([-1, 0, 1, 0], dtype=np.float32)


def pack(
    trits: ArrayLike,
    scale: float | ArrayLike,
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    strict: bool = True,
    out: Any = None,
    threads: int = 1,
) -> Any:
    """The bytes of a ternary tensor: payload, then tail (clauses 5.5 and 6.1).

    As `reference.pack`, which says what the other parameters are.

    :param out: a writable buffer of exactly the result's size, which is returned instead of bytes
    :param threads: how many threads may work on it
    :raises ValueError: also for an `out` of another size
    """
    dialect = parse(dialect)
    array = np.asarray(trits)
    if array.dtype.kind not in "iu":
        raise TypeError(f"trits are integers -1, 0 and +1, not {array.dtype}")
    tensor = payload_shape(array.shape)
    if not _whole(dialect.layout, tensor):
        done = reference.pack(array, scale, dialect, byte_order=byte_order, strict=strict)
        return copied(done, out)
    check_writable(dialect.layout, tensor, strict=strict)
    tail = write_tail(one_scale(scale), dialect.tail, byte_order)
    made, view = bytes_to_fill(tensor.nbytes, out)
    matrix = array.reshape(tensor.rows, tensor.cols)
    payload_native.pack_trits(matrix, dialect, out=view[: tensor.payload_bytes], threads=threads)
    view[tensor.payload_bytes :] = np.frombuffer(tail, dtype=np.uint8)
    return made


@renamed_keyword("code3", "unused_code")
def unpack(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode = "reject",
    strict: bool = True,
    out: NDArray[np.int8] | None = None,
    threads: int = 1,
) -> tuple[NDArray[np.int8], np.float32]:
    """The trits and the scale of a ternary tensor (clauses 5.5 and 6.1).

    As `reference.unpack`, which says what the other parameters are.

    :param out: a contiguous int8 array of the shape, which is filled and returned
    :param threads: how many threads may work on it
    :raises ValueError: also for an `out` of another shape or kind
    """
    dialect = parse(dialect)
    tensor = payload_shape(shape)
    fast = _fast_payload(data, tensor, dialect, unused_code, threads)
    if fast is None:
        trits, scales = reference.unpack(
            data, shape, dialect, byte_order=byte_order, unused_code=unused_code, strict=strict
        )
        return filled(out, trits), scales
    payload, tail = fast
    check_readable(dialect.layout, tensor, strict=strict)
    scale = read_tail(tail, dialect.tail, byte_order)
    array = array_to_fill(tuple(shape), np.dtype(np.int8), out)
    where = kernels.run_layout(dialect.layout, tensor.rows, tensor.cols)
    kernels.unpack(payload, where, dialect.code_map, array.reshape(-1).view(np.uint8), thread_count(threads))
    return array, scale


@renamed_keyword("code3", "unused_code")
def dequantize(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode = "reject",
    strict: bool = True,
    out: NDArray[np.float32] | None = None,
    threads: int = 1,
) -> NDArray[np.float32]:
    """The weights of a ternary tensor: each is its trit times the scale, one multiplication of float32 (clause 6.2).

    As `reference.dequantize`, which says what the other parameters are.

    :param out: a contiguous float32 array of the shape, which is filled and returned
    :param threads: how many threads may work on it
    :raises ValueError: also for an `out` of another shape or kind
    """
    dialect = parse(dialect)
    tensor = payload_shape(shape)
    fast = _fast_payload(data, tensor, dialect, unused_code, threads)
    if fast is None:
        weights = reference.dequantize(
            data, shape, dialect, byte_order=byte_order, unused_code=unused_code, strict=strict
        )
        return filled(out, weights)
    payload, tail = fast
    check_readable(dialect.layout, tensor, strict=strict)
    scale = read_tail(tail, dialect.tail, byte_order)
    array = array_to_fill(tuple(shape), np.dtype(np.float32), out)
    where = kernels.run_layout(dialect.layout, tensor.rows, tensor.cols)
    kernels.floats(payload, where, dialect.code_map, scale, array.reshape(-1), thread_count(threads))
    return array


def transcode(
    data: Any,
    shape: Sequence[int],
    source: str | Dialect = "canonical",
    target: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    strict: bool = True,
    out: Any = None,
    threads: int = 1,
) -> Any:
    """The same trits and the same scale, bit for bit, in another dialect.

    As `reference.transcode`, which says what the other parameters are. Between layouts that are permutations of blocks,
    or of rows of whole blocks, codes never leave the processor's registers.

    :param out: a writable buffer of exactly the data's size, which is returned instead of bytes; not the data itself
    :param threads: how many threads may work on it
    :raises ValueError: also for an `out` of another size
    """
    source, target = parse(source), parse(target)
    tensor = payload_shape(shape)
    if not (_whole(source.layout, tensor) and _whole(target.layout, tensor)):
        done = reference.transcode(
            data, shape, source, target, byte_order=byte_order, strict=strict
        )  # fmt: skip
        return copied(done, out)
    check_readable(source.layout, tensor, strict=strict)
    check_writable(target.layout, tensor, strict=strict)
    payload, tail = tensor.split(data)
    new_tail = write_tail(read_tail(tail, source.tail, byte_order), target.tail, byte_order)
    made, view = bytes_to_fill(tensor.nbytes, out)
    shape = (tensor.rows, tensor.cols)
    payload_native.recode(payload, shape, source, target, out=view[: tensor.payload_bytes], threads=threads)
    view[tensor.payload_bytes :] = np.frombuffer(new_tail, dtype=np.uint8)
    return made


def histogram(data: Any, shape: Sequence[int], *, strict: bool = True, threads: int = 1) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs, which is the same in every layout; as `reference.histogram`."""
    tensor = payload_shape(shape)
    if tensor.elements % CODES_PER_BYTE:
        return reference.histogram(data, shape, strict=strict)
    payload, _ = tensor.split(data)
    return payload_native.count_codes(payload, threads=threads)


def scan(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    strict: bool = True,
    threads: int = 1,
) -> Scan:
    """How often the unused code occurs, and where first (clause 5.4); as `reference.scan`.

    Where it occurs at all, its place is looked for in the order of the elements.
    """
    dialect = parse(dialect)
    tensor = payload_shape(shape)
    if not _whole(dialect.layout, tensor):
        return reference.scan(data, shape, dialect, strict=strict)
    check_readable(dialect.layout, tensor, strict=strict)
    payload, _ = tensor.split(data)
    unused = dialect.code_map.unused
    if not kernels.occurs(payload, unused, thread_count(threads)):
        return Scan(0, None)
    count = kernels.histogram(payload, thread_count(threads))[unused]
    where = kernels.run_layout(dialect.layout, tensor.rows, tensor.cols)
    run = 4 * where.group
    step = max(1, (1 << 20) // run) * run  # whole blocks, about a megabyte of codes at a time
    codes = np.empty(min(step, tensor.elements), dtype=np.uint8)
    for start in range(0, tensor.elements, step):
        part = codes[: min(step, tensor.elements - start)]
        kernels.unpack(payload[start // 4 : (start + part.size) // 4], where, None, part, 1)
        here = part == unused
        if here.any():
            return Scan(count, start + int(here.argmax()))
    raise AssertionError("a code that was counted is nowhere")


# What is done fast: whole blocks, no code that stands for nothing.


def _whole(layout: Layout, tensor: PayloadShape) -> bool:
    """Whether the kernels can take a tensor: one of whole blocks, in a layout of runs."""
    return kernels.is_runs(layout) and dropped_elements(layout, tensor.rows, tensor.cols) is None


def _fast_payload(data: Any, tensor: PayloadShape, dialect: Dialect, unused_code: UnusedCode, threads: int) -> Any:
    """Payload and tail, if every code in it means what the arithmetic of the kernels makes of it; else None."""
    if not _whole(dialect.layout, tensor):
        return None
    trits_of_codes(dialect.code_map, unused_code)  # refuses policies that do not exist
    payload, tail = tensor.split(data)
    return (payload, tail) if kernel_can_read(payload, dialect, unused_code, threads) else None


def get_rows(
    data: Any,
    rows: ArrayLike,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    reader: str | None = None,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode = "reject",
) -> NDArray[np.float32]:
    """Rows of a ternary tensor as floats, as an embedding table is read: the trits of each, times the scale (clause 5.3).

    :param data: payload and tail
    :param rows: the numbers of the rows, integers [T]; any may occur more than once
    :param shape: (rows, cols)
    :param dialect: a name or a `Dialect`
    :param reader: one of `remainder.readers.READERS`: rows as that program reads them, right or wrong, such as `get-rows`
        of the BitNet fork, which takes row r from byte r*cols // 4 on. Code 3 is 0 then, and so is what it does not read
    :param byte_order: of the file that the scale is from
    :param unused_code: what code 3 becomes where no reader is named, as for `unpack`
    :returns: float32 [T, cols]
    :raises TypeError: for numbers of rows that are no integers
    :raises ValueError: for rows that do not exist, and as `unpack` and `read_as` do
    """
    count, cols = matrix(shape)
    wanted = np.asarray(rows)
    if wanted.dtype.kind not in "iu" and wanted.size:
        raise TypeError(f"rows are whole numbers, not {wanted.dtype}")
    if wanted.ndim != 1:
        raise ValueError(f"rows have the shape [tokens], not {list(wanted.shape)}")
    if ((wanted < 0) | (wanted >= count)).any():
        raise ValueError(f"the rows are 0 to {count - 1:,}")
    wanted = wanted.astype(np.int64)
    if reader is None:
        trits, scale = unpack(data, (count, cols), dialect, byte_order=byte_order, unused_code=unused_code)
        found: NDArray[np.float32] = trits[wanted].astype(np.float32) * scale
        return found
    codes, taken = read_as(reader, data, (count, cols))
    _, tail = payload_shape((count, cols)).split(data)
    values = np.where(taken, _DEQUANTIZED[codes], np.float32(0))
    read: NDArray[np.float32] = values[wanted] * read_tail(tail, CANONICAL.tail, byte_order)
    return read
