"""This module computes projections and heads as a numeric profile has them: products with ternary matrices, or floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.model import ggml, numerics, quantiser
from i2s_spec.model.weights import Ternary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.execution import Run
    from i2s_spec.model.graph import Node
    from i2s_spec.model.profile import Profile

    Floats = NDArray[np.float32]

#: Rows of a ternary matrix that are made floats at a time, where a profile wants no integers.
ROWS: Final = 1024


class Projections:
    """The operations that multiply with a matrix of the file.

    :param profile: the choices
    :param threads: how many threads may work; results do not depend on it
    """

    def __init__(self, profile: Profile, threads: int = 1) -> None:
        self.profile = profile
        self.threads = threads

    def linear(self, run: Run, node: Node, x: Floats) -> Floats:
        """A projection: BitLinear where the matrix is ternary (clause 9.8), else products of floats."""
        matrix = run.weights.matrix(node.weight)
        rule = self.profile.quantiser
        if not isinstance(matrix, Ternary):
            return self.products(self._as_weights(x, matrix), matrix)
        if rule.groups == "none":
            return self._dequantised(x, matrix)
        return self._bitlinear(run, node, x, matrix)

    def _bitlinear(self, run: Run, node: Node, x: Floats, matrix: Ternary) -> Floats:
        rule = self.profile.quantiser
        (source,) = node.inputs
        quantised = run.quantised.get((source, rule))
        if quantised is None:  # projections of one input share its codes
            run.quantised.clear()
            quantised = run.quantised[source, rule] = quantiser.quantise(x, rule)
        y, acc = quantiser.linear(quantised, rule, matrix, self.threads)
        self.show_integers(run, node, quantised, acc)
        return y

    def show_integers(self, run: Run, node: Node, quantised: quantiser.Quantised, acc: NDArray[Any]) -> None:
        """Let the inside of BitLinear be looked at."""
        prefix = node.weight.removesuffix(".weight")
        run.tap(f"{prefix}.act_q8", lambda: quantised.codes)
        run.tap(f"{prefix}.act_scale", lambda: quantised.scale)
        run.tap(f"{prefix}.act_sum", lambda: quantised.sums)
        if acc.ndim == 2:
            run.tap(f"{prefix}.dot_i32", lambda: acc + quantised.sums[:, None])
        run.tap(f"{prefix}.acc_i32", lambda: acc)

    def _dequantised(self, x: Floats, matrix: Ternary) -> Floats:
        """Trits times scale as float weights, without any quantisation of activations."""
        from i2s_spec.codec import native

        out = np.empty((len(x), matrix.rows), dtype=np.float32)
        tail = np.zeros(32, dtype=np.uint8)
        tail[:4] = np.frombuffer(np.float32(matrix.scale).astype("<f4").tobytes(), dtype=np.uint8)
        for start in range(0, matrix.rows, ROWS):
            stop = min(start + ROWS, matrix.rows)
            part = matrix.payload[start * matrix.columns // 4 : stop * matrix.columns // 4]
            data = np.concatenate([part, tail])
            weights = native.dequantize(data, (stop - start, matrix.columns), code3="plus-two", threads=self.threads)
            out[:, start:stop] = self.products(x, weights)
        return out

    def head(self, run: Run, node: Node, x: Floats) -> Floats:
        """The logits: products with every row of the table; of an I2_S table, if the profile says so, by BitLinear."""
        table = run.table(node.weight)
        if table.type == "I2_S" and self.profile.i2s_head == "bitlinear":
            return self._bitlinear(run, node, x, table.ternary)
        if table.type in ("Q6_K", "Q8_0") and self.profile.floats == "as-weights":
            return ggml.quantised_head(table, x)
        out = np.empty((len(x), table.rows), dtype=np.float32)
        for start, rows in table.windows():
            out[:, start : start + len(rows)] = self.products(self._as_weights(x, rows), rows)
        return out

    def products(self, x: Floats, w: NDArray[Any]) -> Floats:
        """x w^T, summed as the profile sums."""
        if self.profile.sums == "in-order":
            return numerics.products(x, w, self.threads)
        if self.profile.sums == "lanes":
            return numerics.lanes(x, w, self.threads)
        product: Floats = np.matmul(x, numerics.as_float32(w).T)
        return product

    def _as_weights(self, x: Floats, w: NDArray[Any]) -> Floats:
        if self.profile.floats == "f32" or w.dtype == np.float32:
            return x
        return halved(x) if w.dtype == np.float16 else ggml.brain(x)


def halved(x: Floats) -> Floats:
    """Rounded to F16."""
    with np.errstate(over="ignore"):
        return x.astype(np.float16).astype(np.float32)
