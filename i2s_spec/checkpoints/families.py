"""This module declares the families of checkpoints: how each is recognized, and how their conversion differs.

A family is data. The first family in `FAMILIES` whose conditions all hold applies. A new family is one entry; a new
name of a tensor is one entry of a table.

For all families: a uint8 matrix is packed and has a `weight_scale`; floats that are -s, 0 and +s already keep their
values; other floats become trits by the family's rule (see `source_weights`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from i2s_spec.convert.hugging_face.names import LAYER

#: Shapes of the tensors of a layer, by field names of `Hyperparameters`, in NumPy's order.
SHAPES: Final[Mapping[str, tuple[str, ...]]] = {
    "attn_q": ("q_width", "embd"),
    "attn_k": ("k_width", "embd"),
    "attn_v": ("v_width", "embd"),
    "attn_output": ("embd", "o_width"),
    "ffn_gate": ("ff", "embd"),
    "ffn_up": ("ff", "embd"),
    "ffn_down": ("embd", "ff"),
    "attn_norm": ("embd",),
    "ffn_norm": ("embd",),
    "attn_sub_norm": ("o_width",),
    "ffn_sub_norm": ("ff",),
    "attn_q_norm": ("head_dim",),
    "attn_k_norm": ("head_dim",),
    "post_attention_norm": ("embd",),
    "post_ffw_norm": ("embd",),
    "attn_q_norm_in": ("embd",),
    "attn_k_norm_in": ("embd",),
    "attn_v_norm_in": ("embd",),
    "attn_output_norm_in": ("o_width",),
    "ffn_gate_norm_in": ("embd",),
    "ffn_up_norm_in": ("embd",),
    "ffn_down_norm_in": ("ff",),
}

#: The ternary matrices of a layer.
PROJECTIONS: Final = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")

#: Matrices of a layer by the name of the module in the checkpoint.
_MATRICES: Final = {module: name for module, name in LAYER.items() if name in PROJECTIONS}
_NORMS: Final = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
#: Norms before the attention output and FFN down projections, in transformers' class and in that of 1bitLLM.
_SUB_NORMS: Final = {"self_attn.attn_sub_norm": "attn_sub_norm", "mlp.ffn_sub_norm": "ffn_sub_norm"}
_INNER_NORMS: Final = {"self_attn.inner_attn_ln": "attn_sub_norm", "mlp.ffn_layernorm": "ffn_sub_norm"}
_HEAD_NORMS: Final = {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
#: A norm inside each projection, before its matrix.
_INPUT_NORMS: Final = {f"{module}.rms_norm": f"{name}_norm_in" for module, name in _MATRICES.items()}
_GEMMA_NORMS: Final = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}

#: The convention of a packed matrix's scale, by `quantization_config.linear_class`; `bitlinear` if that is missing.
WEIGHT_SCALE: Final = {"bitlinear": "divide", "autobitlinear": "multiply"}

#: Floats that are not ternary become trits by their mean absolute value, or are refused.
ABSMEAN: Final = "absmean"
TERNARY: Final = "ternary"


class Condition(NamedTuple):
    """One condition on a checkpoint: a value of config.json, or a tensor.

    :param key: a key of config.json, with dots between levels; or `tensor`, or `layer tensor`
    :param values: one of these is required; empty if any value is enough
    """

    key: str
    values: tuple[object, ...] = ()

    def __str__(self) -> str:
        return f"{self.key}{' ' + ' or '.join(map(str, self.values)) if self.values else ''}"


class Family(NamedTuple):
    """One family of checkpoints.

    :param when: all of these hold
    :param architecture: `general.architecture` of the GGUF file
    :param layer: modules of a layer by their names in the checkpoint, with their names in GGUF files
    :param optional: names of `layer` that a checkpoint may lack
    :param rule: the rule for floats that are not ternary already: `absmean`, or `ternary` if they are refused
    :param rows: the order of rows of queries and keys in the GGUF file: `same`, or `neighbors` if they are permuted
    :param activations: the allowed values of `hidden_act`, the usual one first
    :param norm_offset: added to all norms except those inside projections (Gemma multiplies by 1 + w)
    :param pre: the name of the family's pre-tokenizer, if several names mean the same
    :param pooling: `pooling_type`, of embedding models
    :param weight_only: whether the checkpoint computes with activations that are not quantized
    :param tied: whether the head must be the embedding, because the architecture's graph has no other
    :param biases: modules that may have a bias
    :param caution: a warning if a condition in `when` was not verified with a published file
    """

    name: str
    title: str
    when: tuple[Condition, ...]
    architecture: str
    layer: Mapping[str, str]
    rule: str
    activations: tuple[str, ...]
    optional: tuple[str, ...] = ()
    rows: str = "same"
    norm_offset: float = 0.0
    pre: str = "llama-bpe"
    pooling: int | None = None
    weight_only: bool = False
    tied: bool = False
    biases: tuple[str, ...] = ()
    caution: str = ""


_SILU: Final = ("silu", "swish")
_BITNET: Final = Condition("quantization_config.quant_method", ("bitnet",))
_INNER: Final = Condition("layer tensor", ("self_attn.q_proj.rms_norm.weight",))


def _architecture(*names: str) -> Condition:
    return Condition("architectures", names)


def _llama(
    name: str, title: str, when: tuple[Condition, ...], rule: str = ABSMEAN, pre: str = "llama-bpe", caution: str = ""
) -> Family:
    return Family(
        name, title, when, "llama", {**_NORMS, **_MATRICES}, rule, _SILU, rows="neighbors", pre=pre,
        weight_only=rule == TERNARY, caution=caution,
    )  # fmt: skip


FAMILIES: Final = (
    Family(
        "bitnet-silu", "models of 1bitLLM's kind in transformers' own class, as `i2s export` writes them",
        (_architecture("BitNetForCausalLM"), Condition("hidden_act", _SILU)),
        "bitnet", {**_NORMS, **_SUB_NORMS, **_MATRICES}, ABSMEAN, _SILU, tied=True,
    ),
    Family(
        "bitnet-2b4t", "BitNet b1.58 2B-4T, packed or bf16",
        (_architecture("BitNetForCausalLM"),),
        "bitnet-b1.58", {**_NORMS, **_SUB_NORMS, **_MATRICES}, ABSMEAN, ("relu2",), tied=True,
    ),
    Family(
        "1bitllm", "1bitLLM bitnet_b1_58-large, -xl, -3B",
        (_architecture("BitnetForCausalLM"),),
        "bitnet", {**_NORMS, **_INNER_NORMS, **_MATRICES}, ABSMEAN, _SILU, tied=True,
    ),
    Family(
        "bitnet-embedding-qwen3", "BitNet embedding 0.6B (Qwen3)",
        (_architecture("Qwen3Model", "Qwen3ForCausalLM"), _INNER),
        "qwen3", {**_NORMS, **_HEAD_NORMS, **_MATRICES, **_INPUT_NORMS}, ABSMEAN, _SILU, pre="qwen2", pooling=3,
    ),
    Family(
        "bitnet-embedding-gemma3", "BitNet embedding 270M (Gemma 3)",
        (_architecture("Gemma3TextModel", "Gemma3ForCausalLM"), _INNER),
        "gemma3", {**_GEMMA_NORMS, **_HEAD_NORMS, **_MATRICES, **_INPUT_NORMS}, ABSMEAN,
        ("gelu_pytorch_tanh", "gelu_new"), norm_offset=1.0, pooling=3,
    ),
    Family(
        "ternary-qwen3", "Ternary-Bonsai and other ternary Qwen3 models, without quantized activations",
        (_architecture("Qwen3ForCausalLM"),),
        "qwen3", {**_NORMS, **_HEAD_NORMS, **_MATRICES}, TERNARY, _SILU, pre="qwen2", weight_only=True,
    ),
    Family(
        "ternary-qwen2", "ternary Qwen2 and Qwen2.5 models, without quantized activations",
        (_architecture("Qwen2ForCausalLM"),),
        "qwen2", {**_NORMS, **_MATRICES}, TERNARY, _SILU, pre="qwen2", weight_only=True,
        biases=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    ),
    _llama(
        "falcon3", "Falcon3-1.58bit 1B, 3B, 7B, 10B",
        (_architecture("LlamaForCausalLM"), _BITNET, Condition("vocab_size", (131072,))), pre="falcon3",
    ),
    _llama(
        "falcon-e", "Falcon-E 1B and 3B, base and instruct: main, prequantized",
        (_architecture("LlamaForCausalLM"), _BITNET, Condition("vocab_size", (32768,))), pre="falcon_e",
        caution="it was taken for Falcon-E by its vocab_size, which was compared with no published file: for that alone its "
        "pre-tokenizer may be called falcon_e, and --family hf1bitllm makes it llama-bpe",
    ),
    _llama(
        "hf1bitllm", "HF1BitLLM Llama3-8B-1.58 and other Llama models with BitLinear",
        (_architecture("LlamaForCausalLM"), _BITNET),
    ),
    _llama(
        "ternary-llama", "Llama models whose weights are ternary already (TriLM; Falcon-E, revision bfloat16)",
        (_architecture("LlamaForCausalLM"),), rule=TERNARY,
    ),
)  # fmt: skip

BY_FAMILY: Final[Mapping[str, Family]] = {family.name: family for family in FAMILIES}

#: Tensors that models compute from config.json; GGUF files do not have them.
DERIVED: Final = ("rotary_emb.inv_freq", "self_attn.rotary_emb.inv_freq")
