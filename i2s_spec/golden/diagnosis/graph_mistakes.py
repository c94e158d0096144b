"""Changes of a model, one mistake each: of its graph, of what enters a node, of weights, numbers and operations.

A change is a function that takes a model and returns the changed model, or None where the change makes no difference to
it. The functions here are such changes, or make one from their arguments. `mistakes` lists them with their names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.codec.native import count_codes
from i2s_spec.golden.diagnosis import operation_mistakes as wrong
from i2s_spec.golden.diagnosis.operation_mistakes import BlocksOf32, WrongProjection
from i2s_spec.model.architectures import EMBEDDING, ROPE_FACTORS, graph_of
from i2s_spec.model.graph import Node
from i2s_spec.model.numerics import NUMERIC_PROFILES
from i2s_spec.model.reference.operations import Operations
from i2s_spec.model.weights import ModelWeights, Ternary
from i2s_spec.schema.dialect import LAYOUTS, Dialect

if TYPE_CHECKING:
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Graph


def each_of(ops: str | tuple[str, ...], **changes: Any) -> Callable[[Model], Model | None]:
    """Every node of some operations with other settings."""
    kinds = (ops,) if isinstance(ops, str) else ops

    def apply(model: Model) -> Model | None:
        nodes = [node for node in model.graph if node.op in kinds]
        if all(node.replace(**changes) == node for node in nodes):
            return None
        return model.replace(
            graph=mapped(model.graph, lambda node: node.replace(**changes) if node.op in kinds else node)
        )

    return apply


def windows(of: Callable[[int, int], int]) -> Callable[[Model], Model | None]:
    """Every layer with another window, which a function gives for its own (0 for none) and for the model's."""

    def apply(model: Model) -> Model | None:
        found = [node.settings["window"] for node in model.graph if node.op == "soft_max"]
        widest = max(found, default=0)
        if not widest or all(of(own, widest) == own for own in found):
            return None

        def change(node: Node) -> Node:
            return node.replace(window=of(node.settings["window"], widest)) if node.op == "soft_max" else node

        return model.replace(graph=mapped(model.graph, change))

    return apply


def mapped(graph: Graph, change: Callable[[Node], Node]) -> Graph:
    """Return the graph with every node changed."""
    return replace(graph, nodes=tuple(change(node) for node in graph))


def other_pairs(model: Model) -> Model | None:
    """Rotation of neighbors for halves, or the other way round."""
    other = {"neox": "norm", "norm": "neox"}

    def change(node: Node) -> Node:
        return node.replace(pairs=other[node.settings["pairs"]]) if node.op == "rope" else node

    return model.replace(graph=mapped(model.graph, change))


def activation(name: str) -> Callable[[Model], Model | None]:
    """Another activation."""

    def apply(model: Model) -> Model | None:
        if model.settings.activation == name:
            return None
        settings = replace(model.settings, activation=name)
        present = tuple(model.file.tensors)
        return model.replace(graph=graph_of(model.architecture.name, model.hyperparameters, settings, present))

    return apply


def relu_alone(model: Model) -> Model | None:
    """ReLU, not squared."""
    names = [node.name for node in model.graph if node.op == "square"]
    return model.replace(graph=model.graph.without(*names)) if names else None


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
    return model.replace(
        graph=mapped(
            model.graph,
            lambda node: (
                node.replace(inputs=tuple(swap.get(name, name) for name in node.inputs)) if node.op in acts else node
            ),
        )
    )


def without_norms(*words: str) -> Callable[[Model], Model | None]:
    """Norms of some names left out, gains and all."""

    def apply(model: Model) -> Model | None:
        gains = [node for node in model.graph if node.op == "norm_weight" and node.name.partition("-")[0] in words]
        names = [name for node in gains for name in (*node.inputs, node.name)]
        return model.replace(graph=model.graph.without(*names)) if names else None

    return apply


def epsilon(value: float) -> Callable[[Model], Model | None]:
    """Another epsilon of every norm."""

    def apply(model: Model) -> Model | None:
        own = {np.float32(node.settings["eps"]) for node in model.graph if node.op == "norm"}
        return each_of("norm", eps=value)(model) if own != {np.float32(value)} else None

    return apply


def embedding_scaled(model: Model) -> Model | None:
    """Embeddings multiplied by the root of their width, which is Gemma's."""
    first = model.graph.nodes[0]
    if any(node.op == "multiply_by" and node.layer is None for node in model.graph):
        return None
    scaled = Node("inp_scaled", "multiply_by", (first.name,), (), None, {"factor": model.hyperparameters.embd**0.5})

    def change(node: Node) -> Node:
        return replace(node, inputs=tuple(scaled.name if name == first.name else name for name in node.inputs))

    return model.replace(graph=replace(model.graph, nodes=(first, scaled, *map(change, model.graph.nodes[1:]))))


def sub_norm_first(model: Model) -> Model | None:
    """ffn_sub_norm on the activated gate, which is multiplied by ffn_up after it."""
    nodes: list[Node] = []
    for node in model.graph:
        product = nodes[-2] if len(nodes) > 1 else None
        if node.op == "norm_weight" and node.name.startswith("ffn_sub_norm-") and product is not None:
            norm = nodes[-1]
            nodes[-2:] = [
                norm.replace(inputs=product.inputs[:1]), node, product.replace(inputs=(node.name, *product.inputs[1:]))
            ]  # fmt: skip
        elif product is not None and nodes[-2].name in node.inputs and nodes[-2].name.startswith("ffn_sub_norm-"):
            nodes.append(node.replace(inputs=(nodes[-1].name,)))
        else:
            nodes.append(node)
    return model.replace(graph=replace(model.graph, nodes=tuple(nodes))) if nodes != list(model.graph) else None


def attention_scaled_by_embedding(model: Model) -> Model | None:
    """Scores divided by the root of the embedding's width, where that of a head belongs."""
    scale = model.hyperparameters.embd**-0.5

    def change(node: Node) -> Node:
        if node.op == "multiply_by" and node.layer is not None:
            return node.replace(factor=scale)
        return node.replace(scale=scale) if node.op == "soft_max" and node.settings["scale"] != 1 else node

    graph = mapped(model.graph, change)
    return model.replace(graph=graph) if graph != model.graph else None


def embedding_not_scaled(model: Model) -> Model | None:
    """Embeddings as the table has them."""
    names = [node.name for node in model.graph if node.op == "multiply_by" and node.layer is None]
    return model.replace(graph=model.graph.without(*names)) if names else None


def rotation_ignored(model: Model) -> Model | None:
    """Return inputs of folded weights and rows of rotated tables as they are."""
    names = [node.name for node in model.graph if node.op in ("rotate", "restore")]
    return model.replace(graph=model.graph.without(*names)) if names else None


def attention_not_scaled(model: Model) -> Model | None:
    """Scores are scaled in the soft-max, or queries before them."""
    names = [node.name for node in model.graph if node.op == "multiply_by" and node.layer is not None]
    return model.replace(graph=model.graph.without(*names)) if names else each_of("soft_max", scale=1.0)(model)


def attention_scaled_twice(model: Model) -> Model | None:
    """Scores divided by the width of the head, not by its root."""

    def change(node: Node) -> Node:
        if node.op == "multiply_by" and node.layer is not None:
            return node.replace(factor=node.settings["factor"] ** 2)
        return node.replace(scale=node.settings["scale"] ** 2) if node.op == "soft_max" else node

    return model.replace(graph=mapped(model.graph, change))


def without_ops(op: str) -> Callable[[Model], Model | None]:
    """Operations of one input left out."""

    def apply(model: Model) -> Model | None:
        names = [node.name for node in model.graph if node.op == op]
        return model.replace(graph=model.graph.without(*names)) if names else None

    return apply


def of_delta_nets(kind: type[Operations]) -> Callable[[Model], Model | None]:
    """Other operations, in models with delta nets."""

    def apply(model: Model) -> Model | None:
        return operations(kind)(model) if any(node.op == "delta_rule" for node in model.graph) else None

    return apply


def turned_back(model: Model) -> Model | None:
    """Rotation the other way round."""
    return model.replace(
        graph=mapped(
            model.graph, lambda node: node.replace(scale=-node.settings["scale"]) if node.op == "rope" else node
        )
    )


def exchanged(one: str, other: str) -> Callable[[Model], Model | None]:
    """Two matrices of every layer in each other's place."""
    place = {one: other, other: one}

    def change(node: Node) -> Node:
        head, _, word = node.weight.removesuffix(".weight").rpartition(".") if node.op == "linear" else ("", "", "")
        return node.replace(weights=(f"{head}.{place[word]}.weight",)) if word in place else node

    def apply(model: Model) -> Model | None:
        graph = mapped(model.graph, change)
        pairs = zip(model.graph, graph, strict=True)
        shapes = {old.weights == new.weights or _shape(model, old) == _shape(model, new) for old, new in pairs}
        return model.replace(graph=graph) if graph != model.graph and shapes == {True} else None

    return apply


def _shape(model: Model, node: Node) -> tuple[int, ...]:
    return model.file.tensors[node.weight].shape


def tied_head(model: Model) -> Model | None:
    """Return the embedding table as head, although there is another."""
    heads = [node.name for node in model.graph if node.op == "head" and node.weights != (EMBEDDING,)]
    return model.replace(graph=model.graph.replaced(heads[0], weights=(EMBEDDING,))) if heads else None


def without_factors(model: Model) -> Model | None:
    """rope_freqs.weight ignored."""
    if ROPE_FACTORS not in model.file.tensors:
        return None
    return each_of("rope", weights=())(model)


def half_rotated(model: Model) -> Model | None:
    """Return the first half of each head rotated."""

    def change(node: Node) -> Node:
        return node.replace(dims=node.settings["dims"] // 4 * 2) if node.op == "rope" else node

    return model.replace(graph=mapped(model.graph, change))


def positions_scaled(factor: float) -> Callable[[Model], Model | None]:
    """Positions multiplied by a factor."""

    def apply(model: Model) -> Model | None:
        return model.replace(
            graph=mapped(
                model.graph,
                lambda node: node.replace(scale=node.settings["scale"] * factor) if node.op == "rope" else node,
            )
        )

    return apply


# --- what enters a node ----------------------------------------------------------------------------------------------
# Another value, or another tensor.


def norms_exchanged(model: Model) -> Model | None:
    """Return the gains of attn_norm and ffn_norm in each other's place."""
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


# --- weights, operations, numbers ------------------------------------------------------------------------------------


def read_as(name: str) -> Callable[[Model], Model | None]:
    """Weights read in another layout."""

    def apply(model: Model) -> Model | None:
        own = model.weights.dialect
        if own.layout.name == name or not _ternary(model):
            return None
        other = Dialect(LAYOUTS[name], own.code_map, own.tail)
        return model.replace(weights=ModelWeights(model.file, other))

    return apply


def type_read_as_codes(model: Model) -> Model | None:
    """Projections of other types, of which a program takes the bytes for codes of I2_S."""
    types = {model.weights.tensor_type(node.weight) for node in model.graph if node.op == "linear"}
    return operations(wrong.TypeReadAsCodes)(model) if types & wrong.TypeReadAsCodes.types else None


def table_read_as_halves(model: Model) -> Model | None:
    """Return an embedding table of another type, of which a program takes the bytes for F16."""
    types = {model.weights.tensor_type(node.weight) for node in model.graph if node.op == "embed"}
    return operations(wrong.TableReadAsHalves)(model) if types & wrong.TableReadAsHalves.types else None


def requantized(model: Model) -> Model | None:
    """Scales as of a program that takes the mean of dequantized weights, of which some are 0."""

    def change(name: str, matrix: Ternary) -> Ternary:
        own = matrix if inner is None else inner(name, matrix)
        return own._replace(scale=np.float32(own.scale * np.float32(share_of_nonzeros(own))))

    inner = model.weights.change
    if not _ternary(model):
        return None
    return model.replace(weights=ModelWeights(model.file, model.weights.dialect, change))


def share_of_nonzeros(matrix: Ternary) -> float:
    """Return the share of a matrix's weights that are not 0."""
    counts = count_codes(matrix.payload)
    return 1 - counts[1] / sum(counts)


def _ternary(model: Model) -> bool:
    return any(tensor.type is not None and tensor.type.name == "I2_S" for tensor in model.file.tensors.values())


def operations(kind: type[Operations]) -> Callable[[Model], Model | None]:
    """Return the same model, computed by other operations."""
    ternary = issubclass(kind, WrongProjection)
    home = f"{kind.__module__}:{kind.__name__}"

    def apply(model: Model) -> Model | None:
        if ternary and not _ternary(model):
            return None
        return model.replace(numerics=model.numerics.replace(operations=home))

    return apply


def numbers(**changes: Any) -> Callable[[Model], Model | None]:
    """Another choice of the profile."""

    def apply(model: Model) -> Model | None:
        other = model.numerics.replace(**changes)
        return None if replace(other, name=model.numerics.name) == model.numerics else model.replace(numerics=other)

    return apply


def quantizer_of(name: str) -> Callable[[Model], Model | None]:
    """Another profile's way to make integers of activations."""
    rule = NUMERIC_PROFILES[name].quantizer

    def apply(model: Model) -> Model | None:
        if model.numerics.quantizer == rule or (rule.groups == "blocks-256" and _odd_rows(model)):
            return None
        return model.replace(numerics=model.numerics.replace(quantizer=rule))

    return apply


def _odd_rows(model: Model) -> bool:
    rows = (model.file.tensors[node.weight].shape[-1] for node in model.graph if node.op == "linear")
    return any(columns % 256 for columns in rows)


def no_quantizer(model: Model) -> Model | None:
    """Activations that stay floats."""
    if model.numerics.quantizer.groups == "none":
        return None
    return model.replace(numerics=model.numerics.replace(quantizer={"groups": "none"}))


def blocks_of(kind: type[BlocksOf32]) -> Callable[[Model], Model | None]:
    """Return an activation scale for every few columns; where rows are that short, there is no difference."""

    def apply(model: Model) -> Model | None:
        sides = {model.file.tensors[node.weight].shape[-1] for node in model.graph if node.op == "linear"}
        return operations(kind)(model) if max(sides, default=0) > kind.size else None

    return apply


def blocks_of_q8_0(model: Model) -> Model | None:
    """Activations as Q8_0, in blocks of 32: of I2_S files, and of those of Q2_0, which llama.cpp multiplies with it."""
    types = {tensor.type.name for tensor in model.file.tensors.values() if tensor.type is not None}
    if "I2_S" in types:
        return operations(BlocksOf32)(model)
    return quantizer_of("llamacpp-2026")(model) if "Q2_0" in types else None


def heads_in_turn(model: Model) -> Model | None:
    """Query heads that meet the wrong key heads."""
    layers = (model.hyperparameters.at(i) for i in range(model.hyperparameters.layers))
    if all(h.heads_kv in (1, h.heads) for h in layers):
        return None
    return operations(wrong.HeadsInTurn)(model)


def first_head(model: Model) -> Model | None:
    """Query heads that all meet the first key head."""
    layers = (model.hyperparameters.at(i) for i in range(model.hyperparameters.layers))
    return None if all(h.heads_kv == 1 for h in layers) else operations(wrong.FirstHead)(model)
