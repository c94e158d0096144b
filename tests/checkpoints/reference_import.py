"""What a GGUF file must hold by its checkpoint, and what the checkpoint computes, by code independent of the importer.

It is the slow twin of an import: names, conventions and orders are declared here again, as in transformers' modules,
and whole arrays are used. So a mistake of the importer, even in a table, is not repeated here. `Witness` derives the
tensors, `differences` compares a file with them, `CheckpointForward` computes the logits.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.codec.change_groups import BLOCK_TYPES
from i2s_spec.codec.quantize import torch_mean
from i2s_spec.codec.shape import from_bfloat16, to_bfloat16
from i2s_spec.errors import SettingError, counted, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from i2s_spec.checkpoints.folder import CheckpointFolder
    from i2s_spec.gguf.reader import File
    from i2s_spec.safetensors.files import Stored

    Floats = NDArray[np.float32]

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

#: Those of a gated delta net (Qwen3.5), which take the place of attention in most layers.
NET_LINEAR: Final = {
    "attn_qkv": "linear_attn.in_proj_qkv",
    "attn_gate": "linear_attn.in_proj_z",
    "ssm_alpha": "linear_attn.in_proj_a",
    "ssm_beta": "linear_attn.in_proj_b",
    "ssm_out": "linear_attn.out_proj",
}
#: The other tensors of a delta net, by their whole names.
NET_FLOATS: Final = {
    "ssm_a": "linear_attn.A_log",
    "ssm_dt.bias": "linear_attn.dt_bias",
    "ssm_conv1d.weight": "linear_attn.conv1d.weight",
    "ssm_norm.weight": "linear_attn.norm.weight",
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
QWEN35_NORM: Final = {
    "attn_norm": ("input_layernorm",),
    "post_attention_norm": ("post_attention_layernorm",),
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
    "Qwen3_5ForCausalLM": "qwen35",
    "Qwen3_5ForConditionalGeneration": "qwen35",
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
        prefixes = ("model.language_model.", "model.")
        self.prefix = next((each for each in prefixes if f"{each}embed_tokens.weight" in folder.tensors), "")
        names = self.config.get("architectures") or [""]
        self.class_name = str(names[0])
        self.gemma = self.class_name.startswith("Gemma3")
        self.qwen35 = self.class_name.startswith("Qwen3_5") and "linear_num_value_heads" in self.config
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

    @cached_property
    def rope(self) -> tuple[Mapping[str, Any], float, str]:
        """What config.json says of the scaling of positions, the base of rotation, and the kind of the scaling."""
        about = self.config.get("rope_parameters") or self.config.get("rope_scaling") or {}
        about = about.get("full_attention", about)
        base = about.get("rope_theta")
        base = self.config.get("rope_theta") if base is None else base
        return about, 10000.0 if base is None else float(base), about.get("rope_type", about.get("type", "default"))

    @cached_property
    def net_heads(self) -> tuple[int, int, int]:
        """Key heads and value heads of delta nets, and their width."""
        names = ("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim")
        keys, values, width = (int(self.config[name]) for name in names)
        return keys, values, width

    def is_net(self, layer: int) -> bool:
        """Whether a layer has a gated delta net in the place of attention."""
        if not self.qwen35:
            return False
        kinds = self.config.get("layer_types")
        if kinds is None:
            return bool((layer + 1) % int(self.config.get("full_attention_interval") or 4))
        return bool(kinds[layer] == "linear_attention")

    def linear(self, layer: int) -> dict[str, str]:
        """Return the matrices of a layer."""
        if not self.is_net(layer):
            return LINEAR
        return {**NET_LINEAR, **{word: module for word, module in LINEAR.items() if module.startswith("mlp.")}}

    def is_ternary(self, word: str, module: str) -> bool:
        """Whether the model computes with the trits of a matrix; gates stay floats unless they are quantized like all."""
        if word not in ("ssm_alpha", "ssm_beta"):
            return word in LINEAR or word in NET_LINEAR
        online = (self.config.get("quantization_config") or {}).get("quantization_mode") == "online"
        return online or self.is_packed(self.prefix + module)

    @property
    def rotated(self) -> int:
        """How many elements of a head are rotated."""
        if not self.qwen35:
            return self.heads[2]
        share = self.rope[0].get("partial_rotary_factor", self.config.get("partial_rotary_factor"))
        return int(self.heads[2] * (0.25 if share is None else share))

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
        """Return a float tensor, or rows `start` to `stop` of it, as float32.

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
        """Return the matrix of a module, with its rows in the checkpoint's order.

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
        """Rows in the order of the file: in files of `llama` the two halves of a head of queries or keys alternate, and in
        those of `qwen35` value heads of all key heads do. `ssm_out` has a column for each row of values."""
        if self.qwen35:
            order = self.value_order(word, rows.shape[1 if word == "ssm_out" else 0])
            if order is not None:
                rows = rows[:, order] if word == "ssm_out" else rows[order]
            return rows
        if self.architecture != "llama" or word not in ("attn_q", "attn_k"):
            return rows
        heads = self.heads[0] if word == "attn_q" else self.heads[1]
        half = len(rows) // heads // 2
        order = [
            head * 2 * half + part * half + pair for head in range(heads) for pair in range(half) for part in (0, 1)
        ]
        found: NDArray[Any] = rows[order]
        return found

    def value_order(self, word: str, count: int) -> list[int] | None:
        """Return the places in the checkpoint of the rows of a tensor of a delta net; None if they are the same in
        the file.

        :raises ValueError: for another number of rows than config.json gives
        """
        if word not in ("attn_qkv", "ssm_conv1d", "attn_gate", "ssm_out", "ssm_alpha", "ssm_beta", "ssm_a", "ssm_dt"):
            return None
        keys, values, width = self.net_heads
        size = width if word in ("attn_qkv", "ssm_conv1d", "attn_gate", "ssm_out") else 1
        first = 2 * keys * width if word in ("attn_qkv", "ssm_conv1d") else 0
        if first + values * size != count:
            raise ValueError(f"{counted(count, 'row')} of value heads, and config.json gives {first + values * size:,}")
        share = values // keys
        heads = [key * share + turn for turn in range(share) for key in range(keys)]
        return [*range(first), *(first + head * size + part for head in heads for part in range(size))]

    def in_file_order(self, word: str, matrix: WitnessMatrix) -> WitnessMatrix:
        """Return a matrix as the file has it; a scale that several heads of columns share is repeated for each."""
        scales, (_, columns) = matrix.scales, matrix.trits.shape
        if word == "ssm_out" and self.qwen35:
            if scales.shape[1] > 1:
                unit = math.gcd(columns // scales.shape[1], self.net_heads[2])
                scales = self.permuted(word, np.repeat(scales, columns // scales.shape[1], axis=1))[:, ::unit]
        elif len(scales) > 1:
            scales = self.permuted(word, scales)
        return matrix._replace(trits=self.permuted(word, matrix.trits), scales=scales)

    def net_floats(self, word: str, name: str) -> NDArray[np.float32]:
        """Return a tensor of a delta net that is no matrix, as the file has it."""
        values = self.floats(name)
        if word == "ssm_a":
            with np.errstate(over="ignore"):
                values = (np.exp(values.astype(np.float64)) * -1).astype(np.float32)
        return self.permuted(word, values.reshape(len(values), -1) if values.ndim > 1 else values)

    def expected(self) -> dict[str, str]:
        """Return the tensors that the file must have: their names, each with its module (without `model.`), or with
        the whole name of a parameter that is no weight or bias of one."""
        found = {"token_embd.weight": "embed_tokens", "output_norm.weight": "norm"}
        if self.untied:
            found["output.weight"] = "lm_head"
        for layer in range(self.layers):
            for word, module in self.linear(layer).items():
                found[f"blk.{layer}.{word}.weight"] = f"layers.{layer}.{module}"
                if self.has(f"layers.{layer}.{module}", "bias"):
                    found[f"blk.{layer}.{word}.bias"] = f"layers.{layer}.{module}"
                if self.has(f"layers.{layer}.{module}.rms_norm"):
                    found[f"blk.{layer}.{word}_norm_in.weight"] = f"layers.{layer}.{module}.rms_norm"
            if self.is_net(layer):
                found |= {f"blk.{layer}.{word}": f"layers.{layer}.{name}" for word, name in NET_FLOATS.items()}
            for word, modules in (QWEN35_NORM if self.qwen35 else NORM).items():
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

    def gains(self, module: str) -> NDArray[np.float32]:
        """Return the gains of a norm as factors: Gemma and Qwen3.5 store them minus 1, except for norms inside
        projections and delta nets."""
        gain = self.floats(f"{module}.weight")
        less = (self.gemma and not module.endswith(".rms_norm")) or (self.qwen35 and "linear_attn" not in module)
        return gain + np.float32(1) if less else gain


def absmean(weights: NDArray[np.float32]) -> WitnessMatrix:
    """round(w / m), ties to even, cut to -1..+1, with m the mean of |w| as summed by PyTorch, at least 1e-5."""
    flat = weights.reshape(-1)
    mean = np.maximum(torch_mean(lambda start, stop: np.abs(flat[start:stop]), flat.size), np.float32(1e-5))
    gain = np.float32(1) / mean
    trits = np.clip(np.round(weights * gain), -1, 1).astype(np.int8)
    return WitnessMatrix(trits, np.full((1, 1), np.float32(1) / gain, np.float32), "absmean")


def differences(file: File, witness: Witness) -> list[str]:
    """Return the tensors of a file that are not those of its checkpoint, rounded to the types of the file."""
    expected = witness.expected()
    found = [name for name in {*expected, *file.tensors} if (name in expected) != (name in file.tensors)]
    for name, module in expected.items():
        if name in file.tensors:
            tensor, want = file.tensors[name], _wanted(name, module, witness)
            kind = tensor.type.name if tensor.type is not None else ""
            if not np.array_equal(tensor.dequantize(), _rounded(want, kind)):
                found.append(name)
    return sorted({*found} - {"rope_freqs.weight"})


def _wanted(name: str, module: str, witness: Witness) -> Floats:
    """Return a tensor of the file as floats; where it stores trits, their scales are rounded to its type later."""
    word, _, end = name.rpartition(".")
    word, whole = word.rpartition(".")[2], name.split(".", 2)[-1]
    if end == "weight" and witness.is_ternary(word, module):
        return witness.in_file_order(word, witness.matrix(module)).weights()
    if whole in NET_FLOATS:
        return witness.net_floats(whole.partition(".")[0], module)
    if end == "weight" and "norm" in word:
        return witness.gains(module)
    return witness.permuted(word, witness.floats(f"{module}.{end}"))


def _rounded(values: Floats, kind: str) -> Floats:
    """Return floats in the precision of a type, whose scales may be halves."""
    if kind == "F16" or (kind in BLOCK_TYPES and BLOCK_TYPES[kind].scale.type == "F16"):
        return values.astype(np.float16).astype(np.float32)
    return from_bfloat16(to_bfloat16(values)) if kind == "BF16" else values


# --- checkpoint forward ----------------------------------------------------------------------------------------------
# A checkpoint runs like in transformers in float32, layer by layer, from its own tensors: no GGUF file is read, and no
# activation is quantized. Queries and keys are rotated in halves, in the order of the checkpoint.

#: Rows of the head that are read at once.
_ROWS: Final = 8192

_F32 = np.float32

_WORDS: Final = {module: word for word, module in {**LINEAR, **NET_LINEAR}.items()}


class CheckpointForward:
    """The forward pass of a checkpoint.

    :param witness: the object that reads its tensors
    :param table: rounds the embedding and the head to the precision of a file
    """

    def __init__(self, witness: Witness, table: Callable[[Floats], Floats] = lambda values: values) -> None:
        self.witness = witness
        self.config = witness.config
        self.table = table
        self.eps = _F32(self.config["rms_norm_eps"])
        self.heads, self.heads_kv, self.width = witness.heads

    def hidden(self, tokens: Sequence[int]) -> Floats:
        """Return the output of the last norm, float32 [tokens, hidden size]."""
        w = self.witness
        x = np.concatenate([self.table(w.floats("embed_tokens.weight", token, token + 1)) for token in tokens])
        if w.gemma:
            x = x * _F32(np.sqrt(self.config["hidden_size"]))
        cos, sin = self._angles(len(tokens))
        for layer in range(w.layers):
            at = f"layers.{layer}"
            a = self._rms(x, f"{at}.input_layernorm")
            o = self._delta_net(a, at) if w.is_net(layer) else self._attention(a, at, cos, sin)
            if w.gemma:
                x = x + self._rms(o, f"{at}.post_attention_layernorm")
                b = self._rms(x, f"{at}.pre_feedforward_layernorm")
                x = x + self._rms(self._mlp(b, at), f"{at}.post_feedforward_layernorm")
            else:
                x = x + o
                x = x + self._mlp(self._rms(x, f"{at}.post_attention_layernorm"), at)
        return self._rms(x, "norm")

    def logits(self, hidden: Floats) -> Floats:
        """Return the products with every row of the head, float32 [tokens, vocabulary]."""
        name = "lm_head.weight" if self.witness.untied else "embed_tokens.weight"
        count = int(self.config["vocab_size"])
        parts = [
            hidden @ self.table(self.witness.floats(name, start, start + _ROWS)).T for start in range(0, count, _ROWS)
        ]
        return np.concatenate(parts, axis=1)

    def _rms(self, x: Floats, module: str) -> Floats:
        with np.errstate(all="ignore"):  # weights may be infinite or NaN; the results are compared and reported
            normed = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True, dtype=np.float32) + self.eps)
            return (normed * self.witness.gains(module)).astype(np.float32)

    def _linear(self, x: Floats, module: str) -> Floats:
        w = self.witness
        if w.has(f"{module}.rms_norm"):
            x = self._rms(x, f"{module}.rms_norm")
        if not w.is_ternary(_WORDS.get(module.partition(".")[2].partition(".")[2], ""), module):
            return x @ w.floats(f"{module}.weight").T
        y = x @ w.matrix(module).weights().T
        if w.has(module, "bias"):
            y = y + w.floats(f"{module}.bias")
        return y.astype(np.float32)

    def _attention(self, a: Floats, at: str, cos: Floats, sin: Floats) -> Floats:
        w, count = self.witness, len(a)
        q, k, v = (self._linear(a, f"{at}.self_attn.{word}_proj") for word in "qkv")
        gate = None
        if w.qwen35:
            q, gate = np.split(q.reshape(count, self.heads, -1), 2, axis=2)
        q, k, v = (each.reshape(count, -1, self.width) for each in (q, k, v))
        if w.has(f"{at}.self_attn.q_norm"):
            q, k = self._rms(q, f"{at}.self_attn.q_norm"), self._rms(k, f"{at}.self_attn.k_norm")
        q, k = _rotated(q, cos, sin), _rotated(k, cos, sin)
        share = self.heads // self.heads_kv
        k, v = np.repeat(k, share, axis=1), np.repeat(v, share, axis=1)
        scores = np.einsum("qhd,khd->hqk", q, k) / _F32(np.sqrt(self.width))
        scores = np.where(np.tri(count, dtype=bool), scores, _F32(-np.inf))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        o = np.einsum("hqk,khd->qhd", weights, v).reshape(count, -1).astype(np.float32)
        if gate is not None:
            o = o * _sigmoid(gate.reshape(count, -1))
        for module in ("attn_sub_norm", "inner_attn_ln"):
            if w.has(f"{at}.self_attn.{module}"):
                o = self._rms(o, f"{at}.self_attn.{module}")
        return self._linear(o, f"{at}.self_attn.o_proj")

    def _delta_net(self, a: Floats, at: str) -> Floats:
        """Return a gated delta net with grouped value heads, token by token."""
        w, count, at = self.witness, len(a), f"{at}.linear_attn"
        keys, values, width = w.net_heads
        mixed, z = self._linear(a, f"{at}.in_proj_qkv"), self._linear(a, f"{at}.in_proj_z")
        beta = _sigmoid(self._linear(a, f"{at}.in_proj_b"))
        soft = np.logaddexp(_F32(0), self._linear(a, f"{at}.in_proj_a") + w.floats(f"{at}.dt_bias"))
        fading = np.exp(-np.exp(w.floats(f"{at}.A_log")) * soft)
        taps = w.floats(f"{at}.conv1d.weight")[:, 0]
        padded = np.concatenate([np.zeros((taps.shape[1] - 1, len(taps)), _F32), mixed])
        windows = np.stack([padded[tap : tap + count] for tap in range(taps.shape[1])])
        mixed = np.einsum("ktc,ck->tc", windows, taps)
        mixed = mixed * _sigmoid(mixed)
        parts = np.split(mixed, [keys * width, 2 * keys * width], axis=1)
        q, k, v = (each.reshape(count, -1, width) for each in parts)
        q, k = (
            np.repeat(x / np.sqrt(np.sum(x * x, axis=2, keepdims=True) + _F32(1e-6)), values // keys, axis=1)
            for x in (q, k)
        )
        state, y = np.zeros((values, width, width), _F32), np.empty_like(v)
        for t in range(count):
            state = state * fading[t][:, None, None]
            change = (v[t] - np.einsum("hd,hde->he", k[t], state)) * beta[t][:, None]
            state = state + k[t][:, :, None] * change[:, None, :]
            y[t] = np.einsum("hd,hde->he", q[t], state) / _F32(np.sqrt(width))
        z = z.reshape(count, values, width)
        return self._linear((self._rms(y, f"{at}.norm") * z * _sigmoid(z)).reshape(count, -1), f"{at}.out_proj")

    def _mlp(self, b: Floats, at: str) -> Floats:
        gate, up = self._linear(b, f"{at}.mlp.gate_proj"), self._linear(b, f"{at}.mlp.up_proj")
        m = self._activated(gate) * up
        for module in ("ffn_sub_norm", "ffn_layernorm"):
            if self.witness.has(f"{at}.mlp.{module}"):
                m = self._rms(m, f"{at}.mlp.{module}")
        return self._linear(m, f"{at}.mlp.down_proj")

    def _activated(self, x: Floats) -> Floats:
        kind = self.config.get("hidden_act", self.config.get("hidden_activation"))
        with np.errstate(over="ignore"):
            if kind == "relu2":
                return np.square(np.maximum(x, _F32(0))).astype(np.float32)
            if kind in ("silu", "swish"):
                return (x / (_F32(1) + np.exp(-x))).astype(np.float32)
            if kind in ("gelu_pytorch_tanh", "gelu_new"):
                inner = _F32(np.sqrt(2 / np.pi)) * (x + _F32(0.044715) * x**3)
                return (_F32(0.5) * x * (_F32(1) + np.tanh(inner))).astype(np.float32)
        raise SettingError(f"the activation {quote(str(kind))} cannot be computed here")

    def _angles(self, count: int) -> tuple[Floats, Floats]:
        """Cosines and sines by position, float32 [tokens, rotated elements of a head]; both halves are equal."""
        (about, base, kind), width = self.witness.rope, self.witness.rotated
        inverse = 1.0 / base ** (np.arange(0, width, 2, dtype=np.float64) / width)
        if kind == "linear":
            inverse = inverse / float(about["factor"])
        elif kind == "llama3":
            inverse = _llama3(inverse, about)
        elif kind != "default":
            raise SettingError(f"positions that are scaled by {quote(str(kind))} cannot be computed here")
        angles = np.arange(count, dtype=np.float32)[:, None] * inverse.astype(np.float32)
        both = np.concatenate([angles, angles], axis=1)
        return np.cos(both), np.sin(both)


def _llama3(inverse: NDArray[np.float64], about: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the frequencies of Llama 3.1: low ones are divided, high ones unchanged, those between interpolated."""
    factor, old = float(about["factor"]), float(about["original_max_position_embeddings"])
    low, high = float(about["low_freq_factor"]), float(about["high_freq_factor"])
    turns = old * inverse / (2 * np.pi)  # in units of the training context
    share = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - share) * inverse / factor + share * inverse


def _rotated(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """Each head rotated by its position: the first half of what is rotated with the second; the rest stays."""
    width = cos.shape[-1]
    x, rest, half = x[..., :width], x[..., width:], width // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    found = x * cos[:, None, :] + turned * sin[:, None, :]
    return np.concatenate([found, rest], axis=-1).astype(np.float32)


def _sigmoid(x: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return (_F32(1) / (_F32(1) + np.exp(-x))).astype(np.float32)
