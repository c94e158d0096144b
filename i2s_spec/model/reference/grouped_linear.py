"""This module multiplies activation codes with weights that have a scale for each group (clause 9.8).

If activations or weights have several scales, columns are divided into runs in which both have one scale. The sum of
weights times codes in a run, `sums`, is an exact integer; `partial_sums` computes it with the integer product of I2_S,
`partial_sums_reference` is its definition. The rule says how floats are computed from the sums:

    one scale a token   y = f32(sum of acc_g d_g) / s: products exact and added in float64 by index, rounded to float32,
                        then the division, or the product that the rule has instead. Where a row has one scale it is
                        the epilogue of I2_S with the scale of the row
    blocks              the sum over runs of acc_b * f32(step_b d_g), all in float32, by index
    nested              of each group of weights u = the sum of acc_b step_b, then the sum of u d_g, by fused
                        multiply-adds of float32: what ggml's kernel for Q2_0 compiles to for AVX2
    interleaved         of each kind of column, sums in float64 as above, rounded; these in float32 times their steps
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING

import numpy as np

from i2s_spec.model.grouped import SLAB, Grouped, one_scale
from i2s_spec.model.reference import activation_quant, ggml_math, matmul

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.numeric_profile import ActivationQuantizer
    from i2s_spec.model.reference.activation_quant import Quantized
    from i2s_spec.model.weights import Ternary

    Floats = NDArray[np.float32]
    Sums = NDArray[np.int32]


def quantized_linear(
    quantized: Quantized, rule: ActivationQuantizer, weight: Ternary | Grouped, threads: int
) -> tuple[Floats, Sums]:
    """A projection of quantized tokens: float32 [T, N], and the integer sums, int32 [T, N] or [groups, T, N].

    With blocks, weights with one scale count as weights of the rule's type whose groups all have that scale as F16.
    """
    if isinstance(weight, Grouped):
        return grouped_product(quantized, rule, weight, threads)
    rows, columns, codes = weight.rows, weight.columns, quantized.codes
    if activation_quant.block_of(rule) is not None:
        with np.errstate(over="ignore"):
            half = np.float16(weight.scale).astype(np.float32)
        payload, _ = matmul.whole_rows(weight.payload, rows, columns)
        return grouped_product(quantized, rule, one_scale(payload, rows, columns, half, rule.weight_group), threads)
    if rule.groups == "token":
        acc = matmul.accumulate(weight.payload, rows, columns, codes, threads=threads)
        if rule.offset == "kept":
            acc += quantized.sums[:, None]
    else:
        parts = [np.where(mine, codes, np.int8(0)) for mine in _kinds(columns, quantized)]
        acc = np.stack([matmul.accumulate(weight.payload, rows, columns, part, threads=threads) for part in parts])
    return activation_quant.epilogue(acc, quantized.scale, weight.scale, rule, quantized.steps), acc


def grouped_product(
    quantized: Quantized, rule: ActivationQuantizer, matrix: Grouped, threads: int = 1
) -> tuple[Floats, Sums]:
    """A projection of quantized tokens: float32 [T, N], and the sums.

    :returns: the sums are int32 [T, N] if rows and tokens have one scale each, [T, runs, N] if only tokens have, else
    [runs, T, N]; for interleaved activations [4 * runs, T, N], with the runs of the first kind first
    """
    if rule.groups == "interleaved-4":
        return _interleaved(quantized, rule, matrix, threads)
    if rule.groups != "token":
        acc = partial_sums(matrix, quantized.codes, run_length(rule, matrix), threads)
        return _blocks(acc, quantized, rule, matrix), acc
    acc = token_sums(matrix, quantized.codes, rule, threads)
    if acc.ndim == 2:  # the epilogue of I2_S, with the scale of the row as weight scale
        return activation_quant.epilogue(acc, quantized.scale, matrix.scales[:, 0], rule, quantized.steps), acc
    return _by_token(_weighed(acc.transpose(1, 0, 2), matrix), quantized, rule), acc


def token_sums(matrix: Grouped, codes: NDArray[np.int8], rule: ActivationQuantizer, threads: int = 1) -> Sums:
    """The sums of tokens with one scale each, as `grouped_product` gives them: int32 [T, N] or [T, runs, N]."""
    acc = np.ascontiguousarray(partial_sums(matrix, codes, matrix.group, threads).transpose(1, 0, 2))
    if rule.offset == "kept":
        acc += sums_of_runs(codes, acc.shape[1])[..., None]
    return acc[:, 0] if matrix.scales.shape[1] == 1 else acc


def run_length(rule: ActivationQuantizer, matrix: Grouped) -> int:
    """The length of a run: columns in which activations and weights have one scale each."""
    return gcd(matrix.group, activation_quant.block_of(rule) or matrix.columns)


def partial_sums(matrix: Grouped, codes: NDArray[np.int8], length: int, threads: int = 1) -> Sums:
    """The sums of weights times codes in each run of columns, int32 [runs, T, N].

    :param codes: int8 [T, columns]
    :param length: columns of a run: all columns, or a divisor or multiple of 128
    """
    tokens, rows = len(codes), matrix.rows
    wide = np.zeros((tokens, matrix.wide), dtype=np.int8)
    wide[:, : matrix.columns] = codes
    if length == matrix.columns:
        return matmul.accumulate(matrix.whole_rows, rows, matrix.wide, wide, threads=threads)[None]
    parts = max(
        1, SLAB // length
    )  # runs of a slab, each with codes 0 for the other runs: payloads are read once for all
    masked = np.zeros((len(matrix.slabs), parts, tokens, parts, SLAB // parts), dtype=np.int8)
    each = wide.reshape(tokens, len(matrix.slabs), parts, SLAB // parts).transpose(1, 2, 0, 3)
    for part in range(parts):
        masked[:, part, :, part] = each[:, part]
    acc = np.empty((len(matrix.slabs), parts * tokens, rows), dtype=np.int32)
    for slab, payload in enumerate(matrix.slabs):
        matmul.accumulate(
            payload.reshape(-1), rows, SLAB, masked[slab].reshape(-1, SLAB), threads=threads, out=acc[slab]
        )
    runs = acc.reshape(-1, tokens, rows)
    if length > SLAB:
        runs = runs.reshape(-1, length // SLAB, tokens, rows).sum(axis=1, dtype=np.int32)
    return runs[: matrix.columns // length]


def partial_sums_reference(matrix: Grouped, codes: NDArray[np.int8], length: int) -> Sums:
    """The definition of `partial_sums`."""
    weights = matrix.values().astype(np.int32).reshape(matrix.rows, -1, length)
    sums: Sums = np.einsum("tgk,ngk->gtn", codes.astype(np.int32).reshape(len(codes), -1, length), weights)
    return sums


def sums_of_runs(codes: NDArray[np.int8], runs: int) -> Sums:
    """The sum of the codes of each run of columns, int32 [T, runs]."""
    sums: Sums = codes.reshape(len(codes), runs, -1).sum(axis=2, dtype=np.int32)
    return sums


def _weighed(acc: Sums, matrix: Grouped) -> Floats:
    """The sum over runs of acc times the scale of the group, in float64 by index, rounded once: float32 [T, N]."""
    share = acc.shape[0] // matrix.scales.shape[1]
    total = np.zeros(acc.shape[1:], dtype=np.float64)
    with np.errstate(all="ignore"):
        for run, sums in enumerate(acc):
            total += sums * matrix.scales[:, run // share].astype(np.float64)
        return total.astype(np.float32)


def _by_token(total: Floats, quantized: Quantized, rule: ActivationQuantizer) -> Floats:
    with np.errstate(all="ignore"):
        if rule.epilogue == "divide":
            return total / quantized.scale[:, None]
        steps = np.float32(1) / quantized.scale if quantized.steps is None else quantized.steps
        return total * steps[:, None]


def _blocks(acc: Sums, quantized: Quantized, rule: ActivationQuantizer, matrix: Grouped) -> Floats:
    steps = activation_quant.steps_of(quantized)
    block, share = steps.shape[1], acc.shape[0] // matrix.scales.shape[1]
    total = np.zeros(acc.shape[1:], dtype=np.float32)
    part = np.zeros_like(total)
    with np.errstate(all="ignore"):
        for run, sums in enumerate(acc):
            step, d = steps[:, run * block // len(acc)], matrix.scales[:, run // share]
            if rule.epilogue == "nested":
                part = ggml_math.fma(step[:, None], sums, np.float32(0) if run % share == 0 else part)
                if run % share == share - 1:
                    total = ggml_math.fma(d, part, total)
            else:
                total += sums.astype(np.float32) * (step[:, None] * d)
    return total


def _interleaved(quantized: Quantized, rule: ActivationQuantizer, matrix: Grouped, threads: int) -> tuple[Floats, Sums]:
    steps = activation_quant.steps_of(quantized)
    found, total = [], np.zeros((len(quantized.codes), matrix.rows), dtype=np.float32)
    for kind, mine in enumerate(_kinds(matrix.columns, quantized)):
        codes = np.where(mine, quantized.codes, np.int8(0))
        acc = partial_sums(matrix, codes, matrix.group, threads)
        found.append(acc)
        with np.errstate(all="ignore"):
            total += _weighed(acc, matrix) * steps[:, kind, None]
    return total, np.concatenate(found)


def _kinds(columns: int, quantized: Quantized) -> list[NDArray[np.bool_]]:
    """The columns that share each of the interleaved scales: element j has scale j // 4 % 4 of four."""
    count = quantized.scale.shape[1]
    owner = np.arange(columns) // count % count
    return [owner == kind for kind in range(count)]
