"""Attention on one sequence: heads rotated by position, scores, soft-max, and weighted values, with grouped heads.

Query head h uses key and value head h // (H / G). Query heads that share a key head are multiplied together, as rows of
one matrix; this does not change results, because each product is a separate sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.model.reference import ggml_math, reductions, transcendental

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Products = Callable[[Floats, NDArray[Any]], Floats]


def scores(q: Floats, keys: NDArray[Any], products: Products) -> Floats:
    """q k^T of every query head, neither scaled nor masked: float32 [H, T, S].

    :param q: float32 [T, H, d]
    :param keys: float32 or float16 [S, G, d]
    """
    (tokens, heads, width), groups = q.shape, keys.shape[1]
    out = np.empty((heads, tokens, len(keys)), dtype=np.float32)
    share = heads // groups
    for g in range(groups):
        mine = slice(g * share, (g + 1) * share)
        x = np.ascontiguousarray(q[:, mine].transpose(1, 0, 2)).reshape(share * tokens, width)
        out[mine] = products(x, keys[:, g]).reshape(share, tokens, -1)
    return out


def visible(tokens: int, seen: int, past: int, causal: bool = True, window: int = 0) -> NDArray[np.bool_]:
    """Return the keys that each row sees: bool [T, S].

    Row t, at position past + t, does not see later ones if attention is causal, nor those that are `window` or more
    before it.

    >>> visible(2, 4, 2, window=2).astype(int).tolist()
    [[0, 1, 1, 0], [0, 0, 1, 1]]

    :param window: 0 for none
    """
    ahead = np.arange(seen)[None, :] - (past + np.arange(tokens)[:, None])
    mine = (ahead <= 0) | (not causal)
    return mine & (ahead > -window) if window else mine


def soft_max(
    scores: Floats,
    scale: np.float32,
    past: int,
    how: str,
    vector: int = 8,
    *,
    causal: bool = True,
    window: int = 0,
) -> Floats:
    """Return the weights of every row, float32 [H, T, S].

    z is the scores times the scale, less the largest of the row, both in float32. `f64`: e^z in float64, rounded; its sum in
    float64 by index; times the rounded reciprocal of that. `ggml`: the same with e^z by ggml's polynomial, and float32 sums
    of vectors. `f32`: e^z, and its quotient by the rounded sum.

    :param past: tokens before the first row
    :param vector: of `ggml`: lanes of a vector
    :param causal: as for `visible`, like `window`: scores of keys that a row does not see count as -infinity
    """
    z = scores * scale
    z[:, ~visible(z.shape[1], z.shape[2], past, causal, window)] = -np.inf
    for head in z:  # one head at a time: the intermediate float64 need memory
        head -= head.max(axis=-1, keepdims=True)  # noqa: PLW2901
        head[:] = shares(head, how, vector)
    return z


def shares(z: Floats, how: str, vector: int) -> Floats:
    """e^z / sum of each row, of which the largest z is 0: float32 in the shape of z."""
    if how == "f32":
        p: Floats = np.exp(z)
        p /= reductions.sums(p).astype(np.float32)[..., None]
    elif how == "ggml":
        p = ggml_math.exp(z, vector)
        p *= (1.0 / ggml_math.sums_of_vectors(p, vector)).astype(np.float32)[..., None]
    else:
        p = transcendental.exp(z.astype(np.float64)).astype(np.float32)
        p *= (1.0 / reductions.sums(p)).astype(np.float32)[..., None]
    return p


def weighted_values(p: Floats, values: NDArray[Any], products: Products, unit: int = 1) -> Floats:
    """Return the sum of the values, each times its weight, with heads side by side: float32 [T, H * d].

    :param p: float32 [H, T, S]
    :param values: float32 or float16 [S, G, d]
    :param unit: S is padded with zeros to a multiple of this
    """
    (heads, tokens, seen), (_, groups, width) = p.shape, values.shape
    if over := -seen % unit:
        p = np.concatenate([p, np.zeros((heads, tokens, over), np.float32)], axis=-1)
        values = np.concatenate([values, np.zeros((over, groups, width), values.dtype)])
    out = np.empty((tokens, heads, width), dtype=np.float32)
    share = heads // groups
    for g in range(groups):
        mine = slice(g * share, (g + 1) * share)
        x = np.ascontiguousarray(p[mine]).reshape(share * tokens, -1)
        out[:, mine] = products(x, values[:, g].T).reshape(share, tokens, width).transpose(1, 0, 2)
    return out.reshape(tokens, heads * width)


# --- rope ------------------------------------------------------------------------------------------------------------
# With the angles of each profile (`_ANGLES`) and the two arrangements of pairs: pair i of a head with d rotated
# dimensions is rotated by position * base^(-2i/d). It consists of the elements i and i + d/2 (`neox`), or 2i and 2i + 1
# (`norm`, for files whose rows were permuted at conversion).


def rotate(x: Floats, cos: Floats, sin: Floats, pairs: str, fused: bool = False) -> Floats:
    """Rotate heads; each element takes two products and one sum in float32.

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
