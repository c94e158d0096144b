"""This module defines what packing and unpacking of ternary weights mean, for every dialect that the schema declares.

It is the definition, not the fast path: the place of each code is computed from the layout's two formulas, element by
element, and from nothing else. Large tensors are worked through in windows, so that beside input and output only a few
megabytes and a byte for each element are in use. What needs codes only, and no weights, is in `recode`.

    >>> trits, scale = unpack(pack([[1, 0, -1, 0] * 32], 0.5), (1, 128))
    >>> trits[0, :4].tolist(), float(scale)
    ([1, 0, -1, 0], 0.5)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec.payload import (
    UnusedCode,
    UnusedCodeError,
    codes_of_trits,
    held_codes,
    join,
    pack_codes,
    trits_of_codes,
    unpack_codes,
)
from i2s_spec.codec.recode import Scan, histogram, scan, transcode
from i2s_spec.codec.remainder.dropped import check_readable, check_writable
from i2s_spec.codec.shape import PayloadShape, matrix, payload_shape, place, windows
from i2s_spec.codec.tail import one_scale, read_tail, write_tail
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.dialect import Dialect, parse

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

#: The whole definition is available here, wherever its parts are.
__all__ = [
    "Scan",
    "UnusedCodeError",
    "dequantize",
    "histogram",
    "matrix",
    "pack",
    "pack_codes",
    "place",
    "read_tail",
    "scan",
    "transcode",
    "trits_of_codes",
    "unpack",
    "unpack_codes",
    "windows",
    "write_tail",
]


def pack(
    trits: ArrayLike,
    scale: float | ArrayLike,
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    strict: bool = True,
) -> bytes:
    """The bytes of a ternary tensor: payload, then tail (clauses 5.5 and 6.1).

    :param trits: integers -1, 0 and +1, [rows, cols] or [n]
    :param scale: what +1 stands for; stored as float32, whatever its value
    :param dialect: a name or a `Dialect`
    :param byte_order: of the file that the scale is written for; the payload has none
    :param strict: refuse elements outside whole blocks, and rows that begin inside a block (clause 5.3). If False, write
        what the released quantizer of the layout writes, whole blocks and zeros, with an `UndefinedElementsWarning`
    :returns: n/4 + 32 bytes, rounded down
    :raises TypeError: if `trits` are not integers
    :raises ValueError: for other values than -1, 0, +1, for a shape that the layout cannot hold, and for a scale beyond
        what a float32 holds
    """
    dialect = parse(dialect)
    array = np.asarray(trits)
    if array.dtype.kind not in "iu":
        raise TypeError(f"trits are integers -1, 0 and +1, not {array.dtype}")
    tensor = payload_shape(array.shape)
    check_writable(dialect.layout, tensor, strict=strict)
    tail = write_tail(one_scale(scale), dialect.tail, byte_order)
    return join(codes_of_trits(array, dialect.code_map), tensor, dialect.layout, tail)


def unpack(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode = "reject",
    strict: bool = True,
) -> tuple[NDArray[np.int8], np.float32]:
    """The trits and the scale of a ternary tensor (clauses 5.5 and 6.1).

    :param data: payload and tail, anything with the buffer protocol
    :param shape: (rows, cols) or (n,), the order of NumPy
    :param dialect: a name or a `Dialect`
    :param byte_order: of the file that the bytes come from; concerns the scale only
    :param unused_code: what the unused code becomes: `reject` (an error), `zero`, or `plus-two`
    :param strict: refuse a tensor with an incomplete last block (clause 5.3). If False, these are 0, and an
        `UndefinedElementsWarning` says which they are
    :returns: int8 trits of the given shape, float32 scale
    :raises ValueError: for a shape that the layout cannot hold, for data of another size than n/4 + 32, for copies of the
        scale that differ, and for `plus-two` with a code map where no program reads +2
    :raises UnusedCodeError: for the unused code, which is a ValueError, unless `unused_code` has an answer
    """
    dialect = parse(dialect)
    tensor = payload_shape(shape)
    check_readable(dialect.layout, tensor, strict=strict)
    trits, scale = _decode(data, tensor, dialect, byte_order, unused_code)
    return trits.reshape(tuple(shape)), scale


def dequantize(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    unused_code: UnusedCode = "reject",
    strict: bool = True,
) -> NDArray[np.float32]:
    """The weights of a ternary tensor: each is its trit times the scale, one multiplication of float32 (clause 6.2).

    So 0 times a negative scale is -0.0, and everything times NaN is NaN. Parameters and errors are those of `unpack`;
    elements of an incomplete last block, if not `strict`, are 0 times the scale.

    :returns: float32 weights of the given shape
    """
    dialect = parse(dialect)
    tensor = payload_shape(shape)
    check_readable(dialect.layout, tensor, strict=strict)
    trits, scale = _decode(data, tensor, dialect, byte_order, unused_code)
    weights = np.empty(trits.shape, dtype=np.float32)
    with np.errstate(all="ignore"):  # infinities and NaN are answers here
        for start, stop in windows(tensor.elements):
            np.multiply(trits[start:stop].astype(np.float32), scale, out=weights[start:stop])
    return weights.reshape(tuple(shape))


def _decode(
    data: Any, tensor: PayloadShape, dialect: Dialect, byte_order: ByteOrder, unused_code: UnusedCode
) -> tuple[NDArray[np.int8], np.float32]:
    """Trits [elements] and the scale."""
    trit_of = trits_of_codes(dialect.code_map, unused_code)
    payload, tail = tensor.split(data)
    scale = read_tail(tail, dialect.tail, byte_order)
    trits = np.zeros(tensor.elements, dtype=np.int8)
    unused = dialect.code_map.unused
    wrong = first = 0
    codes = held_codes(payload, tensor, dialect.layout)
    for start, stop in windows(codes.size):
        bad = codes[start:stop] == unused
        if unused_code == "reject" and bad.any():
            first = first if wrong else start + int(bad.argmax())
            wrong += int(np.count_nonzero(bad))
        trits[start:stop] = trit_of[codes[start:stop]]
    if wrong:
        raise UnusedCodeError(unused, dialect.code_map.name, wrong, first, tensor.cols)
    return trits, scale
