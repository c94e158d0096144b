"""This module is the fast path of the codec: the definition of `reference`, with compiled kernels for the loops.

Same names, same parameters, same answers and same errors; two more parameters, `out` (a result of exactly the right size
to write into) and `threads`. Whatever is rare (an error to be worded, a code that stands for nothing, elements in no
whole block) is left to the definition. A law holds the two equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from i2s_spec.codec import _codec, kernels, reference
from i2s_spec.codec.payload import codes_of_trits
from i2s_spec.codec.recode import Scan
from i2s_spec.codec.reference import Code3, trits_of_codes
from i2s_spec.codec.remainder import check_readable, check_writable, lost
from i2s_spec.codec.shape import Payloads, Slices, octets, payloads
from i2s_spec.codec.tail import read_tail, write_tail
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.dialect import CODES_PER_BYTE, Dialect, Layout, parse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: Arrays that the kernels fill begin at multiples of this.
ALIGNED = 64


def pack(
    trits: ArrayLike,
    scale: float | ArrayLike,
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    strict: bool = True,
    slices: Slices | None = None,
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
    tensor = payloads(array.shape, strict=strict, slices=slices)
    if not _whole(dialect.layout, tensor):
        done = reference.pack(array, scale, dialect, byte_order=byte_order, strict=strict, slices=slices)
        return done if out is None else _copied(done, out)
    check_writable(dialect.layout, tensor, strict=strict)
    tail = write_tail(_only(scale, tensor), dialect.tail, byte_order)
    flat = _int8(array, dialect)
    made, view = _result(tensor.nbytes, out)
    where = kernels.scheme(dialect.layout, tensor.rows, tensor.cols)
    if not kernels.pack(flat.view(np.uint8), where, dialect.code_map, view[: tensor.payload_bytes], _count(threads)):
        codes_of_trits(array, dialect.code_map)  # says which value it is
        raise AssertionError("the kernels refused what the definition takes")
    view[tensor.payload_bytes :] = np.frombuffer(tail, dtype=np.uint8)
    return made


@overload
def unpack(
    data: Any, shape: Sequence[int], dialect: str | Dialect = ..., *, byte_order: ByteOrder = ..., code3: Code3 = ...,
    strict: bool = ..., slices: Literal["one"] | None = ..., out: NDArray[np.int8] | None = ..., threads: int = ...,
) -> tuple[NDArray[np.int8], np.float32]: ...  # fmt: skip


@overload
def unpack(
    data: Any, shape: Sequence[int], dialect: str | Dialect = ..., *, byte_order: ByteOrder = ..., code3: Code3 = ...,
    strict: bool = ..., slices: Literal["each"], out: NDArray[np.int8] | None = ..., threads: int = ...,
) -> tuple[NDArray[np.int8], NDArray[np.float32]]: ...  # fmt: skip


def unpack(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    code3: Code3 = "reject",
    strict: bool = True,
    slices: Slices | None = None,
    out: NDArray[np.int8] | None = None,
    threads: int = 1,
) -> tuple[NDArray[np.int8], np.float32 | NDArray[np.float32]]:
    """The trits and the scale of a ternary tensor (clauses 5.5 and 6.1).

    As `reference.unpack`, which says what the other parameters are.

    :param out: a contiguous int8 array of the shape, which is filled and returned
    :param threads: how many threads may work on it
    :raises ValueError: also for an `out` of another shape or kind
    """
    dialect = parse(dialect)
    tensor = payloads(shape, strict=strict, slices=slices)
    fast = _fast_payload(data, tensor, dialect, code3, threads)
    if fast is None:
        each: Any = slices
        trits, scales = reference.unpack(
            data, shape, dialect, byte_order=byte_order, code3=code3, strict=strict, slices=each
        )
        return trits if out is None else _filled(out, trits), scales
    payload, tail = fast
    check_readable(dialect.layout, tensor, strict=strict)
    scale = read_tail(tail, dialect.tail, byte_order)
    array = _array(tuple(shape), np.dtype(np.int8), out)
    where = kernels.scheme(dialect.layout, tensor.rows, tensor.cols)
    kernels.unpack(payload, where, dialect.code_map, array.reshape(-1).view(np.uint8), _count(threads))
    return array, np.array([scale]) if slices == "each" else scale


def dequantize(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    code3: Code3 = "reject",
    strict: bool = True,
    slices: Slices | None = None,
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
    tensor = payloads(shape, strict=strict, slices=slices)
    fast = _fast_payload(data, tensor, dialect, code3, threads)
    if fast is None:
        weights = reference.dequantize(
            data, shape, dialect, byte_order=byte_order, code3=code3, strict=strict, slices=slices
        )
        return weights if out is None else _filled(out, weights)
    payload, tail = fast
    check_readable(dialect.layout, tensor, strict=strict)
    scale = read_tail(tail, dialect.tail, byte_order)
    array = _array(tuple(shape), np.dtype(np.float32), out)
    where = kernels.scheme(dialect.layout, tensor.rows, tensor.cols)
    kernels.floats(payload, where, dialect.code_map, scale, array.reshape(-1), _count(threads))
    return array


def transcode(
    data: Any,
    shape: Sequence[int],
    source: str | Dialect = "canonical",
    target: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    strict: bool = True,
    slices: Slices | None = None,
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
    tensor = payloads(shape, strict=strict, slices=slices)
    if not (_whole(source.layout, tensor) and _whole(target.layout, tensor)):
        done = reference.transcode(
            data, shape, source, target, byte_order=byte_order, strict=strict, slices=slices
        )  # fmt: skip
        return done if out is None else _copied(done, out)
    check_readable(source.layout, tensor, strict=strict)
    check_writable(target.layout, tensor, strict=strict)
    ((payload, tail),) = tensor.split(data)
    new_tail = write_tail(read_tail(tail, source.tail, byte_order), target.tail, byte_order)
    made, view = _result(tensor.nbytes, out)
    if np.may_share_memory(view, payload):
        raise ValueError("a tensor cannot be transcoded into its own bytes")
    codes = [
        target.code_map.unused if trit is None else target.code_map.code_of(trit) for trit in source.code_map.trits
    ]
    kernels.recode(
        payload, tensor.rows, tensor.cols, source.layout, target.layout, codes, view[: tensor.payload_bytes],
        _count(threads),
    )  # fmt: skip
    view[tensor.payload_bytes :] = np.frombuffer(new_tail, dtype=np.uint8)
    return made


def histogram(
    data: Any, shape: Sequence[int], *, strict: bool = True, slices: Slices | None = None, threads: int = 1
) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs, which is the same in every layout; as `reference.histogram`."""
    tensor = payloads(shape, strict=strict, slices=slices)
    if tensor.elements % CODES_PER_BYTE:
        return reference.histogram(data, shape, strict=strict, slices=slices)
    counts = [kernels.histogram(payload, _count(threads)) for payload, _ in tensor.split(data)]
    zero, one, two, three = (sum(column) for column in zip(*counts, strict=True))
    return zero, one, two, three


def scan(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    strict: bool = True,
    slices: Slices | None = None,
    threads: int = 1,
) -> Scan:
    """How often the code that stands for nothing occurs, and where first (clause 5.4); as `reference.scan`.

    Where it occurs at all, its place is looked for in the order of the elements.
    """
    dialect = parse(dialect)
    tensor = payloads(shape, strict=strict, slices=slices)
    if not _whole(dialect.layout, tensor):
        return reference.scan(data, shape, dialect, strict=strict, slices=slices)
    check_readable(dialect.layout, tensor, strict=strict)
    ((payload, _),) = tensor.split(data)
    unused = dialect.code_map.unused
    if not kernels.occurs(payload, unused, _count(threads)):
        return Scan(0, None)
    count = kernels.histogram(payload, _count(threads))[unused]
    where = kernels.scheme(dialect.layout, tensor.rows, tensor.cols)
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


# What is done fast: one payload, whole blocks, no code that stands for nothing.


def _whole(layout: Layout, tensor: Payloads) -> bool:
    """Whether the kernels can take a tensor: one payload, of whole blocks."""
    return tensor.count == 1 and lost(layout, tensor.rows, tensor.cols) is None


def _fast_payload(data: Any, tensor: Payloads, dialect: Dialect, code3: Code3, threads: int) -> Any:
    """Payload and tail, if every code in it means what the arithmetic of the kernels makes of it; else None."""
    if not _whole(dialect.layout, tensor):
        return None
    trits_of_codes(dialect.code_map, code3)  # refuses policies that do not exist
    ((payload, tail),) = tensor.split(data)
    # The kernels take the code minus 1, and so make +2 of code 3 in offset-1; no other map has readers that do.
    if code3 != "plus-two" and kernels.occurs(payload, dialect.code_map.unused, _count(threads)):
        return None
    return payload, tail


def _only(scale: Any, tensor: Payloads) -> Any:
    """The scale of a tensor that has one payload."""
    scales = np.asarray(scale)
    if scales.shape not in {(), (1,)}:
        raise ValueError(f"{tensor.count:,} payloads have one scale, or one each, not an array of shape {scales.shape}")
    return scales.reshape(())[()]


def _int8(array: NDArray[Any], dialect: Dialect) -> NDArray[np.int8]:
    """Trits as contiguous int8; values that int8 would make trits of are refused before."""
    if array.dtype != np.int8:
        if array.size and (int(array.min()) < -1 or int(array.max()) > 1):
            codes_of_trits(array, dialect.code_map)  # says which value it is
        array = array.astype(np.int8)
    return np.ascontiguousarray(array).reshape(-1)


def _count(threads: int) -> int:
    if threads < 1:
        raise ValueError(f"{threads} threads do nothing; at least 1 is needed")
    return threads


def _result(nbytes: int, out: Any) -> tuple[Any, NDArray[np.uint8]]:
    """Where a tensor's bytes go, and a view to write them: `out`, or new bytes."""
    if out is None:
        made, view = _codec.fresh_bytes(nbytes)
        return made, np.frombuffer(view, dtype=np.uint8)
    view_of_out = octets(out)
    if view_of_out.size != nbytes:
        raise ValueError(f"the result takes {nbytes:,} bytes; out has {view_of_out.size:,}")
    if not view_of_out.flags.writeable:
        raise ValueError("out cannot be written to")
    return out, view_of_out


def _copied(done: bytes, out: Any) -> Any:
    _, view = _result(len(done), out)
    view[:] = np.frombuffer(done, dtype=np.uint8)
    return out


def _array(shape: tuple[int, ...], dtype: np.dtype[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    """An array to fill: `out` if it fits exactly, or a new one at an address that streaming stores take."""
    if out is None:
        nbytes = int(np.prod(shape, dtype=object)) * dtype.itemsize
        raw = np.empty(nbytes + ALIGNED, dtype=np.uint8)
        skip = -raw.ctypes.data % ALIGNED
        return raw[skip : skip + nbytes].view(dtype).reshape(shape)
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"the result is {dtype} of shape {shape}; out is {out.dtype} of shape {out.shape}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError("out is not a contiguous array that can be written to")
    return out


def _filled(out: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    array = _array(values.shape, values.dtype, out)
    array[...] = values
    return array
