"""This module breaks inventories: tensors that are missing, too many, or of the wrong shape or type."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

from i2s_spec.schema.types import ValueType
from i2s_spec.testing.malformed.case import Bytes, Place, model
from i2s_spec.testing.malformed.case import add as add_case
from i2s_spec.testing.sample import Model

_COUNT = "header.tensor_count"

_BITNET, _LLAMA, _GEMMA, _QWEN = model("bitnet"), model("llama"), model("gemma3"), model("qwen3")
add = partial(add_case, sound=model("bitnet-b1.58"))


def _b158(layers: int = 1) -> Model:
    return Model("bitnet-b1.58", layers=layers)


def _row(name: str, field: str, architecture: str = "bitnet-b1.58") -> Place:
    return lambda: f"tensor_infos[{Model(architecture).row(name)}].{field}"


def _without(name: str) -> Bytes:
    return lambda: _b158().without(name).built()


def _like(architecture: str, name: str, ne: tuple[int, ...], kind: str) -> Bytes:
    return lambda: Model(architecture).like(name, ne, kind).built()


# --- which tensors ------------------------------------------------------------------------------------------------

for _name in (
    "output_norm.weight", "token_embd.weight", "blk.0.attn_sub_norm.weight", "blk.0.ffn_sub_norm.weight",
    "blk.0.attn_q.weight",
):  # fmt: skip
    add(f"no_{_name.removeprefix('blk.0.').removesuffix('.weight')}", "M101", _COUNT, _without(_name))
add(
    "no_attn_q_norm",
    "M101",
    _COUNT,
    lambda: Model("qwen3").without("blk.0.attn_q_norm.weight").built(),
    ("P301",),
    sound=_QWEN,
)
add(
    "head_of_bitnet",
    "M102",
    "tensor_infos[13].name",
    _like("bitnet", "output.weight", (128, 272), "F16"),
    sound=_BITNET,
)
add("sub_norm_of_llama", "M102", "tensor_infos[12].name",
    _like("llama", "blk.0.attn_sub_norm.weight", (128,), "F32"), ("M119",), sound=_LLAMA)  # fmt: skip
add("permutation_uncertain", "M119", _row("blk.0.attn_q.weight", "name", "llama"),
    _like("llama", "blk.0.ffn_sub_norm.weight", (128,), "F32"), ("M102",), sound=_LLAMA)  # fmt: skip
add("scale_of_b158", "M102", "tensor_infos[13].name", _like("bitnet-b1.58", "blk.0.attn_q.scale", (1,), "F32"))
add("scale_of_llama", "M102", "tensor_infos[12].name", _like("llama", "blk.0.attn_q.scale", (1,), "F32"), sound=_LLAMA)
add("experts_of_dense", "M102", "tensor_infos[13].name",
    _like("bitnet-b1.58", "blk.0.ffn_gate_inp.weight", (128, 8), "F32"))  # fmt: skip
add("names_of_a_checkpoint", "M102", "tensor_infos[13].name",
    _like("bitnet-b1.58", "model.layers.0.mlp.down_proj.weight", (128, 8), "F32"))  # fmt: skip
add("scale_twice", "M114", "tensor_infos[13].name", _like("bitnet", "blk.0.attn_q.scale", (1,), "F32"), sound=_BITNET)
add("head_of_llama_missing", "M112", _COUNT, lambda: Model("llama").without("output.weight").built(), sound=_LLAMA)
add("head_ignored", "M113", "tensor_infos[13].name", _like("bitnet-b1.58", "output.weight", (128, 272), "F16"))
add("input_norms_missing", "M115", _COUNT,
    lambda: Model("qwen3").without("blk.0.attn_q_norm_in.weight").built(), ("P301",), sound=_QWEN)  # fmt: skip
add("input_norms_upstream", "P301", "tensor_infos[2].name", lambda: Model("gemma3").built(), sound=_LLAMA)


def _layer_missing() -> bytes:
    model = _b158(3)
    model.tensors = [tensor for tensor in model.tensors if not tensor.name.startswith(b"blk.1.")]
    return model.built()


def _blocks() -> str:
    return f"key_values[{_b158().place('{arch}.block_count')}].value"


add("layer_missing", "M104", _blocks, _layer_missing, sound=model("bitnet-b1.58", 3))
add(
    "layers_too_many",
    "M104",
    _blocks,
    lambda: _b158(2).set("{arch}.block_count", 1).built(),
    sound=model("bitnet-b1.58", 2),
)
add("layers_too_few", "M104", _blocks, lambda: _b158().set("{arch}.block_count", 30).built())

# --- shapes -------------------------------------------------------------------------------------------------------

add(
    "kv_rows",
    "M103",
    _row("blk.0.attn_k.weight", "ne"),
    _like("bitnet-b1.58", "blk.0.attn_k.weight", (128, 128), "I2_S"),
)
add("transposed", "M103", _row("blk.0.ffn_down.weight", "ne"),
    _like("bitnet-b1.58", "blk.0.ffn_down.weight", (128, 256), "I2_S"))  # fmt: skip
add(
    "embedding_narrow",
    "M103",
    _row("token_embd.weight", "ne"),
    _like("bitnet", "token_embd.weight", (64, 272), "F16"),
    sound=_BITNET,
)
add(
    "embedding_short",
    "M105",
    _row("token_embd.weight", "ne"),
    _like("bitnet", "token_embd.weight", (128, 270), "F16"),
    sound=_BITNET,
)
add("kv_unsaid", "M103", _row("blk.0.attn_k.weight", "ne"),
    lambda: _b158().drop("{arch}.attention.head_count_kv").built())  # fmt: skip

# --- types --------------------------------------------------------------------------------------------------------

_NORM = "blk.0.attn_norm.weight"
add("norm_f16", "M106", _row(_NORM, "type"), _like("bitnet-b1.58", _NORM, (128,), "F16"))
add("norm_of_llama_f16", "M106", _row(_NORM, "type", "llama"), _like("llama", _NORM, (128,), "F16"), sound=_LLAMA)
add(
    "embedding_i2s",
    "M107",
    _row("token_embd.weight", "type"),
    _like("bitnet", "token_embd.weight", (128, 272), "I2_S"),
    sound=_BITNET,
)


def _wide() -> Model:
    """A model of 256 columns."""
    model = Model("bitnet")
    for name in ("embedding_length",):
        model.set("{arch}." + name, 256)
    for tensor in list(model.tensors):
        ne = tuple(256 if n == 128 else n for n in tensor.ne)
        if b"attn_k" in tensor.name or b"attn_v" in tensor.name:
            ne = (256, 128)
        kind = {0: "F32", 1: "F16", 36: "I2_S"}[tensor.number]
        model.like(tensor.name.decode(), ne, kind)
    return model


def _with_q8_0() -> bytes:
    model = _wide()
    tensor = model.tensor("token_embd.weight")
    tensor.number, tensor.data = 8, (b"\x00\x3c" + bytes(range(32))) * (256 * 272 // 32)
    return model.built()


add("embedding_q8_0", "M107", _row("token_embd.weight", "type"), _with_q8_0, sound=_BITNET)
add("projection_f16", "M108", _row("blk.0.attn_v.weight", "type"),
    _like("bitnet-b1.58", "blk.0.attn_v.weight", (128, 64), "F16"))  # fmt: skip
add("ternary_mixed", "M109", _row("blk.0.attn_v.weight", "type"),
    _like("bitnet-b1.58", "blk.0.attn_v.weight", (128, 64), "TL1"))  # fmt: skip

# --- faults that only hints show ----------------------------------------------------------------------------------


def _gemma_norms(mean: float) -> bytes:
    model = Model("gemma3")
    for name in ("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight", "output_norm.weight"):
        tensor = model.tensor(name)
        tensor.data = struct.pack("<e", mean) * 128
    return model.built()


add(
    "gemma_norms",
    "M116",
    lambda: f"data[{Model('gemma3').row(_NORM)}]",
    lambda: _gemma_norms(0.02),
    ("P301",),
    sound=_GEMMA,
)


def _sentence_pieces() -> bytes:
    """A model with the name of 2B-4T's architecture and the vocabulary of 1bitLLM's models."""
    model = Model("bitnet")
    for pair in model.keys:
        pair.key = pair.key.replace(b"bitnet.", b"bitnet-b1.58.")
    return model.set("general.architecture", b"bitnet-b1.58").built()


add(
    "activation_uncertain",
    "M117",
    lambda: f"key_values[{Model('bitnet').place('tokenizer.ggml.model')}].value",
    _sentence_pieces,
    sound=_BITNET,
)
add("activation_contradicted", "M118", "key_values[25].value",
    lambda: _b158().add("{arch}.hidden_activation", ValueType.STRING, b"silu").built())  # fmt: skip


def _small_2b4t() -> bytes:
    """A file with the name, the sizes and the table of 2B-4T, but with tensors that are too small."""
    model = _b158(30).set("general.name", b"bitnet2b")
    sizes = {"embedding_length": 2560, "feed_forward_length": 6912, "attention.head_count": 20,
             "attention.head_count_kv": 5, "rope.dimension_count": 128}  # fmt: skip
    for name, size in sizes.items():
        model.set("{arch}." + name, size)
    return model.built()


add(
    "release_changed",
    "M120",
    "key_values[1].value",
    _small_2b4t,
    ("M103",),
    large=True,
    sound=model("bitnet-b1.58", 30),
)


def _gains(value: Callable[[int], float]) -> bytes:
    """A model with other gains."""
    model = Model("bitnet-b1.58")
    for tensor in model.tensors:
        if b"norm" in tensor.name:
            tensor.data = struct.pack(f"<{tensor.ne[0]}f", *(value(i) for i in range(tensor.ne[0])))
    return model.built()


add("gains_all_one", "M121", "data[1]", lambda: _gains(lambda i: 1.0))
add("gains_less_one", "M122", "data[1]", lambda: _gains(lambda i: 0.125 * (i % 3 - 1)))
