"""This module derives from a checkpoint what its GGUF file must hold, with code that is independent of the importer.

It is the slow twin of `checkpoints.writing`: names, conventions and orders are declared here again, as in transformers'
modules, and whole arrays are used. So a mistake of the importer, even in a table, is not repeated here.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec.quantization.mean import torch_mean
from i2s_spec.codec.weights import from_bfloat16
from i2s_spec.errors import quote

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.checkpoints.source.checkpoint_folder import CheckpointFolder
    from i2s_spec.convert.hugging_face.safetensors import Stored

#: Modules of a layer that are matrices, by the part of their GGUF names.
LINEAR: Final = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

#: Norms of a layer; of several modules, the first that the checkpoint has counts.
NORM: Final = {
    "attn_norm": ("input_layernorm",),
    "ffn_norm": ("pre_feedforward_layernorm", "post_attention_layernorm"),
    "attn_sub_norm": ("self_attn.attn_sub_norm", "self_attn.inner_attn_ln"),
    "ffn_sub_norm": ("mlp.ffn_sub_norm", "mlp.ffn_layernorm"),
    "attn_q_norm": ("self_attn.q_norm",),
    "attn_k_norm": ("self_attn.k_norm",),
}
#: Norms of models that also have norms on the residual terms (Gemma).
POST_NORM: Final = {"post_attention_norm": "post_attention_layernorm", "post_ffw_norm": "post_feedforward_layernorm"}

#: `general.architecture` for each class of transformers.
ARCHITECTURE: Final = {
    "BitNetForCausalLM": "bitnet-b1.58",
    "BitnetForCausalLM": "bitnet",
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Qwen3Model": "qwen3",
    "Gemma3TextModel": "gemma3",
    "Gemma3ForCausalLM": "gemma3",
}


class WitnessMatrix(NamedTuple):
    """A matrix in the form that the model uses: int8 trits [rows, cols], float32 scales [1, 1] or [rows, groups].

    :param rule: `packed`, `ternary`, `groups` or `absmean`
    """

    trits: NDArray[np.int8]
    scales: NDArray[np.float32]
    rule: str

    def weights(self) -> NDArray[np.float32]:
        """Trits times their scales, float32 [rows, cols]."""
        group = self.trits.shape[1] // self.scales.shape[1]
        scales = np.repeat(self.scales, group, axis=1) if self.scales.size > 1 else self.scales
        return self.trits * scales


class Witness:
    """A checkpoint, and what its GGUF file must hold.

    :param rule: `absmean` or `ternary`, if it was chosen by hand
    :param weight_scale: `multiply` or `divide`, if it was chosen by hand
    """

    def __init__(self, folder: CheckpointFolder, rule: str | None = None, weight_scale: str | None = None) -> None:
        self.folder = folder
        self.config = folder.config
        self.rule, self.weight_scale = rule, weight_scale
        self.prefix = "model." if "model.embed_tokens.weight" in folder.tensors else ""
        names = self.config.get("architectures") or [""]
        self.class_name = str(names[0])
        self.gemma = self.class_name.startswith("Gemma3")
        self.layers = int(self.config["num_hidden_layers"])

    @property
    def architecture(self) -> str | None:
        if self.class_name == "BitNetForCausalLM" and self.config.get("hidden_act") in ("silu", "swish"):
            return "bitnet"
        return ARCHITECTURE.get(self.class_name)

    @cached_property
    def heads(self) -> tuple[int, int, int]:
        """Query heads, key heads, width of a head."""
        many = int(self.config["num_attention_heads"])
        few = int(self.config.get("num_key_value_heads") or many)
        return many, few, int(self.config.get("head_dim") or self.config["hidden_size"] // many)

    @property
    def divides(self) -> bool:
        """Whether the weights of a packed module are its trits divided by `weight_scale`."""
        if self.weight_scale is not None:
            return self.weight_scale == "divide"
        about = self.config.get("quantization_config") or {}
        return str(about.get("linear_class", "bitlinear")) != "autobitlinear"

    def has(self, module: str, end: str = "weight") -> bool:
        return f"{self.prefix}{module}.{end}" in self.folder.tensors

    def is_packed(self, module: str) -> bool:
        """Whether a matrix, by its whole name, is packed: only then does it have a scale."""
        weight = self.folder.tensors.get(f"{module}.weight")
        return weight is not None and weight.dtype == "U8"

    def _stored(self, name: str) -> Stored:
        found = self.folder.tensors.get(name)
        if found is None:
            raise ValueError(f"the checkpoint has no tensor {quote(name)}")
        return found

    def floats(self, name: str, start: int = 0, stop: int | None = None) -> NDArray[np.float32]:
        """A float tensor, or rows `start` to `stop` of it, as float32.

        :param name: its name in the checkpoint, without `model.`
        """
        stored = self._stored(name if name.startswith("lm_head") else self.prefix + name)
        if stored.dtype not in ("BF16", "F16", "F32"):
            raise ValueError(f"tensor {quote(stored.name)} of the checkpoint is {quote(stored.dtype)}, not floats")
        rows = stored.shape[0] if stored.shape else 1
        stop = rows if stop is None else min(stop, rows)
        width = stored.nbytes // max(rows, 1)
        data = stored.read(start * width, stop * width)
        if stored.dtype == "BF16":
            found = from_bfloat16(np.frombuffer(data, "<u2"))
        else:
            found = np.frombuffer(data, {"F16": "<f2", "F32": "<f4"}[stored.dtype]).astype(np.float32)
        return found.reshape(stop - start, *stored.shape[1:])

    def matrix(self, module: str) -> WitnessMatrix:
        """The matrix of a module, with its rows in the checkpoint's order.

        :param module: the name of the module, without `model.`
        :raises ValueError: for floats that no rule converts to trits
        """
        stored = self._stored(f"{self.prefix}{module}.weight")
        if stored.dtype == "U8":
            data = np.frombuffer(stored.read(), np.uint8).reshape(stored.shape)
            parts = [((data >> np.uint8(2 * part)) & np.uint8(3)).astype(np.int8) - np.int8(1) for part in range(4)]
            found = np.float32(self.floats(f"{module}.weight_scale").reshape(-1)[0])
            if not np.isfinite(found) or found <= 0:
                raise ValueError(f"the weight_scale of {quote(module)} is {found}, not a positive number")
            with np.errstate(over="ignore"):
                scale = np.float32(1.0 / float(found)) if self.divides else found
            return WitnessMatrix(np.concatenate(parts), np.full((1, 1), scale, np.float32), "packed")
        weights = self.floats(f"{module}.weight")
        if self.rule == "absmean":
            return absmean(weights)
        size = np.abs(weights)
        if not size.any() and self.rule is None:
            return absmean(weights)  # a matrix of zeros fits every rule
        for group in (weights.size, weights.shape[1], 256, 128, 64, 32):
            if weights.size % group or (group < weights.size and weights.shape[1] % group):
                continue
            blocks = size.reshape(-1, group)
            scales = blocks.max(axis=1)
            if ((blocks == 0) | (blocks == scales[:, None])).all():
                shape = (1, 1) if group == weights.size else (len(weights), -1)
                return WitnessMatrix(np.sign(weights).astype(np.int8), scales.reshape(shape),
                                     "ternary" if group == weights.size else "groups")  # fmt: skip
        if self.rule == "ternary":
            raise ValueError(f"{quote(module)} is not ternary")
        return absmean(weights)

    def permuted(self, word: str, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows of queries and keys in the order of the file: in files of `llama` the two halves of a head alternate."""
        if self.architecture != "llama" or word not in ("attn_q", "attn_k"):
            return rows
        heads = self.heads[0] if word == "attn_q" else self.heads[1]
        half = len(rows) // heads // 2
        order = [
            head * 2 * half + part * half + pair for head in range(heads) for pair in range(half) for part in (0, 1)
        ]
        found: NDArray[Any] = rows[order]
        return found

    def expected(self) -> dict[str, str]:
        """The tensors that the file must have: their names, each with its module (without `model.`)."""
        found = {"token_embd.weight": "embed_tokens", "output_norm.weight": "norm"}
        if self.untied:
            found["output.weight"] = "lm_head"
        for layer in range(self.layers):
            for word, module in LINEAR.items():
                found[f"blk.{layer}.{word}.weight"] = f"layers.{layer}.{module}"
                if self.has(f"layers.{layer}.{module}", "bias"):
                    found[f"blk.{layer}.{word}.bias"] = f"layers.{layer}.{module}"
                if self.has(f"layers.{layer}.{module}.rms_norm"):
                    found[f"blk.{layer}.{word}_norm_in.weight"] = f"layers.{layer}.{module}.rms_norm"
            for word, modules in NORM.items():
                module = next((each for each in modules if self.has(f"layers.{layer}.{each}")), "")
                if module:
                    found[f"blk.{layer}.{word}.weight"] = f"layers.{layer}.{module}"
            if self.has(f"layers.{layer}.pre_feedforward_layernorm"):
                found |= {
                    f"blk.{layer}.{word}.weight": f"layers.{layer}.{module}" for word, module in POST_NORM.items()
                }
        return found

    @cached_property
    def untied(self) -> bool:
        """Whether the head is a separate table."""
        head = self.folder.tensors.get("lm_head.weight")
        if head is None or self.config.get("tie_word_embeddings"):
            return False
        return not self.class_name.startswith(("BitNet", "Bitnet"))

    def used(self) -> set[str]:
        """The tensors of the checkpoint that the model uses."""
        derived = ("rotary_emb.inv_freq",)
        return {name for name in self.folder.tensors if not name.endswith(derived)}

    def gains(self, module: str) -> NDArray[np.float32]:
        """The gains of a norm as factors: Gemma stores them minus 1, except for norms inside projections."""
        gain = self.floats(f"{module}.weight")
        return gain + np.float32(1) if self.gemma and not module.endswith(".rms_norm") else gain


def absmean(weights: NDArray[np.float32]) -> WitnessMatrix:
    """round(w / m), ties to even, cut to -1..+1, with m the mean of |w| as summed by PyTorch, at least 1e-5."""
    flat = weights.reshape(-1)
    mean = np.maximum(torch_mean(lambda start, stop: np.abs(flat[start:stop]), flat.size), np.float32(1e-5))
    gain = np.float32(1) / mean
    trits = np.clip(np.round(weights * gain), -1, 1).astype(np.int8)
    return WitnessMatrix(trits, np.full((1, 1), np.float32(1) / gain, np.float32), "absmean")
