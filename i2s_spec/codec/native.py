"""The fast path of the codec: the definitions of `reference`, with compiled kernels for the loops.

Same names, same parameters, same answers and same errors; two more parameters, `out` (a result of exactly the right
size to write into) and `threads`. Whatever is rare (an error to be worded, a code that stands for nothing, elements in
no whole block) is left to the definition. Property tests check that both are equal.

First come whole tensors with their tail (`pack`, `unpack`, `dequantize`, `transcode`, `histogram`, `scan`) and single
rows (`get_rows`), then payloads without one (`pack_codes`, `unpack_trits`, `recode` and others), then `READERS`:
tensors as other programs read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from i2s_spec.codec import _codec, kernels, reference
from i2s_spec.codec import reference as definition
from i2s_spec.codec.observation import one_scale, read_tail, write_tail
from i2s_spec.codec.reference import Scan, UnusedCode, codes_of_trits, recoded_codes, trits_of_codes
from i2s_spec.codec.shape import (
    OCTET,
    PayloadShape,
    check_readable,
    check_writable,
    dropped_elements,
    matrix,
    octets,
    payload_shape,
    sized,
    windows,
)
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CANONICAL, CODES_PER_BYTE, LAYOUTS, Dialect, Layout, parse
from i2s_spec.schema.faults import ByteOrder

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
    """Return the bytes of a ternary tensor: payload, then tail (clauses 5.5 and 6.1).

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
    pack_trits(matrix, dialect, out=view[: tensor.payload_bytes], threads=threads)
    view[tensor.payload_bytes :] = np.frombuffer(tail, dtype=np.uint8)
    return made


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
    """Return the trits and the scale of a ternary tensor (clauses 5.5 and 6.1).

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
    kernels.unpack(payload, where, dialect.code_map, array.reshape(-1).view(np.uint8), kernels.thread_count(threads))
    return array, scale


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
    """Return the weights of a ternary tensor: each is its trit times the scale, one multiplication of float32
    (clause 6.2).

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
    kernels.floats(payload, where, dialect.code_map, scale, array.reshape(-1), kernels.thread_count(threads))
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
    """Return the same trits and the same scale, bit for bit, in another dialect.

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
    recode(payload, shape, source, target, out=view[: tensor.payload_bytes], threads=threads)
    view[tensor.payload_bytes :] = np.frombuffer(new_tail, dtype=np.uint8)
    return made


def histogram(data: Any, shape: Sequence[int], *, strict: bool = True, threads: int = 1) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs, which is the same in every layout; as `reference.histogram`."""
    tensor = payload_shape(shape)
    if tensor.elements % CODES_PER_BYTE:
        return reference.histogram(data, shape, strict=strict)
    payload, _ = tensor.split(data)
    return count_codes(payload, threads=threads)


def scan(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    strict: bool = True,
    threads: int = 1,
) -> Scan:
    """How often the unused code occurs, and where first (clause 5.4); as `reference.scan`.

    Where it occurs at all, its place is looked for in the order of the elements, from which on it is counted.
    """
    dialect = parse(dialect)
    tensor = payload_shape(shape)
    if not _whole(dialect.layout, tensor):
        return reference.scan(data, shape, dialect, strict=strict)
    check_readable(dialect.layout, tensor, strict=strict)
    payload, _ = tensor.split(data)
    unused = dialect.code_map.unused
    if not kernels.occurs(payload, unused, kernels.thread_count(threads)):
        return Scan(0, None)
    where = kernels.run_layout(dialect.layout, tensor.rows, tensor.cols)
    run = 4 * where.group
    step = max(1, (1 << 20) // run) * run  # whole blocks, about a megabyte of codes at a time
    for start in range(0, tensor.elements, step):
        part = payload[start // 4 : (start + step) // 4]
        if kernels.occurs(part, unused, 1):
            codes = np.empty(part.size * CODES_PER_BYTE, dtype=np.uint8)
            kernels.unpack(part, where, None, codes, 1)
            count = kernels.histogram(payload[start // 4 :], threads)[unused]
            return Scan(count, start + int((codes == unused).argmax()))
    raise AssertionError("a code that occurs is nowhere")


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
    :param reader: one of `READERS`: rows as that program reads them, right or wrong, such as `get-rows`
        of the BitNet fork, which takes row r from byte r*cols // 4 on. Code 3 is 0 then, and so is what it does not read
    :param byte_order: of the file that the scale is from
    :param unused_code: what code 3 becomes where no reader is named, as for `unpack`; where rows are whole blocks, only
        those that are read are examined
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
    dialect = parse(dialect)
    if reader is not None:
        program = _reader(reader)
        if not _whole_rows(program.layout, cols):
            codes, taken = read_as(program, data, (count, cols))
            _, tail = payload_shape((count, cols)).split(data)
            values = np.where(taken[wanted], _DEQUANTIZED[codes[wanted]], np.float32(0))
            read: NDArray[np.float32] = values * read_tail(tail, CANONICAL.tail, byte_order)
            return read
        dialect, unused_code = Dialect(program.layout, CANONICAL.code_map, CANONICAL.tail), "zero"
    if _whole_rows(dialect.layout, cols):
        payload, tail = payload_shape((count, cols)).split(data)
        part = payload.reshape(count, -1)[wanted].reshape(-1)
        scale, shape = read_tail(tail, dialect.tail, byte_order), (len(wanted), cols)
        if kernel_can_read(part, dialect, unused_code, 1):
            rows_read = array_to_fill(shape, np.dtype(np.float32), None)
            where = kernels.run_layout(dialect.layout, count, cols)
            kernels.floats(part, where, dialect.code_map, scale, rows_read.reshape(-1), 1)
            return rows_read
        if unused_code != "reject":
            trits = unpack_trits(part, shape, dialect, unused_code)
            return trits.astype(np.float32) * scale
    trits, scale = unpack(data, (count, cols), dialect, byte_order=byte_order, unused_code=unused_code)
    found: NDArray[np.float32] = trits[wanted].astype(np.float32) * scale
    return found


def _whole_rows(layout: Layout, cols: int) -> bool:
    """Whether every row has bytes of its own, which the kernels can take."""
    return kernels.is_runs(layout) and layout.row_block == 1 and cols % layout.block == 0


# --- payload native --------------------------------------------------------------------------------------------------
# A payload has no tail, and so no scale: the functions above add both.

#: Arrays that the kernels fill begin at multiples of this.
ALIGNED = 64


def pack_codes(codes: NDArray[np.uint8], layout: Layout, *, out: Any = None, threads: int = 1) -> Any:
    """Return the payload that holds codes 0 to 3, uint8 [rows, cols], in a layout; as `payload.pack_codes`."""
    rows, cols = codes.shape
    layout.check(rows, cols)
    if not kernels.is_runs(layout):
        return copied(definition.pack_codes(codes, layout), out)
    made, view = bytes_to_fill(codes.size // CODES_PER_BYTE, out)
    where = kernels.run_layout(layout, rows, cols)
    flat = np.ascontiguousarray(codes).reshape(-1)
    if not kernels.pack(flat, where, None, view, kernels.thread_count(threads)):
        definition.check_codes(codes)  # says which value it is
        raise AssertionError("the kernels refused what the definition takes")
    return made


def unpack_codes(
    payload: Any, shape: tuple[int, int], layout: Layout, *, out: NDArray[np.uint8] | None = None, threads: int = 1
) -> NDArray[np.uint8]:
    """Return the codes 0 to 3 that a payload holds, uint8 [rows, cols]; as `payload.unpack_codes`."""
    raw = sized(payload, shape, layout)
    if not kernels.is_runs(layout):
        return filled(out, definition.unpack_codes(raw, shape, layout))
    array = array_to_fill(shape, np.dtype(np.uint8), out)
    kernels.unpack(raw, kernels.run_layout(layout, *shape), None, array.reshape(-1), kernels.thread_count(threads))
    return array


def pack_trits(trits: NDArray[Any], dialect: Dialect, *, out: Any = None, threads: int = 1) -> Any:
    """Return the payload that holds trits, integers [rows, cols]; as `payload.pack_trits`."""
    rows, cols = trits.shape
    dialect.layout.check(rows, cols)
    if not kernels.is_runs(dialect.layout):
        return copied(definition.pack_trits(trits, dialect), out)
    flat = _int8(trits, dialect)
    made, view = bytes_to_fill(flat.size // CODES_PER_BYTE, out)
    where = kernels.run_layout(dialect.layout, rows, cols)
    if not kernels.pack(flat.view(np.uint8), where, dialect.code_map, view, kernels.thread_count(threads)):
        codes_of_trits(trits, dialect.code_map)  # says which value it is
        raise AssertionError("the kernels refused what the definition takes")
    return made


def unpack_trits(
    payload: Any,
    shape: tuple[int, int],
    dialect: Dialect,
    unused_code: UnusedCode = "reject",
    *,
    out: NDArray[np.int8] | None = None,
    threads: int = 1,
) -> NDArray[np.int8]:
    """Return the trits that a payload holds, int8 [rows, cols]; as `payload.unpack_trits`."""
    raw = sized(payload, shape, dialect.layout)
    if not (kernels.is_runs(dialect.layout) and kernel_can_read(raw, dialect, unused_code, threads)):
        return filled(out, definition.unpack_trits(raw, shape, dialect, unused_code))
    array = array_to_fill(shape, np.dtype(np.int8), out)
    where = kernels.run_layout(dialect.layout, *shape)
    kernels.unpack(raw, where, dialect.code_map, array.reshape(-1).view(np.uint8), kernels.thread_count(threads))
    return array


def recode(
    payload: Any, shape: tuple[int, int], source: Dialect, target: Dialect, *, out: Any = None, threads: int = 1
) -> Any:
    """Return the same trits in another dialect; as `reference.recode`.

    Between layouts that are permutations of blocks, or of rows of whole blocks, codes never leave the processor's
    registers. The result does not go into the payload's own bytes.
    """
    raw = sized(payload, shape, source.layout)
    target.layout.check(*shape)
    if not (kernels.is_runs(source.layout) and kernels.is_runs(target.layout)):
        return copied(definition.recode(raw, shape, source, target), out)
    made, view = bytes_to_fill(raw.size, out)
    if out is not None and np.may_share_memory(view, raw):
        raise ValueError("a tensor cannot be transcoded into its own bytes")
    codes = recoded_codes(source.code_map, target.code_map)
    kernels.recode(raw, *shape, source.layout, target.layout, codes, view, kernels.thread_count(threads))
    return made


def count_codes(payload: Any, *, threads: int = 1) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs, which is the same in every layout; as `payload.count_codes`."""
    return kernels.histogram(octets(payload), kernels.thread_count(threads))


def kernel_can_read(payload: NDArray[np.uint8], dialect: Dialect, unused_code: UnusedCode, threads: int) -> bool:
    """Whether every code of a payload means what the arithmetic of the kernels makes of it."""
    trits_of_codes(dialect.code_map, unused_code)  # refuses policies that do not exist
    # The kernels take the code minus 1, and so make +2 of code 3 in offset-1; no other map has readers that do.
    return unused_code == "plus-two" or not kernels.occurs(
        payload, dialect.code_map.unused, kernels.thread_count(threads)
    )


def _int8(array: NDArray[Any], dialect: Dialect) -> NDArray[np.int8]:
    """Trits as contiguous int8; values that int8 would make trits of are refused before."""
    if array.dtype != np.int8:
        if array.size and (int(array.min()) < -1 or int(array.max()) > 1):
            codes_of_trits(array, dialect.code_map)  # says which value it is
        array = array.astype(np.int8)
    return np.ascontiguousarray(array).reshape(-1)


def bytes_to_fill(nbytes: int, out: Any) -> tuple[Any, NDArray[np.uint8]]:
    """Where a tensor's bytes go, and a view to write them: `out`, or new bytes."""
    if out is None:
        made, view = _codec.fresh_bytes(nbytes)
        return made, np.frombuffer(view, OCTET)
    view_of_out = octets(out)
    if view_of_out.size != nbytes:
        raise ValueError(f"the result takes {counted(nbytes, 'byte')}; out has {view_of_out.size:,}")
    if not view_of_out.flags.writeable:
        raise ValueError("out cannot be written to")
    return out, view_of_out


def copied(done: bytes, out: Any) -> Any:
    """Return the bytes, written into `out` where there is one."""
    if out is None:
        return done
    _, view = bytes_to_fill(len(done), out)
    view[:] = np.frombuffer(done, dtype=np.uint8)
    return out


def array_to_fill(shape: tuple[int, ...], dtype: np.dtype[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    """Return an array to fill: `out` if it fits exactly, or a new one at an address that streaming stores take."""
    if out is None:
        nbytes = prod(shape) * dtype.itemsize
        raw = np.empty(nbytes + ALIGNED, OCTET)
        skip = -_codec.address(raw) % ALIGNED  # `raw.ctypes` makes objects, which counts for small tensors
        return raw[skip : skip + nbytes].view(dtype).reshape(shape)
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"the result is {dtype} of shape {shape}; out is {out.dtype} of shape {out.shape}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError("out is not a contiguous array that can be written to")
    return out


def filled(out: NDArray[Any] | None, values: NDArray[Any]) -> NDArray[Any]:
    """Return the values, written into `out` where there is one."""
    if out is None:
        return values
    array = array_to_fill(values.shape, values.dtype, out)
    array[...] = values
    return array


# --- readers ---------------------------------------------------------------------------------------------------------
# A tensor as programs read it: some begin at a row, skip blocks that are not whole, or read past the end.


@dataclass(frozen=True, slots=True)
class Reader:
    """A program that reads I2_S: by which layout, from where, and what it does with a block that is not whole.

    :param by_rows: whether it looks for row r at byte r*cols // 4, rather than for element k where the layout puts it
    :param partial: it `reads on` into whatever follows, `skips` those elements, or `refuses` the tensor
    """

    name: str
    layout: Layout
    by_rows: bool
    partial: Literal["reads on", "skips", "refuses"]


_L128, _L64, _ROWS = LAYOUTS["interleave-128"], LAYOUTS["interleave-64"], LAYOUTS["rows-1x4"]
_MSB = LAYOUTS["sequential-msb"]

READERS: Final = {
    "dequantize": Reader("dequantize_row_i2_s over a whole tensor", _L128, False, "reads on"),
    "get-rows": Reader("ggml_get_rows of the BitNet fork", _L128, True, "reads on"),
    "mul-mat": Reader("mat-mul kernels on x86, and on ARM until November 2025", _L128, True, "skips"),
    "mul-mat-arm": Reader("mat-mul kernels on ARM since November 2025", _L64, True, "skips"),
    "scalar-2026": Reader("the scalar loop of kernels since May 2026, without AVX2", _MSB, True, "reads on"),
    "ik": Reader("ik_llama.cpp's conversion", _L128, False, "refuses"),
}


def read_as(reader: str | Reader, data: Any, shape: Sequence[int]) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Return the codes that a program reads from a tensor, right or wrong.

    :param reader: one of `READERS`, or its key
    :param data: payload and tail
    :param shape: (rows, cols) or (n,)
    :returns: uint8 codes [rows, cols], and bool [rows, cols]: whether the program read a code there; skipped elements
    have code 0 and False. A program that reads too far takes codes from the next row, and at the end from the tail
    :raises ValueError: for an unknown reader, for a tensor that the program refuses, for data of another size
    """
    reader = _reader(reader)
    tensor = payload_shape(shape)
    payload, _ = tensor.split(data)
    rows, cols, layout = tensor.rows, tensor.cols, reader.layout
    run = cols if reader.by_rows else tensor.elements  # elements that it reads from one address on
    if reader.partial == "refuses" and run % layout.block:
        raise ValueError(
            f"{reader.name} refuses {counted(run, 'element')}, which are not whole blocks of {layout.block}"
        )
    if _whole_rows(layout, run):
        return unpack_codes(payload, (rows, cols), layout), np.ones((rows, cols), dtype=np.bool_)
    end = run // layout.block * layout.block if reader.partial == "skips" else run

    raw = np.frombuffer(data, dtype=np.uint8)
    codes = np.zeros(tensor.elements, dtype=np.uint8)
    taken = np.zeros(tensor.elements, dtype=np.bool_)
    for start, stop in windows(tensor.elements):
        address, k = np.divmod(np.arange(start, stop, dtype=np.int64), run)
        byte = address * run // CODES_PER_BYTE + layout.byte_of(k, 1, run)
        here = (k < end) & (byte < raw.size)
        shift = layout.shift_of(k, 1, run)[here].astype(np.uint8)
        codes[start:stop][here] = raw[byte[here]] >> shift & 3
        taken[start:stop] = here
    return codes.reshape(rows, cols), taken.reshape(rows, cols)


def _reader(reader: str | Reader) -> Reader:
    if isinstance(reader, Reader):
        return reader
    if reader not in READERS:
        raise ValueError(f"no reader is called {reader!r}; there are {', '.join(READERS)}")
    return READERS[reader]
