"""This module draws one layer of a graph from its declaration: a box for each operation, arrows for the values."""

from __future__ import annotations

from functools import cache
from typing import Final

from i2s_spec.convert.synthetic.recipes import SHAPES
from i2s_spec.docs.drawings.flow import Arrow, Box, Grid, flow
from i2s_spec.model.graph.architectures import GRAPHS, GraphSettings
from i2s_spec.model.graph.graph import Builder, Graph, Node
from i2s_spec.schema.architectures.architecture import ARCHITECTURES
from i2s_spec.schema.architectures.sizes import Hyperparameters

#: Operations that are drawn as part of the one that they belong to, which has their value's name.
_INNER: Final = ("norm",)

#: Class of a box by its operation.
_STYLES: Final = {"linear": "ternary", "norm_weight": "norm", "add": "sum", "multiply": "sum"}

_WORDS: Final = {
    "norm_weight": "RMS norm", "linear": "BitLinear", "add": "added", "multiply": "multiplied", "rope": "rotated",
    "store_kv": "kept in the cache", "scores": "q kᵀ", "soft_max": "softmax", "weighted_values": "times v",
    "silu": "SiLU", "relu": "ReLU", "square": "squared", "gelu": "GELU", "multiply_by": "times a constant",
    "heads": "cut into heads",
}  # fmt: skip

_GRID: Final = Grid(132, 40, 12, 16)


@cache
def two_b_4t() -> Hyperparameters:
    """The sizes of BitNet b1.58 2B-4T."""
    size = SHAPES["2b4t"][0]
    head = size.embd // size.heads
    return Hyperparameters(size.layers, size.embd, size.ff, size.heads, size.heads_kv, head, head, size.vocab)


def graph_flow(architecture: str, half: str) -> str:
    """The attention or the feed-forward of one layer of an architecture, as its graph is declared.

    :param half: `attention` or `feed-forward`
    :raises ValueError: for another architecture or another half
    """
    if architecture not in GRAPHS or half not in ("attention", "feed-forward"):
        raise ValueError(f"there is no {half!r} of {architecture!r}; there are {', '.join(GRAPHS)}")
    made = GRAPHS[architecture](
        Builder(), two_b_4t()._replace(layers=1), GraphSettings(ARCHITECTURES[architecture].activation, "neox")
    )
    nodes = made.layer(0).nodes
    norm = next(i for i, node in enumerate(nodes) if node.name == "ffn_norm-0")
    cut = 1 + max(i for i, node in enumerate(nodes[:norm]) if node.op == "add")  # the residual around attention
    part = made.part(nodes[:cut] if half == "attention" else nodes[cut:])
    title = f"{architecture}: {half} of a layer"
    boxes, arrows = _boxes(part), list(_arrows(part))
    return flow(boxes, arrows, title, _in_words(part), _GRID, margin=26)


def _shown(graph: Graph) -> list[Node]:
    return [node for node in graph if node.op not in _INNER]


def _inputs(graph: Graph, node: Node) -> list[str]:
    """What goes into a node, past operations that are drawn with it."""
    found = []
    for name in node.inputs:
        inner = graph.by_name.get(name)
        found += _inputs(graph, inner) if inner is not None and inner.op in _INNER else [name]
    return found


def _boxes(graph: Graph) -> list[Box]:
    ranks: dict[str, int] = dict.fromkeys(graph.given, 0)
    rows: dict[int, list[Node]] = {}
    for node in _shown(graph):
        ranks[node.name] = 1 + max(ranks[name] for name in _inputs(graph, node))
        rows.setdefault(ranks[node.name], []).append(node)
    columns = dict.fromkeys(graph.given, 1.0)
    boxes = [Box(name, columns[name], 0, (_plain(name),), "given") for name in graph.given]
    for rank, nodes in sorted(rows.items()):
        for place, node in enumerate(_in_order(nodes, graph, columns)):
            above = [columns[name] for name in _inputs(graph, node)]
            columns[node.name] = _column(place, len(nodes), above)
            boxes.append(_box(node, columns[node.name], rank))
    return boxes


def _column(place: int, count: int, above: list[float]) -> float:
    """Where a node stands: below its only input where it is alone in its row, else in the middle, or side by side."""
    if count == 1:
        return above[0] if len(above) == 1 else 1.0
    return float(place) if count > 2 else 1 + place - 0.5


def _in_order(nodes: list[Node], graph: Graph, columns: dict[str, float]) -> list[Node]:
    """The nodes of a row, by where the values come from that go into them."""
    return sorted(nodes, key=lambda node: min(columns[name] for name in _inputs(graph, node)))


def _box(node: Node, column: float, row: int) -> Box:
    weights = ", ".join(name.removeprefix("blk.0.").removesuffix(".weight") for name in node.weights)
    words = _WORDS.get(node.op, node.op)
    says = f"{_plain(node.name)}: {words}{f', weights {weights}' if weights else ''}"
    return Box(node.name, column, row, (_plain(node.name), words), _STYLES.get(node.op, "plain"), says)


def _plain(name: str) -> str:
    """A value's name without its layer."""
    return name.replace("-0", "")


def _arrows(graph: Graph) -> list[Arrow]:
    ranks: dict[str, int] = dict.fromkeys(graph.given, 0)
    arrows = []
    for node in _shown(graph):
        inputs = _inputs(graph, node)
        ranks[node.name] = 1 + max(ranks[name] for name in inputs)
        for name in inputs:
            residual = node.op == "add" and ranks[node.name] - ranks[name] > 1
            arrows.append(Arrow(name, node.name, "residual" if residual else "", _GRID.wide + 18 if residual else 0))
    return arrows


def _in_words(graph: Graph) -> str:
    lines = [f"{_plain(node.name)} from {' and '.join(map(_plain, _inputs(graph, node)))}" for node in _shown(graph)]
    return "; ".join(lines) + "."
