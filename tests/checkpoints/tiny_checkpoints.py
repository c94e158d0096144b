"""Tiny checkpoints of every family, built by hand: config.json, safetensors, tokenizer; random weights from a seed."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from i2s_spec.convert.made_up_vocabulary import byte_level, sentence_pieces
from i2s_spec.model.tokenizer.byte_level import BY_NAME
from i2s_spec.safetensors.files import NewTensor, write_checkpoint

LLAMA_TEMPLATE = "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}<|eot_id|>{% endfor %}"

Tensors = dict[str, tuple[str, NDArray[Any]]]


@dataclass
class Tiny:
    """A checkpoint in memory: config, tensors as (dtype, words), and the other files."""

    config: dict[str, Any]
    tensors: Tensors
    files: dict[str, Any] = field(default_factory=dict)
    shards: int = 1

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config))
        for name, content in self.files.items():
            if isinstance(content, bytes):
                (folder / name).write_bytes(content)
            else:
                (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
        names = sorted(self.tensors)
        index = {}
        for shard in range(self.shards):
            part = names[shard :: self.shards]
            name = "model.safetensors" if self.shards == 1 else f"model-{shard + 1:05}-of-{self.shards:05}.safetensors"
            new = [NewTensor(each, *self._described(each)) for each in part]
            write_checkpoint(folder / name, new, force=True)
            index |= dict.fromkeys(part, name)
        if self.shards > 1:
            text = json.dumps({"metadata": {}, "weight_map": index})
            (folder / "model.safetensors.index.json").write_text(text)
        return folder

    def _described(self, name: str) -> tuple[str, tuple[int, ...], Callable[[], Any]]:
        dtype, words = self.tensors[name]
        return dtype, words.shape, lambda: [words.tobytes()]


def bfloat16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def stored(values: NDArray[np.float32], dtype: str) -> tuple[str, NDArray[Any]]:
    if dtype == "BF16":
        return dtype, bfloat16(values)
    return dtype, values.astype("<f2" if dtype == "F16" else "<f4")


def packed(trits: NDArray[np.int8]) -> NDArray[np.uint8]:
    """As transformers packs: four blocks of rows, two bits each."""
    codes = (trits + 1).astype(np.uint8).reshape(4, -1, trits.shape[1])
    return codes[0] | codes[1] << 2 | codes[2] << 4 | codes[3] << 6


def byte_tokenizer(vocab: int, pre: str, *, bos: bool = True, pads: int = 0) -> dict[str, Any]:
    words = byte_level(vocab - pads)
    special = [i for i, kind in enumerate(words.types) if kind == 3]
    model = {token: i for i, token in enumerate(words.tokens) if i not in special}
    splits = [
        {"type": "Split", "pattern": {"Regex": each}, "behavior": "Isolated", "invert": False}
        for each in BY_NAME[pre].splits
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    first = words.tokens[words.ids["bos"]]
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": first, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {first: {"id": first, "ids": [words.ids["bos"]], "tokens": [first]}},
    }
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "decoder": {**level},
        "added_tokens": [{"id": i, "content": words.tokens[i], **flags} for i in special],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, level]},
        "post_processor": template if bos else None,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": BY_NAME[pre].ignore_merges, "vocab": model, "merges": list(words.merges),
        },
    }  # fmt: skip


def piece_tokenizer(vocab: int) -> dict[str, Any]:
    """A tokenizer.json of pieces with bytes, like Gemma's: merges in the order of the tokens that they form."""
    pieces = sentence_pieces(vocab)
    model = {token: i for i, token in enumerate(pieces.tokens)}
    merges = []
    for token in pieces.tokens[259:]:
        for at in range(1, len(token)):
            if token[:at] in model and token[at:] in model:
                merges.append([token[:at], token[at:]])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": pieces.tokens[i], **flags} for i in range(3)],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, "pre_tokenizer": None,
        "decoder": None,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "model": {
            "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
            "vocab": model, "merges": merges,
        },
    }  # fmt: skip


def _field(number: int, wire: int, value: bytes) -> bytes:
    key = bytes([number << 3 | wire])
    if wire != 2:
        return key + value
    size, length = len(value), b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return key + length + bytes([size]) + value


def piece_model(vocab: int) -> bytes:
    """A tokenizer.model, as SentencePiece writes it."""
    pieces = sentence_pieces(vocab)
    made = b""
    for token, score, kind in zip(pieces.tokens, pieces.scores, pieces.types, strict=True):
        piece = _field(1, 2, token.encode()) + _field(2, 5, struct.pack("<f", score)) + _field(3, 0, bytes([kind]))
        made += _field(1, 2, piece)
    return made + _field(3, 2, _field(3, 0, b"\1"))


PROJECTIONS = {
    "self_attn.q_proj": ("q", "embd"), "self_attn.k_proj": ("k", "embd"), "self_attn.v_proj": ("k", "embd"),
    "self_attn.o_proj": ("embd", "q"), "mlp.gate_proj": ("ff", "embd"), "mlp.up_proj": ("ff", "embd"),
    "mlp.down_proj": ("embd", "ff"),
}  # fmt: skip


class Maker:
    """Random tensors of a checkpoint."""

    def __init__(self, seed: int, dtype: str, sizes: Mapping[str, int], prefix: str = "model.") -> None:
        self.random = np.random.default_rng(seed)
        self.dtype, self.sizes, self.prefix = dtype, sizes, prefix
        self.tensors: Tensors = {}

    def add(self, name: str, values: NDArray[np.float32], dtype: str | None = None) -> None:
        self.tensors[name] = stored(values.astype(np.float32), dtype or self.dtype)

    def norm(self, name: str, width: int, centre: float = 1.0) -> None:
        self.add(name, (centre + 0.2 * self.random.standard_normal(width)).astype(np.float32))

    def trits(self, shape: tuple[int, int]) -> NDArray[np.int8]:
        return self.random.choice(np.array([-1, 0, 1], dtype=np.int8), size=shape, p=[0.32, 0.36, 0.32])

    def matrix(self, module: str, shape: tuple[int, int], kind: str) -> None:
        scale = np.float32(0.05 * (1 + self.random.random()))
        if kind == "packed":
            self.tensors[f"{module}.weight"] = ("U8", packed(self.trits(shape)))
            self.add(f"{module}.weight_scale", np.array([scale]), "BF16")
        elif kind == "inverse":
            self.tensors[f"{module}.weight"] = ("U8", packed(self.trits(shape)))
            self.add(f"{module}.weight_scale", np.array([1 / scale]), "BF16")
        elif kind == "latent":
            self.add(f"{module}.weight", self.random.standard_normal(shape).astype(np.float32) * scale)
        elif kind == "ternary":
            self.add(f"{module}.weight", self.trits(shape) * np.float32(np.float16(scale)))
        elif kind == "groups":
            scales = (0.05 * (1 + self.random.random((shape[0], shape[1] // 128)))).astype(np.float16)
            self.add(f"{module}.weight", self.trits(shape) * np.repeat(scales, 128, axis=1).astype(np.float32), "F16")

    def model(
        self, kind: str, norms: Mapping[str, str], *, tied: bool, norm_in: bool = False, centre: float = 1.0
    ) -> Tensors:
        """:param norms: modules of a layer and the words of their widths"""
        s, p = self.sizes, self.prefix
        widths = {
            "embd": s["embd"], "ff": s["ff"], "q": s["heads"] * s["head_dim"], "k": s["heads_kv"] * s["head_dim"],
            "head": s["head_dim"],
        }  # fmt: skip
        self.add(f"{p}embed_tokens.weight", self.random.standard_normal((s["vocab"], s["embd"])).astype(np.float32))
        if not tied:
            self.add("lm_head.weight", self.random.standard_normal((s["vocab"], s["embd"])).astype(np.float32))
        self.norm(f"{p}norm.weight", s["embd"], centre)
        for layer in range(s["layers"]):
            for module, (rows, cols) in PROJECTIONS.items():
                name = f"{p}layers.{layer}.{module}"
                self.matrix(name, (widths[rows], widths[cols]), kind)
                if norm_in:
                    self.norm(f"{name}.rms_norm.weight", widths[cols])
            for module, width in norms.items():
                self.norm(f"{p}layers.{layer}.{module}.weight", widths[width], centre)
        return self.tensors


SIZES = {"layers": 2, "embd": 128, "ff": 256, "heads": 4, "heads_kv": 2, "head_dim": 32, "vocab": 384}
NORMS = {"input_layernorm": "embd", "post_attention_layernorm": "embd"}
SUB_NORMS = {**NORMS, "self_attn.attn_sub_norm": "q", "mlp.ffn_sub_norm": "ff"}
INNER_NORMS = {**NORMS, "self_attn.inner_attn_ln": "q", "mlp.ffn_layernorm": "ff"}
QWEN_NORMS = {**NORMS, "self_attn.q_norm": "head", "self_attn.k_norm": "head"}
GEMMA_NORMS = {**QWEN_NORMS, "pre_feedforward_layernorm": "embd", "post_feedforward_layernorm": "embd"}


def config_of(architecture: str, model_type: str, act: str, **more: Any) -> dict[str, Any]:
    s = SIZES
    return {
        "architectures": [architecture], "model_type": model_type, "hidden_act": act, "vocab_size": s["vocab"],
        "hidden_size": s["embd"], "intermediate_size": s["ff"], "num_hidden_layers": s["layers"],
        "num_attention_heads": s["heads"], "num_key_value_heads": s["heads_kv"], "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, **more,
    }  # fmt: skip


def text_files(pre: str, vocab: int, *, bos: bool = True, pads: int = 0) -> dict[str, Any]:
    words = byte_level(vocab - pads)
    first, last = (words.tokens[words.ids[key]] for key in ("bos", "eos"))
    return {
        "tokenizer.json": byte_tokenizer(vocab, pre, bos=bos, pads=pads),
        "tokenizer_config.json": {"bos_token": first, "eos_token": last, "chat_template": LLAMA_TEMPLATE},
        "generation_config.json": {"eos_token_id": [words.ids["eos"], words.ids["eot"]], "bos_token_id": words.ids["bos"]},
        "README.md": "---\nlicense: mit\nlanguage:\n- en\n---\n# A model\n",
    }  # fmt: skip


def _bitnet(kind: str, dtype: str, seed: int, mode: str, linear: str) -> Tiny:
    quantization = {"quant_method": "bitnet", "linear_class": linear, "quantization_mode": mode}
    config = config_of(
        "BitNetForCausalLM", "bitnet", "relu2", tie_word_embeddings=True, quantization_config=quantization
    )
    tensors = Maker(seed, dtype, SIZES).model(kind, SUB_NORMS, tied=True)
    return Tiny(config, tensors, text_files("llama-bpe", SIZES["vocab"]))


def packed_2b4t(seed: int = 1) -> Tiny:
    return _bitnet("packed", "BF16", seed, "offline", "autobitlinear")


def bf16_2b4t(seed: int = 2) -> Tiny:
    return _bitnet("latent", "BF16", seed, "online", "autobitlinear")


def one_bit_llm(seed: int = 3, vocab: int = 384) -> Tiny:
    config = config_of(
        "BitnetForCausalLM", "llama", "silu", tie_word_embeddings=True, weight_bits=1, input_bits=8, bos_token_id=1,
        eos_token_id=2, vocab_size=vocab,
    )  # fmt: skip
    config["rope_theta"] = 10000.0
    tensors = Maker(seed, "F16", {**SIZES, "vocab": vocab}).model("latent", INNER_NORMS, tied=True)
    return Tiny(config, tensors, {"tokenizer.model": piece_model(vocab)})


def llama3(seed: int = 4) -> Tiny:
    config = config_of(
        "LlamaForCausalLM", "llama", "silu", tie_word_embeddings=False, is_bitnet_config=True,
        quantization_config={"quant_method": "bitnet", "modules_to_not_convert": None},
    )  # fmt: skip
    return Tiny(config, Maker(seed, "BF16", SIZES).model("inverse", NORMS, tied=False),
                text_files("llama-bpe", SIZES["vocab"]), shards=3)  # fmt: skip


def falcon3(seed: int = 5) -> Tiny:
    tiny = llama3(seed)
    tiny.config["quantization_config"]["modules_to_not_convert"] = ["lm_head"]
    tiny.config["rope_theta"] = 1000042
    tiny.shards = 1
    return tiny


def falcon_e(seed: int = 6, kind: str = "inverse") -> Tiny:
    tiny = llama3(seed)
    tiny.shards = 1
    tiny.tensors = Maker(seed, "BF16", SIZES).model(kind, NORMS, tied=False)
    if kind == "ternary":
        del tiny.config["quantization_config"], tiny.config["is_bitnet_config"]
    return tiny


def plain_llama(seed: int = 7) -> Tiny:
    config = config_of("LlamaForCausalLM", "llama", "silu", tie_word_embeddings=False)
    return Tiny(config, Maker(seed, "F16", SIZES).model("ternary", NORMS, tied=False),
                text_files("llama-bpe", SIZES["vocab"]))  # fmt: skip


def embedding_qwen3(seed: int = 8) -> Tiny:
    config = config_of("Qwen3Model", "qwen3", "silu", tie_word_embeddings=True, head_dim=64)
    tensors = Maker(seed, "BF16", {**SIZES, "head_dim": 64}, prefix="").model(
        "latent", QWEN_NORMS, tied=True, norm_in=True
    )
    return Tiny(config, tensors, text_files("qwen2", SIZES["vocab"], bos=False, pads=4))


def embedding_gemma3(seed: int = 9) -> Tiny:
    config = config_of(
        "Gemma3TextModel", "gemma3_text", "", tie_word_embeddings=True, head_dim=64, query_pre_attn_scalar=64,
        hidden_activation="gelu_pytorch_tanh", layer_types=["full_attention"] * 2,
    )  # fmt: skip
    del config["hidden_act"]
    sizes = {**SIZES, "head_dim": 64}
    tensors = Maker(seed, "BF16", sizes, prefix="").model("latent", GEMMA_NORMS, tied=True, norm_in=True, centre=0.0)
    settings = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return Tiny(config, tensors, {"tokenizer.json": piece_tokenizer(384), "tokenizer_config.json": settings})


def bonsai(seed: int = 10) -> Tiny:
    config = config_of("Qwen3ForCausalLM", "qwen3", "silu", tie_word_embeddings=True, head_dim=64)
    tensors = Maker(seed, "F16", {**SIZES, "head_dim": 64}).model("groups", QWEN_NORMS, tied=True)
    return Tiny(config, tensors, text_files("qwen2", SIZES["vocab"], bos=False, pads=4))


def weight_only(seed: int = 11) -> Tiny:
    config = config_of("Qwen2ForCausalLM", "qwen2", "silu", tie_word_embeddings=True)
    maker = Maker(seed, "F16", SIZES)
    tensors = maker.model("ternary", NORMS, tied=True)
    for layer in range(SIZES["layers"]):
        for word, rows in (("q", 128), ("k", 64), ("v", 64)):
            maker.norm(f"model.layers.{layer}.self_attn.{word}_proj.bias", rows, 0.0)
    return Tiny(config, tensors, text_files("qwen2", SIZES["vocab"], bos=False, pads=4))


def qwen35(seed: int = 12, kind: str = "ternary") -> Tiny:
    """A delta net with two value heads to each key head, and a layer with attention."""
    config = config_of(
        "Qwen3_5ForCausalLM", "qwen3_5_text", "silu", tie_word_embeddings=False, head_dim=32, linear_conv_kernel_dim=4,
        linear_key_head_dim=32, linear_value_head_dim=32, linear_num_key_heads=2, linear_num_value_heads=4,
        layer_types=["linear_attention", "full_attention"],
        rope_parameters={
            "rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1],
        },
    )  # fmt: skip
    maker = Maker(seed, "F16", SIZES)
    tensors = maker.model(kind, NORMS, tied=False, centre=0.0)
    tensors = {name: each for name, each in tensors.items() if not name.startswith("model.layers.0.self_attn")}
    maker.tensors = tensors
    maker.matrix("model.layers.1.self_attn.q_proj", (256, 128), kind)
    for word in "qk":
        maker.norm(f"model.layers.1.self_attn.{word}_norm.weight", 32, 0.0)
    net = "model.layers.0.linear_attn"
    for module, shape in (("in_proj_qkv", (256, 128)), ("in_proj_z", (128, 128)), ("out_proj", (128, 128))):
        maker.matrix(f"{net}.{module}", shape, kind)
    for module in ("in_proj_a", "in_proj_b"):
        maker.matrix(f"{net}.{module}", (4, 128), "latent" if kind == "ternary" else kind)
    for name, shape in (("conv1d.weight", (256, 1, 4)), ("A_log", (4,)), ("dt_bias", (4,))):
        maker.add(f"{net}.{name}", maker.random.standard_normal(shape).astype(np.float32))
    maker.norm(f"{net}.norm.weight", 32)
    return Tiny(config, tensors, text_files("qwen35", SIZES["vocab"], bos=False, pads=4))


#: Small checkpoints with the name of the family that must be detected.
TINY: dict[str, tuple[str, Callable[[], Tiny]]] = {
    "2b4t-packed": ("bitnet-2b4t", packed_2b4t),
    "2b4t-bf16": ("bitnet-2b4t", bf16_2b4t),
    "1bitllm": ("1bitllm", one_bit_llm),
    "llama3": ("hf1bitllm", llama3),
    "falcon3": ("hf1bitllm", falcon3),
    "falcon-e": ("hf1bitllm", falcon_e),
    "falcon-e-prequantized": ("hf1bitllm", lambda: falcon_e(12, "latent")),
    "falcon-e-bfloat16": ("ternary-llama", lambda: falcon_e(13, "ternary")),
    "plain-llama": ("ternary-llama", plain_llama),
    "embedding-qwen3": ("bitnet-embedding-qwen3", embedding_qwen3),
    "embedding-gemma3": ("bitnet-embedding-gemma3", embedding_gemma3),
    "bonsai": ("ternary-qwen3", bonsai),
    "weight-only": ("ternary-qwen2", weight_only),
    "qwen35": ("ternary-qwen35", qwen35),
}

#: The import type of checkpoints that I2_S cannot hold.
TYPE = {"bonsai": "Q2_0"}
