"""Models whose weights contain a known order, small enough for every test."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from i2s_spec.codec.native import pack
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.writer import Writer
from i2s_spec.schema.dialect import LAYOUTS, Dialect, parse

EMBD, FF, HEADS, KEY_HEADS, LAYERS = 256, 384, 4, 2, 2


def ternary(latent: np.ndarray) -> np.ndarray:
    """The trits of latent weights, by their mean magnitude, as published for BitNet b1.58."""
    scale = np.abs(latent).mean()
    return np.clip(np.round(latent / scale), -1, 1).astype(np.int8)


def planted(seed: int = 0, strength: float = 1.0) -> dict[str, np.ndarray]:
    """Tensors of a model in which channels that are written alike are read alike, and gains follow shares of zeros.

    :param strength: 0 for weights that nothing ties together
    """
    random = np.random.default_rng(seed)
    kinds = 16
    channels = random.standard_normal((EMBD, kinds)) * strength
    gains = np.exp(random.standard_normal(EMBD) * 0.4)

    def matrix(rows: int, cols: int, row_kinds: np.ndarray | None, col_kinds: np.ndarray | None, gain: Any = 1) -> Any:
        latent = random.standard_normal((rows, cols)) * 4
        if col_kinds is not None:
            latent += random.standard_normal((rows, kinds)) @ col_kinds.T
        if row_kinds is not None:
            latent += row_kinds @ random.standard_normal((kinds, cols))
        return ternary(latent * (1 + strength * (gain - 1)))

    made: dict[str, np.ndarray] = {}
    kv = EMBD // HEADS * KEY_HEADS
    for i in range(LAYERS):
        hidden = random.standard_normal((FF, kinds)) * strength
        values = random.standard_normal((kv, kinds)) * strength
        outputs = np.repeat(values.reshape(KEY_HEADS, -1, kinds), HEADS // KEY_HEADS, axis=0).reshape(EMBD, kinds)
        inner = np.exp(random.standard_normal(FF) * 0.4)
        layer = {
            "attn_norm": gains.astype(np.float32),
            "attn_q": matrix(EMBD, EMBD, None, channels, gains),
            "attn_k": matrix(kv, EMBD, None, channels, gains),
            "attn_v": matrix(kv, EMBD, values, channels, gains),
            "attn_output": matrix(EMBD, EMBD, channels, outputs),
            "ffn_norm": gains.astype(np.float32),
            "ffn_gate": matrix(FF, EMBD, hidden, channels, gains),
            "ffn_up": matrix(FF, EMBD, hidden, channels, gains),
            "ffn_sub_norm": inner.astype(np.float32),
            "ffn_down": matrix(EMBD, FF, channels, hidden, inner),
        }
        made |= {f"blk.{i}.{name}.weight": array for name, array in layer.items()}
    return made


def written(
    tensors: dict[str, np.ndarray], dialect: str | Dialect = "canonical", others: dict[str, str] | None = None
) -> bytes:
    """A file of these tensors: floats as F32, trits as I2_S.

    :param others: tensors that are packed in another dialect
    """
    with Writer(out := io.BytesIO()) as writer:
        writer.add("general.architecture", "llama")
        writer.add("llama.attention.head_count", HEADS)
        writer.add("llama.attention.head_count_kv", KEY_HEADS)
        for name, array in tensors.items():
            if array.dtype == np.int8:
                packed = pack(array, 0.5, dialect=parse((others or {}).get(name, dialect)))
                writer.add_tensor(name, array.shape, "I2_S", packed)
            else:
                writer.add_tensor(name, array.shape, "F32", array)
    return out.getvalue()


def layouts() -> list[str]:
    """The layouts of files, the canonical one first."""
    return [layout.name for layout in LAYOUTS.values() if layout.in_gguf]


def opened(data: bytes) -> File:
    return open_file(data)
