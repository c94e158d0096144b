"""This module makes config.json and generation_config.json from the keys of a GGUF file, for a class of transformers.

Packed weights are marked `quantization_mode: offline`: their scale is stored beside them. `online` would quantize the
ternary weights again and shrink every scale by the share of zeros, so it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.checkpoints.source.families import BY_FAMILY, Family
from i2s_spec.errors import SettingError, quote
from i2s_spec.schema.architectures.architecture import Architecture, declared_architecture
from i2s_spec.schema.architectures.hyperparameters import hyperparameters

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.schema.architectures.sizes import Hyperparameters


class ExportClass(NamedTuple):
    """The class of transformers with the graph of an architecture.

    :param family: the family whose tensor names it uses
    :param prefix: the prefix of these names
    :param keys: the architecture whose keys are read, if its graph is not declared
    """

    name: str
    model_type: str
    family: Family
    activation: str
    prefix: str = "model."
    keys: Architecture | None = None


#: The keys of Qwen2: it is imported and exported, and llama.cpp runs it.
_QWEN2: Final = Architecture(
    "qwen2", "Qwen2 and Qwen2.5", (), activation="silu", rope="neox", head="untied", whole_head_rope=True,
    rope_base=1e6, eps=(1e-6,), pre_tokenizer="qwen2",
)  # fmt: skip

#: Classes by architecture; embedding models are only the body.
_CLASSES: Final[Mapping[str, ExportClass]] = {
    "bitnet-b1.58": ExportClass("BitNetForCausalLM", "bitnet", BY_FAMILY["bitnet-2b4t"], "relu2"),
    "bitnet-25": ExportClass("BitNetForCausalLM", "bitnet", BY_FAMILY["bitnet-2b4t"], "relu2"),
    "bitnet": ExportClass("BitNetForCausalLM", "bitnet", BY_FAMILY["bitnet-silu"], "silu"),
    "llama": ExportClass("LlamaForCausalLM", "llama", BY_FAMILY["hf1bitllm"], "silu"),
    "qwen3": ExportClass("Qwen3ForCausalLM", "qwen3", BY_FAMILY["ternary-qwen3"], "silu"),
    "qwen2": ExportClass("Qwen2ForCausalLM", "qwen2", BY_FAMILY["ternary-qwen2"], "silu", keys=_QWEN2),
    "gemma3": ExportClass(
        "Gemma3TextModel", "gemma3_text", BY_FAMILY["bitnet-embedding-gemma3"], "gelu_pytorch_tanh", ""
    ),
}
#: Classes of embedding models whose architecture shares its name with a language model.
_BODIES: Final[Mapping[str, ExportClass]] = {
    "qwen3": ExportClass("Qwen3Model", "qwen3", BY_FAMILY["bitnet-embedding-qwen3"], "silu", ""),
}


def class_of(file: File) -> ExportClass:
    """The class for a file.

    :raises SettingError: for an architecture without a class of transformers here
    """
    name = str(file.metadata.get("general.architecture"))
    declared = declared_architecture(name, file.metadata, file.tensors)
    if name in _BODIES and declared is not None and declared.embedding_model:
        return _BODIES[name]
    if name not in _CLASSES:
        raise SettingError(f"files of architecture {quote(name)} cannot be exported, only {', '.join(_CLASSES)}")
    return _CLASSES[name]


def sizes_of_file(file: File) -> Hyperparameters:
    """The sizes that the keys give; config.json cannot describe layers that differ.

    :raises FormatError: M001 to M008
    :raises SettingError: for layers that differ, and for experts
    """
    table = file.tensors.get("token_embd.weight")
    h = hyperparameters(file.metadata, table.shape[0] if table is not None else None, class_of(file).keys)
    if h.varying or h.experts:
        raise SettingError("the config.json of these classes cannot describe layers of different sizes or experts")
    return h


def config_json(file: File, exported: ExportClass, tied: bool, packed: bool, dtype: str) -> dict[str, Any]:
    """config.json.

    :param tied: whether the head is the embedding
    :param packed: whether the matrices are packed, else they are floats
    :param dtype: the default dtype in which transformers computes
    :raises SettingError: for a scaling of positions that it cannot describe
    """
    h, found = sizes_of_file(file), file.metadata
    arch = str(found.get("general.architecture"))
    gemma = exported.model_type.startswith("gemma")
    config: dict[str, Any] = {
        "architectures": [exported.name],
        "model_type": exported.model_type,
        "hidden_activation" if gemma else "hidden_act": exported.activation,
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "hidden_size": h.embd,
        "intermediate_size": h.ff,
        "num_hidden_layers": h.layers,
        "num_attention_heads": h.heads,
        "num_key_value_heads": h.heads_kv,
        "head_dim": h.head_dim,
        "max_position_embeddings": h.context,
        "rms_norm_eps": _short(h.eps),
        "rope_theta": _short(h.rope_base),
        "tie_word_embeddings": tied,
        "dtype": dtype,
        **_ids(file, "config"),
    }
    if gemma:  # one rotation and full attention in all layers, as the graph has it
        config |= {
            "query_pre_attn_scalar": h.head_dim,
            "layer_types": ["full_attention"] * h.layers,
            "rope_local_base_freq": _short(h.rope_base),
            "attention_bias": False,
        }
    kind, factor = found.get(f"{arch}.rope.scaling.type", "none"), found.get(f"{arch}.rope.scaling.factor", 1.0)
    if kind not in ("none", "linear"):
        raise SettingError(
            f"positions are scaled by {quote(str(kind))}; config.json would need settings that the file does not have"
        )
    if kind == "linear" and factor != 1:
        config["rope_scaling"] = {"rope_type": "linear", "factor": _short(float(factor))}
    if packed:
        quantization: dict[str, Any] = {
            "quant_method": "bitnet",
            "linear_class": "autobitlinear",
            "quantization_mode": "offline",
            "modules_to_not_convert": ["lm_head"],
        }
        if "blk.0.attn_q_norm_in.weight" in file.tensors:
            quantization |= {"use_rms_norm": True, "rms_norm_eps": _short(h.eps)}
        config["quantization_config"] = quantization
    return config


def generation_json(file: File) -> dict[str, Any]:
    """generation_config.json: the tokens that begin and end a text."""
    return {"do_sample": False, **_ids(file, "generation")}


def _ids(file: File, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, word in (("bos", "bos"), ("eos", "eos"), ("padding", "pad")):
        number = file.metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(number, int):
            found[f"{word}_token_id"] = number
    turn = file.metadata.get("tokenizer.ggml.eot_token_id")
    if kind == "generation" and isinstance(turn, int) and "eos_token_id" in found and turn != found["eos_token_id"]:
        found["eos_token_id"] = [found["eos_token_id"], turn]
    return found


def _short(value: float) -> float:
    """The shortest decimal that gives the same float32: 1e-05, not 9.999999747378752e-06."""
    import numpy as np

    return float(str(np.float32(value)))
