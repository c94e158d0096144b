"""This module changes a model in one way: its reading of the weights, its numbers, its graph, one of its operations.

Each function gives what takes a model and gives the changed one, or None where the change makes no difference to it; or is
that itself. `mistakes` says what each of them is known as.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.golden import wrong_operations as wrong
from i2s_spec.model.graphs import ROPE_FACTORS, graph_of
from i2s_spec.model.operations import Operations
from i2s_spec.model.profile import PROFILES
from i2s_spec.model.weights import Weights
from i2s_spec.schema.dialect import LAYOUTS, Dialect

if TYPE_CHECKING:
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Graph, Node


def read_as(name: str) -> Callable[[Model], Model | None]:
    """Weights read in another layout."""

    def apply(model: Model) -> Model | None:
        own = model.weights.dialect
        if own.layout.name == name or not _ternary(model):
            return None
        other = Dialect(LAYOUTS[name], own.code_map, own.tail)
        return model.but(weights=Weights(model.file, other))

    return apply


def _ternary(model: Model) -> bool:
    return any(tensor.type is not None and tensor.type.name == "I2_S" for tensor in model.file.tensors.values())


def operations(kind: type[Operations]) -> Callable[[Model], Model | None]:
    """The same model, computed by other operations."""
    ternary = issubclass(kind, wrong.WrongProjection)
    home = f"{kind.__module__}:{kind.__name__}"

    def apply(model: Model) -> Model | None:
        if ternary and not _ternary(model):
            return None
        return model.but(profile=model.profile.but(operations=home))

    return apply


# Numbers.


def numbers(**changes: Any) -> Callable[[Model], Model | None]:
    """Another choice of the profile."""

    def apply(model: Model) -> Model | None:
        other = model.profile.but(**changes)
        return None if replace(other, name=model.profile.name) == model.profile else model.but(profile=other)

    return apply


def quantiser_of(name: str) -> Callable[[Model], Model | None]:
    """Another profile's way to make integers of activations."""
    rule = PROFILES[name].quantiser

    def apply(model: Model) -> Model | None:
        if model.profile.quantiser == rule or (rule.groups == "blocks-256" and _odd_rows(model)):
            return None
        return model.but(profile=model.profile.but(quantiser=rule))

    return apply


def _odd_rows(model: Model) -> bool:
    rows = (model.file.tensors[node.weight].shape[-1] for node in model.graph if node.op == "linear")
    return any(columns % 256 for columns in rows)


def no_quantiser(model: Model) -> Model | None:
    """Activations that stay floats."""
    if model.profile.quantiser.groups == "none":
        return None
    return model.but(profile=model.profile.but(quantiser={"groups": "none"}))


# Graphs.


def each_of(ops: str | tuple[str, ...], **changes: Any) -> Callable[[Model], Model | None]:
    """Every node of some operations with other settings."""
    kinds = (ops,) if isinstance(ops, str) else ops

    def apply(model: Model) -> Model | None:
        nodes = [node for node in model.graph if node.op in kinds]
        if all(node.but(**changes) == node for node in nodes):
            return None
        return model.but(graph=_mapped(model.graph, lambda node: node.but(**changes) if node.op in kinds else node))

    return apply


def _mapped(graph: Graph, change: Callable[[Node], Node]) -> Graph:
    return replace(graph, nodes=tuple(change(node) for node in graph))


def other_pairs(model: Model) -> Model | None:
    """Rotation of neighbours for halves, or the other way round."""
    other = {"neox": "norm", "norm": "neox"}

    def change(node: Node) -> Node:
        return node.but(pairs=other[node.settings["pairs"]]) if node.op == "rope" else node

    return model.but(graph=_mapped(model.graph, change))


def activation(name: str) -> Callable[[Model], Model | None]:
    """Another activation."""

    def apply(model: Model) -> Model | None:
        if model.settings.activation == name:
            return None
        settings = replace(model.settings, activation=name)
        present = tuple(model.file.tensors)
        return model.but(graph=graph_of(model.architecture.name, model.hyperparameters, settings, present))

    return apply


def relu_alone(model: Model) -> Model | None:
    """ReLU, not squared."""
    names = [node.name for node in model.graph if node.op == "square"]
    return model.but(graph=model.graph.without(*names)) if names else None


def up_gated(model: Model) -> Model | None:
    """ffn_up through the activation, ffn_gate as it is."""
    swap = {}
    for node in model.graph:
        if node.op == "linear" and node.name.startswith(("ffn_up-", "ffn_gate-")):
            kind, _, layer = node.name.partition("-")
            swap[node.name] = f"{'ffn_gate' if kind == 'ffn_up' else 'ffn_up'}-{layer}"
    acts = {"relu", "silu", "gelu", "multiply"}
    if not swap:
        return None
    return model.but(
        graph=_mapped(
            model.graph,
            lambda node: (
                node.but(inputs=tuple(swap.get(name, name) for name in node.inputs)) if node.op in acts else node
            ),
        )
    )


def without_norms(*words: str) -> Callable[[Model], Model | None]:
    """Norms of some names left out, gains and all."""

    def apply(model: Model) -> Model | None:
        gains = [node for node in model.graph if node.op == "gain" and node.name.partition("-")[0] in words]
        names = [name for node in gains for name in (*node.inputs, node.name)]
        return model.but(graph=model.graph.without(*names)) if names else None

    return apply


def without_gains(model: Model) -> Model | None:
    """Norms without gains."""
    return model.but(graph=model.graph.without(*(node.name for node in model.graph if node.op == "gain")))


def epsilon(value: float) -> Callable[[Model], Model | None]:
    """Another epsilon of every norm."""

    def apply(model: Model) -> Model | None:
        own = {np.float32(node.settings["eps"]) for node in model.graph if node.op == "norm"}
        return each_of("norm", eps=value)(model) if own != {np.float32(value)} else None

    return apply


def heads_in_turn(model: Model) -> Model | None:
    """Query heads that meet the wrong key heads."""
    layers = (model.hyperparameters.at(i) for i in range(model.hyperparameters.layers))
    if all(h.heads_kv in (1, h.heads) for h in layers):
        return None
    return operations(wrong.HeadsInTurn)(model)


def embedding_not_scaled(model: Model) -> Model | None:
    """Embeddings as the table has them."""
    names = [node.name for node in model.graph if node.op == "multiply_by" and node.layer is None]
    return model.but(graph=model.graph.without(*names)) if names else None


def attention_not_scaled(model: Model) -> Model | None:
    """Scores are scaled in the soft-max, or queries before them."""
    names = [node.name for node in model.graph if node.op == "multiply_by" and node.layer is not None]
    return model.but(graph=model.graph.without(*names)) if names else each_of("soft_max", scale=1.0)(model)


def without_factors(model: Model) -> Model | None:
    """rope_freqs.weight ignored."""
    if ROPE_FACTORS not in model.file.tensors:
        return None
    return each_of("rope", weights=())(model)
