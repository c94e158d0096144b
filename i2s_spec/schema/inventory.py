"""The tensors of ternary models: name, shape, types, need, role, meaning, clause (chapter 4).

Each tensor is declared once; an architecture is a selection of them, in the order of its real files. Shapes are given
by field names of `Hyperparameters`, in ggml's order (ne0 first); tables, checks, the forward pass and `i2s new` all use
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from i2s_spec.schema.keys import EXPECTED, OPTIONAL, REQUIRED

#: The roles of tensors; I2_S was made for `projection`.
ROLES: Final = {
    "embedding": "one row for each token",
    "projection": "a ternary matrix between two widths",
    "norm": "the gains of an RMS norm",
    "head": "from the hidden state to one number for each token",
    "bias": "added to the result of a projection",
    "scale": "one number by which the result of a projection is multiplied, besides the scales inside the weight",
    "input scale": "one number about the activations of a projection, which no graph uses",
    "rope": "factors of the rotation frequencies",
    "router": "chooses experts",
    "gate": "from the hidden state to one number for each head of a delta net",
    "convolution": "weights of a token and those before it, for each column",
    "decay": "how fast the states of a delta net fade",
}

#: Types whose weights are -1, 0 or +1 times a scale.
_GROUPS = ("Q2_0", "Q2_0_G128", "PQ2_0", "PTQ1_0", "TQ1_0", "TQ2_0", "IQ1_BN", "IQ2_BN")  # the types of block_layout
TERNARY_TYPES: Final = ("I2_S", "I2_SR", "TL1", "TL2", *_GROUPS)
_FLOAT = ("F16", "F32", "BF16")
_PLAIN_QUANTS = ("Q8_0", "Q6_K", "Q5_K", "Q5_0", "Q4_K", "Q4_0", "Q3_K", "Q2_K")

#: Valid types of each kind of tensor, the usual one first.
PROJECTION_TYPES: Final = (*TERNARY_TYPES, *_FLOAT)
EMBEDDING_TYPES: Final = (*_FLOAT, *_PLAIN_QUANTS, "I2_S", *_GROUPS)
NORM_TYPES: Final = ("F32",)
HALF_NORM_TYPES: Final = ("F16", "F32")


class TensorSpec(NamedTuple):
    """One tensor of an architecture, or one of each layer if the name contains `{i}`.

    `ne` names attributes of `Hyperparameters`, ne0 first. `types` are the valid types, the usual one first. `when`
    restricts the tensor to some files, `dense` to those with expert_count 0, `experts` to the others; or to some layers,
    `attention`, `delta` (those with a gated delta net), or `nextn`, which have attention and draft further tokens.
    """

    name: str
    ne: tuple[str, ...]
    types: tuple[str, ...]
    need: str
    role: str
    meaning: str
    clause: str
    when: str = ""
    note: str = ""

    @property
    def per_layer(self) -> bool:
        """Whether every layer has one."""
        return "{i}" in self.name

    @property
    def usual(self) -> str:
        """Its type in I2_S files."""
        return self.types[0]


def _projection(name: str, ne: tuple[str, str], meaning: str, clause: str, when: str = "") -> TensorSpec:
    return TensorSpec(f"blk.{{i}}.{name}.weight", ne, PROJECTION_TYPES, REQUIRED, "projection", meaning, clause, when)


def _norm(name: str, width: str, meaning: str, clause: str = "4.4") -> TensorSpec:
    return TensorSpec(f"blk.{{i}}.{name}.weight", (width,), NORM_TYPES, REQUIRED, "norm", meaning, clause)


def _norm_in(name: str, width: str) -> TensorSpec:
    pattern, meaning = f"blk.{{i}}.{name}_norm_in.weight", f"Gains on the input of {name}, before it is quantized."
    note = "stock upstream loaders do not know it: wrong number of tensors"
    return TensorSpec(pattern, (width,), HALF_NORM_TYPES, EXPECTED, "norm", meaning, "4.6", note=note)


def _half(spec: TensorSpec) -> TensorSpec:
    """Return the same norm in the form that embedding models store."""
    return spec._replace(types=HALF_NORM_TYPES)


TOKEN_EMBD: Final = TensorSpec(
    "token_embd.weight", ("embd", "vocab"), EMBEDDING_TYPES, REQUIRED, "embedding", "The token vectors.", "4.1",
    note="Q8_0 where the width is not a multiple of 256 and llama-quantize made it; I2_S is known not to work everywhere",
)  # fmt: skip
OUTPUT_NORM: Final = TensorSpec(
    "output_norm.weight", ("embd",), NORM_TYPES, REQUIRED, "norm", "Gains on the last hidden state.", "4.1"
)
OUTPUT: Final = TensorSpec(
    "output.weight", ("embd", "vocab"), EMBEDDING_TYPES, OPTIONAL, "head", "The head, where it is not tied.", "4.1",
    note="without it the head is token_embd.weight",
)  # fmt: skip
IGNORED_OUTPUT: Final = OUTPUT._replace(
    meaning="A head that is loaded and never used.", note="the graph multiplies by token_embd.weight regardless"
)
ROPE_FREQS: Final = TensorSpec(
    "rope_freqs.weight", ("rope_pairs",), ("F32",), OPTIONAL, "rope", "Divides the rotation frequencies.", "4.5"
)

ATTN_NORM: Final = _norm("attn_norm", "embd", "Gains on the input of attention.")
ATTN_SUB_NORM: Final = _norm("attn_sub_norm", "embd", "Gains on the result of attention, before its output projection.")
FFN_NORM: Final = _norm("ffn_norm", "embd", "Gains on the input of the feed-forward.")
FFN_SUB_NORM: Final = _norm("ffn_sub_norm", "ff", "Gains on the input of ffn_down.")
POST_ATTENTION_NORM: Final = _norm(
    "post_attention_norm", "embd", "Gains on the output of attention, before it is added to the hidden state.", "4.6"
)
POST_FFW_NORM: Final = _norm(
    "post_ffw_norm", "embd", "Gains on the output of the feed-forward, before it is added to the hidden state.", "4.6"
)
ATTN_Q_NORM: Final = _norm("attn_q_norm", "head_dim", "Gains on each query head.", "4.6")
ATTN_K_NORM: Final = _norm("attn_k_norm", "head_dim", "Gains on each key head.", "4.6")

ATTN_Q: Final = _projection("attn_q", ("embd", "q_width"), "Hidden state to queries.", "4.2")
ATTN_K: Final = _projection("attn_k", ("embd", "k_width"), "Hidden state to keys.", "4.2")
ATTN_V: Final = _projection("attn_v", ("embd", "v_width"), "Hidden state to values.", "4.2")
ATTN_OUTPUT: Final = _projection("attn_output", ("o_width", "embd"), "All heads to the hidden state.", "4.2")
FFN_GATE: Final = _projection("ffn_gate", ("embd", "ff"), "Hidden state to the gate.", "4.3", "dense")
FFN_UP: Final = _projection(
    "ffn_up", ("embd", "ff"), "Hidden state to the values that the gate multiplies.", "4.3", "dense"
)
FFN_DOWN: Final = _projection("ffn_down", ("ff", "embd"), "Gated state back to the hidden state.", "4.3", "dense")

PROJECTIONS: Final = (ATTN_Q, ATTN_K, ATTN_V, ATTN_OUTPUT, FFN_GATE, FFN_UP, FFN_DOWN)

#: What may stand beside the weight of a projection or of a head in every architecture: NAME.scale and NAME.input_scale,
#: beside a weight of several experts with one number for each. llama.cpp has read both since NVFP4, whose scales for 16
#: weights need a second one for the whole tensor: ggml-org/llama.cpp@0c1e570:src/llama-model.cpp:1636. Its release
#: xllamacpp 2026.10.11549 multiplies the result by the first, before a bias; the second, which says how activations were
#: quantized at the calibration, changes none of its numbers (0.5 against none in llama, qwen3, gemma3 and bitnet).
BESIDE: Final = (
    TensorSpec(
        "{name}.scale", ("one",), ("F32",), OPTIONAL, "scale", "Multiplies the result of {name}.", "4.5",
        note="comes on top of the scales in the weight; beside a head only if this is NVFP4",
    ),
    TensorSpec(
        "{name}.input_scale", ("one",), ("F32",), OPTIONAL, "input scale",
        "Scale of the activations of {name} at the calibration; no graph uses it.", "4.5",
        note="comes with NAME.scale in files of type NVFP4",
    ),
)  # fmt: skip


def beside(weight: TensorSpec) -> Iterator[TensorSpec]:
    """Yield the declarations of what may stand beside a weight."""
    if weight.role in ("projection", "head"):
        name = weight.name.removesuffix(".weight")
        ne = weight.ne[-1:] if "experts" in weight.ne else ("one",)
        for spec in BESIDE:
            meaning = spec.meaning.format(name=name.removeprefix("blk.{i}."))
            yield spec._replace(name=spec.name.replace("{name}", name), ne=ne, meaning=meaning, when=weight.when)


#: Programs for these types know NAME.scale in architecture `bitnet` only, except for the fork of 2026, which was not tried.
TYPES_OF_FORKS: Final = frozenset({"I2_S", "I2_SR", "TL1", "TL2"})


def stands_beside(scale: TensorSpec, weight: str | None, prefix: str) -> str:
    """Why loaders refuse a tensor that is declared in `BESIDE`, in words; empty if those of its weight's type take it.

    :param weight: the type of the weight beside it; None if the file has no such weight
    :param prefix: the value of `general.architecture`
    """
    if weight is None:
        return "there is no weight that it belongs to"
    if not scale.per_layer and weight != "NVFP4":
        return f"loaders read it beside a head of type NVFP4 only, and this one is {weight}"
    if weight in TYPES_OF_FORKS and prefix != "bitnet":
        return f"of the programs that know {weight}, those before May 2026 read it in architecture bitnet only"
    return ""


#: Biases that loaders accept; no published file has them.
BIASES: Final = tuple(
    TensorSpec(
        spec.name.replace(".weight", ".bias"), spec.ne[1:], ("F32",), OPTIONAL, "bias",
        f"Added to the result of {spec.name[8:-7]}.", "4.5", spec.when,
    )
    for spec in PROJECTIONS
)  # fmt: skip

_NOTE_3D = "an I2_S tensor of three dimensions has no agreed layout (clause 5.1)"

#: The tensors that replace the feed-forward network in models with experts; no published file has them.
EXPERTS: Final = (
    TensorSpec(
        "blk.{i}.ffn_gate_inp.weight", ("embd", "experts"), ("F32", "F16"), REQUIRED, "router", "Chooses experts.", "4.5",
        "experts",
    ),
    *(
        TensorSpec(
            spec.name.replace(".weight", "_exps.weight"), (*spec.ne, "experts"), (*_FLOAT, *_GROUPS), REQUIRED, "projection",
            f"{spec.name[8:-7]} of every expert.", "4.5", "experts", _NOTE_3D,
        )
        for spec in (FFN_GATE, FFN_DOWN, FFN_UP)
    ),
)  # fmt: skip

# In the order of the converters, which is the order of the names in the checkpoint.
BITNET: Final = (
    TOKEN_EMBD,
    ATTN_NORM, FFN_DOWN, FFN_SUB_NORM, FFN_GATE, FFN_UP, FFN_NORM, ATTN_SUB_NORM, ATTN_K,
    ATTN_OUTPUT._replace(ne=("embd", "embd")), ATTN_Q._replace(ne=("embd", "embd")), ATTN_V,
    OUTPUT_NORM,
)  # fmt: skip

BITNET_B158: Final = (
    IGNORED_OUTPUT,
    TOKEN_EMBD,
    ATTN_NORM, FFN_DOWN, FFN_SUB_NORM, FFN_GATE, FFN_UP, FFN_NORM, ATTN_SUB_NORM, ATTN_K, ATTN_OUTPUT, ATTN_Q, ATTN_V,
    *BIASES, *EXPERTS,
    OUTPUT_NORM, ROPE_FREQS,
)  # fmt: skip

LLAMA: Final = (
    OUTPUT._replace(need=EXPECTED),
    TOKEN_EMBD,
    ATTN_NORM, FFN_DOWN, FFN_GATE, FFN_UP, FFN_NORM, ATTN_K, ATTN_OUTPUT, ATTN_Q, ATTN_V,
    *BIASES, *EXPERTS,
    OUTPUT_NORM, ROPE_FREQS,
)  # fmt: skip

_FFN_IN = (
    _norm_in("ffn_down", "ff"), FFN_DOWN, _norm_in("ffn_gate", "embd"), FFN_GATE, _norm_in("ffn_up", "embd"), FFN_UP,
)  # fmt: skip
_ATTN_IN = (
    _half(ATTN_K_NORM), _norm_in("attn_k", "embd"), ATTN_K, _norm_in("attn_output", "o_width"), ATTN_OUTPUT,
    _half(ATTN_Q_NORM), _norm_in("attn_q", "embd"), ATTN_Q, _norm_in("attn_v", "embd"), ATTN_V,
)  # fmt: skip

QWEN3: Final = (
    TOKEN_EMBD,
    _half(ATTN_NORM), *_FFN_IN, _half(FFN_NORM), *_ATTN_IN,
    _half(OUTPUT_NORM), OUTPUT,
)  # fmt: skip

#: A language model has the tensors that the published converters write: norms in F32, none before single projections.
QWEN3_LM: Final = (
    OUTPUT,
    TOKEN_EMBD,
    ATTN_NORM, FFN_DOWN, FFN_GATE, FFN_UP, FFN_NORM, ATTN_K_NORM, ATTN_K, ATTN_OUTPUT, ATTN_Q_NORM, ATTN_Q, ATTN_V,
    OUTPUT_NORM,
)  # fmt: skip


def _in(when: str, *specs: TensorSpec) -> tuple[TensorSpec, ...]:
    """Return the same tensors in some layers only."""
    return tuple(spec._replace(when=when) for spec in specs)


_NET = ("F32", "F16", "BF16", *_PLAIN_QUANTS, *TERNARY_TYPES)


def _of_net(
    name: str, ne: tuple[str, ...], types: tuple[str, ...], role: str, meaning: str, note: str = ""
) -> TensorSpec:
    return TensorSpec(f"blk.{{i}}.{name}", ne, types, REQUIRED, role, meaning, "4.8", "delta", note)


#: The tensors of a gated delta net; ggml-org/llama.cpp@0c1e570:src/models/qwen35.cpp asks for them, and its converter makes
#: them (conversion/qwen.py).
DELTA_NET: Final = (
    _of_net("attn_gate.weight", ("embd", "net_values"), PROJECTION_TYPES, "projection", "Hidden state to the output gate."),
    _of_net(
        "attn_qkv.weight", ("embd", "net_channels"), PROJECTION_TYPES, "projection",
        "Hidden state to queries, keys and values.", "rows of all queries, then of all keys, then of all values",
    ),
    _of_net("ssm_a", ("net_value_heads",), ("F32",), "decay", "How fast each state fades.", "-exp(A_log) of checkpoints"),
    _of_net("ssm_alpha.weight", ("embd", "net_value_heads"), _NET, "gate", "Hidden state to the decay of each state."),
    _of_net("ssm_beta.weight", ("embd", "net_value_heads"), _NET, "gate", "Hidden state to the share of each new value."),
    _of_net(
        "ssm_conv1d.weight", ("net_kernel", "net_channels"), ("F32",), "convolution",
        "Weights of the convolution, that of the earliest token first.",
    ),
    _of_net("ssm_dt.bias", ("net_value_heads",), ("F32",), "bias", "Added to the result of ssm_alpha."),
    _of_net("ssm_norm.weight", ("net_width",), NORM_TYPES, "norm", "Gains on each value head, as in checkpoints."),
    _of_net("ssm_out.weight", ("net_values", "embd"), PROJECTION_TYPES, "projection", "Value heads to the hidden state."),
)  # fmt: skip


def _nextn(name: str, ne: tuple[str, ...], types: tuple[str, ...], need: str, role: str, meaning: str) -> TensorSpec:
    pattern = f"blk.{{i}}.nextn.{name}.weight"
    return TensorSpec(pattern, ne, types, need, role, meaning, "4.8", "nextn", "the graph leaves it out")


#: What layers have besides attention and feed-forward if they draft further tokens.
NEXTN: Final = (
    _nextn("eh_proj", ("two_embd", "embd"), PROJECTION_TYPES, REQUIRED, "projection",
           "Token vector and hidden state, both normalized, to one."),
    _nextn("embed_tokens", ("embd", "vocab"), EMBEDDING_TYPES, OPTIONAL, "embedding", "Token vectors for drafts."),
    _nextn("enorm", ("embd",), NORM_TYPES, REQUIRED, "norm", "Gains on the token vector."),
    _nextn("hnorm", ("embd",), NORM_TYPES, REQUIRED, "norm", "Gains on the hidden state."),
    _nextn("shared_head_head", ("embd", "vocab"), EMBEDDING_TYPES, OPTIONAL, "head", "A head for drafts."),
    _nextn("shared_head_norm", ("embd",), NORM_TYPES, OPTIONAL, "norm", "Gains on the hidden state before that head."),
)  # fmt: skip

QWEN35: Final = (
    OUTPUT,
    TOKEN_EMBD,
    ATTN_NORM, *DELTA_NET, FFN_DOWN, FFN_GATE, FFN_UP,
    POST_ATTENTION_NORM._replace(meaning="Gains on the input of the feed-forward."),
    *_in("attention", ATTN_K_NORM, ATTN_K, ATTN_OUTPUT, ATTN_Q_NORM),
    ATTN_Q._replace(
        ne=("embd", "gated_q_width"), when="attention", meaning="Hidden state to queries and output gates.",
        note="rows of a head's query, then of its gate, head by head",
    ),
    *_in("attention", ATTN_V),
    *NEXTN,
    OUTPUT_NORM,
)  # fmt: skip

GEMMA3: Final = (
    TOKEN_EMBD,
    _half(ATTN_NORM), *_FFN_IN, _half(POST_ATTENTION_NORM), _half(POST_FFW_NORM), _half(FFN_NORM), *_ATTN_IN,
    _half(OUTPUT_NORM), OUTPUT,
)  # fmt: skip
