"""Changes of a model, one mistake each: of its graph, of what enters a node, of weights, numbers and operations.

A change is a function that takes a model and returns the changed model, or None where the change makes no difference to
it. The functions here are such changes, or make one from their arguments. `mistakes` lists them with their names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

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


#: Gives the model with a mistake in it; None where it makes no difference.
Change = Callable[["Model"], "Model | None"]


def changed(model: Model, change: Callable[[Node], Node]) -> Model | None:
    """Return the model with every node of its graph changed; None where none is another then."""
    graph = replace(model.graph, nodes=tuple(change(node) for node in model.graph))
    return model.replace(graph=graph) if graph != model.graph else None


def nodes_of(op: str, change: Callable[[Node], Node]) -> Change:
    """Change every node of an operation."""
    return lambda model: changed(model, lambda node: change(node) if node.op == op else node)


def each_of(op: str, **changes: Any) -> Change:
    """Give every node of an operation other settings."""
    return nodes_of(op, lambda node: node.replace(**changes))


def without(is_left_out: Callable[[Node], bool], its_inputs: bool = False) -> Change:
    """Leave nodes out.

    :param its_inputs: whether the nodes that enter one are left out as well
    """

    def apply(model: Model) -> Model | None:
        nodes = [node for node in model.graph if is_left_out(node)]
        names = [name for node in nodes for name in (*(node.inputs if its_inputs else ()), node.name)]
        return model.replace(graph=model.graph.without(*names)) if names else None

    return apply


def without_ops(*ops: str) -> Change:
    """Leave some operations of one input out."""
    return without(lambda node: node.op in ops)


def without_norms(*words: str) -> Change:
    """Leave norms of some names out, gains and all."""
    return without(lambda node: node.op == "norm_weight" and node.name.partition("-")[0] in words, its_inputs=True)


def windows(of: Callable[[int, int], int]) -> Change:
    """Give every layer another window.

    :param of: gives it, from the layer's own (0 for none) and the widest of the model
    """

    def apply(model: Model) -> Model | None:
        widest = max((node.settings["window"] for node in model.graph if node.op == "soft_max"), default=0)
        change = nodes_of("soft_max", lambda node: node.replace(window=of(node.settings["window"], widest)))
        return change(model) if widest else None

    return apply


#: Rotation of neighbors for halves, or the other way round.
other_pairs: Final = nodes_of(
    "rope", lambda node: node.replace(pairs={"neox": "norm", "norm": "neox"}[node.settings["pairs"]])
)
#: Rotation in the opposite direction.
turned_back: Final = nodes_of("rope", lambda node: node.replace(scale=-node.settings["scale"]))
#: The first half of each head rotated.
half_rotated: Final = nodes_of("rope", lambda node: node.replace(dims=node.settings["dims"] // 4 * 2))


def positions_scaled(factor: float) -> Change:
    """Multiply positions by a factor."""
    return nodes_of("rope", lambda node: node.replace(scale=node.settings["scale"] * factor))


def activation(name: str) -> Change:
    """Use another activation."""

    def apply(model: Model) -> Model | None:
        if model.settings.activation == name:
            return None
        settings = replace(model.settings, activation=name)
        present = tuple(model.file.tensors)
        return model.replace(graph=graph_of(model.architecture.name, model.hyperparameters, settings, present))

    return apply


def up_gated(model: Model) -> Model | None:
    """Send ffn_up through the activation, and leave ffn_gate as it is."""
    swap = {}
    for node in model.graph:
        if node.op == "linear" and node.name.startswith(("ffn_up-", "ffn_gate-")):
            kind, _, layer = node.name.partition("-")
            swap[node.name] = f"{'ffn_gate' if kind == 'ffn_up' else 'ffn_up'}-{layer}"
    acts = {"relu", "silu", "gelu", "multiply"}
    if not swap:
        return None

    def change(node: Node) -> Node:
        return node.replace(inputs=tuple(swap.get(name, name) for name in node.inputs)) if node.op in acts else node

    return changed(model, change)


def epsilon(value: float) -> Change:
    """Give every norm another epsilon."""

    def apply(model: Model) -> Model | None:
        own = {np.float32(node.settings["eps"]) for node in model.graph if node.op == "norm"}
        return each_of("norm", eps=value)(model) if own != {np.float32(value)} else None

    return apply


def embedding_scaled(model: Model) -> Model | None:
    """Multiply embeddings by the root of their width, as Gemma does."""
    first = model.graph.nodes[0]
    if any(map(_scales_embeddings, model.graph)):
        return None
    scaled = Node("inp_scaled", "multiply_by", (first.name,), (), None, {"factor": model.hyperparameters.embd**0.5})

    def change(node: Node) -> Node:
        return replace(node, inputs=tuple(scaled.name if name == first.name else name for name in node.inputs))

    return model.replace(graph=replace(model.graph, nodes=(first, scaled, *map(change, model.graph.nodes[1:]))))


def sub_norm_first(model: Model) -> Model | None:
    """Apply ffn_sub_norm to the activated gate, and multiply that by ffn_up."""
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


def _scales_queries(node: Node) -> bool:
    return node.op == "multiply_by" and node.layer is not None


def _scales_embeddings(node: Node) -> bool:
    return node.op == "multiply_by" and node.layer is None


#: Embeddings as the table has them.
embedding_not_scaled: Final = without(_scales_embeddings)


def attention_not_scaled(model: Model) -> Model | None:
    """Leave the scale of scores out, which is in the soft-max, or multiplies queries before them."""
    return without(_scales_queries)(model) or each_of("soft_max", scale=1.0)(model)


def attention_scaled(of: Callable[[float, int], float]) -> Change:
    """Give scores another scale.

    :param of: gives it, from the right one and the width of the embedding
    """

    def apply(model: Model) -> Model | None:
        embd = model.hyperparameters.embd

        def change(node: Node) -> Node:
            if _scales_queries(node):
                return node.replace(factor=of(node.settings["factor"], embd))
            if node.op != "soft_max" or node.settings["scale"] == 1:
                return node
            return node.replace(scale=of(node.settings["scale"], embd))

        return changed(model, change)

    return apply


def of_delta_nets(kind: type[Operations]) -> Change:
    """Compute by other operations, where a model has delta nets."""

    def apply(model: Model) -> Model | None:
        return operations(kind)(model) if any(node.op == "delta_rule" for node in model.graph) else None

    return apply


def exchanged(one: str, other: str, op: str = "linear") -> Change:
    """Put two tensors of every layer in each other's place, where their shapes are the same."""
    place = {one: other, other: one}

    def apply(model: Model) -> Model | None:
        tensors = model.file.tensors

        def change(node: Node) -> Node:
            head, _, word = node.weight.removesuffix(".weight").rpartition(".") if node.op == op else ("", "", "")
            return node.replace(weights=(f"{head}.{place[word]}.weight",)) if word in place else node

        found = changed(model, change)
        if found is None:
            return None
        both = [(old.weights, new.weights) for old, new in zip(model.graph, found.graph, strict=True) if old != new]
        same = all(new in tensors and tensors[old].shape == tensors[new].shape for (old,), (new,) in both)
        return found if same else None

    return apply


def tied_head(model: Model) -> Model | None:
    """Use the embedding table as head, although there is another."""
    heads = [node.name for node in model.graph if node.op == "head" and node.weights != (EMBEDDING,)]
    return model.replace(graph=model.graph.replaced(heads[0], weights=(EMBEDDING,))) if heads else None


def without_factors(model: Model) -> Model | None:
    """Ignore rope_freqs.weight."""
    if ROPE_FACTORS not in model.file.tensors:
        return None
    return each_of("rope", weights=())(model)


# --- what enters a node ----------------------------------------------------------------------------------------------
# Another value, or another tensor.


def residual_normed(model: Model) -> Model | None:
    """Add the input of a block after its norm."""
    normed = {node.inputs[0]: node.name for node in model.graph if node.op == "norm"}
    behind = {node.inputs[0]: node.name for node in model.graph if node.op == "norm_weight"}

    def change(node: Node) -> Node:
        norm = behind.get(normed.get(node.inputs[0], "")) if node.op == "add" else None
        return node.replace(inputs=(norm, *node.inputs[1:])) if norm is not None else node

    return changed(model, change)


def residual_of_layer(model: Model) -> Model | None:
    """Add the input of the layer, not that of the feed-forward block, to the output of that block."""
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


def read_as(name: str) -> Change:
    """Read weights in another layout."""

    def apply(model: Model) -> Model | None:
        own = model.weights.dialect
        if own.layout.name == name or not _ternary(model):
            return None
        other = Dialect(LAYOUTS[name], own.code_map, own.tail)
        return model.replace(weights=ModelWeights(model.file, other))

    return apply


def of_type(kind: type[wrong.TypeReadAsCodes | wrong.TableReadAsHalves], op: str) -> Change:
    """Compute by other operations, where an operation has weights of the types that they read wrongly."""

    def apply(model: Model) -> Model | None:
        types = {model.weights.tensor_type(node.weight) for node in model.graph if node.op == op}
        return operations(kind)(model) if types & kind.types else None

    return apply


def requantized(model: Model) -> Model | None:
    """Give matrices the scales of a program that takes the mean of dequantized weights, of which some are 0."""

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


def operations(kind: type[Operations]) -> Change:
    """Compute the model by other operations."""
    ternary = issubclass(kind, WrongProjection)
    home = f"{kind.__module__}:{kind.__name__}"

    def apply(model: Model) -> Model | None:
        if ternary and not _ternary(model):
            return None
        return model.replace(numerics=model.numerics.replace(operations=home))

    return apply


def numbers(**changes: Any) -> Change:
    """Change choices of the numeric profile."""

    def apply(model: Model) -> Model | None:
        other = model.numerics.replace(**changes)
        return None if replace(other, name=model.numerics.name) == model.numerics else model.replace(numerics=other)

    return apply


def quantizer_of(name: str) -> Change:
    """Quantize activations as another profile does."""
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
    """Leave activations floats."""
    if model.numerics.quantizer.groups == "none":
        return None
    return model.replace(numerics=model.numerics.replace(quantizer={"groups": "none"}))


def blocks_of(kind: type[BlocksOf32]) -> Change:
    """Quantize activations with a scale for every few columns; where rows are that short, there is no difference."""

    def apply(model: Model) -> Model | None:
        sides = {model.file.tensors[node.weight].shape[-1] for node in model.graph if node.op == "linear"}
        return operations(kind)(model) if max(sides, default=0) > kind.size else None

    return apply


def blocks_of_q8_0(model: Model) -> Model | None:
    """Quantize activations as Q8_0, in blocks of 32: of I2_S files, and of those of Q2_0, as llama.cpp does."""
    types = {tensor.type.name for tensor in model.file.tensors.values() if tensor.type is not None}
    if "I2_S" in types:
        return operations(BlocksOf32)(model)
    return quantizer_of("llamacpp-2026")(model) if "Q2_0" in types else None


def heads_in_turn(model: Model) -> Model | None:
    """Let query heads use the wrong key heads."""
    layers = (model.hyperparameters.at(i) for i in range(model.hyperparameters.layers))
    if all(h.heads_kv in (1, h.heads) for h in layers):
        return None
    return operations(wrong.HeadsInTurn)(model)


def first_head(model: Model) -> Model | None:
    """Let all query heads use the first key head."""
    layers = (model.hyperparameters.at(i) for i in range(model.hyperparameters.layers))
    return None if all(h.heads_kv == 1 for h in layers) else operations(wrong.FirstHead)(model)
