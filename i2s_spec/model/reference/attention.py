"""This module computes attention on one sequence: scores, soft-max, and weighted values, with grouped heads.

Query head h uses key and value head h // (H / G). Query heads that share a key head are multiplied together, as rows of
one matrix; this does not change results, because each product is a separate sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.model.arithmetic import reductions, transcendental
from i2s_spec.model.reference import ggml_math

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    #: x [T, K] and w [N, K] to x w^T [T, N].
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


def soft_max(scores: Floats, scale: np.float32, past: int | None, how: str) -> Floats:
    """The weights of every row, float32 [H, T, S].

    z is the scores times the scale, less the largest of the row, both in float32. `f64`: e^z in float64, rounded; its sum in
    float64 by index; times the rounded reciprocal of that. `ggml`: the same with e^z by ggml's polynomial, and float32 sums
    of eight. `f32`: e^z, and its quotient by the rounded sum.

    :param past: tokens before the first row: row t sees past + t + 1 of them; None if every row sees all
    """
    z = scores * scale
    if past is not None:
        _, tokens, seen = z.shape
        z[:, np.arange(seen)[None, :] > past + np.arange(tokens)[:, None]] = -np.inf
    for head in z:  # one head at a time: the intermediate float64 need memory
        head -= head.max(axis=-1, keepdims=True)  # noqa: PLW2901
        head[:] = _shares(head, how)
    return z


def _shares(z: Floats, how: str) -> Floats:
    if how == "f32":
        p: Floats = np.exp(z)
        p /= reductions.sums(p).astype(np.float32)[..., None]
    elif how == "ggml":
        p = ggml_math.exp(z)
        p *= (1.0 / ggml_math.sums_of_vectors(p)).astype(np.float32)[..., None]
    else:
        p = transcendental.exp(z.astype(np.float64)).astype(np.float32)
        p *= (1.0 / reductions.sums(p)).astype(np.float32)[..., None]
    return p


def weighted_values(p: Floats, values: NDArray[Any], products: Products, unit: int = 1) -> Floats:
    """The sum of the values, each times its weight, with heads side by side: float32 [T, H * d].

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
