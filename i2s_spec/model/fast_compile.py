"""Compile a graph to a program: steps for compiled kernels, which then run a whole pass in one call.

The graph remains the definition. One step may compute several nodes (a norm and its gains, an activation and the
product with it, projections of one input, scores, soft-max and weighted values), with the results of these nodes; only
attention adds in another order. `translate` knows the operations of all graphs of this package; for any other
operation, or a shape that the kernels do not support, there is no program, and the graph is walked node by node. The
embedding is looked up before the program runs, and nodes after it (a pooling, a head of a quantized type) are computed
afterwards.

A program (`FastPlan`) consists of steps, slots for values, and tables that steps read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.model import _fast
from i2s_spec.model.graph import Graph, Node
from i2s_spec.model.reference import matmul
from i2s_spec.model.reference.embedding_table import EmbeddingTable
from i2s_spec.model.weights import DENSE, Grouped, ModelWeights, Ternary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model._fast import Program


# --- plan ------------------------------------------------------------------------------------------------------------
# A value has `width` floats for every token; all values of a pass are in one block of memory, and the slots of values
# that are no longer needed are reused.

#: Alignment of values, in floats: with one token, every value begins a cache line.
LINE: Final = 16


class NotTranslated(Exception):
    """A graph has an operation or a shape that no step of a program supports."""


def address(array: NDArray[Any]) -> int:
    """Return the address of an array."""
    return int(array.__array_interface__["data"][0])


@dataclass
class Storage:
    """The storage of a value: `at` floats before it for every token, `width` floats, and the number of its names."""

    at: int
    width: int
    users: int = 1


@dataclass(frozen=True)
class Slot:
    """A value: its slot, and the width of the unit that is normed or rotated separately: a head, or all of it."""

    storage: Storage
    inner: int

    @property
    def at(self) -> int:
        return self.storage.at

    @property
    def width(self) -> int:
        return self.storage.width


@dataclass(frozen=True)
class RotationAngles:
    """The parameters of the angles of rotations, and the number of the step that needs them."""

    step: int
    base: float
    dims: int
    scale: float
    factors: str | None


@dataclass
class FastPlan:
    """A program and its data.

    :param width: floats of all slots, for every token
    :param columns: most columns of a ternary matrix, in whole blocks
    :param start: slot of the embedding
    :param done: how many nodes of the graph the program computes
    :param result: rows of the head if the program includes it, else 0
    :param head: the head and the slot that meets it, where it is of halves and the last step
    :param end: the slot from which the rest of the graph continues, if there is a rest
    :param arrays: arrays whose addresses are in the program
    """

    program: Program
    width: int
    columns: int
    start: Slot
    done: int = 0
    result: int = 0
    head: tuple[NDArray[np.float16], Slot] | None = None
    end: Slot | None = None
    rotations: list[RotationAngles] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)
    #: Cosines and sines by position, and the number of positions.
    angles: list[Any] = field(default_factory=list)
    positions: int = 0
    #: Floats of a token's keys and values by layer, keys first.
    widths: dict[tuple[int, int], int] = field(default_factory=dict)
    #: The most floats that a part of the keys of one token leaves, over all layers.
    partial: int = 1
    #: The same by kind, keys first, in the form of a cache.
    cache_widths: tuple[tuple[int, ...], ...] = ()


# --- slots -----------------------------------------------------------------------------------------------------------
# Memory for a value is allocated when its node is translated, and freed after the last node that needs it.


class SlotAllocator:
    """The storage of the values of a graph while a program runs.

    :param graph: the graph with the values
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        #: The slot of each value that is still needed.
        self.slots: dict[str, Slot] = {}
        #: Floats of all values of a token.
        self.width = 0
        self.free: dict[int, list[int]] = defaultdict(list)
        self.uses = self._uses()

    def _uses(self) -> dict[str, int]:
        """Return the last use of each value; for queries the node of the weighted values, because its step does all of
        attention."""
        uses = dict(self.graph.last_use)
        for at, node in enumerate(self.graph.nodes):
            for name in self._queries(node):
                uses[name] = max(at, uses[name])
        return uses

    def _queries(self, node: Node) -> tuple[str, ...]:
        if node.op != "weighted_values":
            return ()
        return self.graph[self.graph[node.inputs[0]].inputs[0]].inputs[:1]

    def new(self, name: str, width: int, inner: int | None = None) -> Slot:
        """Return a slot for the value of a node."""
        size = -(-width // LINE) * LINE
        if self.free[size]:
            at = self.free[size].pop()
        else:
            at, self.width = self.width, self.width + size
        slot = self.slots[name] = Slot(Storage(at, width), inner or width)
        return slot

    def same(self, name: str, slot: Slot) -> None:
        """Give a value another name."""
        slot.storage.users += 1
        self.slots[name] = slot

    def release(self, at: int, node: Node) -> None:
        """Free the storage of values that no later node needs."""
        for name in {node.name, *node.inputs, *self._queries(node)}:
            if name in self.slots and self.uses[name] == at and name not in self.graph.results:
                storage = self.slots.pop(name).storage
                storage.users -= 1
                if not storage.users:
                    self.free[-(-storage.width // LINE) * LINE].append(storage.at)


# --- translation -----------------------------------------------------------------------------------------------------


def translate(graph: Graph, weights: ModelWeights, tables: dict[str, EmbeddingTable]) -> FastPlan:
    """Return the program of a graph.

    :param tables: embedding tables and heads by name; tables that are read are added
    :raises NotTranslated: if compiled kernels do not support something in the graph
    """
    return _Translation(graph, weights, tables).plan


class _Translation:
    def __init__(self, graph: Graph, weights: ModelWeights, tables: dict[str, EmbeddingTable]) -> None:
        self.graph, self.weights, self.tables = graph, weights, tables
        self.allocator = SlotAllocator(graph)
        self.slots = self.allocator.slots
        self.steps: list[dict[str, Any]] = []
        self.matrices: list[tuple[int, int, int, float]] = []
        self.columns, self.late, self.quantized = 128, False, ""
        self.takers = Counter(name for node in graph.nodes for name in node.inputs)
        first = graph.nodes[0]
        if first.op != "embed" or len(graph.results) != 1:
            raise NotTranslated(first.op)
        self.plan = FastPlan(
            _fast.Program(), 0, 0, self.allocator.new(first.name, weights.tensor(first.weight).shape[1]), done=1
        )
        for at, node in enumerate(graph.nodes[1:], 1):
            if node.op == "pool" or (node.op == "head" and weights.tensor_type(node.weight) not in DENSE):
                self.plan.end = self.slots[node.inputs[0]]
                break
            if node.op not in _NODES:
                raise NotTranslated(node.op)
            _NODES[node.op](self, node)
            self.plan.done = at + 1
            self.allocator.release(at, node)
        self._finish()

    def _finish(self) -> None:
        plan, rest = self.plan, self.graph.nodes[self.plan.done :]
        if (plan.end is None) == (plan.result == 0) or len(rest) > 1:
            raise NotTranslated("the end of the graph")
        plan.width, plan.columns = self.allocator.width, self.columns
        layers = range(len(plan.widths) // 2)
        plan.cache_widths = tuple(tuple(plan.widths.get((i, kind), 0) for i in layers) for kind in (0, 1))
        for weight, rows, out, scale in self.matrices:
            plan.program.matrix(weight, rows, out, scale)
        for step in self.steps:
            op = step.pop("op")
            plan.program.add(_fast.OPS[op], **step)

    def _step(self, op: str, **settings: Any) -> None:
        self.steps.append({"op": op, "late": self.late, **settings})

    def _last(self, op: str, name: str) -> dict[str, Any] | None:
        """Return the last step, if it has a given kind and its value is needed by only one node."""
        step = self.steps[-1] if self.steps else None
        made = step is not None and step["op"] == op and step["out"] == self.slots[name].at
        return step if made and self.takers[name] == 1 else None

    def _vector(self, name: str, width: int) -> int:
        vector = np.ascontiguousarray(self.weights.vector(name))
        if vector.size != width:
            raise NotTranslated(name)
        self.plan.arrays.append(vector)
        return address(vector)

    # Nodes

    def _norm(self, node: Node) -> None:
        x = self.slots[node.inputs[0]]
        out = self.allocator.new(node.name, x.width, x.inner)
        eps = float(np.float32(node.settings["eps"]))
        self._step("norm", x=x.at, out=out.at, width=x.width, inner=x.inner, factor=eps)

    def _norm_weight(self, node: Node) -> None:
        x, step = self.slots[node.inputs[0]], self._last("norm", node.inputs[0])
        if step is None or "weight" in step:
            raise NotTranslated("norm_weight")
        step["weight"] = self._vector(node.weight, x.inner)
        self.allocator.same(node.name, x)

    def _linear(self, node: Node) -> None:
        x = self.slots[node.inputs[0]]
        matrix = self.weights.matrix(node.weight)
        if isinstance(matrix, Grouped):
            raise NotTranslated(node.op)
        if not isinstance(matrix, Ternary):
            self._dense("dense", node, x, matrix)
            return
        payload, columns = matmul.whole_rows(matrix.payload, matrix.rows, matrix.columns)
        if matrix.columns != x.width or not matrix.rows:
            raise NotTranslated(node.name)
        self.plan.arrays.append(payload)
        self.columns = max(self.columns, columns)
        last: dict[str, Any] = self.steps[-1] if self.steps else {"op": ""}
        fresh = self.quantized != node.inputs[0]
        out = self.allocator.new(node.name, matrix.rows)
        self.matrices.append((address(payload), matrix.rows, out.at, float(matrix.scale)))
        if not fresh and last["op"] == "ternary" and last["count"] < _fast.MOST_MATRICES:
            last["count"] += 1
            return
        if fresh:
            self._step("quantize", x=x.at, width=x.width, inner=columns)
            self.quantized = node.inputs[0]
        self._step("ternary", first=len(self.matrices) - 1, count=1, inner=columns, width=x.width)

    def _dense(self, op: str, node: Node, x: Slot, matrix: NDArray[Any]) -> NDArray[Any]:
        whole = np.ascontiguousarray(matrix)
        self.plan.arrays.append(whole)
        rows, columns = whole.shape
        if columns != x.width or not rows:
            raise NotTranslated(node.name)
        out = 0 if op == "head" else self.allocator.new(node.name, rows).at
        kind = _fast.TYPES[whole.dtype.name]
        self._step(op, x=x.at, out=out, width=columns, heads=rows, weight=address(whole), kind=kind)
        return whole

    def _head(self, node: Node) -> None:
        if node.weight not in self.tables:
            self.tables[node.weight] = EmbeddingTable(self.weights, node.weight)
        table = self.tables[node.weight]
        x = self.slots[node.inputs[0]]
        weights = self._dense("head", node, x, table.dense)
        self.plan.result = table.rows
        self.plan.head = (weights, x) if weights.dtype == np.float16 else None

    def _select_rows(self, node: Node) -> None:
        x = self.slots[node.inputs[0]]
        out = self.allocator.new(node.name, x.width)
        self._step("select_rows", x=x.at, out=out.at, width=x.width)
        self.late = True

    def _heads(self, node: Node) -> None:
        x = self.slots[node.inputs[0]]
        self.allocator.same(node.name, Slot(x.storage, self._head_width(x, node.settings["heads"])))

    def _head_width(self, x: Slot, heads: int) -> int:
        if x.width % heads:
            raise NotTranslated("heads")
        return x.width // heads

    def _rope(self, node: Node) -> None:
        x, settings = self.slots[node.inputs[0]], node.settings
        heads, dims = settings["heads"], settings["dims"]
        inner = self._head_width(x, heads)
        if dims % 2 or dims > inner:
            raise NotTranslated("rope")
        out = self.allocator.new(node.name, x.width, inner)
        how = float(settings["base"]), dims, float(settings["scale"]), node.weight if node.weights else None
        self.plan.rotations.append(RotationAngles(len(self.steps), *how))
        kind = 0 if settings["pairs"] == "neox" else 1
        self._step("rope", x=x.at, out=out.at, kind=kind, width=x.width, heads=heads, inner=inner, groups=dims // 2)

    def _store_kv(self, node: Node) -> None:
        x, layer = self.slots[node.inputs[0]], node.layer or 0
        kind = 0 if node.settings["part"] == "keys" else 1
        self.plan.widths[layer, kind] = x.width
        self._step("store_kv", x=x.at, width=x.width, kind=kind, layer=layer)

    def _nothing(self, node: Node) -> None:
        """Add no step for scores and soft-max: the step of the weighted values computes them."""

    def _weighted_values(self, node: Node) -> None:
        soft_max, values = self.graph[node.inputs[0]], self.graph[node.inputs[1]]
        scores = self.graph[soft_max.inputs[0]]
        keys, x = self.graph[scores.inputs[1]], self.slots[scores.inputs[0]]
        layer = node.layer or 0
        if {(keys.layer or 0, keys.op), (values.layer or 0, values.op)} != {(layer, "store_kv")} or self.late:
            raise NotTranslated("attention")
        heads, groups = scores.settings["heads"], keys.settings["heads"]
        inner, value = self._head_width(x, heads), self.plan.widths[layer, 1] // groups
        fits = self.plan.widths[layer, 0] == groups * inner and self.plan.widths[layer, 1] == groups * value
        if heads % groups or max(inner, value) > _fast.WIDEST or not fits:
            raise NotTranslated("heads")
        out = self.allocator.new(node.name, heads * value)
        self.plan.partial = max(self.plan.partial, heads * (value + 2))
        how = {"factor": float(np.float32(soft_max.settings["scale"])), "kind": int(soft_max.settings["causal"])}
        how["first"] = soft_max.settings["window"]
        shape = {"heads": heads, "groups": groups, "inner": inner, "value": value, "width": x.width}
        self._step("attend", x=x.at, out=out.at, layer=layer, **shape, **how)

    def _pair(self, node: Node) -> None:
        a, b = (self.slots[name] for name in node.inputs)
        if a.width != b.width:
            raise NotTranslated(node.name)
        step = self._last("activate", node.inputs[0]) if node.op == "multiply" else None
        out = self.allocator.new(node.name, a.width, a.inner)
        if step is not None and "x2" not in step:
            step.update(x2=b.at, out=out.at)
        else:
            self._step(node.op, x=a.at, x2=b.at, width=a.width, out=out.at)

    def _activation(self, node: Node) -> None:
        x = self.slots[node.inputs[0]]
        step = self._last("activate", node.inputs[0]) if node.op == "square" else None
        if step is not None and step["kind"] == _fast.ACTIVATIONS["relu"] and "x2" not in step:
            step["kind"] = _fast.ACTIVATIONS["relu2"]
            self.allocator.same(node.name, x)
            return
        out = self.allocator.new(node.name, x.width, x.inner)
        self._step("activate", x=x.at, width=x.width, out=out.at, kind=_fast.ACTIVATIONS[node.op])

    def _times(self, node: Node) -> None:
        x = self.slots[node.inputs[0]]
        factor = node.settings["factor"] if node.op == "multiply_by" else self.weights.vector(node.weight)[0]
        out = self.allocator.new(node.name, x.width, x.inner)
        self._step("times", x=x.at, width=x.width, out=out.at, factor=float(np.float32(factor)))

    def _bias(self, node: Node) -> None:
        x = self.slots[node.inputs[0]]
        out = self.allocator.new(node.name, x.width, x.inner)
        self._step("bias", x=x.at, width=x.width, out=out.at, weight=self._vector(node.weight, x.width))


_NODES: Final[dict[str, Callable[[_Translation, Node], None]]] = {
    "norm": _Translation._norm,
    "norm_weight": _Translation._norm_weight,
    "linear": _Translation._linear,
    "head": _Translation._head,
    "select_rows": _Translation._select_rows,
    "heads": _Translation._heads,
    "rope": _Translation._rope,
    "store_kv": _Translation._store_kv,
    "scores": _Translation._nothing,
    "soft_max": _Translation._nothing,
    "weighted_values": _Translation._weighted_values,
    "add": _Translation._pair,
    "multiply": _Translation._pair,
    **dict.fromkeys(("relu", "square", "silu", "gelu"), _Translation._activation),
    **dict.fromkeys(("scale", "multiply_by"), _Translation._times),
    "bias": _Translation._bias,
}
