"""The families of checkpoints: how each is recognized, how their conversion differs, and the sizes of a model.

A family is data. The first family in `FAMILIES` whose conditions all hold applies: `recognize`. A new family is one
entry; a new name of a tensor is one entry of a table. `sizes_of` reads the sizes from config.json.

For all families: a uint8 matrix is packed and has a `weight_scale`; floats that are -s, 0 and +s already keep their
values; other floats become trits by the family's rule (see `source_weights`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from i2s_spec.checkpoints.folder import refused
from i2s_spec.errors import counted, quote
from i2s_spec.safetensors.files import Stored
from i2s_spec.safetensors.names import LAYER
from i2s_spec.safetensors.packed import Convention, checked_convention
from i2s_spec.schema.architectures import DeltaNet, Hyperparameters
from i2s_spec.schema.keys import MAX_LAYERS

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
    "attn_qkv": ("net_channels", "embd"),
    "attn_gate": ("net_values", "embd"),
    "ssm_out": ("embd", "net_values"),
    "ssm_alpha": ("net_value_heads", "embd"),
    "ssm_beta": ("net_value_heads", "embd"),
    "ssm_conv1d": ("net_channels", "one", "net_kernel"),
    "ssm_norm": ("net_width",),
    "ssm_a": ("net_value_heads",),
    "ssm_dt.bias": ("net_value_heads",),
}

#: The ternary matrices of a layer.
PROJECTIONS: Final = (
    "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_qkv", "attn_gate", "ssm_out",
)  # fmt: skip
#: Matrices that are floats, unless they are packed or transformers quantizes them in every pass.
GATES: Final = ("ssm_alpha", "ssm_beta")

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
#: Layers of Qwen3.5: gated delta nets, and attention in the others.
_QWEN35: Final = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    **_HEAD_NORMS,
    **_MATRICES,
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
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
    :param parameters: parameters of a layer that are no module's, like `layer`: `A_log` is stored as -exp(A_log)
    :param shapes: shapes that differ from `SHAPES`
    :param left_out: what the names of tensors begin with that the file does not get, and what they are
    :param rows: the order of rows of queries and keys in the GGUF file: `same`, or `neighbors` if they are permuted
    :param activations: the allowed values of `hidden_act`, the usual one first
    :param norm_offset: added to all norms except those inside projections (Gemma multiplies by 1 + w) and `ssm_norm`
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
    parameters: Mapping[str, str] = {}
    shapes: Mapping[str, tuple[str, ...]] = {}
    left_out: Mapping[str, str] = {}
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
    Family(
        "ternary-qwen35", "ternary Qwen3.5 models, without quantized activations; of multimodal ones the text model",
        (_architecture("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"),),
        "qwen35", _QWEN35, TERNARY, _SILU, norm_offset=1.0, pre="qwen35", weight_only=True,
        parameters={"linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias"},
        shapes={"attn_q": ("gated_q_width", "embd")},
        left_out={"mtp.": "layers that draft further tokens", "model.visual.": "the vision tower"},
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


class LayerTensor(NamedTuple):
    """One tensor of a layer.

    :param source: its name in the checkpoint, after that of the layer
    :param module: the module that has it; empty for a parameter of its own
    :param target: its name in the GGUF file, after that of the layer
    :param word: the key of `SHAPES`
    :param shape: in NumPy's order, before packing
    """

    source: str
    module: str
    target: str
    word: str
    shape: tuple[int, ...]


def tensors_of_layer(family: Family, h: Hyperparameters, layer: int) -> Iterator[LayerTensor]:
    """Yield the tensors that a layer must have: those of a delta net or of attention, and those of every layer."""
    for module, word in (*family.layer.items(), *family.parameters.items()):
        when = {"linear_attn": "delta", "self_attn": "attention"}.get(module.partition(".")[0], "")
        if word in family.optional or not h.has(when, layer):
            continue
        shape = tuple(getattr(h, size) for size in family.shapes.get(word, SHAPES[word]))
        if module in family.parameters:
            yield LayerTensor(module, "", word, word, shape)
        else:
            yield LayerTensor(f"{module}.weight", module, f"{word}.weight", word, shape)


#: Tensors that models compute from config.json; GGUF files do not have them.
DERIVED: Final = ("rotary_emb.inv_freq", "self_attn.rotary_emb.inv_freq")


# --- recognition -----------------------------------------------------------------------------------------------------
# A family is recognized by config.json and the tensors, never by a repository's name.

_MODES = ("online", "offline")


class Described(Protocol):
    """The facts that decide the family of a checkpoint: a `CheckpointFolder`, or the parts of one that were read."""

    @property
    def config(self) -> Mapping[str, Any]: ...

    @property
    def tensors(self) -> Mapping[str, Stored]: ...


class Recognized(NamedTuple):
    """A family, and the choices within it for this checkpoint.

    :param why: what decided, in words
    :param prefix: the prefix of tensor names: that of `prefix_of`
    :param convention: whether `weight_scale` multiplies or divides
    :param mode: `quantization_mode` in config.json; empty if it is missing
    """

    family: Family
    why: str
    prefix: str
    convention: Convention
    mode: str


def recognize(
    folder: Described,
    family: str | None = None,
    weight_scale: str | None = None,
    fits: Callable[[Recognized], bool] = lambda recognized: False,
) -> Recognized:
    """Return the family of a checkpoint.

    :param family: the name of a family, which is then used without recognition
    :param weight_scale: `multiply` or `divide`, which overrides config.json
    :param fits: whether the checkpoint has all that a family needs; those that it fits are named for one of no family
    :raises ValueError: for names that do not exist
    :raises FormatError: H104 for a checkpoint of no known family, and a quantization that is not BitNet's
    """
    prefix = prefix_of(folder.tensors)
    mode, convention = quantization_of(folder, weight_scale)
    if weight_scale is not None:
        convention = checked_convention(weight_scale)
    if family is not None:
        if family not in BY_FAMILY:
            raise ValueError(f"unknown family {quote(family)}; there are: {', '.join(BY_FAMILY)}")
        return Recognized(BY_FAMILY[family], "chosen by hand", prefix, convention, mode)
    found = family_of(folder)
    if found is None:
        fitting = [each.name for each in FAMILIES if fits(Recognized(each, "", prefix, convention, mode))]
        way = f". It has what these need, which --family chooses: {', '.join(fitting)}" if fitting else ""
        raise refused(f"its family is not known. Seen: {_seen(folder)}. Known: {_known()}{way}")
    return Recognized(found, ", ".join(map(str, found.when)), prefix, convention, mode)


def family_of(folder: Described) -> Family | None:
    """Return the first family whose conditions hold; None if there is none."""
    prefix = prefix_of(folder.tensors)
    return next((each for each in FAMILIES if all(_holds(folder, when, prefix) for when in each.when)), None)


def prefix_of(names: Collection[str]) -> str:
    """Return the beginning of the names of a language model's tensors; empty if only the body was saved."""
    return next((each for each in ("model.language_model.", "model.") if any(n.startswith(each) for n in names)), "")


def value_at(config: Mapping[str, Any], key: str) -> Any:
    """Return a value of config.json, with dots between levels; None if there is none."""
    found: Any = config
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _holds(folder: Described, condition: Condition, prefix: str) -> bool:
    if condition.key == "layer tensor":
        return any(f"{prefix}layers.0.{name}" in folder.tensors for name in condition.values)
    found = value_at(folder.config, condition.key)
    values = found if isinstance(found, list) else [found]
    return any(value in condition.values for value in values if isinstance(value, str | int))


def quantization_of(folder: Described, weight_scale: str | None) -> tuple[str, Convention]:
    """Return `quantization_mode`, and whether `weight_scale` multiplies or divides.

    :param weight_scale: the choice made by hand
    :raises FormatError: H104 for a quantization that is not BitNet's, and if nothing says what `weight_scale` does
    """
    if form := foreign_form(folder):
        raise refused(form)
    about = folder.config.get("quantization_config")
    if about is None:
        if weight_scale is None and any(each.dtype == "U8" for each in folder.tensors.values()):
            raise refused(
                "it has packed matrices, and config.json has no quantization_config, which says whether weight_scale "
                "multiplies or divides. Use --weight-scale to state it"
            )
        return "", "divide"
    if not isinstance(about, dict):
        raise refused("quantization_config in config.json is not an object")
    linear, mode = about.get("linear_class"), about.get("quantization_mode")
    if linear is not None and not (isinstance(linear, str) and linear in WEIGHT_SCALE):
        known = ", ".join(WEIGHT_SCALE)
        raise refused(f"quantization_config says linear_class {quote(str(linear))}; known are {known}")
    if mode is not None and mode not in _MODES:
        known = ", ".join(_MODES)
        raise refused(f"quantization_config says quantization_mode {quote(str(mode))}; known are {known}")
    return mode or "", checked_convention(WEIGHT_SCALE[linear or "bitlinear"])


def foreign_form(folder: Described) -> str:
    """Name the form in which another program quantized the weights, in words; empty for BitNet's and for none."""
    for name, stored in folder.tensors.items():
        module = name.removesuffix(".scales")
        weight = folder.tensors.get(f"{module}.weight")
        if module != name and f"{module}.biases" in folder.tensors and weight is not None and weight.dtype == "U32":
            sizes = folder.config.get("quantization")
            sizes = sizes if isinstance(sizes, dict) else {}
            known = [f"{key} {sizes[key]}" for key in ("bits", "group_size") if isinstance(sizes.get(key), int)]
            of = f" ({', '.join(known)})" if known else ""
            return (
                f"its matrices are packed by MLX{of}: {quote(weight.name)} is U32, with {quote(stored.name)} and .biases "
                "beside it; import the checkpoint that they were made from"
            )
    about = folder.config.get("quantization_config")
    if not isinstance(about, dict) or (method := about.get("quant_method")) == "bitnet":
        return ""
    return f"quantization_config says quant_method {quote(str(method)[:40])}; only bitnet is supported"


def _seen(folder: Described) -> str:
    types = sorted({each.dtype for each in folder.tensors.values()})
    config = [
        f"{key} {quote(str(folder.config[key]))}" for key in ("architectures", "model_type") if key in folder.config
    ]
    return ", ".join([*config, f"{counted(len(folder.tensors), 'tensor')} in {', '.join(map(quote, types[:4]))}"])


def _known() -> str:
    return "; ".join(f"{family.name} ({', '.join(map(str, family.when))})" for family in FAMILIES)


# --- config sizes ----------------------------------------------------------------------------------------------------
# config.json is read with the names of transformers 4 and 5.

_MOST: Final = 1 << 24
#: Smallest positive number; smaller ones are 0, or nearly so, in float32.
_LEAST: Final = 1e-30

#: Scalings of positions that GGUF files can describe, with their names there; `default` is no scaling.
_SCALINGS: Final = {"linear": "linear", "yarn": "yarn", "llama3": "llama3", "default": ""}


class Rope(NamedTuple):
    """How positions are rotated.

    :param scaling: `linear`, `yarn`, `llama3`, or empty
    :param settings: all settings of the scaling in config.json
    :param share: the part of each head that is rotated
    :param sections: how many pairs turn with time, height and width; empty if positions are single numbers
    """

    base: float
    scaling: str
    factor: float
    settings: Mapping[str, Any]
    share: float = 1.0
    sections: tuple[int, ...] = ()


class ModelSizes(NamedTuple):
    """The sizes, and the other settings of the graph in config.json."""

    h: Hyperparameters
    rope: Rope
    activation: str
    #: Whether config.json says that the head is the embedding; None if it says nothing.
    tied: bool | None


def sizes_of(config: Mapping[str, Any]) -> ModelSizes:
    """Read config.json.

    :raises FormatError: H104 for sizes that are missing or that no model can have
    """
    heads = _whole(config, "num_attention_heads")
    embd = _whole(config, "hidden_size")
    given = config.get("head_dim") is not None
    if not given and embd % heads:
        raise refused(
            f"hidden_size {embd:,} is not a multiple of num_attention_heads {heads:,}, and head_dim is missing"
        )
    head_dim = _whole(config, "head_dim") if given else embd // heads
    heads_kv = _whole(config, "num_key_value_heads", heads)
    if heads % heads_kv:
        raise refused(f"num_attention_heads {heads:,} is not a multiple of num_key_value_heads {heads_kv:,}")
    if head_dim % 2:
        raise refused(f"heads are {head_dim:,} wide; the width must be even, because pairs are rotated")
    rope = _rope(config, head_dim)
    layers = _whole(config, "num_hidden_layers", most=MAX_LAYERS)
    h = Hyperparameters(
        layers=layers,
        embd=embd,
        ff=_whole(config, "intermediate_size"),
        heads=heads,
        heads_kv=heads_kv,
        head_dim=head_dim,
        value_dim=head_dim,
        vocab=_whole(config, "vocab_size"),
        context=_whole(config, "max_position_embeddings", most=1 << 31),
        rope_base=rope.base,
        rope_dims=int(head_dim * rope.share),
        eps=_number(config, "rms_norm_eps"),
        net=_net(config, layers),
    )
    act = config.get("hidden_act", config.get("hidden_activation"))
    if act is not None and not isinstance(act, str):
        raise refused(f"hidden_act in config.json is {quote(str(act)[:40])}; it must be the name of an activation")
    tied = config.get("tie_word_embeddings")
    return ModelSizes(h, rope, act if isinstance(act, str) else "", tied if isinstance(tied, bool) else None)


def _whole(config: Mapping[str, Any], key: str, default: int | None = None, most: int = _MOST) -> int:
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        shown = "is missing" if value is None else f"is {quote(str(value)[:40])}"
        raise refused(f"{key} in config.json {shown}; it must be a whole number from 1 to {most:,}")
    return value


def _number(config: Mapping[str, Any], key: str, default: float | None = None) -> float:
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not _LEAST < value < 1e12:
        shown = "is missing" if value is None else f"is {quote(str(value)[:40])}"
        raise refused(f"{key} in config.json {shown}; it must be a number above 0")
    return float(value)


def _net(config: Mapping[str, Any], layers: int) -> DeltaNet:
    """Return the gated delta nets of a model, and which layers have one; none if config.json has no sizes of them."""
    if "linear_num_value_heads" not in config:
        return DeltaNet((), 0, 0, 0, 0)
    width, values = _whole(config, "linear_key_head_dim"), _whole(config, "linear_value_head_dim")
    key_heads, value_heads = _whole(config, "linear_num_key_heads"), _whole(config, "linear_num_value_heads")
    if width != values:
        raise refused(
            f"linear_key_head_dim is {width:,} and linear_value_head_dim {values:,}; files have one width of heads"
        )
    if value_heads % key_heads:
        raise refused(f"linear_num_value_heads {value_heads:,} is not a multiple of linear_num_key_heads {key_heads:,}")
    if config.get("attn_output_gate") is False:
        raise refused("attn_output_gate is false; the graph has a gate in every layer of attention")
    kinds = config.get("layer_types")
    if kinds is None:
        interval = _whole(config, "full_attention_interval", 4)
        kinds = ["linear_attention" if (i + 1) % interval else "full_attention" for i in range(layers)]
    known = ("linear_attention", "full_attention")
    if not isinstance(kinds, list) or len(kinds) != layers or any(each not in known for each in kinds):
        raise refused(
            f"layer_types in config.json must be one of {', '.join(known)} for each of {counted(layers, 'layer')}"
        )
    nets = tuple(each == known[0] for each in kinds)
    return DeltaNet(nets, _whole(config, "linear_conv_kernel_dim"), width, key_heads, value_heads)


def _rope(config: Mapping[str, Any], head_dim: int) -> Rope:
    """Return `rope_parameters` of transformers 5, or `rope_theta` and `rope_scaling` of older ones."""
    about = config.get("rope_parameters")
    about = config.get("rope_scaling") if about is None else about
    about = {} if about is None else about
    if isinstance(about, Mapping) and isinstance(about.get("full_attention"), Mapping):
        local = about.get("sliding_attention")
        if isinstance(local, Mapping) and _sliding(config) and local != about["full_attention"]:
            raise refused(
                "layers with sliding attention have another rotation than the others; the graph has only one for all layers"
            )
        about = about["full_attention"]
    if not isinstance(about, Mapping) or not isinstance(about.get("full_attention", {}), Mapping):
        raise refused("rope_parameters in config.json is not an object")
    base = _number(about if "rope_theta" in about else config, "rope_theta", 10000.0)
    kind = about.get("rope_type", about.get("type", "default"))
    if not isinstance(kind, str) or kind not in _SCALINGS:
        raise refused(f"positions are scaled by {quote(str(kind))}; known are {', '.join(_SCALINGS)}")
    factor = _number(about, "factor", 1.0) if _SCALINGS[kind] else 1.0
    share = about.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if "linear_num_value_heads" in config:
        share = 0.25 if share is None else share  # as transformers does
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise refused(f"partial_rotary_factor is {quote(str(share)[:40])}; it must be a number above 0, at most 1")
        if not (dims := int(head_dim * share)) or dims % 2:
            raise refused(
                f"partial_rotary_factor rotates {dims:,} of {counted(head_dim, 'element')} of a head, which must be pairs"
            )
        return Rope(base, _SCALINGS[kind], factor, about, float(share), _sections(about, dims // 2))
    if share not in (None, 1):
        raise refused(
            f"partial_rotary_factor is {quote(str(share)[:40])}; only heads that rotate completely are supported"
        )
    return Rope(base, _SCALINGS[kind], factor, about)


def _sections(about: Mapping[str, Any], pairs: int) -> tuple[int, ...]:
    """Return how many pairs turn with each of three positions. llama.cpp gives the pairs to them in turn, and what none
    of them has to a fourth one, which is 0 in text."""
    found = about.get("mrope_section", [11, 11, 10])  # transformers' default
    if (
        not isinstance(found, list)
        or len(found) != 3
        or any(isinstance(each, bool) or not isinstance(each, int) or not 0 <= each <= _MOST for each in found)
        or not (total := sum(found))
        or any(pair % total >= 3 * found[pair % total % 3] for pair in range(pairs))
    ):
        raise refused(
            f"mrope_section is {quote(str(found)[:40])}; it must be three numbers of pairs that cover {pairs:,} in turn"
        )
    return tuple(found)


def _sliding(config: Mapping[str, Any]) -> bool:
    """Whether any layer sees only some of the tokens."""
    layers = config.get("layer_types")
    return not isinstance(layers, list) or "sliding_attention" in layers
