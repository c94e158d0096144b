"""This module changes what enters nodes of a model's graph: another value, or another tensor.

Each function gives what takes a model and gives the changed one, or None where the change makes no difference to it; or is
that itself. `mistakes` says what each of them is known as.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from i2s_spec.golden.diagnosis.graph_mistakes import mapped

if TYPE_CHECKING:
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph.graph import Node


def norms_exchanged(model: Model) -> Model | None:
    """The gains of attn_norm and ffn_norm in each other's place."""
    place = {"attn_norm": "ffn_norm", "ffn_norm": "attn_norm"}

    def change(node: Node) -> Node:
        head, _, word = (
            node.weight.removesuffix(".weight").rpartition(".") if node.op == "norm_weight" else ("", "", "")
        )
        return node.replace(weights=(f"{head}.{place[word]}.weight",)) if head and word in place else node

    graph = mapped(model.graph, change)
    present = all(name in model.file.tensors for node in graph for name in node.weights)
    return model.replace(graph=graph) if graph != model.graph and present else None


def residual_normed(model: Model) -> Model | None:
    """What goes past a block taken after its norm."""
    normed = {node.inputs[0]: node.name for node in model.graph if node.op == "norm"}
    behind = {node.inputs[0]: node.name for node in model.graph if node.op == "norm_weight"}

    def change(node: Node) -> Node:
        norm = behind.get(normed.get(node.inputs[0], "")) if node.op == "add" else None
        return node.replace(inputs=(norm, *node.inputs[1:])) if norm is not None else node

    graph = mapped(model.graph, change)
    return model.replace(graph=graph) if graph != model.graph else None


def residual_of_layer(model: Model) -> Model | None:
    """What goes past the feed-forward block taken from the start of the layer."""
    starts: dict[int | None, str] = {}
    nodes = []
    for node in model.graph:
        if node.op == "add" and node.layer in starts:
            nodes.append(node.replace(inputs=(starts[node.layer], *node.inputs[1:])))
            continue
        if node.op == "add" and node.layer is not None:
            starts[node.layer] = node.inputs[0]
        nodes.append(node)
    return model.replace(graph=replace(model.graph, nodes=tuple(nodes))) if nodes != list(model.graph) else None
