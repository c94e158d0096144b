"""Changes of a sound file that give it one feature more: `python tests/peers change IN OUT NAME` (`small_files`).

A changed file is sound, too. New weights are random, and the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from peers.damage import Content, Value, Weight

#: Matrices of a layer of the feed-forward network.
_FEED_FORWARD: Final = ("ffn_gate", "ffn_up", "ffn_down")
_EXPERTS: Final = 4


def _size(content: Content, key: str) -> int:
    return int(content.keys[f"{content.architecture}.{key}"].value)


def _with(content: Content, key: str, kind: str, value: object) -> Content:
    return content.with_key(f"{content.architecture}.{key}", Value(kind, value))


def _tied(content: Content) -> Content:
    return content.with_tensor("output.weight", None)


def _table(kind: str) -> Callable[[Content], Content]:
    def change(content: Content) -> Content:
        table = content.tensors["token_embd.weight"].array().astype(np.float32)
        if kind == "F32":
            return content.with_tensor("token_embd.weight", Weight.of(table, kind))
        data = (table.view(np.uint32) >> 16).astype("<u2").tobytes()
        return content.with_tensor("token_embd.weight", Weight(table.shape, "BF16", data))

    return change


def _rope_factors(content: Content) -> Content:
    pairs = _size(content, "embedding_length") // _size(content, "attention.head_count") // 2
    return content.with_tensor("rope_freqs.weight", Weight.of(np.linspace(1, 8, pairs), "F32"))


def _rope_linear(content: Content) -> Content:
    return _with(_with(content, "rope.scaling.type", "str", "linear"), "rope.scaling.factor", "f32", 2.0)


def _bias(content: Content) -> Content:
    chance = np.random.default_rng(0)
    for layer in range(_size(content, "block_count")):
        rows = content.tensors[f"blk.{layer}.attn_q.weight"].shape[0]
        bias = Weight.of(chance.standard_normal(rows), "F32")
        content = content.with_tensor(f"blk.{layer}.attn_q.bias", bias)
    return content


def _scales(content: Content) -> Content:
    for layer in range(_size(content, "block_count")):
        scale = Weight.of(np.array([0.5]), "F32")
        content = content.with_tensor(f"blk.{layer}.ffn_up.scale", scale)
    return content


def _sub_norms(content: Content) -> Content:
    for layer in range(_size(content, "block_count")):
        gains = Weight.of(np.linspace(0.5, 1.5, _size(content, "embedding_length")), "F32")
        content = content.with_tensor(f"blk.{layer}.attn_sub_norm.weight", gains)
    return content


def _experts(content: Content) -> Content:
    chance, width = np.random.default_rng(0), _size(content, "embedding_length")
    for layer in range(_size(content, "block_count")):
        for name in _FEED_FORWARD:
            one = content.tensors[f"blk.{layer}.{name}.weight"].array()
            every = np.stack([np.roll(one, expert, axis=0) for expert in range(_EXPERTS)])
            content = content.with_tensor(f"blk.{layer}.{name}.weight", None)
            content = content.with_tensor(f"blk.{layer}.{name}_exps.weight", Weight.of(every, "F16"))
        gate = Weight.of(chance.standard_normal((_EXPERTS, width)), "F32")
        content = content.with_tensor(f"blk.{layer}.ffn_gate_inp.weight", gate)
    return _with(_with(content, "expert_count", "u32", _EXPERTS), "expert_used_count", "u32", 2)


def _window(content: Content) -> Content:
    return _with(content, "attention.sliding_window", "u32", 4)


def _language(content: Content) -> Content:
    """An embedding model without what makes it one."""
    for name, weight in content.tensors.items():
        if name.endswith("_norm_in.weight"):
            content = content.with_tensor(name, None)
        elif len(weight.shape) == 1:
            content = content.with_tensor(name, Weight.of(weight.array(), "F32"))
    content = _with(content, "attention.sliding_window", "u32", 512)
    return content.with_key(f"{content.architecture}.pooling_type", None)


def _projections(kind: str, scaled: bool) -> Callable[[Content], Content]:
    """Random weights in a type of four bits: MXFP4, or NVFP4 with the scales that its converter writes."""

    def change(content: Content) -> Content:
        chance = np.random.default_rng(0)
        for name, weight in content.tensors.items():
            if not name.startswith("blk.") or len(weight.shape) < 2:
                continue
            count = weight.shape[0] * weight.shape[1]
            if kind == "MXFP4":  # an exponent of 2^-7 and 32 codes
                blocks = chance.integers(0, 256, (count // 32, 17), dtype=np.uint8)
                blocks[:, 0] = 120
            else:  # four scales of about 2^-2 and 64 codes
                blocks = chance.integers(0, 256, (count // 64, 36), dtype=np.uint8)
                blocks[:, :4] = chance.integers(40, 48, (count // 64, 4))
            content = content.with_tensor(name, Weight(weight.shape, kind, blocks.tobytes()))
            if scaled:
                scale = Weight.of(np.array([0.05]), "F32")
                content = content.with_tensor(name.removesuffix("weight") + "scale", scale)
        number = {"MXFP4": 38, "NVFP4": 39}[kind]
        return content.with_key("general.file_type", Value("u32", number))

    return change


CHANGES: Final[dict[str, Callable[[Content], Content]]] = {
    "tied": _tied,
    "table-f32": _table("F32"),
    "table-bf16": _table("BF16"),
    "rope-factors": _rope_factors,
    "rope-linear": _rope_linear,
    "bias": _bias,
    "scales": _scales,
    "sub-norms": _sub_norms,
    "experts": _experts,
    "window": _window,
    "language": _language,
    "mxfp4": _projections("MXFP4", False),
    "nvfp4": _projections("NVFP4", True),
}
