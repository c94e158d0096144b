"""Profile `fast`: operations with compiled kernels, and whole passes with a compiled program.

If values are tapped, the graph is walked as in other profiles, and each operation is a kernel. If only the result is
needed, the graph is compiled to a program (`fast_compile`), which runs in one call without Python between its steps.
Integer kernels give exactly the integers of the definition; floats are float32, added in the order that is fastest on
this processor. Results do not depend on the number of threads; their last bits depend on how many tokens are computed
together.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.codec.isa import KernelSet, chosen, table
from i2s_spec.model import _fast, fast_compile, screened_head
from i2s_spec.model.fast_compile import NotTranslated, address
from i2s_spec.model.numerics import ActivationQuantizer
from i2s_spec.model.reference import attention, matmul, operations, reductions
from i2s_spec.model.reference.bitlinear import Quantized
from i2s_spec.model.reference.linear import Projections
from i2s_spec.model.reference.operations import Operations
from i2s_spec.model.screened_head import MOST_COLUMNS, ScreenedHead
from i2s_spec.model.weights import Grouped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from i2s_spec.model.fast_compile import FastPlan
    from i2s_spec.model.graph import Graph, Node
    from i2s_spec.model.numerics import NumericProfile
    from i2s_spec.model.reference.run import Run
    from i2s_spec.model.weights import ModelWeights, Ternary

    Floats = NDArray[np.float32]

#: Positions for which angles are computed at first; the number is doubled when more are needed.
POSITIONS: Final = 512


def kernel_sets() -> tuple[KernelSet, ...]:
    """Return every set of float kernels that was compiled, the slowest first."""
    return table(_fast.kernel_sets())


def is_original(profile: NumericProfile) -> bool:
    """Whether a profile computes projections like the definition."""
    return profile.quantizer == ActivationQuantizer() and not profile.by_type and profile.floats == "f32"


class FastProjections(Projections):
    """Products with compiled kernels.

    :param float_kernels: the row of the set of float kernels
    """

    def __init__(self, profile: NumericProfile, threads: int, float_kernels: int) -> None:
        super().__init__(profile, threads)
        self.float_kernels = float_kernels
        self._original = is_original(profile)

    def bitlinear(self, run: Run, node: Node, x: Floats, matrix: Ternary | Grouped) -> Floats:
        """BitLinear with the kernels that read packed weights, if the profile quantizes like the definition."""
        rule = self.profile.quantizer
        if not self._original or isinstance(matrix, Grouped):
            return super().bitlinear(run, node, x, matrix)
        (source,) = node.inputs
        quantized = run.quantized.get((source, rule))
        if quantized is None:
            run.quantized.clear()
            quantized = run.quantized[source, rule] = self.quantized(x, rule)
        payload, rows, columns, scale = matrix
        dot = matmul.dot(payload, rows, columns, quantized.codes, threads=self.threads)
        acc = dot - quantized.sums[:, None]
        self.show_integers(run, node, quantized, acc)
        return acc.astype(np.float32) / quantized.scale[:, None] * scale

    def quantized(self, x: Floats, rule: ActivationQuantizer) -> Quantized:
        """Return the codes of activations, with compiled kernels."""
        if not self._original:
            return super().quantized(x, rule)
        return Quantized(*matmul.quantize_activations(np.ascontiguousarray(x), threads=self.threads))

    def products(self, x: Floats, w: NDArray[Any]) -> Floats:
        """x w^T, in lanes of float32; with NumPy if the columns of w are not contiguous."""
        known = w.dtype.isnative and w.dtype.name in _fast.TYPES
        if not known or (w.shape[1] > 1 and w.strides[1] != w.itemsize) or w.strides[0] < 0:
            product: Floats = np.matmul(x, reductions.as_float32(w).T)
            return product
        out = np.empty((len(x), len(w)), dtype=np.float32)
        kind = _fast.TYPES[w.dtype.name]
        _fast.dots(self.float_kernels, kind, address(w), len(w), w.strides[0], np.ascontiguousarray(x), out)
        return out


class FastOperations(Operations):
    """The operations of profile `fast`."""

    def __init__(self, profile: NumericProfile, threads: int = 1) -> None:
        self._sets = chosen(kernel_sets()).row, chosen(matmul.kernel_sets()).row
        super().__init__(profile, threads, FastProjections(profile, threads, self._sets[0]))
        self._lock = Lock()
        self._programs: dict[int, tuple[Graph, FastPlan | None]] = {}
        self._heads: dict[int, ScreenedHead] = {}
        self._memory = Memory()

    # Operations

    def norm(self, run: Run, node: Node, x: Floats) -> Floats:
        """x / sqrt(mean(x^2) + eps) over the last axis, all in float32."""
        out = np.empty(x.shape, dtype=np.float32)
        width = x.shape[-1]
        rows = np.ascontiguousarray(x).reshape(-1, width)
        _fast.norm(self._sets[0], rows, float(np.float32(node.settings["eps"])), out.reshape(-1, width))
        return out

    def silu(self, run: Run, node: Node, x: Floats) -> Floats:
        """x / (1 + e^-x)."""
        return self._activated("silu", x)

    def gelu(self, run: Run, node: Node, x: Floats) -> Floats:
        """Return the tanh form of GELU."""
        return self._activated("gelu", x)

    def _activated(self, name: str, x: Floats) -> Floats:
        out = np.empty(x.shape, dtype=np.float32)
        flat = np.ascontiguousarray(x).reshape(-1)
        _fast.activate(self._sets[0], _fast.ACTIVATIONS[name], flat, out.reshape(-1))
        return out

    # Whole passes

    def prepare(self, graph: Graph, weights: ModelWeights) -> None:
        """Compile the graph."""
        self.plan(graph, weights, {})

    def whole(self, graph: Graph, given: Mapping[str, Any], run: Run) -> dict[str, Any] | None:
        """Return the results of a graph, computed by its program; None if the graph has no program."""
        with self._lock:
            plan = self.plan(graph, run.weights, run.tables)
            if plan is None or any(each.cache.dtype != np.float16 for each in run.sequences):
                return None
            return self._passed(plan, graph, given, run)

    def batches(self, graph: Graph, weights: ModelWeights) -> bool:
        """Whether a program computes them; in a walked graph NumPy may add more rows in another order."""
        with self._lock:
            return self.plan(graph, weights, {}) is not None

    def plan(self, graph: Graph, weights: ModelWeights, tables: dict[str, Any]) -> FastPlan | None:
        if id(graph) not in self._programs:
            try:
                plan = fast_compile.translate(graph, weights, tables) if is_original(self.profile) else None
            except (NotTranslated, NotImplementedError):
                plan = None
            self._programs[id(graph)] = graph, plan
        return self._programs[id(graph)][1]

    def _passed(self, plan: FastPlan, graph: Graph, given: Mapping[str, Any], run: Run) -> dict[str, Any]:
        first = graph.nodes[0]
        x = operations.evaluate(first, [given[name] for name in first.inputs], run, self)
        tokens, memory = len(x), self._memory
        caches = np.concatenate(
            [each.cache.reserve(each.stop - each.start, plan.cache_widths) for each in run.sequences]
        )
        sequences = np.array([(each.start, each.stop, each.past) for each in run.sequences], dtype=np.int64)
        furthest = int((sequences[:, 2] + sequences[:, 1] - sequences[:, 0]).max())
        self._turn(plan, run.weights, furthest)
        memory.fit(plan, tokens, furthest)
        start = plan.start.at * tokens
        memory.values[start : start + x.size] = x.reshape(-1)
        rows = np.arange(tokens) if run.rows is None else run.rows
        head = self.screened(plan) if run.screened and len(rows) == len(run.sequences) else None
        result = np.empty((len(rows) if plan.result and head is None else 0, plan.result), dtype=np.float32)
        layers = len(plan.cache_widths[0])
        plan.program.run(
            *self._sets, self.threads, layers, sequences, rows, run.positions, caches, memory.values, result, memory.scratch,
            memory.partial, memory.codes, memory.arranged, memory.scales, memory.sums, head is None,
        )  # fmt: skip
        if head is not None and plan.head is not None:
            start = plan.head[1].at * tokens
            states = memory.values[start : start + len(rows) * head.columns].reshape(len(rows), head.columns)
            return {graph.results[0]: head.together(states)}
        if plan.end is None:
            return {graph.results[0]: result}
        return self._rest(plan, graph, run, tokens, len(rows))

    def screened(self, plan: FastPlan) -> ScreenedHead | None:
        """Return the head of a plan, of which only some rows are read; None where it is read whole."""
        if plan.head is None or plan.head[0].nbytes < screened_head.LEAST or plan.head[0].shape[1] > MOST_COLUMNS:
            return None
        if id(plan) not in self._heads:
            self._heads[id(plan)] = ScreenedHead(plan.head[0], self._sets[0], self.threads)
        return self._heads[id(plan)]

    def _rest(self, plan: FastPlan, graph: Graph, run: Run, tokens: int, chosen: int) -> dict[str, Any]:
        """Compute one node after the program."""
        (node,) = graph.nodes[plan.done :]
        assert plan.end is not None
        start, width = plan.end.at * tokens, plan.end.width
        count = tokens if node.op == "pool" else chosen
        value = self._memory.values[start : start + count * width].reshape(count, width).copy()
        if (
            node.op == "head" and len(run.sequences) == tokens
        ):  # each token as alone: NumPy adds more rows in another order
            rows = [operations.evaluate(node, [value[i : i + 1]], run, self) for i in range(count)]
            return {node.name: np.concatenate(rows)}
        return {node.name: operations.evaluate(node, [value], run, self)}

    def _turn(self, plan: FastPlan, weights: ModelWeights, positions: int) -> None:
        """Compute the angles of at least this many positions."""
        if positions <= plan.positions:
            return
        count = max(POSITIONS, 2 * plan.positions, positions)
        made: dict[Any, tuple[Floats, Floats]] = {}
        for each in plan.rotations:
            key = each.base, each.dims, each.scale, each.factors
            if key not in made:
                factors = None if each.factors is None else weights.vector(each.factors)
                made[key] = attention.cos_sin(self.profile.angles, np.arange(count), *key[:3], factors)
            plan.program.tables(each.step, *(address(table) for table in made[key]))
        plan.angles, plan.positions = list(made.values()), count


class Memory:
    """The working memory of a pass; it is reused by the next pass, and grows."""

    def __init__(self) -> None:
        self.values = self.scales = self.partial = self.scratch = np.empty(0, dtype=np.float32)
        self.codes = self.arranged = np.empty(0, dtype=np.int8)
        self.sums = np.empty(0, dtype=np.int32)

    def fit(self, plan: FastPlan, tokens: int, positions: int) -> None:
        """Grow to the size that a pass over these tokens and positions needs."""
        arranged = (tokens + 7) * (plan.columns + 128)  # tiles have up to eight tokens and are whole
        self.values = _at_least(self.values, tokens * plan.width)
        self.codes, self.arranged = _at_least(self.codes, tokens * plan.columns), _at_least(self.arranged, arranged)
        self.scales, self.sums = _at_least(self.scales, tokens), _at_least(self.sums, tokens)
        self.scratch = _at_least(self.scratch, _fast.ROOM)
        self.partial = _at_least(self.partial, plan.partial * (positions // _fast.SPLIT + 1))


def _at_least(array: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the array, or a new one that is large enough and aligned to a cache line."""
    if array.size >= count:
        return array
    raw = np.empty(count * array.itemsize + 64, dtype=np.uint8)
    skip = -address(raw) % 64
    return raw[skip : skip + count * array.itemsize].view(array.dtype)
