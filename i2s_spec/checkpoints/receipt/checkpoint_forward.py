"""This module runs a checkpoint like transformers in float32, layer by layer, from its own tensors: no GGUF file is read.

The logits of a file are compared with its results. Queries and keys are rotated in halves, in the order of the
checkpoint; the input of a ternary matrix is quantized to 8 bits for each token, as in BitLinear. A layer's weights are
read, used and released, so it needs memory only for the largest matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.checkpoints.receipt.checkpoint_witness import Witness
from i2s_spec.errors import SettingError, quote

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Codes = NDArray[np.int8]
    Precision = Callable[[Floats], Floats]

#: The distance from the middle between two codes within which a value may round to either: float32 sums in another
#: order differ by this much.
TIE: Final = 1 / 256

#: Rows of the head that are read at once.
_ROWS: Final = 8192

_F32 = np.float32


class CheckpointForward:
    """The forward pass of a checkpoint.

    :param witness: the object that reads its tensors
    :param quantized: whether the input of a module's matrix is quantized to 8 bits
    :param table: rounds the embedding and the head to the precision of the file
    :param scale: rounds the scales of a module to the precision of the file
    :param codes: gives the codes that the file computes before a module, int8 [tokens, columns], or None. Only if a
    value is on a tie, its code is taken from these, so that a single rounding does not change the text
    """

    def __init__(
        self,
        witness: Witness,
        *,
        quantized: Callable[[str], bool],
        table: Precision,
        scale: Callable[[str, Floats], Floats],
        codes: Callable[[str], Codes | None] = lambda _: None,
    ) -> None:
        self.witness = witness
        self.config = witness.config
        self.quantized = quantized
        self.table = table
        self.scale = scale
        self.codes = codes
        #: How many values on a tie the file rounds to the other code.
        self.ties = 0
        self.eps = _F32(self.config["rms_norm_eps"])
        self.heads, self.heads_kv, self.width = witness.heads

    def hidden(self, tokens: Sequence[int]) -> Floats:
        """The output of the last norm, float32 [tokens, hidden size]."""
        w = self.witness
        x = np.concatenate([self.table(w.floats("embed_tokens.weight", token, token + 1)) for token in tokens])
        if w.gemma:
            x = x * _F32(np.sqrt(self.config["hidden_size"]))
        cos, sin = self._angles(len(tokens))
        for layer in range(w.layers):
            at = f"layers.{layer}"
            a = self._rms(x, f"{at}.input_layernorm")
            o = self._attention(a, at, cos, sin)
            if w.gemma:
                x = x + self._rms(o, f"{at}.post_attention_layernorm")
                b = self._rms(x, f"{at}.pre_feedforward_layernorm")
                x = x + self._rms(self._mlp(b, at), f"{at}.post_feedforward_layernorm")
            else:
                x = x + o
                x = x + self._mlp(self._rms(x, f"{at}.post_attention_layernorm"), at)
        return self._rms(x, "norm")

    def logits(self, hidden: Floats) -> Floats:
        """The products with every row of the head, float32 [tokens, vocabulary]."""
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
        matrix = w.matrix(module)
        matrix = matrix._replace(scales=self.scale(module, matrix.scales))
        if not self.quantized(module):
            y = x @ matrix.weights().T
        else:
            scale = _F32(127) / np.maximum(np.abs(x).max(axis=-1, keepdims=True), _F32(1e-5))
            codes = self._rounded(x * scale, self.codes(module))
            if matrix.scales.size == 1:  # sums of products of integers, exact in float32
                y = codes @ matrix.trits.astype(np.float32).T * (matrix.scales / scale)
            else:
                y = codes @ matrix.weights().T / scale
        if w.has(module, "bias"):
            y = y + w.floats(f"{module}.bias")
        return y.astype(np.float32)

    def _rounded(self, products: Floats, theirs: Codes | None) -> Floats:
        """The codes of activations; on ties, those of the file."""
        codes = np.clip(np.round(products), -128, 127)
        if theirs is None or theirs.shape != codes.shape:
            return codes
        middle = np.abs(products - np.floor(products) - _F32(0.5)) <= TIE
        other = middle & (np.abs(theirs - codes) == 1)
        self.ties += int(np.count_nonzero(other))
        return np.where(other, theirs.astype(np.float32), codes)

    def _attention(self, a: Floats, at: str, cos: Floats, sin: Floats) -> Floats:
        w, count = self.witness, len(a)
        q, k, v = (self._linear(a, f"{at}.self_attn.{word}_proj") for word in "qkv")
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
        for module in ("attn_sub_norm", "inner_attn_ln"):
            if w.has(f"{at}.self_attn.{module}"):
                o = self._rms(o, f"{at}.self_attn.{module}")
        return self._linear(o, f"{at}.self_attn.o_proj")

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
        """Cosines and sines by position, float32 [tokens, width of a head]; both halves are equal."""
        about = self.config.get("rope_parameters") or self.config.get("rope_scaling") or {}
        about = about.get("full_attention", about)
        base = float(about.get("rope_theta", self.config.get("rope_theta", 10000.0)))
        kind = about.get("rope_type", about.get("type", "default"))
        inverse = 1.0 / base ** (np.arange(0, self.width, 2, dtype=np.float64) / self.width)
        if kind == "linear":
            inverse = inverse / float(about["factor"])
        elif kind == "llama3":
            inverse = _llama3(inverse, about)
        elif kind != "default":
            raise SettingError(f"positions that are scaled by {quote(str(kind))} cannot be computed here")
        angles = np.arange(count, dtype=np.float32)[:, None] * inverse.astype(np.float32)
        both = np.concatenate([angles, angles], axis=1)
        return np.cos(both), np.sin(both)


def _llama3(inverse: NDArray[np.float64], about: dict[str, Any]) -> NDArray[np.float64]:
    """The frequencies of Llama 3.1: low ones are divided, high ones unchanged, those between interpolated."""
    factor, old = float(about["factor"]), float(about["original_max_position_embeddings"])
    low, high = float(about["low_freq_factor"]), float(about["high_freq_factor"])
    turns = old * inverse / (2 * np.pi)  # in units of the training context
    share = np.clip((turns - low) / (high - low), 0, 1)
    return (1 - share) * inverse / factor + share * inverse


def _rotated(x: Floats, cos: Floats, sin: Floats) -> Floats:
    """Each head rotated by its position: its first half with its second."""
    half = x.shape[-1] // 2
    turned = np.concatenate([-x[..., half:], x[..., :half]], axis=-1)
    return (x * cos[:, None, :] + turned * sin[:, None, :]).astype(np.float32)
