"""This module defines BitLinear: activations become int8 codes, codes and trits an integer, the integer a float.

It is the definition, not the fast path. Of one token x, float32 [K], and a ternary matrix, trits w [N, K] and one float32
scale ws, where f32() is one rounding to float32 and codes c are what the payload stores:

    amax = max(max |x|, 1e-5)           compared in float64
    s    = f32(127 / amax)              a multiplier; divided in float64
    q    = rint(f32(x s))               half to even, then clamped to -128..127; 0 where x s is NaN
    dot  = sum of c q                   int32
    acc  = dot - sum of q               int32; the sum of w q, as c is w + 1
    y    = f32(f32(f32(acc) / s) ws)

Up to acc nothing depends on the order of anything: two implementations agree on every bit or one of them is wrong.

Infinities and NaN follow from these lines. A NaN in x makes amax, s and all of y NaN; an infinity makes s 0, and y = 0/0,
NaN again. In both cases all codes are 0, and no other token is touched.

    >>> activations = quantize_activations(np.array([[0.5, -1.0, 0.25, 0.0]], dtype=np.float32))
    >>> activations.codes.tolist(), float(activations.scale[0]), int(activations.sums[0])
    ([[64, -127, 32, 0]], 127.0, -31)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec.payload import unpack_codes
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The magnitude below which a token's largest element does not count: a token of zeros gets codes 0, not 0/0.
FLOOR: Final = 1e-5
#: The code that a token's largest element gets.
LARGEST: Final = 127.0
#: Columns up to which no dot product leaves int32, whatever the codes: the worst element is 3 times -128.
MAX_COLUMNS: Final = 2**31 // (3 * 128)

#: Weights that are unpacked at a time.
_WINDOW: Final = 1 << 22


class Activations(NamedTuple):
    """Tokens as integers.

    :param codes: int8 [T, K]
    :param scale: float32 [T], what the elements were multiplied with
    :param sums: int32 [T], the sum of each token's codes
    """

    codes: NDArray[np.int8]
    scale: NDArray[np.float32]
    sums: NDArray[np.int32]


def quantize_activations(x: NDArray[np.float32]) -> Activations:
    """Tokens as int8 codes with one scale each.

    :param x: float32 [T, K]
    :raises TypeError: for another type of element
    :raises ValueError: for another number of dimensions
    """
    check_tokens(x)
    with np.errstate(all="ignore"):  # infinities and NaN are answers
        amax = np.abs(x).max(axis=1, initial=0.0).astype(np.float64)
        scale = (LARGEST / np.maximum(amax, FLOOR)).astype(np.float32)
        products = x * scale[:, None]
        rounded = np.clip(np.rint(products), -128.0, 127.0)
        codes = np.where(np.isnan(products), np.float32(0), rounded).astype(np.int8)
    return Activations(codes, scale, codes.sum(axis=1, dtype=np.int32))


def dot(payload: Any, rows: int, columns: int, codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """The sums of weight codes times activation codes: what kernels compute before the offset is taken off.

    A weight's code counts as the number 0 to 3 that it is, the unused 3 too.

    :param payload: the weights in the canonical layout, rows * columns / 4 bytes; anything with the buffer protocol
    :param codes: int8 [T, columns]
    :returns: int32 [T, rows]
    :raises TypeError: for activation codes of another type
    :raises ValueError: for a matrix that is not a whole number of blocks, for a payload or activation codes of another size,
        and for more than `MAX_COLUMNS` columns, where int32 might not hold the sums
    """
    check_product(codes, rows, columns)
    weights = unpack_codes(payload, (rows, columns), CANONICAL.layout)
    activations = codes.astype(np.int32)
    sums = np.empty((len(codes), rows), dtype=np.int32)
    step = max(1, _WINDOW // columns)
    for start in range(0, rows, step):
        part = weights[start : start + step]
        np.matmul(activations, part.astype(np.int32).T, out=sums[:, start : start + len(part)])
    return sums


def accumulate(payload: Any, rows: int, columns: int, codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """The sums of trits times activation codes; code 3 counts as +2, as in released kernels (clause 5.4).

    Parameters and errors are those of `dot`.

    :returns: int32 [T, rows]
    """
    sums: NDArray[np.int32] = dot(payload, rows, columns, codes)
    sums -= codes.sum(axis=1, dtype=np.int32)[:, None]
    return sums


def epilogue(
    acc: NDArray[np.int32], scale: NDArray[np.float32], weight_scale: float | np.float32 | NDArray[np.float32]
) -> NDArray[np.float32]:
    """The floats that sums stand for, three roundings to float32; whatever the scales are is followed.

    :param acc: int32 [T, N]
    :param scale: float32 [T], of the activations: a divisor here
    :param weight_scale: float32, of the weights; [N] where each row has its own
    :returns: float32 [T, N]
    """
    with np.errstate(all="ignore"):  # NaN, 0 and infinity as scales are answered by what they give
        quotients: NDArray[np.float32] = acc.astype(np.float32) / scale[:, None]
        quotients *= np.asarray(weight_scale, dtype=np.float32)
    return quotients


def linear(
    payload: Any, weight_scale: float | np.float32, rows: int, columns: int, x: NDArray[np.float32]
) -> NDArray[np.float32]:
    """BitLinear: float32 [T, columns] to float32 [T, rows], by the three steps of this module."""
    activations = quantize_activations(x)
    return epilogue(accumulate(payload, rows, columns, activations.codes), activations.scale, weight_scale)


def check_tokens(x: NDArray[np.float32]) -> None:
    """Refuse what is not float32 [T, K]."""
    if x.dtype != np.float32:
        raise TypeError(f"activations are float32, not {x.dtype}")
    if x.ndim != 2:
        raise ValueError(f"activations have the shape [tokens, columns], not {list(x.shape)}")


def check_product(codes: NDArray[np.int8], rows: int, columns: int) -> None:
    """Refuse activation codes that do not fit a matrix, and a matrix whose sums int32 might not hold."""
    if codes.dtype != np.int8:
        raise TypeError(f"activation codes are int8, not {codes.dtype}")
    if columns > MAX_COLUMNS:
        raise ValueError(f"with {counted(columns, 'column')} a sum may leave int32; {MAX_COLUMNS:,} is the most")
    if rows < 0 or columns < 1:
        raise ValueError(f"a matrix of {counted(rows, 'row')} and {counted(columns, 'column')} holds no weights")
    if codes.ndim != 2 or codes.shape[1] != columns:
        raise ValueError(f"activation codes have the shape [tokens, {columns:,}], not {list(codes.shape)}")
    CANONICAL.layout.check(rows, columns)
