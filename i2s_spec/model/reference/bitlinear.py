"""This module defines BitLinear: activations become int8 codes, codes and trits an integer, the integer a float.

It is the definition, not the fast path. For one token x, float32 [K], and a ternary matrix with trits w [N, K] and one
float32 scale ws, where f32() is one rounding to float32 and c are the codes that the payload stores:

    amax = max(max |x|, 1e-5)           compared in float64
    s    = f32(127 / amax)              a multiplier; divided in float64
    q    = rint(f32(x s))               half to even, then clamped to -128..127; 0 where x s is NaN
    dot  = sum of c q                   int32
    acc  = dot - sum of q               int32; the sum of w q, as c is w + 1
    y    = f32(f32(f32(acc) / s) ws)

Up to acc no result depends on the order of operations: two implementations agree on every bit, or one of them is wrong.

Infinities and NaN follow from these lines. A NaN in x makes amax, s and all of y NaN; an infinity makes s 0, and y =
0/0, NaN again. In both cases all codes are 0, and other tokens are not affected.

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

#: The lower bound of a token's largest magnitude: with it, a token of zeros gets codes 0, not 0/0.
FLOOR: Final = 1e-5
#: The magnitude of the code of a token's largest element.
LARGEST: Final = 127.0
#: Most columns for which no dot product overflows int32, whatever the codes: the worst element is 3 times -128.
MAX_COLUMNS: Final = 2**31 // (3 * 128)

#: Weights that are unpacked at a time.
_WINDOW: Final = 1 << 22


class Activations(NamedTuple):
    """Tokens as integers.

    :param codes: int8 [T, K]
    :param scale: float32 [T], the factors of the elements
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
    with np.errstate(all="ignore"):  # infinities and NaN are valid results
        amax = np.abs(x).max(axis=1, initial=0.0).astype(np.float64)
        scale = (LARGEST / np.maximum(amax, FLOOR)).astype(np.float32)
        products = x * scale[:, None]
        rounded = np.clip(np.rint(products), -128.0, 127.0)
        codes = np.where(np.isnan(products), np.float32(0), rounded).astype(np.int8)
    return Activations(codes, scale, codes.sum(axis=1, dtype=np.int32))


def dot(payload: Any, rows: int, columns: int, codes: NDArray[np.int8]) -> NDArray[np.int32]:
    """The sums of weight codes times activation codes, which kernels compute before they subtract the offset.

    A weight's code counts as a number from 0 to 3, including the unused 3.

    :param payload: the weights in the canonical layout, rows * columns / 4 bytes; any object with the buffer protocol
    :param codes: int8 [T, columns]
    :returns: int32 [T, rows]
    :raises TypeError: for activation codes of a wrong type
    :raises ValueError: for a matrix that is not a whole number of blocks, for a payload or activation codes of a wrong
        size, and for more than `MAX_COLUMNS` columns, where int32 might not hold the sums
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
    """The float values of sums, with three roundings to float32; scales that are 0 or not finite are used as they are.

    :param acc: int32 [T, N]
    :param scale: float32 [T], the scales of the activations, which are divisors here
    :param weight_scale: float32, the scale of the weights; [N] if each row has its own
    :returns: float32 [T, N]
    """
    with np.errstate(all="ignore"):  # scales that are NaN, 0 or infinite give their natural results
        quotients: NDArray[np.float32] = acc.astype(np.float32) / scale[:, None]
        quotients *= np.asarray(weight_scale, dtype=np.float32)
    return quotients


def linear(
    payload: Any, weight_scale: float | np.float32, rows: int, columns: int, x: NDArray[np.float32]
) -> NDArray[np.float32]:
    """BitLinear: float32 [T, columns] to float32 [T, rows], with the three steps of this module."""
    activations = quantize_activations(x)
    return epilogue(accumulate(payload, rows, columns, activations.codes), activations.scale, weight_scale)


def check_tokens(x: NDArray[np.float32]) -> None:
    """Refuse arrays that are not float32 [T, K]."""
    if x.dtype != np.float32:
        raise TypeError(f"activations must be float32, not {x.dtype}")
    if x.ndim != 2:
        raise ValueError(f"activations must have the shape [tokens, columns], not {list(x.shape)}")


def check_product(codes: NDArray[np.int8], rows: int, columns: int) -> None:
    """Refuse activation codes that do not fit a matrix, and a matrix whose sums could overflow int32."""
    if codes.dtype != np.int8:
        raise TypeError(f"activation codes must be int8, not {codes.dtype}")
    if columns > MAX_COLUMNS:
        raise ValueError(
            f"with {counted(columns, 'column')} a sum could overflow int32; the maximum is {MAX_COLUMNS:,}"
        )
    if rows < 0 or columns < 1:
        raise ValueError(f"a matrix of {counted(rows, 'row')} and {counted(columns, 'column')} holds no weights")
    if codes.ndim != 2 or codes.shape[1] != columns:
        raise ValueError(f"activation codes must have the shape [tokens, {columns:,}], not {list(codes.shape)}")
    CANONICAL.layout.check(rows, columns)
