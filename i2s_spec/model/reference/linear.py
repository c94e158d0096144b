"""This module computes projections and heads as a numeric profile declares: products with ternary matrices, or floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.model.arithmetic import reductions
from i2s_spec.model.grouped import Grouped
from i2s_spec.model.reference import activation_quant, ggml_math, grouped_linear
from i2s_spec.model.weights import Ternary
from i2s_spec.schema.block_layout import BLOCK_LAYOUTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.graph.graph import Node
    from i2s_spec.model.numeric_profile import ActivationQuantizer, NumericProfile
    from i2s_spec.model.reference.run import Run

    Floats = NDArray[np.float32]

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
        """A projection: BitLinear if the matrix is ternary (clause 9.8), else products of floats."""
        matrix = run.weights.matrix(node.weight)
        if not isinstance(matrix, Ternary | Grouped):
            return self.dense(x, matrix, single=self.profile.drops_rows and _behind_attention(run, node))
        if self.profile.quantizer_of(run.weights.tensor_type(node.weight)).groups == "none":
            return self._dequantized(x, matrix) if isinstance(matrix, Ternary) else self._in_windows(x, matrix)
        return self.bitlinear(run, node, x, matrix)

    def bitlinear(self, run: Run, node: Node, x: Floats, matrix: Ternary | Grouped) -> Floats:
        """BitLinear with the profile's quantizer for the type; projections of the same input share its codes."""
        rule = self.profile.quantizer_of(run.weights.tensor_type(node.weight))
        (source,) = node.inputs
        quantized = run.quantized.get((source, rule))
        if quantized is None:
            run.quantized.clear()
            quantized = run.quantized[source, rule] = self.quantized(x, rule)
        y, acc = grouped_linear.quantized_linear(quantized, rule, matrix, self.threads)
        self.show_integers(run, node, quantized, acc)
        return y

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> activation_quant.Quantized:
        """The codes of activations."""
        return activation_quant.quantize(x, rule)

    def show_integers(self, run: Run, node: Node, quantized: activation_quant.Quantized, acc: NDArray[Any]) -> None:
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
                lambda: acc + grouped_linear.sums_of_runs(quantized.codes, runs)[..., None],
            )
        run.tap(f"{prefix}.acc_i32", lambda: acc)

    def _dequantized(self, x: Floats, matrix: Ternary) -> Floats:
        """Trits times scale as float weights, without any quantization of activations."""
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
        """The same for weights with a scale for each group."""
        out = np.empty((len(x), matrix.rows), dtype=np.float32)
        for start in range(0, matrix.rows, ROWS):
            part = matrix.part(start, start + ROWS)
            out[:, start : start + part.rows] = self.products(x, part.dequantized())
        return out

    def head(self, run: Run, node: Node, x: Floats) -> Floats:
        """The logits: products with every row of the table; for an I2_S table with BitLinear, if the profile says so."""
        table = run.table(node.weight)
        if table.type == "I2_S" and self.profile.i2s_head == "bitlinear":
            return self.bitlinear(run, node, x, table.ternary)
        if table.type in BLOCK_LAYOUTS and self.profile.floats == "as-weights":
            return self.linear(run, node, x)
        if table.type in ("Q6_K", "Q8_0") and self.profile.floats == "as-weights":
            return ggml_math.quantized_head(table, x)
        out = np.empty((len(x), table.rows), dtype=np.float32)
        for start, rows in table.windows():
            out[:, start : start + len(rows)] = self.dense(x, rows, single=self.profile.drops_rows)
        return out

    def dense(self, x: Floats, w: NDArray[Any], *, single: bool = False) -> Floats:
        """x w^T with a matrix of floats; the input is rounded to the matrix's type if the profile says so.

        :param single: whether each row is a separate product, not part of one with several tokens
        """
        if not single and self.in_eight_lanes(x, w):
            entering = x if self.profile.llamafile_input == "f32" else self._as_weights(x, w)
            return reductions.eight_lanes(entering, w, self.threads)
        return self.products(self._as_weights(x, w), w)

    def in_eight_lanes(self, x: Floats, w: NDArray[Any]) -> bool:
        """Whether llamafile's kernel computes a product: two tokens or more, F32 or F16, rows of whole vectors."""
        return self.profile.llamafile and len(x) > 1 and x.shape[1] % 8 == 0 and w.dtype.name in ("float32", "float16")

    def products(self, x: Floats, w: NDArray[Any]) -> Floats:
        """x w^T, summed as the profile declares."""
        if self.profile.sums == "in-order":
            return reductions.products(x, w, self.threads)
        if self.profile.sums == "lanes":
            return reductions.lanes(x, w, self.threads)
        product: Floats = np.matmul(x, reductions.as_float32(w).T)
        return product

    def _as_weights(self, x: Floats, w: NDArray[Any]) -> Floats:
        if self.profile.floats == "f32" or w.dtype == np.float32:
            return x
        return halved(x) if w.dtype == np.float16 else ggml_math.bfloat16(x)


def _behind_attention(run: Run, node: Node) -> bool:
    """Whether a projection belongs to the last layer's feed-forward network."""
    return node.layer == run.layers - 1 and ".ffn_" in node.weight


def halved(x: Floats) -> Floats:
    """Rounded to F16."""
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)
