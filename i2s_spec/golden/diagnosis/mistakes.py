"""The mistakes of runtimes as changes of a model: what a wrong value is compared with.

A mistake changes how weights are read, the graph, the numbers, or one kind of operation. `schema.mistakes` has its name
and its sentence; an entry of `MISTAKES` here has the change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

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
from i2s_spec.schema.mistakes import MISTAKES as CATALOGUE
from i2s_spec.schema.mistakes import Mistake

if TYPE_CHECKING:
    from i2s_spec.model.forward import Model

# --- changes of a model ----------------------------------------------------------------------------------------------
# A change is a function that takes a model and returns the changed model, or None where the change makes no difference
# to it. The functions here are such changes, or make one from their arguments.

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


class ModelMistake(NamedTuple):
    """A mistake as a change of a model.

    :param mistake: its name and sentences
    :param ops: operations of the graph that it changes
    :param apply: the model with the mistake, or None where it makes no difference
    """

    mistake: Mistake
    ops: frozenset[str]
    apply: Change

    @property
    def name(self) -> str:
        return self.mistake.name


def _change(name: str, ops: frozenset[str], apply: Change) -> ModelMistake:
    return ModelMistake(CATALOGUE[name], ops, apply)


def _of(*ops: str) -> frozenset[str]:
    return frozenset(ops)


_LINEAR: Final = _of("linear")
_READ: Final = _of("linear", "embed", "head")
_NORMS: Final = _of("norm", "norm_weight", "linear")
_RMS: Final = _of("norm", "norm_weight")
_RMS_ADD: Final = _RMS | _of("add")
_WEIGHT: Final = _of("norm_weight")
_SOFT_MAX: Final = _of("soft_max", "weighted_values")
_HEADS: Final = _SOFT_MAX | _of("scores")
_SCALED: Final = _HEADS | _of("multiply_by")
_NET: Final = _of("unit", "delta_rule", "norm")
_GATE: Final = _of("multiply", "relu", "square", "silu", "gelu", "norm", "norm_weight")

#: Every mistake of the catalogue that a model can have, in its order.
MISTAKES: Final[tuple[ModelMistake, ...]] = (
    _change("layout-interleave-64", _READ, read_as("interleave-64")),
    _change("layout-interleave-128", _READ, read_as("interleave-128")),
    _change("layout-rows-1x4", _READ, read_as("rows-1x4")),
    _change("rows-1x4-as-interleave-128", _LINEAR, operations(wrong.RowsOfFour)),
    _change("layout-sequential-msb", _READ, read_as("sequential-msb")),
    _change("layout-sequential-lsb", _READ, read_as("sequential-lsb")),
    _change("lanes-reversed", _LINEAR, operations(wrong.LanesReversed)),
    _change("weights-transposed", _LINEAR, operations(wrong.Transposed)),
    _change("codes-zero-first", _LINEAR, operations(wrong.ZeroFirst)),
    _change("codes-signs-swapped", _LINEAR, operations(wrong.SignsSwapped)),
    _change("codes-twos-complement", _LINEAR, operations(wrong.TwosComplement)),
    _change("codes-offset-2", _LINEAR, operations(wrong.OffsetTwo)),
    _change("type-read-as-codes", _LINEAR, of_type(wrong.TypeReadAsCodes, "linear")),
    _change("table-read-as-halves", _of("embed", "head"), of_type(wrong.TableReadAsHalves, "embed")),
    _change("offset-not-subtracted", _LINEAR, operations(wrong.CodesAsTheyAre)),
    _change("scale-reciprocal", _LINEAR, operations(wrong.ReciprocalScale)),
    _change("scale-ignored", _LINEAR, operations(wrong.NoScale)),
    _change("scale-twice", _LINEAR, operations(wrong.ScaleTwice)),
    _change("scale-half", _LINEAR, operations(wrong.HalfScale)),
    _change("scales-requantised", _LINEAR, requantized),
    _change("activation-scale-ignored", _LINEAR, operations(wrong.NoActivationScale)),
    _change("activation-scale-multiplied", _LINEAR, operations(wrong.ActivationScaleMultiplied)),
    _change("activation-four-scales", _LINEAR, quantizer_of("ik-iq2bn")),
    _change("activation-blocks", _LINEAR, quantizer_of("tq2_0")),
    _change("activation-blocks-32", _LINEAR, blocks_of_q8_0),
    _change("activation-blocks-64", _LINEAR, blocks_of(wrong.BlocksOf64)),
    _change("activation-blocks-128", _LINEAR, blocks_of(wrong.BlocksOf128)),
    _change("activation-one-scale", _LINEAR, operations(wrong.OneScale)),
    _change("activation-128", _LINEAR, operations(wrong.Of128)),
    _change("activation-truncated", _LINEAR, operations(wrong.Truncated)),
    _change("activation-floored", _LINEAR, operations(wrong.Floored)),
    _change("activation-not-quantized", _LINEAR, no_quantizer),
    _change("activation-2026", _LINEAR, quantizer_of("bitnetcpp-2026")),
    _change("activation-half-up", _LINEAR, numbers(quantizer={"rounding": "up"})),
    _change("activation-4-bits", _LINEAR, operations(wrong.FourBits)),
    _change("offset-half", _LINEAR, operations(wrong.HalfOffset)),
    _change("sum-of-half", _LINEAR, operations(wrong.HalfOfColumns)),
    _change("last-block-dropped", _LINEAR, operations(wrong.LastBlockDropped)),
    _change("int16-wrap-avx2", _LINEAR, operations(wrong.Int16WrapAvx2)),
    _change("int16-wrap-neon", _LINEAR, operations(wrong.Int16WrapNeon)),
    _change("rope-pairs", _of("rope"), other_pairs),
    _change("rope-base-10000", _of("rope"), each_of("rope", base=10000.0)),
    _change("rope-base-500000", _of("rope"), each_of("rope", base=500000.0)),
    _change("rope-base-1000000", _of("rope"), each_of("rope", base=1000000.0)),
    _change("rope-missing", _of("rope"), each_of("rope", scale=0.0)),
    _change("rope-reversed", _of("rope"), turned_back),
    _change("rope-from-1", _of("rope"), operations(wrong.FromOne)),
    _change("rope-factors-ignored", _of("rope"), without_factors),
    _change("rope-half-of-head", _of("rope"), half_rotated),
    _change("rope-scale-ignored", _of("rope"), each_of("rope", scale=1.0)),
    _change("rope-positions-doubled", _of("rope"), positions_scaled(2.0)),
    _change("rope-positions-halved", _of("rope"), positions_scaled(0.5)),
    _change("rope-positions-quartered", _of("rope"), positions_scaled(0.25)),
    _change("rope-positions-eighth", _of("rope"), positions_scaled(0.125)),
    _change("activation-silu", _GATE, activation("silu")),
    _change("activation-relu2", _GATE, activation("relu2")),
    _change("activation-gelu", _GATE, activation("gelu")),
    _change("relu-not-squared", _GATE, without_ops("square")),
    _change("up-activated", _GATE, up_gated),
    _change("gate-up-exchanged", _LINEAR, exchanged("ffn_gate", "ffn_up")),
    _change("key-value-exchanged", _LINEAR, exchanged("attn_k", "attn_v")),
    _change("attn-sub-norm-missing", _NORMS, without_norms("attn_sub_norm")),
    _change("ffn-sub-norm-missing", _NORMS, without_norms("ffn_sub_norm")),
    _change("sub-norms-missing", _NORMS, without_norms("attn_sub_norm", "ffn_sub_norm")),
    _change("ffn-sub-norm-first", _GATE | _LINEAR, sub_norm_first),
    _change("attn-post-norm-missing", _RMS_ADD, without_norms("attn_post_norm")),
    _change("ffn-post-norm-missing", _RMS_ADD, without_norms("ffn_post_norm")),
    _change("input-norms-missing", _NORMS,
            without_norms("attn_q_norm_in", "attn_k_norm_in", "attn_v_norm_in",
                          "attn_out_norm_in", "ffn_gate_norm_in", "ffn_up_norm_in", "ffn_down_norm_in")),
    _change("head-norms-missing", _of("norm", "norm_weight", "rope"), without_norms("Qcur_normed", "Kcur_normed")),
    _change("norms-exchanged", _WEIGHT, exchanged("attn_norm", "ffn_norm", "norm_weight")),
    _change("gains-missing", _WEIGHT, operations(wrong.NoGain)),
    _change("gains-plus-one", _WEIGHT, operations(wrong.OneMoreGain)),
    _change("gains-minus-one", _WEIGHT, operations(wrong.OneLessGain)),
    _change("norm-centred", _RMS, operations(wrong.Centred)),
    _change("eps-0", _RMS, epsilon(0.0)),
    _change("eps-1e-6", _RMS, epsilon(1e-6)),
    _change("eps-1e-5", _RMS, epsilon(1e-5)),
    _change("attention-not-scaled", _SCALED, attention_not_scaled),
    _change("attention-scaled-by-width", _SCALED, attention_scaled(lambda own, embd: own * own)),
    _change("attention-scaled-by-embedding", _SCALED, attention_scaled(lambda own, embd: embd**-0.5)),
    _change("attention-not-causal", _SOFT_MAX, each_of("soft_max", causal=False)),
    _change("window-ignored", _SOFT_MAX, windows(lambda own, widest: 0)),
    _change("window-everywhere", _SOFT_MAX, windows(lambda own, widest: widest)),
    _change("window-one-more", _SOFT_MAX, windows(lambda own, widest: own and own + 1)),
    _change("window-one-less", _SOFT_MAX, windows(lambda own, widest: own and own - 1)),
    _change("heads-in-turn", _HEADS, heads_in_turn),
    _change("heads-first", _HEADS, first_head),
    _change("embedding-scaled", _RMS_ADD, embedding_scaled),
    _change("embedding-not-scaled", _of("multiply_by"), embedding_not_scaled),
    _change("rotation-ignored", _of("linear", "head", "rotate", "restore"), without_ops("rotate", "restore")),
    _change("residual-missing", _of("add"), operations(wrong.NoResidual)),
    _change("residual-normed", _of("add"), residual_normed),
    _change("residual-of-layer", _of("add"), residual_of_layer),
    _change("attention-gate-missing", _of("multiply", "sigmoid", "linear"), of_delta_nets(wrong.AttentionUngated)),
    _change("net-gate-missing", _of("multiply", "silu", "merge", "linear"), of_delta_nets(wrong.NetUngated)),
    _change("net-norms-missing", _NET, without_ops("unit")),
    _change("convolution-forgets", _of("convolve", "silu"), of_delta_nets(wrong.Forgets)),
    _change("states-grow", _NET, of_delta_nets(wrong.Grows)),
    _change("states-not-corrected", _NET, of_delta_nets(wrong.OnlyAdds)),
    _change("value-heads-grouped", _NET, each_of("delta_rule", heads="grouped")),
    _change("head-tied", _of("head"), tied_head),
    _change("pooling-mean", _of("pool"), each_of("pool", kind="mean")),
    _change("pooling-first", _of("pool"), each_of("pool", kind="first")),
    _change("pooling-last", _of("pool"), each_of("pool", kind="last")),
)  # fmt: skip


def mistakes(model: Model) -> Iterator[tuple[ModelMistake, Model]]:
    """Yield every mistake that makes a difference to a model, with the model that has it."""
    for mistake in MISTAKES:
        changed = mistake.apply(model)
        if changed is not None:
            yield mistake, changed
