"""This module is the fast path of payloads: the definition of `payload` with compiled kernels for the loops.

A payload has no tail, and so no scale: `native` adds both. Same names, parameters, answers and errors as the
definition; two more parameters, `out` (a result of exactly the right size to write into) and `threads`. Property tests
compare both.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec import _codec, kernels
from i2s_spec.codec import payload as definition
from i2s_spec.codec.payload import UnusedCode, codes_of_trits, recoded_codes, sized, trits_of_codes
from i2s_spec.codec.shape import octets
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CODES_PER_BYTE, Dialect, Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Arrays that the kernels fill begin at multiples of this.
ALIGNED = 64


def pack_codes(codes: NDArray[np.uint8], layout: Layout, *, out: Any = None, threads: int = 1) -> Any:
    """The payload that holds codes 0 to 3, uint8 [rows, cols], in a layout; as `payload.pack_codes`."""
    rows, cols = codes.shape
    layout.check(rows, cols)
    if not kernels.is_runs(layout):
        return copied(definition.pack_codes(codes, layout), out)
    made, view = bytes_to_fill(codes.size // CODES_PER_BYTE, out)
    where = kernels.run_layout(layout, rows, cols)
    flat = np.ascontiguousarray(codes).reshape(-1)
    if not kernels.pack(flat, where, None, view, thread_count(threads)):
        definition.check_codes(codes)  # says which value it is
        raise AssertionError("the kernels refused what the definition takes")
    return made


def unpack_codes(
    payload: Any, shape: tuple[int, int], layout: Layout, *, out: NDArray[np.uint8] | None = None, threads: int = 1
) -> NDArray[np.uint8]:
    """The codes 0 to 3 that a payload holds, uint8 [rows, cols]; as `payload.unpack_codes`."""
    raw = sized(payload, shape, layout)
    if not kernels.is_runs(layout):
        return filled(out, definition.unpack_codes(raw, shape, layout))
    array = array_to_fill(shape, np.dtype(np.uint8), out)
    kernels.unpack(raw, kernels.run_layout(layout, *shape), None, array.reshape(-1), thread_count(threads))
    return array


def pack_trits(trits: NDArray[Any], dialect: Dialect, *, out: Any = None, threads: int = 1) -> Any:
    """The payload that holds trits, integers [rows, cols]; as `payload.pack_trits`."""
    rows, cols = trits.shape
    dialect.layout.check(rows, cols)
    if not kernels.is_runs(dialect.layout):
        return copied(definition.pack_trits(trits, dialect), out)
    flat = _int8(trits, dialect)
    made, view = bytes_to_fill(flat.size // CODES_PER_BYTE, out)
    where = kernels.run_layout(dialect.layout, rows, cols)
    if not kernels.pack(flat.view(np.uint8), where, dialect.code_map, view, thread_count(threads)):
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
    """The trits that a payload holds, int8 [rows, cols]; as `payload.unpack_trits`."""
    raw = sized(payload, shape, dialect.layout)
    if not (kernels.is_runs(dialect.layout) and kernel_can_read(raw, dialect, unused_code, threads)):
        return filled(out, definition.unpack_trits(raw, shape, dialect, unused_code))
    array = array_to_fill(shape, np.dtype(np.int8), out)
    where = kernels.run_layout(dialect.layout, *shape)
    kernels.unpack(raw, where, dialect.code_map, array.reshape(-1).view(np.uint8), thread_count(threads))
    return array


def recode(
    payload: Any, shape: tuple[int, int], source: Dialect, target: Dialect, *, out: Any = None, threads: int = 1
) -> Any:
    """The same trits in another dialect; as `payload.recode`.

    Between layouts that are permutations of blocks, or of rows of whole blocks, codes never leave the processor's
    registers. The result does not go into the payload's own bytes.
    """
    raw = sized(payload, shape, source.layout)
    target.layout.check(*shape)
    if not (kernels.is_runs(source.layout) and kernels.is_runs(target.layout)):
        return copied(definition.recode(raw, shape, source, target), out)
    made, view = bytes_to_fill(raw.size, out)
    if np.may_share_memory(view, raw):
        raise ValueError("a tensor cannot be transcoded into its own bytes")
    codes = recoded_codes(source.code_map, target.code_map)
    kernels.recode(raw, *shape, source.layout, target.layout, codes, view, thread_count(threads))
    return made


def count_codes(payload: Any, *, threads: int = 1) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs, which is the same in every layout; as `payload.count_codes`."""
    return kernels.histogram(octets(payload), thread_count(threads))


def kernel_can_read(payload: NDArray[np.uint8], dialect: Dialect, unused_code: UnusedCode, threads: int) -> bool:
    """Whether every code of a payload means what the arithmetic of the kernels makes of it."""
    trits_of_codes(dialect.code_map, unused_code)  # refuses policies that do not exist
    # The kernels take the code minus 1, and so make +2 of code 3 in offset-1; no other map has readers that do.
    return unused_code == "plus-two" or not kernels.occurs(payload, dialect.code_map.unused, thread_count(threads))


def _int8(array: NDArray[Any], dialect: Dialect) -> NDArray[np.int8]:
    """Trits as contiguous int8; values that int8 would make trits of are refused before."""
    if array.dtype != np.int8:
        if array.size and (int(array.min()) < -1 or int(array.max()) > 1):
            codes_of_trits(array, dialect.code_map)  # says which value it is
        array = array.astype(np.int8)
    return np.ascontiguousarray(array).reshape(-1)


def thread_count(threads: int) -> int:
    """How many threads may work: at least one."""
    if threads < 1:
        raise ValueError(f"{counted(threads, 'thread does', 'threads do')} nothing; at least 1 is needed")
    return threads


def bytes_to_fill(nbytes: int, out: Any) -> tuple[Any, NDArray[np.uint8]]:
    """Where a tensor's bytes go, and a view to write them: `out`, or new bytes."""
    if out is None:
        made, view = _codec.fresh_bytes(nbytes)
        return made, np.frombuffer(view, dtype=np.uint8)
    view_of_out = octets(out)
    if view_of_out.size != nbytes:
        raise ValueError(f"the result takes {counted(nbytes, 'byte')}; out has {view_of_out.size:,}")
    if not view_of_out.flags.writeable:
        raise ValueError("out cannot be written to")
    return out, view_of_out


def copied(done: bytes, out: Any) -> Any:
    """The bytes, written into `out` where there is one."""
    if out is None:
        return done
    _, view = bytes_to_fill(len(done), out)
    view[:] = np.frombuffer(done, dtype=np.uint8)
    return out


def array_to_fill(shape: tuple[int, ...], dtype: np.dtype[Any], out: NDArray[Any] | None) -> NDArray[Any]:
    """An array to fill: `out` if it fits exactly, or a new one at an address that streaming stores take."""
    if out is None:
        nbytes = prod(shape) * dtype.itemsize
        raw = np.empty(nbytes + ALIGNED, dtype=np.uint8)
        skip = -_codec.address(raw) % ALIGNED  # `raw.ctypes` makes objects, which counts for small tensors
        return raw[skip : skip + nbytes].view(dtype).reshape(shape)
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(f"the result is {dtype} of shape {shape}; out is {out.dtype} of shape {out.shape}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        raise ValueError("out is not a contiguous array that can be written to")
    return out


def filled(out: NDArray[Any] | None, values: NDArray[Any]) -> NDArray[Any]:
    """The values, written into `out` where there is one."""
    if out is None:
        return values
    array = array_to_fill(values.shape, values.dtype, out)
    array[...] = values
    return array
