"""The mistakes of runtimes as changes of a model: what a wrong value is compared with.

A mistake changes how weights are read, the graph, the numbers, or one kind of operation. `schema.mistakes` has its name
and its sentence; an entry of `MISTAKES` here has the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.golden.diagnosis import operation_mistakes as wrong
from i2s_spec.golden.diagnosis.graph_mistakes import (
    Change,
    activation,
    attention_not_scaled,
    attention_scaled,
    blocks_of,
    blocks_of_q8_0,
    each_of,
    embedding_not_scaled,
    embedding_scaled,
    epsilon,
    exchanged,
    first_head,
    half_rotated,
    heads_in_turn,
    no_quantizer,
    numbers,
    of_delta_nets,
    of_type,
    operations,
    other_pairs,
    positions_scaled,
    quantizer_of,
    read_as,
    requantized,
    residual_normed,
    residual_of_layer,
    sub_norm_first,
    tied_head,
    turned_back,
    up_gated,
    windows,
    without_factors,
    without_norms,
    without_ops,
)
from i2s_spec.schema.mistakes import MISTAKES as CATALOGUE
from i2s_spec.schema.mistakes import Mistake

if TYPE_CHECKING:
    from i2s_spec.model.forward import Model


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
