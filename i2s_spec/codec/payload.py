"""This module turns codes into payloads and back, by the two formulas of a layout and nothing else (clause 5.5).

What a code stands for is no matter here. A layout packs whole blocks; `pack_codes` and `unpack_codes` take nothing else,
the other two leave out what is in none, as released quantisers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec.remainder import held
from i2s_spec.codec.shape import Payloads, octets, place, windows
from i2s_spec.schema.dialect import CODES_PER_BYTE, CodeMap, Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray


def pack_codes(codes: NDArray[np.uint8], layout: Layout) -> bytes:
    """The payload that holds codes 0 to 3, uint8 [rows, cols], in a layout; n/4 bytes (clause 5.5).

    :raises ValueError: for a shape that is no whole number of blocks
    """
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
    """The codes 0 to 3 that a payload holds, uint8 [rows, cols], whatever they stand for (clause 5.5).

    :raises ValueError: for a shape that is no whole number of blocks, and for a payload of another size than n/4 bytes
    """
    rows, cols = shape
    layout.check(rows, cols)
    raw = octets(payload)
    if raw.size != (want := rows * cols // CODES_PER_BYTE):
        raise ValueError(f"{rows:,} x {cols:,} codes take {want:,} bytes; there are {raw.size:,} bytes")
    codes = np.empty(rows * cols, dtype=np.uint8)
    for start, stop in windows(codes.size):
        k = np.arange(start, stop, dtype=np.int64)
        shift = layout.shift_of(k, rows, cols).astype(np.uint8)
        codes[start:stop] = raw[layout.byte_of(k, rows, cols)] >> shift & 3
    return codes.reshape(rows, cols)


def codes_of_trits(trits: NDArray[Any], code_map: CodeMap) -> NDArray[np.uint8]:
    """The codes of trits -1, 0 and +1, flat.

    :raises ValueError: for other values
    """
    code_of = np.array([code_map.code_of(trit) for trit in (-1, 0, 1)], dtype=np.uint8)
    flat = trits.reshape(-1)
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
        at = place(first, trits.shape[-1])
        raise ValueError(f"{wrong:,} values are not -1, 0 or +1; the first is {flat[first]} {at}")
    return codes


def held_codes(payload: NDArray[np.uint8], tensor: Payloads, layout: Layout) -> NDArray[np.uint8]:
    """The codes in the whole blocks of a payload of floor(n/4) bytes: those of the first elements, flat."""
    rows, cols = held(layout, tensor.rows, tensor.cols)
    return unpack_codes(payload[: rows * cols // CODES_PER_BYTE], (rows, cols), layout).reshape(-1)


def join(codes: NDArray[np.uint8], tensor: Payloads, layout: Layout, tails: Sequence[bytes]) -> bytes:
    """The bytes of a tensor: for each payload its whole blocks, zeros up to floor(n/4) bytes, and its tail."""
    rows, cols = held(layout, tensor.rows, tensor.cols)
    parts = []
    for each, tail in zip(codes.reshape(tensor.count, -1), tails, strict=True):
        blocks = pack_codes(each[: rows * cols].reshape(rows, cols), layout)
        parts += [blocks, bytes(tensor.payload_bytes - len(blocks)), tail]
    return b"".join(parts)
