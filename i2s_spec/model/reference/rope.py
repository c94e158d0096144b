"""This module rotates heads by their positions: with the angles of each profile, and the two arrangements of pairs.

Pair i of a head with d rotated dimensions is rotated by position * base^(-2i/d). It consists of the elements i and i +
d/2 (`neox`), or 2i and 2i + 1 (`norm`, for files whose rows were permuted at conversion).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.model.arithmetic import transcendental
from i2s_spec.model.reference import ggml_math

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def rotate(x: Floats, cos: Floats, sin: Floats, pairs: str, fused: bool = False) -> Floats:
    """Rotated heads; each element takes two products and one sum in float32.

    :param x: float32 [T, heads, d]; elements after the rotated dimensions stay the same
    :param cos: float32 [T, pairs], like `sin`
    :param pairs: `neox` or `norm`
    :param fused: add the product with the pair's first element unrounded to the other one
    """
    count = cos.shape[1]
    out = x.copy()
    if pairs == "neox":
        first, second = slice(0, count), slice(count, 2 * count)
    else:
        first, second = slice(0, 2 * count, 2), slice(1, 2 * count, 2)
    a, b = x[..., first], x[..., second]
    c, s = cos[:, None], sin[:, None]
    if fused:
        out[..., first] = ggml_math.fma(a, c, -(b * s))
        out[..., second] = ggml_math.fma(a, s, b * c)
    else:
        out[..., first] = a * c - b * s
        out[..., second] = a * s + b * c
    return out


def cos_sin(
    how: str, positions: NDArray[np.int64], base: float, dims: int, scale: float, factors: Floats | None
) -> tuple[Floats, Floats]:
    """Cosine and sine of every pair at every position, float32 [T, dims / 2] each.

    :param how: `f64`: the frequency base^(-2i/d) correctly rounded to float64, one product with the position, cosine and
        sine in float64, rounded once; `recurrence`: float32 products by f32(base^(-2/d)), as ggml; `f32`: float32 frequency
        1 / base^(2i/d) times position
    :param scale: the factor of positions
    :param factors: the divisors of frequencies, float32 [dims / 2]
    """
    angles = _ANGLES[how](positions, base, dims, scale, factors)
    cos, sin = transcendental.cos_sin(angles)
    return cos.astype(np.float32), sin.astype(np.float32)


def _f64(
    positions: NDArray[np.int64], base: float, dims: int, scale: float, factors: Floats | None
) -> NDArray[np.float64]:
    frequencies = transcendental.power(base, tuple((-2 * i, dims) for i in range(dims // 2)))
    if factors is not None:
        frequencies = frequencies / factors.astype(np.float64)
    return (positions.astype(np.float64) * scale)[:, None] * frequencies


def _recurrence(
    positions: NDArray[np.int64], base: float, dims: int, scale: float, factors: Floats | None
) -> NDArray[np.float64]:
    step = np.float32(transcendental.power(base, ((-2, dims),))[0])
    theta = positions.astype(np.float32)
    angles = np.empty((len(positions), dims // 2), dtype=np.float32)
    for i in range(dims // 2):
        angles[:, i] = theta if factors is None else theta / factors[i]
        theta = theta * step
    return (angles * np.float32(scale)).astype(np.float64)


def _f32(
    positions: NDArray[np.int64], base: float, dims: int, scale: float, factors: Floats | None
) -> NDArray[np.float64]:
    powers = transcendental.power(base, tuple((2 * i, dims) for i in range(dims // 2))).astype(np.float32)
    frequencies = np.float32(1) / powers
    if factors is not None:
        frequencies = frequencies / factors
    return ((positions.astype(np.float32) * np.float32(scale))[:, None] * frequencies).astype(np.float64)


_ANGLES = {"f64": _f64, "recurrence": _recurrence, "f32": _f32}
