"""Projections and heads as a numeric profile declares: products with ternary matrices, grouped ones, and floats.

`Projections` is the door. It multiplies a matrix with one scale by `matmul`, one with a scale for each group by
`grouped_product`, and floats by `reductions` or `ggml_math`.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.model.reference import bitlinear, ggml_math, matmul, reductions
from i2s_spec.model.weights import SLAB, Grouped, Ternary, one_scale
from i2s_spec.schema.blocks import BLOCK_LAYOUTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.graph import Node
    from i2s_spec.model.numerics import ActivationQuantizer, NumericProfile
    from i2s_spec.model.reference.bitlinear import Quantized
    from i2s_spec.model.reference.run import Run
    from i2s_spec.model.weights import Matrix

    Floats = NDArray[np.float32]
    Sums = NDArray[np.int32]

#: Rows of a ternary matrix that are dequantized at a time, if a profile does not quantize activations.
ROWS: Final = 1024


class Projections:
    """Products with the matrices of the file, and the other float products of a profile.

    :param profile: the choices
    :param threads: how many threads may work; results do not depend on it
    """

    def __init__(self, profile: NumericProfile, threads: int = 1) -> None:
        self.profile = profile
        self.threads = threads

    def linear(self, run: Run, node: Node, x: Floats) -> Floats:
        """Return a projection: BitLinear if the matrix is ternary (clause 9.8), else products of floats."""
        matrix = run.weights.matrix(node.weight)
        if not isinstance(matrix, Ternary | Grouped):
            return self.dense(x, matrix, single=self.profile.drops_rows and _behind_attention(run, node))
        if self.profile.quantizer_of(run.weights.tensor_type(node.weight)).groups == "none":
            return self._dequantized(x, matrix) if isinstance(matrix, Ternary) else self._in_windows(x, matrix)
        return self.bitlinear(run, node, x, matrix)

    def expert(self, kind: str, x: Floats, matrix: Matrix) -> Floats:
        """Return the projection of some tokens with the matrix of one expert, as `linear` multiplies.

        :param kind: the type of the tensor
        """
        if not isinstance(matrix, Ternary | Grouped):
            return self.dense(x, matrix)
        rule = self.profile.quantizer_of(kind)
        if rule.groups == "none":
            return self._dequantized(x, matrix) if isinstance(matrix, Ternary) else self._in_windows(x, matrix)
        return quantized_linear(self.quantized(x, rule), rule, matrix, self.threads)[0]

    def bitlinear(self, run: Run, node: Node, x: Floats, matrix: Ternary | Grouped) -> Floats:
        """BitLinear with the profile's quantizer for the type; projections of the same input share its codes."""
        rule = self.profile.quantizer_of(run.weights.tensor_type(node.weight))
        (source,) = node.inputs
        quantized = run.quantized.get((source, rule))
        if quantized is None:
            run.quantized.clear()
            quantized = run.quantized[source, rule] = self.quantized(x, rule)
        y, acc = quantized_linear(quantized, rule, matrix, self.threads)
        self.show_integers(run, node, quantized, acc)
        return y

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> Quantized:
        """Return the codes of activations."""
        return bitlinear.quantize(x, rule)

    def show_integers(self, run: Run, node: Node, quantized: Quantized, acc: NDArray[Any]) -> None:
        """Pass the internal values of BitLinear to the tap."""
        prefix = node.weight.removesuffix(".weight")
        run.tap(f"{prefix}.act_q8", lambda: quantized.codes)
        run.tap(f"{prefix}.act_scale", lambda: quantized.scale)
        run.tap(f"{prefix}.act_sum", lambda: quantized.sums)
        if acc.ndim == 2:
            run.tap(f"{prefix}.dot_i32", lambda: acc + quantized.sums[:, None])
        elif quantized.scale.ndim == 1:
            runs = acc.shape[1]
            run.tap(
                f"{prefix}.dot_i32",
                lambda: acc + sums_of_runs(quantized.codes, runs)[..., None],
            )
        run.tap(f"{prefix}.acc_i32", lambda: acc)

    def _dequantized(self, x: Floats, matrix: Ternary) -> Floats:
        """Multiply by trits times scale as float weights, without any quantization of activations."""
        from i2s_spec.codec import native

        out = np.empty((len(x), matrix.rows), dtype=np.float32)
        tail = np.zeros(32, dtype=np.uint8)
        tail[:4] = np.frombuffer(np.float32(matrix.scale).astype("<f4").tobytes(), dtype=np.uint8)
        for start in range(0, matrix.rows, ROWS):
            stop = min(start + ROWS, matrix.rows)
            part = matrix.payload[start * matrix.columns // 4 : stop * matrix.columns // 4]
            data = np.concatenate([part, tail])
            weights = native.dequantize(
                data, (stop - start, matrix.columns), unused_code="plus-two", threads=self.threads
            )
            out[:, start:stop] = self.products(x, weights)
        return out

    def _in_windows(self, x: Floats, matrix: Grouped) -> Floats:
        """Multiply by float weights with a scale for each group, some rows at a time."""
        out = np.empty((len(x), matrix.rows), dtype=np.float32)
        for start in range(0, matrix.rows, ROWS):
            part = matrix.part(start, start + ROWS)
            out[:, start : start + part.rows] = self.products(x, part.dequantized())
        return out

    def head(self, run: Run, node: Node, x: Floats) -> Floats:
        """Return the logits: products with every row of the table; for an I2_S table with BitLinear, if the profile
        says so.
        """
        table = run.table(node.weight)
        if table.type == "I2_S" and self.profile.i2s_head == "bitlinear":
            return self.bitlinear(run, node, x, table.ternary)
        if table.type in BLOCK_LAYOUTS and self.profile.floats == "as-weights":
            return self.linear(run, node, x)
        if table.type in ("Q6_K", "Q8_0") and self.profile.floats == "as-weights":
            return ggml_math.quantized_head(table, x)
        out = np.empty((len(x), table.rows), dtype=np.float32)
        for start, rows in table.windows():
            if (most := self.profile.table_bytes) is not None:
                rows = unread(rows, np.arange(start, start + len(rows)), most)  # noqa: PLW2901
            out[:, start : start + len(rows)] = self.dense(x, rows, single=self.profile.drops_rows)
        return out

    def dense(self, x: Floats, w: NDArray[Any], *, single: bool = False) -> Floats:
        """x w^T with a matrix of floats; the input is rounded to the matrix's type if the profile says so.

        :param single: whether each row is a separate product, not part of one with several tokens
        """
        if not single and self.in_one_vector(x, w):
            entering = x if self.profile.llamafile_input == "f32" else self._as_weights(x, w)
            return reductions.one_vector(entering, w, self.threads, self.profile.vector)
        return self.products(self._as_weights(x, w), w)

    def in_one_vector(self, x: Floats, w: NDArray[Any]) -> bool:
        """Whether llamafile's kernel computes a product: two tokens or more, F32 or F16, rows of whole vectors."""
        whole = x.shape[1] % self.profile.vector == 0
        return self.profile.llamafile and len(x) > 1 and whole and w.dtype.name in ("float32", "float16")

    def products(self, x: Floats, w: NDArray[Any]) -> Floats:
        """x w^T, summed as the profile declares."""
        if self.profile.sums == "in-order":
            return reductions.products(x, w, self.threads)
        if self.profile.sums == "lanes":
            return reductions.lanes(x, w, self.threads, self.profile.vector)
        product: Floats = np.matmul(x, reductions.as_float32(w).T)
        return product

    def _as_weights(self, x: Floats, w: NDArray[Any]) -> Floats:
        if self.profile.floats == "f32" or w.dtype == np.float32:
            return x
        if self.profile.floats == "as-bfloat16" and w.dtype != np.uint16:
            return x
        return halved(x) if w.dtype == np.float16 else ggml_math.bfloat16(x)


def _behind_attention(run: Run, node: Node) -> bool:
    """Whether a projection belongs to the last layer's feed-forward network."""
    return node.layer == run.layers - 1 and ".ffn_" in node.weight


def unread(rows: NDArray[Any], numbers: NDArray[np.int64], most: int) -> NDArray[Any]:
    """Return the rows of a table of F16 of which a runtime reads so many bytes: elements behind them are 0.

    :param rows: [N, columns]
    :param numbers: the place of each row in the table
    """
    columns = rows.shape[1]
    if not len(numbers) or (int(numbers.max()) + 1) * columns * 2 <= most:
        return rows
    known = numbers[:, None] * columns + np.arange(columns) < most // 2
    return np.where(known, rows, rows.dtype.type(0))


def halved(x: Floats) -> Floats:
    """Round to F16."""
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)


# --- grouped linear --------------------------------------------------------------------------------------------------
# Products of activation codes with weights that have a scale for each group (clause 9.8). If activations or weights
# have several scales, columns are divided into runs in which both have one scale. The sum of weights times codes in a
# run is an exact integer; `partial_sums` computes it with the integer product of I2_S, `partial_sums_reference` is its
# definition. The rule says how floats are computed from the sums:
#
#     one scale a token   y = f32(sum of acc_g d_g) / s: products exact and added in float64 by index, rounded to float32,
#                         then the division, or the product that the rule has instead. Where a row has one scale it is
#                         the epilogue of I2_S with the scale of the row
#     blocks              the sum over runs of acc_b * f32(step_b d_g), all in float32, by index
#     nested              of each group of weights u = the sum of acc_b step_b, then the sum of u d_g, by fused
#                         multiply-adds of float32: what ggml's kernel for Q2_0 compiles to for AVX2
#     interleaved         of each kind of column, sums in float64 as above, rounded; these in float32 times their steps


def quantized_linear(
    quantized: Quantized, rule: ActivationQuantizer, weight: Ternary | Grouped, threads: int
) -> tuple[Floats, Sums]:
    """Return a projection of quantized tokens: float32 [T, N], and the integer sums, int32 [T, N] or [groups, T, N].

    With blocks, weights with one scale count as weights of the rule's type whose groups all have that scale as F16.
    """
    if isinstance(weight, Grouped):
        return grouped_product(quantized, rule, weight, threads)
    rows, columns, codes = weight.rows, weight.columns, quantized.codes
    if bitlinear.block_of(rule) is not None:
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
    return bitlinear.epilogue_of_rule(acc, quantized.scale, weight.scale, rule, quantized.steps), acc


def grouped_product(
    quantized: Quantized, rule: ActivationQuantizer, matrix: Grouped, threads: int = 1
) -> tuple[Floats, Sums]:
    """Return a projection of quantized tokens: float32 [T, N], and the sums.

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
        return bitlinear.epilogue_of_rule(acc, quantized.scale, matrix.scales[:, 0], rule, quantized.steps), acc
    return _by_token(_weighed(acc.transpose(1, 0, 2), matrix), quantized, rule), acc


def token_sums(matrix: Grouped, codes: NDArray[np.int8], rule: ActivationQuantizer, threads: int = 1) -> Sums:
    """Return the sums of tokens with one scale each, as `grouped_product` gives them: int32 [T, N] or [T, runs, N]."""
    acc = np.ascontiguousarray(partial_sums(matrix, codes, matrix.group, threads).transpose(1, 0, 2))
    if rule.offset == "kept":
        acc += sums_of_runs(codes, acc.shape[1])[..., None]
    return acc[:, 0] if matrix.scales.shape[1] == 1 else acc


def run_length(rule: ActivationQuantizer, matrix: Grouped) -> int:
    """Return the length of a run: columns in which activations and weights have one scale each."""
    return gcd(matrix.group, bitlinear.block_of(rule) or matrix.columns)


def partial_sums(matrix: Grouped, codes: NDArray[np.int8], length: int, threads: int = 1) -> Sums:
    """Return the sums of weights times codes in each run of columns, int32 [runs, T, N].

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
    """Return the definition of `partial_sums`."""
    weights = matrix.values().astype(np.int32).reshape(matrix.rows, -1, length)
    sums: Sums = np.einsum("tgk,ngk->gtn", codes.astype(np.int32).reshape(len(codes), -1, length), weights)
    return sums


def sums_of_runs(codes: NDArray[np.int8], runs: int) -> Sums:
    """Return the sum of the codes of each run of columns, int32 [T, runs]."""
    sums: Sums = codes.reshape(len(codes), runs, -1).sum(axis=2, dtype=np.int32)
    return sums


def _weighed(acc: Sums, matrix: Grouped) -> Floats:
    """Return the sum over runs of acc times the scale of the group, in float64 by index, rounded once: float32 [T,
    N].
    """
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
        return (total * steps[:, None]).astype(np.float32, copy=False)  # with `wide` scales, rounded once


def _blocks(acc: Sums, quantized: Quantized, rule: ActivationQuantizer, matrix: Grouped) -> Floats:
    steps = bitlinear.steps_of(quantized)
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
    steps = bitlinear.steps_of(quantized)
    found, total = [], np.zeros((len(quantized.codes), matrix.rows), dtype=np.float32)
    for kind, mine in enumerate(_kinds(matrix.columns, quantized)):
        codes = np.where(mine, quantized.codes, np.int8(0))
        acc = partial_sums(matrix, codes, matrix.group, threads)
        found.append(acc)
        with np.errstate(all="ignore"):
            total += _weighed(acc, matrix) * steps[:, kind, None]
    return total, np.concatenate(found)


def _kinds(columns: int, quantized: Quantized) -> list[NDArray[np.bool_]]:
    """Return the columns that share each of the interleaved scales: element j has scale j // 4 % 4 of four."""
    count = quantized.scale.shape[1]
    owner = np.arange(columns) // count % count
    return [owner == kind for kind in range(count)]
