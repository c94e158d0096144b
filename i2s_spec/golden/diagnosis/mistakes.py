"""This module declares the known mistakes of runtimes, each as a change of a model: what a wrong value is compared with.

A mistake changes how weights are read, the graph, the numbers, or one kind of operation. `apply` gives the model with the
mistake in it, or None where it makes no difference to that model. A new mistake is one entry of `MISTAKES`.

Sources: the reports that each `seen` names; clause 10.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.golden.diagnosis import linear_mistakes as projections
from i2s_spec.golden.diagnosis import operation_mistakes as wrong
from i2s_spec.golden.diagnosis import partial_sum_mistakes as partial
from i2s_spec.golden.diagnosis.graph_mistakes import (
    activation,
    attention_not_scaled,
    attention_scaled_by_embedding,
    attention_scaled_twice,
    each_of,
    embedding_not_scaled,
    embedding_scaled,
    epsilon,
    exchanged,
    half_rotated,
    other_pairs,
    positions_scaled,
    relu_alone,
    rotation_ignored,
    sub_norm_first,
    tied_head,
    turned_back,
    up_gated,
    without_factors,
    without_norms,
)
from i2s_spec.golden.diagnosis.input_mistakes import (
    norms_exchanged,
    residual_normed,
    residual_of_layer,
)
from i2s_spec.golden.diagnosis.model_mistakes import (
    blocks_of,
    blocks_of_q8_0,
    first_head,
    heads_in_turn,
    no_quantizer,
    numbers,
    operations,
    quantizer_of,
    read_as,
)

if TYPE_CHECKING:
    from i2s_spec.model.forward import Model


class Mistake(NamedTuple):
    """A way to be wrong.

    :param name: short, stable
    :param says: one sentence for people
    :param ops: operations of the graph that it changes
    :param apply: the model with the mistake, or None
    :param seen: where it was met
    """

    name: str
    says: str
    ops: frozenset[str]
    apply: Callable[[Model], Model | None]
    seen: str = ""


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
_GATE: Final = _of("multiply", "relu", "square", "silu", "gelu", "norm", "norm_weight")

#: Every mistake, the likelier ones first where several explain the same.
MISTAKES: Final[tuple[Mistake, ...]] = (
    Mistake("layout-interleave-64", "the payload was read as interleave-64, the blocks of 64 of ARM builds since"
            " November 2025; the file has another layout", _READ, read_as("interleave-64"), "microsoft/BitNet#470, #585"),
    Mistake("layout-interleave-128", "the payload was read as interleave-128; the file has another layout",
            _READ, read_as("interleave-128"), "microsoft/BitNet#600"),
    Mistake("layout-rows-1x4", "the payload was read as rows-1x4, four rows to a byte; the file has another layout",
            _READ, read_as("rows-1x4"), "src/ggml-bitnet-mad.cpp without ACT_PARALLEL"),
    Mistake("rows-1x4-as-interleave-128", "the weights were packed as rows-1x4 and multiplied as blocks of 128: an x86 build"
            " without ACT_PARALLEL on files of its own", _LINEAR, operations(projections.RowsOfFour),
            "src/ggml-bitnet-mad.cpp without ACT_PARALLEL"),
    Mistake("layout-sequential-msb", "the payload was read as four neighbors to a byte, the first in the highest bits",
            _READ, read_as("sequential-msb"), "NanoDex; larql before its PR 156"),
    Mistake("layout-sequential-lsb", "the payload was read as four neighbors to a byte, the first in the lowest bits",
            _READ, read_as("sequential-lsb"), "BitNet-rs"),
    Mistake("lanes-reversed", "the four lanes of a block were taken in reverse order: shifts 0, 2, 4, 6, where 6, 4, 2, 0"
            " are right", _LINEAR, operations(projections.LanesReversed)),
    Mistake("weights-transposed", "the matrix was read with its sides exchanged: ne is [in, out], rows are outputs",
            _LINEAR, operations(projections.Transposed)),
    Mistake("codes-zero-first", "codes 0, 1, 2 were read as 0, +1, -1; they mean -1, 0, +1", _LINEAR,
            operations(projections.ZeroFirst), "microsoft/BitNet#412"),
    Mistake("codes-signs-swapped", "codes 0 and 2 were taken for +1 and -1; they mean -1 and +1", _LINEAR,
            operations(projections.SignsSwapped)),
    Mistake("codes-twos-complement", "codes were read as two's complement; they are trits plus 1", _LINEAR,
            operations(projections.TwosComplement), "files from before the release"),
    Mistake("codes-offset-2", "2 was subtracted from each code; 1 is right", _LINEAR, operations(projections.OffsetTwo),
            "T-MAC; gpu/"),
    Mistake("offset-not-subtracted", "the sum of the activation codes was not subtracted: codes 0, 1, 2 were "
            "multiplied as they are", _LINEAR, operations(projections.CodesAsTheyAre)),
    Mistake("scale-reciprocal", "the weights were divided by the scale; they have to be multiplied", _LINEAR,
            operations(projections.ReciprocalScale), "microsoft/BitNet#616"),
    Mistake("scale-ignored", "the weight scale was left out", _LINEAR, operations(projections.NoScale), "Project Zero"),
    Mistake("scale-twice", "the weight scale was applied twice", _LINEAR, operations(projections.ScaleTwice)),
    Mistake("scale-half", "the weight scale was rounded to F16", _LINEAR, operations(projections.HalfScale),
            "IQ1_BN of ik_llama.cpp; TQ2_0"),
    Mistake("activation-scale-ignored", "the sums were not divided by the activation scale", _LINEAR,
            operations(projections.NoActivationScale)),
    Mistake("activation-scale-multiplied", "the sums were multiplied by the activation scale 127 / amax; they have to be"
            " divided", _LINEAR, operations(projections.ActivationScaleMultiplied)),
    Mistake("activation-four-scales", "activations were quantized with four interleaved scales for each token, as"
            " ik_llama.cpp does; one is right", _LINEAR, quantizer_of("ik-iq2bn"), "ik_llama.cpp"),
    Mistake("activation-blocks", "activations were quantized in blocks of 256, as Q8_K; one scale for each token is right",
            _LINEAR, quantizer_of("tq2_0"), "upstream llama.cpp with TQ2_0"),
    Mistake("activation-blocks-32", "activations were quantized in blocks of 32, as Q8_0; one scale for each token is right",
            _LINEAR, blocks_of_q8_0, "upstream llama.cpp with Q2_0"),
    Mistake("activation-blocks-64", "activations were quantized in blocks of 64 columns; one scale for each token is right",
            _LINEAR, blocks_of(projections.BlocksOf64)),
    Mistake("activation-blocks-128", "activations were quantized in blocks of 128 columns; one scale for each token"
            " is right", _LINEAR, blocks_of(projections.BlocksOf128)),
    Mistake("activation-one-scale", "all tokens were quantized with one activation scale; each has its own", _LINEAR,
            operations(projections.OneScale)),
    Mistake("activation-128", "activation scales were 128 / amax; they are 127 / amax", _LINEAR,
            operations(projections.Of128)),
    Mistake("activation-truncated", "activation codes were truncated toward 0; they have to be rounded", _LINEAR,
            operations(projections.Truncated)),
    Mistake("activation-floored", "activation codes were rounded down; they have to be rounded to the nearest", _LINEAR,
            operations(projections.Floored)),
    Mistake("activation-not-quantized", "activations were not quantized at all", _LINEAR, no_quantizer),
    Mistake("activation-2026", "activations were quantized without a floor, ties away from zero: the official runtime"
            " since May 2026", _LINEAR, quantizer_of("bitnetcpp-2026"), "microsoft/BitNet of 2026"),
    Mistake("activation-half-up", "ties of activation codes were rounded up; they go to even", _LINEAR,
            numbers(quantizer={"rounding": "up"}), "0xBitNet's reference in JavaScript"),
    Mistake("activation-4-bits", "activations were quantized to 4 bits, -7 to 7; they have 8", _LINEAR,
            operations(projections.FourBits)),
    Mistake("offset-half", "half of the sum of the activation codes was subtracted; all of it has to be", _LINEAR,
            operations(partial.HalfOffset)),
    Mistake("sum-of-half", "only the first half of the columns was added up", _LINEAR,
            operations(partial.HalfOfColumns)),
    Mistake("last-block-dropped", "the last 128 columns were not added up", _LINEAR,
            operations(partial.LastBlockDropped)),
    Mistake("int16-wrap-avx2", "sums wrapped around in 16 bits, as in x86 builds without VNNI", _LINEAR,
            operations(projections.Int16WrapAvx2), "src/ggml-bitnet-mad.cpp"),
    Mistake("int16-wrap-neon", "sums wrapped around in 16 bits, as in ARM builds without dot products", _LINEAR,
            operations(projections.Int16WrapNeon), "src/ggml-bitnet-mad.cpp"),
    Mistake("rope-pairs", "the rotation paired other elements: neighbors instead of halves, or the other way round",
            _of("rope"), other_pairs, "0xBitNet's rope.wgsl"),
    Mistake("rope-base-10000", "the rotation used base 10000; the file says another", _of("rope"),
            each_of("rope", base=10000.0), "rope.freq_base missing"),
    Mistake("rope-base-500000", "the rotation used base 500000; the file says another", _of("rope"),
            each_of("rope", base=500000.0), "Llama 3 and BitNet-b1.58-2B-4T"),
    Mistake("rope-base-1000000", "the rotation used base 1000000; the file says another", _of("rope"),
            each_of("rope", base=1000000.0), "Qwen models"),
    Mistake("rope-missing", "queries and keys were not rotated", _of("rope"), each_of("rope", scale=0.0)),
    Mistake("rope-reversed", "the rotation went in the opposite direction", _of("rope"), turned_back),
    Mistake("rope-from-1", "positions were counted from 1; they begin with 0", _of("rope"), operations(wrong.FromOne)),
    Mistake("rope-factors-ignored", "rope_freqs.weight was ignored", _of("rope"), without_factors),
    Mistake("rope-half-of-head", "only the first half of each head was rotated", _of("rope"), half_rotated),
    Mistake("rope-scale-ignored", "the scale of positions was left out; the file says one", _of("rope"),
            each_of("rope", scale=1.0), "rope.scaling.factor not read"),
    *(Mistake(f"rope-positions-{word}", f"positions were multiplied by {factor:g} more than the file says", _of("rope"),
              positions_scaled(factor))
      for word, factor in (("doubled", 2.0), ("halved", 0.5), ("quartered", 0.25), ("eighth", 0.125))),
    Mistake("activation-silu", "the gate went through SiLU", _GATE, activation("silu"), "microsoft/BitNet#588, #602"),
    Mistake("activation-relu2", "the gate went through ReLU squared", _GATE, activation("relu2"), "0xBitNet"),
    Mistake("activation-gelu", "the gate went through GELU", _GATE, activation("gelu")),
    Mistake("relu-not-squared", "the gate went through ReLU that was not squared", _GATE, relu_alone),
    Mistake("up-activated", "the activation was applied to ffn_up; it belongs to ffn_gate", _GATE, up_gated),
    Mistake("gate-up-exchanged", "ffn_gate and ffn_up were read in each other's place", _LINEAR,
            exchanged("ffn_gate", "ffn_up")),
    Mistake("key-value-exchanged", "attn_k and attn_v were read in each other's place", _LINEAR,
            exchanged("attn_k", "attn_v")),
    Mistake("attn-sub-norm-missing", "attn_sub_norm was left out", _NORMS, without_norms("attn_sub_norm")),
    Mistake("ffn-sub-norm-missing", "ffn_sub_norm was left out", _NORMS, without_norms("ffn_sub_norm")),
    Mistake("sub-norms-missing", "both sub-norms were left out", _NORMS, without_norms("attn_sub_norm", "ffn_sub_norm")),
    Mistake("ffn-sub-norm-first", "ffn_sub_norm was applied to the activated gate, before it was multiplied by ffn_up",
            _GATE | _LINEAR, sub_norm_first),
    Mistake("attn-post-norm-missing", "post_attention_norm was left out", _RMS_ADD,
            without_norms("attn_post_norm"), "Gemma models"),
    Mistake("ffn-post-norm-missing", "post_ffw_norm was left out", _RMS_ADD,
            without_norms("ffn_post_norm"), "Gemma models"),
    Mistake("input-norms-missing", "the norms in front of single projections were left out", _NORMS,
            without_norms("attn_q_norm_in", "attn_k_norm_in", "attn_v_norm_in", "attn_out_norm_in", "ffn_gate_norm_in",
                           "ffn_up_norm_in", "ffn_down_norm_in"), "loaders for plain qwen3 and gemma3"),
    Mistake("head-norms-missing", "the norms of query and key heads were left out", _of("norm", "norm_weight", "rope"),
            without_norms("Qcur_normed", "Kcur_normed")),
    Mistake("norms-exchanged", "the gains of attn_norm and ffn_norm were read in each other's place", _WEIGHT,
            norms_exchanged),
    Mistake("gains-missing", "norms were applied without their gains", _WEIGHT, operations(wrong.NoGain)),
    Mistake("gains-plus-one", "1 was added to the gains, which the file holds with it", _WEIGHT,
            operations(wrong.OneMoreGain), "Gemma models"),
    Mistake("gains-minus-one", "the gains lack the 1 that belongs to them", _WEIGHT, operations(wrong.OneLessGain),
            "Gemma models"),
    Mistake("norm-centred", "the mean was subtracted before the norm, as LayerNorm does", _RMS,
            operations(wrong.Centred)),
    Mistake("eps-0", "the norms used no epsilon; the file says one", _RMS, epsilon(0.0)),
    Mistake("eps-1e-6", "the norms used an epsilon of 1e-6; the file says another", _RMS, epsilon(1e-6)),
    Mistake("eps-1e-5", "the norms used an epsilon of 1e-5; the file says another", _RMS, epsilon(1e-5)),
    Mistake("attention-not-scaled", "scores were not divided by the square root of the head's width",
            _SCALED, attention_not_scaled),
    Mistake("attention-scaled-by-width", "scores were divided by the head's width; its square root is right",
            _SCALED, attention_scaled_twice),
    Mistake("attention-scaled-by-embedding", "scores were divided by the square root of the embedding's width; it is"
            " the head's width", _SCALED, attention_scaled_by_embedding),
    Mistake("attention-not-causal", "tokens saw later tokens", _SOFT_MAX, each_of("soft_max", causal=False)),
    Mistake("heads-in-turn", "query head h used key head h mod G; h // (H / G) is right", _HEADS,
            heads_in_turn),
    Mistake("heads-first", "every query head used the first key head; head h has to use h // (H / G)",
            _HEADS, first_head),
    Mistake("embedding-scaled", "the embedding was multiplied by the square root of its width, as in Gemma models",
            _RMS_ADD, embedding_scaled),
    Mistake("embedding-not-scaled", "the embedding was not multiplied by the square root of its width",
            _of("multiply_by"), embedding_not_scaled, "Gemma models"),
    Mistake("rotation-ignored", "the weights are rotated (prism.hadamard), and what enters them was not",
            _of("linear", "head", "rotate", "restore"), rotation_ignored, "llama.cpp on Bonsai 2 files of type 42"),
    Mistake("residual-missing", "a block's input was not added to its output", _of("add"), operations(wrong.NoResidual)),
    Mistake("residual-normed", "a block's input was added after its norm; it is added as it is", _of("add"),
            residual_normed),
    Mistake("residual-of-layer", "the input of the layer was added to the output of the feed-forward block; the sum after"
            " attention is right", _of("add"), residual_of_layer),
    Mistake("head-tied", "the embedding table was used as head; the file has output.weight", _of("head"), tied_head,
            "bitnet.cpp, llama.cpp's fork of 2025"),
    Mistake("pooling-mean", "the mean of all tokens was taken; the model pools otherwise", _of("pool"),
            each_of("pool", kind="mean"), "utils/convert-bitnet-embedding-to-gguf.py without a configuration"),
    Mistake("pooling-first", "the first token was taken; the model pools otherwise", _of("pool"),
            each_of("pool", kind="first")),
    Mistake("pooling-last", "the last token was taken; the model pools otherwise", _of("pool"),
            each_of("pool", kind="last")),
)  # fmt: skip


def mistakes(model: Model) -> Iterator[tuple[Mistake, Model]]:
    """Every mistake that makes a difference to a model, with the model that has it."""
    for mistake in MISTAKES:
        changed = mistake.apply(model)
        if changed is not None:
            yield mistake, changed
