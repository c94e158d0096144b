"""Gated delta nets on one sequence (clause 9.12): a convolution over the last tokens, and states that learn and forget.

A value head h has a state S, float32 [d, d], which maps keys to values; with tiled heads, query and key head h mod G belong
to it. A token lets it fade, corrects what it gives for the token's key, and reads it with the token's query:

    S = S * f32(e^gate)
    S = S + k (beta * (v - k S))
    y = f32(1 / sqrt(d)) * q S
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.model.reference import reductions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def convolve(x: Floats, before: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Add up each column of a token and of the tokens before it, times its weights.

    The sum is in float64, the earliest token first, and rounded once.

    :param x: float32 [T, C]
    :param before: the last tokens before them, float32 [K - 1, C]
    :param weights: float32 [C, K]; the last one is that of the token itself
    :returns: the sums, float32 [T, C], and the tokens that the next one needs, float32 [K - 1, C]
    """
    rows = np.concatenate([before, x])
    taps = weights.shape[1]
    total = np.zeros(x.shape, dtype=np.float64)
    for tap in range(taps):
        total += rows[tap : tap + len(x)].astype(np.float64) * weights[:, tap].astype(np.float64)
    return total.astype(np.float32), rows[len(rows) - (taps - 1) :].copy()


def unit(x: Floats, eps: float) -> Floats:
    """x / sqrt(sum(x^2) + eps) over the last axis: the sum and the root in float64, their reciprocal rounded to float32."""
    factor: Floats = (1.0 / np.sqrt(reductions.squares(x) + eps)).astype(np.float32)
    return x * factor[..., None]


def delta_rule(
    q: Floats, k: Floats, v: Floats, fading: Floats, beta: Floats, state: Floats, heads: str = "tiled"
) -> tuple[Floats, Floats]:
    """Return the value of the states for each token, float32 [T, H, d], and the states after the last, float32 [H, d, d].

    k S and q S are sums in float64 by ascending index, rounded once; everything else is one operation on float32 at a time.

    :param q: float32 [T, G, d], like k
    :param v: float32 [T, H, d]
    :param fading: e^gate, float32 [T, H]
    :param beta: float32 [T, H]
    :param state: float32 [H, d, d], rows for the elements of keys
    :param heads: `tiled` if value head h has key head h mod G, `grouped` if h // (H / G)
    """
    (tokens, count, width), groups = v.shape, q.shape[1]
    head = np.arange(count)
    own = head % groups if heads == "tiled" else head // (count // groups)
    scaled = q * np.float32(1 / np.sqrt(width))
    state, out = state.copy(), np.empty(v.shape, dtype=np.float32)
    for t in range(tokens):
        key, query = k[t, own], scaled[t, own]
        state *= fading[t][:, None, None]
        delta = (v[t] - _read(key, state)) * beta[t][:, None]
        state += key[:, :, None] * delta[:, None, :]
        out[t] = _read(query, state)
    return out, state


def _read(x: Floats, state: Floats) -> Floats:
    """x S of each head, float32 [H, d]."""
    return np.concatenate([reductions.products(x[h : h + 1], state[h].T) for h in range(len(x))])
