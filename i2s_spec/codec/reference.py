"""This module defines what packing and unpacking of ternary weights mean, for every dialect that the schema declares.

It is the definition, not the fast path: the place of each code is computed from the layout's two formulas, element by
element, and from nothing else. Large tensors are worked through in windows, so that beside input and output only a few
megabytes are in use.

    >>> trits, scale = unpack(pack([[1, 0, -1, 0] * 32], 0.5), (1, 128))
    >>> trits[0, :4].tolist(), float(scale)
    ([1, 0, -1, 0], 0.5)
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.dialect import CODES_PER_BYTE, Dialect, Layout, Tail, parse
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: Elements that are worked on at a time; the index arrays of a window take some 10 MB.
WINDOW = 1 << 18


def pack(
    trits: ArrayLike, scale: float, dialect: str | Dialect = "canonical", *, byte_order: ByteOrder = "little"
) -> bytes:
    """The bytes of a ternary tensor: payload, then tail (clauses 5.5 and 6.1).

    :param trits: integers -1, 0 and +1, [rows, cols] or [n]
    :param scale: what +1 stands for; stored as float32, whatever its value
    :param dialect: a name or a `Dialect`
    :param byte_order: of the file that the scale is written for; the payload has none
    :returns: n/4 + 32 bytes
    :raises TypeError: if `trits` are not integers
    :raises ValueError: for other values than -1, 0, +1, for a shape that the layout cannot hold, and for a scale beyond
        what a float32 holds
    """
    dialect = parse(dialect)
    array = np.asarray(trits)
    if array.dtype.kind not in "iu":
        raise TypeError(f"trits are integers -1, 0 and +1, not {array.dtype}")
    rows, cols = matrix(array.shape)
    dialect.layout.check(rows, cols)
    tail = write_tail(scale, dialect.tail, byte_order)

    code_of = np.array([dialect.code_map.code_of(trit) for trit in (-1, 0, 1)], dtype=np.uint8)
    flat = array.reshape(-1)
    wrong = first = 0
    codes = np.empty(flat.size, dtype=np.uint8)
    for start, stop in windows(flat.size):
        part = flat[start:stop]
        bad = (part < -1) | (part > 1)
        if bad.any():
            first = first if wrong else start + int(bad.argmax())
            wrong += int(np.count_nonzero(bad))
        elif not wrong:
            codes[start:stop] = code_of[part.astype(np.int8) + 1]
    if wrong:
        raise ValueError(f"{wrong:,} values are not -1, 0 or +1; the first is {flat[first]} {place(first, cols)}")
    return pack_codes(codes.reshape(rows, cols), dialect.layout) + tail


def unpack(
    data: Any, shape: Sequence[int], dialect: str | Dialect = "canonical", *, byte_order: ByteOrder = "little"
) -> tuple[NDArray[np.int8], np.float32]:
    """The trits and the scale of a ternary tensor (clauses 5.5 and 6.1).

    :param data: payload and tail, anything with the buffer protocol
    :param shape: (rows, cols) or (n,), the order of NumPy
    :param dialect: a name or a `Dialect`
    :param byte_order: of the file that the bytes come from; concerns the scale only
    :returns: int8 trits of the given shape, float32 scale
    :raises ValueError: for a shape that the layout cannot hold, for data of another size than n/4 + 32, for the code
        that stands for nothing, and for copies of the scale that differ
    """
    dialect = parse(dialect)
    rows, cols = matrix(shape)
    dialect.layout.check(rows, cols)
    payload_bytes = rows * cols // CODES_PER_BYTE
    raw = np.frombuffer(data, dtype=np.uint8)
    if raw.size != payload_bytes + TAIL_BYTES:
        raise ValueError(
            f"{rows:,} x {cols:,} elements take {payload_bytes:,} bytes of payload and {TAIL_BYTES} of tail; "
            f"there are {raw.size:,} bytes"
        )
    scale = read_tail(raw[payload_bytes:], dialect.tail, byte_order)

    codes = unpack_codes(raw[:payload_bytes], (rows, cols), dialect.layout).reshape(-1)
    unused = dialect.code_map.unused
    trit_of = np.array([0 if trit is None else trit for trit in dialect.code_map.trits], dtype=np.int8)
    trits = np.empty(codes.size, dtype=np.int8)
    wrong = first = 0
    for start, stop in windows(codes.size):
        part = codes[start:stop]
        bad = part == unused
        if bad.any():
            first = first if wrong else start + int(bad.argmax())
            wrong += int(np.count_nonzero(bad))
        trits[start:stop] = trit_of[part]
    if wrong:
        raise ValueError(
            f"code {unused} stands for nothing in {dialect.code_map}; "
            f"it occurs {wrong:,} times, first {place(first, cols)}"
        )
    return trits.reshape(tuple(shape)), scale


def pack_codes(codes: NDArray[np.uint8], layout: Layout) -> bytes:
    """The payload that holds codes 0 to 3, uint8 [rows, cols], in a layout; n/4 bytes (clause 5.5)."""
    rows, cols = codes.shape
    layout.check(rows, cols)
    flat = codes.reshape(-1)
    payload = np.zeros(flat.size // CODES_PER_BYTE, dtype=np.uint8)
    for start, stop in windows(flat.size):
        k = np.arange(start, stop, dtype=np.int64)
        byte, shift = layout.byte_of(k, rows, cols), layout.shift_of(k, rows, cols)
        for bits in (6, 4, 2, 0):  # no two elements of one shift share a byte, so none is lost in the assignment
            here = shift == bits
            payload[byte[here]] |= flat[start:stop][here] << np.uint8(bits)
    return payload.tobytes()


def unpack_codes(payload: Any, shape: tuple[int, int], layout: Layout) -> NDArray[np.uint8]:
    """The codes 0 to 3 that a payload holds, uint8 [rows, cols], whatever they stand for (clause 5.5)."""
    rows, cols = shape
    layout.check(rows, cols)
    raw = np.frombuffer(payload, dtype=np.uint8)
    if raw.size != (want := rows * cols // CODES_PER_BYTE):
        raise ValueError(f"{rows:,} x {cols:,} codes take {want:,} bytes; there are {raw.size:,} bytes")
    codes = np.empty(rows * cols, dtype=np.uint8)
    for start, stop in windows(codes.size):
        k = np.arange(start, stop, dtype=np.int64)
        shift = layout.shift_of(k, rows, cols).astype(np.uint8)
        codes[start:stop] = raw[layout.byte_of(k, rows, cols)] >> shift & 3
    return codes.reshape(rows, cols)


def write_tail(scale: float, tail: Tail, byte_order: ByteOrder = "little") -> bytes:
    """The 32 bytes behind the payload; what is not the scale is zero (clause 6.1)."""
    value = float(scale)
    if isfinite(value) and abs(value) >= _FLOAT32_END:
        raise ValueError(f"the scale {value} is beyond what a float32 holds")
    word = np.array([scale], dtype=np.float32).astype(_FLOAT32[byte_order]).tobytes()
    return (word * tail.copies).ljust(TAIL_BYTES, b"\0")


def read_tail(data: Any, tail: Tail, byte_order: ByteOrder = "little") -> np.float32:
    """The scale that a tail of 32 bytes holds (clause 6.1)."""
    words = np.frombuffer(data, dtype=np.uint8)
    if words.size != TAIL_BYTES:
        raise ValueError(f"a tail has {TAIL_BYTES} bytes; there are {words.size:,}")
    first, *others = (words[start : start + 4].tobytes() for start in range(0, 4 * tail.copies, 4))
    for number, other in enumerate(others, 1):
        if other != first:
            raise ValueError(f"{tail} repeats the scale, but copy {number} is {other.hex()} and copy 0 {first.hex()}")
    scale: np.float32 = np.frombuffer(first, dtype=_FLOAT32[byte_order]).astype(np.float32)[0]
    return scale


def matrix(shape: Sequence[int]) -> tuple[int, int]:
    """Rows and columns of a shape (rows, cols) or (n,); the latter is one row."""
    sizes = [operator.index(size) for size in shape]
    if len(sizes) not in {1, 2}:
        raise ValueError(f"a ternary tensor has 1 or 2 dimensions, not {len(sizes)}")
    if any(size <= 0 for size in sizes):
        raise ValueError(f"the shape {tuple(sizes)} holds no elements")
    return (1, sizes[0]) if len(sizes) == 1 else (sizes[0], sizes[1])


def windows(n: int) -> Iterator[tuple[int, int]]:
    """Ranges of at most `WINDOW` elements that cover `n`."""
    return ((start, min(start + WINDOW, n)) for start in range(0, n, WINDOW))


def place(k: int, cols: int) -> str:
    """Where element `k` is, for a message."""
    return f"at element {k:,} (row {k // cols:,}, column {k % cols:,})"


_FLOAT32 = {"little": np.dtype("<f4"), "big": np.dtype(">f4")}

#: The first magnitude that rounds to infinity: halfway between the largest float32 and the next that there would be.
_FLOAT32_END = (2 - 2**-24) * 2.0**127
