"""Models of transformers' own classes with random weights, saved as folders of every family.

Some folders have properties that transformers' class does not save (names of norms, a revision in floats); these are
derived from what the class saved. Falcon-E's packed and ternary revisions are written by onebitllms' own functions.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import torch
import transformers
from safetensors.torch import load_file, save_file
from tiny_checkpoints import piece_model, piece_tokenizer, text_files
from transformers.integrations.bitnet import AutoBitLinear, BitLinear, pack_weights

SIZES: dict[str, Any] = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
}  # fmt: skip
VOCAB = 384

#: Modules that transformers names differently from 1bitLLM's own class.
INNER = {"self_attn.attn_sub_norm": "self_attn.inner_attn_ln", "mlp.ffn_sub_norm": "mlp.ffn_layernorm"}


class Kind(NamedTuple):
    """One kind of checkpoint.

    :param family: that it is recognized as
    :param model: transformers' class; its configuration is `config`
    :param linear: `online`, `packed`, `ternary`, `groups`: what its projections are
    :param pre: the pre-tokenizer; empty for pieces
    :param to: the type that it is imported as
    :param form: that its file is exported in; empty if it is not
    :param rounds: whether activations are quantized in front of that type, and not in the checkpoint
    :param make: writes the folder of a model, where `save_pretrained` does not; gives what computes its logits
    """

    family: str
    model: str
    config: str
    more: dict[str, Any]
    linear: str
    pre: str = "llama-bpe"
    vocab: int = VOCAB
    to: str = "I2_S"
    form: str = "packed"
    quantization: dict[str, Any] | None = None
    make: Callable[[Any, Path], Any] | None = None
    seeds: int = 4
    embedding: bool = False
    rounds: bool = False
    shard: str = "50GB"


def _online(mode: str = "online", **more: Any) -> dict[str, Any]:
    return {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": mode, **more}


_LLAMA = {"hidden_act": "silu", "tie_word_embeddings": False}
_QWEN = {"hidden_act": "silu", "tie_word_embeddings": True}
_QWEN35 = {
    **_LLAMA, "head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 8, "linear_key_head_dim": 32,
    "linear_value_head_dim": 32, "num_hidden_layers": 3,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "rope_parameters": {
        "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1],
        "mrope_interleaved": True,
    },
}  # fmt: skip
_VISION = {"depth": 1, "hidden_size": 32, "intermediate_size": 64, "num_heads": 2, "out_hidden_size": 128}
_DIVIDED = {"quant_method": "bitnet", "modules_to_not_convert": ["lm_head"]}


def kinds() -> dict[str, Kind]:
    """Every kind, by a name."""
    bitnet, llama = ("BitNetForCausalLM", "BitNetConfig"), ("LlamaForCausalLM", "LlamaConfig")
    qwen3 = ("Qwen3ForCausalLM", "Qwen3Config", {**_QWEN, "head_dim": 64})
    qwen35 = ("ternary-qwen35", "Qwen3_5ForCausalLM", "Qwen3_5TextConfig", _QWEN35)
    falcon_e = ("falcon-e", *llama, _LLAMA)
    relu2 = {"hidden_act": "relu2", "tie_word_embeddings": True}
    normed = _online(use_rms_norm=True, rms_norm_eps=1e-5)
    return {
        "2B-4T, bf16": Kind("bitnet-2b4t", *bitnet, relu2, "online", quantization=_online()),
        "2B-4T, packed": Kind("bitnet-2b4t", *bitnet, relu2, "multiplied", quantization=_online("offline")),
        "BitNet with silu": Kind(
            "bitnet-silu", *bitnet, {**_QWEN, "bos_token_id": 1, "eos_token_id": 2}, "online", "", quantization=_online()
        ),
        "1bitLLM": Kind(
            "1bitllm", *bitnet, {**_QWEN, "bos_token_id": 1, "eos_token_id": 2}, "online", "", make=one_bit_llm
        ),
        "Llama3-8B-1.58": Kind("hf1bitllm", *llama, _LLAMA, "packed", quantization=_DIVIDED, shard="100KB"),
        "Falcon3": Kind(
            "falcon3", *llama,
            {**_LLAMA, "head_dim": 64, "rope_parameters": {"rope_type": "default", "rope_theta": 1000042.0}}, "packed",
            "falcon3", 131072, quantization=_DIVIDED, seeds=2,
        ),
        "Falcon-E": Kind(*falcon_e, "plain", "falcon_e", 32768, make=quantized_by_onebitllms, seeds=2),
        "Falcon-E, prequantized": Kind(*falcon_e, "online", "falcon_e", 32768, quantization=_DIVIDED, seeds=2),
        "Falcon-E, bfloat16": Kind(
            "ternary-llama", *llama, _LLAMA, "plain", "falcon_e", 32768, "F32", "F32", make=floats_by_onebitllms, seeds=2
        ),
        "ternary Llama": Kind("ternary-llama", *llama, _LLAMA, "ternary", to="F32", form="F32"),
        "Ternary-Bonsai": Kind("ternary-qwen3", *qwen3, "groups", "qwen2", to="F32", form="F32"),
        "Ternary-Bonsai, Q2_0": Kind("ternary-qwen3", *qwen3, "groups", "qwen2", to="Q2_0", form="F32", rounds=True),
        "Qwen3, ternary": Kind("ternary-qwen3", *qwen3, "ternary", "qwen2", to="F16", form="F16"),
        "Qwen2, ternary": Kind(
            "ternary-qwen2", "Qwen2ForCausalLM", "Qwen2Config", _QWEN, "ternary", "qwen2", to="F32", form="F32"
        ),
        "Qwen3.5, ternary": Kind(*qwen35, "ternary", "qwen35", to="F32", form=""),
        "Qwen3.5, groups": Kind(
            *qwen35[:3], {**_QWEN35, "linear_key_head_dim": 128, "linear_value_head_dim": 128}, "groups", "qwen35",
            to="Q2_0", form="", rounds=True,
        ),
        "Qwen3.5, multimodal": Kind(
            qwen35[0], "Qwen3_5ForConditionalGeneration", "Qwen3_5Config", _QWEN35, "ternary", "qwen35", to="F32", form="",
            seeds=1,
        ),
        "Qwen3.5, packed": Kind(*qwen35, "packed", "qwen35", form="", quantization=_DIVIDED),
        "Qwen3.5, online": Kind(*qwen35, "online", "qwen35", form="", quantization=_online()),
        "BitNet embedding, Qwen3": Kind(
            "bitnet-embedding-qwen3", "Qwen3Model", *qwen3[1:], "normed", "qwen2", quantization=normed, embedding=True
        ),
        "BitNet embedding, Gemma 3": Kind(
            "bitnet-embedding-gemma3", "Gemma3TextModel", "Gemma3TextConfig",
            {"head_dim": 64, "query_pre_attn_scalar": 64, "hidden_activation": "gelu_pytorch_tanh",
             "layer_types": ["full_attention"] * 2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
             "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e6},
                                 "sliding_attention": {"rope_type": "default", "rope_theta": 1e6}}},
            "normed", "", quantization=normed, embedding=True,
        ),
    }  # fmt: skip


def random_model(kind: Kind, seed: int) -> Any:
    """A model of transformers with random weights, of values that float16 and bfloat16 hold."""
    torch.manual_seed(seed)
    marks = {"bos_token_id": kind.vocab - 3, "eos_token_id": kind.vocab - 2, **kind.more}
    sizes: dict[str, Any] = {**SIZES, "vocab_size": kind.vocab, **marks}
    sizes = {"text_config": sizes, "vision_config": _VISION} if kind.config == "Qwen3_5Config" else sizes
    config = getattr(transformers, kind.config)(**sizes, attn_implementation="eager")
    model = getattr(transformers, kind.model)(config).float().eval()
    with torch.no_grad():
        body = getattr(model, "model", model)
        for layer in getattr(body, "language_model", body).layers:
            gates = () if kind.linear in ("online", "packed") else ("in_proj_a", "in_proj_b")
            linear = [name for name, each in layer.named_modules() if type(each) is torch.nn.Linear]
            for module in (name for name in linear if not name.endswith(gates)):
                layer.set_submodule(module, _linear(layer.get_submodule(module), kind.linear))
        for name, values in model.named_parameters():
            if name.endswith("norm.weight"):
                values.add_(0.2 * torch.randn_like(values))
            elif name.endswith("bias"):
                values.copy_(0.1 * torch.randn_like(values))
            values.copy_(values.half().bfloat16().float())
    return model


def _linear(was: Any, kind: str) -> Any:
    """A projection in the place of another one, whose random weights may be used."""
    rows, columns = was.out_features, was.in_features
    scale = torch.tensor([0.03 + 0.04 * torch.rand(()).item()]).bfloat16().float()
    trits = torch.randint(-1, 2, (rows, columns))
    if kind in ("online", "normed"):
        made = AutoBitLinear(columns, rows, False, online_quant=True, use_rms_norm=kind == "normed", rms_norm_eps=1e-5)
        made.weight.copy_(0.05 * torch.randn(rows, columns))
    elif kind in ("packed", "multiplied"):
        made = BitLinear(columns, rows, False, dtype=torch.float32)
        made.weight.copy_(pack_weights(trits.float()))
        made.weight_scale.copy_((1 / scale).bfloat16().float() if kind == "packed" else scale)
        if kind == "multiplied":  # as AutoBitLinear computes it
            made.post_quant_process = lambda y, weight_scale, input_scale: y / input_scale * weight_scale
    else:
        made = was
        if kind == "ternary":
            made.weight.copy_(trits * scale)
        elif kind == "groups":
            scales = (0.03 + 0.04 * torch.rand(rows, columns // 128)).bfloat16().float()
            made.weight.copy_(trits * scales.repeat_interleave(128, 1))
    return made


def saved(model: Any, kind: Kind, folder: Path) -> tuple[Path, Any]:
    """The folder of a model, and the model whose logits it stands for."""
    if kind.make is not None:
        (folder / "source").mkdir(parents=True)
        write_texts(kind, folder / "source")
        made = kind.make(model, folder)
        write_texts(kind, folder)
        return folder, made
    model.save_pretrained(folder, max_shard_size=kind.shard)
    write_texts(kind, folder)
    if kind.quantization is not None:
        change_config(folder, quantization_config=kind.quantization)
    return folder, model


def write_texts(kind: Kind, folder: Path) -> None:
    """The tokenizer's files."""
    files: dict[str, Any]
    if kind.pre:
        files = text_files(kind.pre, kind.vocab, bos=kind.pre != "qwen2")
    elif kind.embedding:
        files = {
            "tokenizer.json": piece_tokenizer(kind.vocab),
            "tokenizer_config.json": {"bos_token": "<s>", "eos_token": "</s>"},
        }
    else:
        files = {"tokenizer.model": piece_model(kind.vocab)}
    for name, content in files.items():
        data = (
            content
            if isinstance(content, bytes)
            else (content if isinstance(content, str) else json.dumps(content)).encode()
        )
        (folder / name).write_bytes(data)


def change_config(folder: Path, **values: Any) -> None:
    """Change config.json; keys whose value is None are removed."""
    config = json.loads((folder / "config.json").read_text()) | values
    (folder / "config.json").write_text(json.dumps({key: each for key, each in config.items() if each is not None}))


def one_bit_llm(model: Any, folder: Path) -> Any:
    """1bitLLM's folders have a model class of their own: weights in F16, and other names for the inner norms."""
    deepcopy(model).half().save_pretrained(folder)
    tensors = load_file(folder / "model.safetensors")
    renamed = {}
    for name, values in tensors.items():
        layer, sign, rest = name.partition(".self_attn." if ".self_attn." in name else ".mlp.")
        module = f"{sign[1:]}{rest}".removesuffix(".weight")
        renamed[f"{layer}.{INNER[module]}.weight" if module in INNER else name] = values
    save_file(renamed, folder / "model.safetensors", {"format": "pt"})
    change_config(folder, architectures=["BitnetForCausalLM"], model_type="llama", weight_bits=1, input_bits=8)
    return model


def _onebitllms() -> ModuleType:
    """The converter of the package onebitllms, whose training layers import triton, which only machines with a GPU have."""
    if "onebitllms" not in sys.modules:
        absent = [name for name in ("triton", "triton.language") if name not in sys.modules]
        sys.modules |= dict.fromkeys(absent, MagicMock())
        try:
            import onebitllms  # noqa: F401
        finally:
            for name in absent:
                del sys.modules[name]
    from onebitllms.utils import quantization_utils

    return quantization_utils


def quantized_by_onebitllms(model: Any, folder: Path) -> Any:
    """The revision `main`: packed, with a reciprocal scale."""
    model.bfloat16().save_pretrained(folder / "source")
    _onebitllms().quantize_to_1bit(str(folder / "source"), str(folder))
    return _loaded(folder)


def floats_by_onebitllms(model: Any, folder: Path) -> Any:
    """The revision `bfloat16`: trits times their scale."""
    model.bfloat16().save_pretrained(folder / "source")
    _onebitllms().convert_to_bf16(str(folder / "source"), str(folder))
    return _loaded(folder)


def _loaded(folder: Path, name: str = "AutoModelForCausalLM") -> Any:
    found = getattr(transformers, name).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return found.eval()


def loaded(folder: Path, kind: Kind) -> Any:
    """What transformers makes of a folder."""
    return _loaded(folder, "AutoModel" if kind.embedding else "AutoModelForCausalLM")
