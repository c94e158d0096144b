"""Broken models: keys and values that an architecture needs, tensors that do not fit it, keys of a folded rotation."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from i2s_spec.schema.architectures import AXIS, PREFIX, TRANSFORM
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.malformed.case import Bytes, Place, model
from i2s_spec.testing.malformed.case import add as add_case
from i2s_spec.testing.sample import Model, array

U32, I32, F32, STRING, ARRAY = (
    ValueType.UINT32, ValueType.INT32, ValueType.FLOAT32, ValueType.STRING, ValueType.ARRAY,
)  # fmt: skip
_COUNT = "header.key_count"

_BITNET, _LLAMA, _GEMMA, _QWEN = model("bitnet"), model("llama"), model("gemma3"), model("qwen3")
add = partial(add_case, sound=model("bitnet-b1.58"))


def _path(name: str, what: str = "value", architecture: str = "bitnet-b1.58") -> Place:
    return lambda: f"key_values[{Model(architecture).place(name)}].{what}"


def _set(name: str, value: object, architecture: str = "bitnet-b1.58") -> bytes:
    return Model(architecture).set(name, value).built()


def _without(name: str) -> bytes:
    return _b158().drop(name).built()


def _renamed(name: bytes, keys: bool = True) -> bytes:
    """Return a bitnet-b1.58 model under another name, with or without its keys."""
    model = _b158().set("general.architecture", name)
    for pair in model.keys if keys else ():
        pair.key = pair.key.replace(b"bitnet-b1.58.", name + b".")
    return model.built()


def _other_prefix() -> bytes:
    model = _b158()
    model.pair("{arch}.context_length").key = b"bitnet-25.context_length"
    return model.built()


def _prefixed(prefix: bytes) -> bytes:
    """Return a llama model with something before the name of every tensor."""
    made = Model("llama")
    for tensor in made.tensors:
        tensor.name = prefix + tensor.name
    return made.built()


def _factors(*values: float, name: str = "rope_freqs.weight") -> bytes:
    """Return a llama model with factors of the rotation; those that are not given are 8."""
    model = Model("llama").like(name, (16,), "F32")
    model.tensor(name).data = struct.pack("<16f", *values, *(8.0,) * (16 - len(values)))
    return model.built()


def _scaled(kind: bytes, *names: str) -> Model:
    """Return a llama model with a scaling of the rotation, and keys or tensors for it."""
    model = Model("llama").add("{arch}.rope.scaling.type", STRING, kind).add("{arch}.rope.scaling.factor", F32, 4.0)
    for name in names:
        if name.startswith("rope_factors"):
            model.like(name, (16,), "F32")
        else:
            model.add(name, U32, 128)
    return model


# --- which architecture -------------------------------------------------------------------------------------------

_ARCHITECTURE = "key_values[0].value"
add("architecture_typo", "M001", _ARCHITECTURE, lambda: _renamed(b"bitnet-b1_58"))
add("architecture_case", "M001", _ARCHITECTURE, lambda: _renamed(b"BitNet"), ("G207",))
add(
    "expert_groups_without_experts",
    "M023",
    lambda: f"key_values[{len(Model('llama').keys)}].value",
    lambda: Model("llama").add("{arch}.expert_group_count", U32, 2).built(),
    sound=_LLAMA,
)
add("architecture_foo", "M001", _ARCHITECTURE, lambda: _renamed(b"foo"))
add("architecture_missing", "M002", _COUNT, lambda: _b158().drop("general.architecture").built())
add("architecture_number", "M003", "key_values[0].type",
    lambda: _b158().set("general.architecture", 7, U32).built())  # fmt: skip
add("architecture_former", "M019", _ARCHITECTURE, lambda: Model("bitnet-25").built())
add("prefix_of_another", "M018", "key_values[3].key", _other_prefix)


# --- keys that loaders need ---------------------------------------------------------------------------------------

for _name in (
    "context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count",
    "attention.layer_norm_rms_epsilon",
):  # fmt: skip
    _slug = _name.rpartition(".")[2]
    add(f"no_{_slug}", "M002", _COUNT, partial(_without, "{arch}." + _name))

add("block_count_i32", "M003", _path("{arch}.block_count", "type"),
    lambda: _b158().set("{arch}.block_count", 1, I32).built())  # fmt: skip
add("file_type_i32", "M003", _path("general.file_type", "type"),
    lambda: _b158().set("general.file_type", 40, I32).built())  # fmt: skip
add("bos_i32", "M003", _path("tokenizer.ggml.bos_token_id", "type"),
    lambda: _b158().set("tokenizer.ggml.bos_token_id", 1, I32).built())  # fmt: skip
add("template_number", "M003", _path("tokenizer.chat_template", "type"),
    lambda: _b158().set("tokenizer.chat_template", 1, U32).built())  # fmt: skip

# --- values -------------------------------------------------------------------------------------------------------


def _value(name: str, slug: str, code: str, value: object, also: tuple[str, ...] = ()) -> None:
    add(slug, code, _path("{arch}." + name), lambda: _set("{arch}." + name, value), also)


_value("attention.head_count", "head_count_0", "M004", 0)
_value("block_count", "block_count_0", "M004", 0)
_value("block_count", "block_count_513", "M004", 513)
_value("embedding_length", "embedding_length_0", "M004", 0)
_value("context_length", "context_length_0", "M004", 0)
_value("attention.layer_norm_rms_epsilon", "eps_0", "M004", 0.0)
_value("attention.layer_norm_rms_epsilon", "eps_nan", "M004", math.nan)
_value("attention.layer_norm_rms_epsilon", "eps_large", "M011", 0.125)
_value("rope.freq_base", "rope_base_negative", "M004", -1.0)
_value("rope.freq_base", "rope_base_inf", "M004", math.inf)
_value("context_length", "context_length_4g", "M011", 2**32 - 1)
_value("attention.head_count", "heads_3", "M006", 3, ("M007",))
_value("attention.head_count_kv", "heads_kv_3", "M007", 3)
_value("rope.dimension_count", "rope_dimensions_16", "M008", 16)
_value("vocab_size", "vocab_size_off", "M013", 271)
add("rope_scaling_other", "M004", _path("{arch}.rope.scaling.type", architecture="bitnet"),
    lambda: _set("{arch}.rope.scaling.type", b"other", "bitnet"), sound=_BITNET)  # fmt: skip
add("rope_scaling_twice", "M015", "key_values[22].value", lambda: (
    Model("bitnet").add("{arch}.rope.scale_linear", F32, 4.0).built()), sound=_BITNET)  # fmt: skip
add("ff_array_long", "M005", _path("{arch}.feed_forward_length"), lambda: (
    _b158().set("{arch}.feed_forward_length", array(U32, [256, 256]), ARRAY).built()))  # fmt: skip
add("ff_array_of_0", "M004", _path("{arch}.feed_forward_length"), lambda: (
    _b158().set("{arch}.feed_forward_length", array(U32, [0]), ARRAY).built()))  # fmt: skip
add("rope_dimensions_unsaid", "M009", "key_values[9].value",
    lambda: Model("qwen3").drop("{arch}.rope.dimension_count").built(), ("P301",), sound=_QWEN)  # fmt: skip
add("rope_base_missing", "M010", _COUNT, lambda: _b158().drop("{arch}.rope.freq_base").built())
add("quantization_version_missing", "M012", _COUNT, lambda: _b158().drop("general.quantization_version").built())
add("experts_unused", "M014", "key_values[25].value", lambda: (
    _b158().add("{arch}.expert_used_count", U32, 2).built()))  # fmt: skip
add("name_missing", "M016", _COUNT, lambda: _b158().drop("general.name").built())
add("key_misspelt", "M017", "key_values[25].key", lambda: _b158().add("{arch}.rope.freq_bass", F32, 1e4).built())


def _large() -> bytes:
    """Return a model with the sizes of bitnet_b1_58-large and only the embedding, to test its epsilon."""
    model = Model("bitnet")
    sizes = {"block_count": 24, "embedding_length": 1536, "feed_forward_length": 4096, "attention.head_count": 16,
             "attention.head_count_kv": 16}  # fmt: skip
    for name, size in sizes.items():
        model.set("{arch}." + name, size)
    return model.built()


add("epsilon_uncertain", "M020", _path("{arch}.attention.layer_norm_rms_epsilon", architecture="bitnet"), _large,
    ("M103", "M104"), sound=_BITNET)  # fmt: skip
add("pooling_mean", "M021", _path("{arch}.pooling_type", architecture="qwen3"),
    lambda: _set("{arch}.pooling_type", 1, "qwen3"), ("P301",), sound=_QWEN)  # fmt: skip
add(
    "pooling_unsaid",
    "M021",
    _COUNT,
    lambda: Model("gemma3").drop("{arch}.pooling_type").built(),
    ("P301",),
    sound=_GEMMA,
)


def _halves() -> bytes:
    """Return a model whose projections the converter left as F16 although the file says I2_S."""
    model = Model("llama")
    for tensor in list(model.tensors):
        if tensor.number == 36:
            model.like(tensor.name.decode(), tensor.ne, "F16")
    return model.drop("general.quantization_version").built()


# --- numbers that mean different things ---------------------------------------------------------------------------

_FILE_TYPE = _path("general.file_type")
add("file_type_f16", "M030", _FILE_TYPE, lambda: _set("general.file_type", 1))
add("file_type_unknown", "M030", _FILE_TYPE, lambda: _set("general.file_type", 1000))
add("file_type_of_f16", "M030", _path("general.file_type", architecture="llama"), _halves, sound=_LLAMA)
add("file_type_41", "M031", _FILE_TYPE, lambda: _set("general.file_type", 41))
add("file_type_38", "M031", _FILE_TYPE, lambda: _set("general.file_type", 38))


def _iq4_nl() -> bytes:
    """Return a tensor of type 36 with 18 bytes for every 32 weights, its meaning in llama.cpp in November 2024."""
    model = _b158()
    tensor = model.tensor("blk.0.attn_q.weight")
    tensor.data += tensor.data[:4096][::-1] + tensor.data[992:1984]
    return model.built()


add("iq4_nl_4_4", "M032", "tensor_infos[10].type", _iq4_nl, ("P101",))
add("rope_base_default", "M022", _path("{arch}.rope.freq_base"),
    lambda: Model("bitnet-b1.58").set("{arch}.rope.freq_base", 10000.0).built())  # fmt: skip


# --- inventory -------------------------------------------------------------------------------------------------------
# Tensors are missing, too many, or of the wrong shape or type.

_TENSOR_COUNT = "header.tensor_count"


def _b158(layers: int = 1) -> Model:
    return Model("bitnet-b1.58", layers=layers)


def _row(name: str, field: str, architecture: str = "bitnet-b1.58") -> Place:
    return lambda: f"tensor_infos[{Model(architecture).row(name)}].{field}"


def _without_tensor(name: str) -> Bytes:
    return lambda: _b158().without(name).built()


def _like(architecture: str, name: str, ne: tuple[int, ...], kind: str) -> Bytes:
    return lambda: Model(architecture).like(name, ne, kind).built()


# --- which tensors ------------------------------------------------------------------------------------------------

for _tensor in (
    "output_norm.weight", "token_embd.weight", "blk.0.attn_sub_norm.weight", "blk.0.ffn_sub_norm.weight",
    "blk.0.attn_q.weight",
):  # fmt: skip
    add(f"no_{_tensor.removeprefix('blk.0.').removesuffix('.weight')}", "M101", _TENSOR_COUNT, _without_tensor(_tensor))
add(
    "no_attn_q_norm",
    "M101",
    _TENSOR_COUNT,
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
add("names_with_prefix", "M123", "tensor_infos[0].name", lambda: _prefixed(b"model."), sound=_LLAMA)
add("sub_norm_of_llama", "M102", "tensor_infos[12].name",
    _like("llama", "blk.0.attn_sub_norm.weight", (128,), "F32"), ("M119",), sound=_LLAMA)  # fmt: skip
add("permutation_uncertain", "M119", _row("blk.0.attn_q.weight", "name", "llama"),
    _like("llama", "blk.0.ffn_sub_norm.weight", (128,), "F32"), ("M102",), sound=_LLAMA)  # fmt: skip
add("scale_of_b158", "M102", "tensor_infos[13].name", _like("bitnet-b1.58", "blk.0.attn_q.scale", (1,), "F32"))
add("scale_of_llama", "M102", "tensor_infos[12].name", _like("llama", "blk.0.attn_q.scale", (1,), "F32"), sound=_LLAMA)
add("scale_of_head", "M102", "tensor_infos[12].name", _like("llama", "output.scale", (1,), "F32"), sound=_LLAMA)
add(
    "scale_of_norm", "M102", "tensor_infos[12].name", _like("llama", "blk.0.attn_norm.scale", (1,), "F32"), sound=_LLAMA
)
add("experts_of_dense", "M102", "tensor_infos[13].name",
    _like("bitnet-b1.58", "blk.0.ffn_gate_inp.weight", (128, 8), "F32"))  # fmt: skip
add("names_of_a_checkpoint", "M102", "tensor_infos[13].name",
    _like("bitnet-b1.58", "model.layers.0.mlp.down_proj.weight", (128, 8), "F32"))  # fmt: skip
add("scale_twice", "M114", "tensor_infos[13].name", _like("bitnet", "blk.0.attn_q.scale", (1,), "F32"), sound=_BITNET)
add(
    "head_of_llama_missing",
    "M112",
    _TENSOR_COUNT,
    lambda: Model("llama").without("output.weight").built(),
    sound=_LLAMA,
)
add("head_ignored", "M113", "tensor_infos[13].name", _like("bitnet-b1.58", "output.weight", (128, 272), "F16"))
add("input_norms_missing", "M115", _TENSOR_COUNT,
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
    """Return a model of 256 columns."""
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
    """Return a model with the name of 2B-4T's architecture and the vocabulary of 1bitLLM's models."""
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
    """Return a file with the name, the sizes and the table of 2B-4T, but with tensors that are too small."""
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
    """Return a model with other gains."""
    model = Model("bitnet-b1.58")
    for tensor in model.tensors:
        if b"norm" in tensor.name:
            tensor.data = struct.pack(f"<{tensor.ne[0]}f", *(value(i) for i in range(tensor.ne[0])))
    return model.built()


add("gains_all_one", "M121", "data[1]", lambda: _gains(lambda i: 1.0))
add("gains_less_one", "M122", "data[1]", lambda: _gains(lambda i: 0.125 * (i % 3 - 1)))


# --- rotation --------------------------------------------------------------------------------------------------------
# The keys are broken, or combined with wrong tensors.

_WEIGHT = "blk.0.attn_q.weight"
_NUMBERS = {"PQ2_0": 141, "Q2_0": 41}


def _model(kind: str) -> Model:
    """Return a llama model whose ternary tensors are of another type."""
    model = Model("llama")
    for tensor in list(model.tensors):
        if tensor.number == 36:
            model.like(tensor.name.decode(), tensor.ne, kind)
    return model.set("general.file_type", _NUMBERS[kind])


def _rotated(kind: str = "PQ2_0", **other: Any) -> Model:
    """Return the same with the keys of a rotation; one that is None is left out."""
    model = _model(kind)
    width = model.tensor(_WEIGHT).ne[0]
    found = {
        "version": (ValueType.UINT32, 1), "block_size": (ValueType.UINT32, 128),
        "transform": (ValueType.STRING, TRANSFORM.encode()), "axis": (ValueType.STRING, AXIS.encode()),
        "sign_mode": (ValueType.STRING, b"explicit"),
        "weight_names": (ValueType.ARRAY, array(ValueType.STRING, [_WEIGHT.encode()])),
        "sign_widths": (ValueType.ARRAY, array(ValueType.UINT32, [width])),
        "sign_values": (ValueType.ARRAY, array(ValueType.INT32, [1, -1] * (width // 2))),
    } | other  # fmt: skip
    for key, pair in found.items():
        if pair is not None:
            model.add(PREFIX + key, *pair)
    return model


def _rotation_path(key: str) -> Place:
    return lambda: f"key_values[{_rotated().place(PREFIX + key)}].key"


def _names(*names: bytes) -> tuple[ValueType, Any]:
    return ValueType.ARRAY, array(ValueType.STRING, names)


add_rotated = partial(add_case, sound=lambda: _rotated().built())

add_rotated(
    "rotation_block", "M040", _rotation_path("block_size"), lambda: _rotated(block_size=(ValueType.UINT32, 96)).built()
)
add_rotated(
    "rotation_row",
    "M040",
    _rotation_path("block_size"),
    lambda: _rotated(block_size=(ValueType.UINT32, 1 << 14)).built(),
)
add_rotated("rotation_sign", "M040", _rotation_path("sign_values"),
    lambda: _rotated(sign_values=(ValueType.ARRAY, array(ValueType.INT32, [0, 1]))).built())  # fmt: skip
add_rotated("rotation_signs_short", "M040", _rotation_path("sign_values"),
    lambda: _rotated(sign_values=(ValueType.ARRAY, array(ValueType.INT32, [1, 1]))).built())  # fmt: skip
add_rotated(
    "rotation_transform",
    "M040",
    _rotation_path("transform"),
    lambda: _rotated(transform=(ValueType.STRING, b"dct")).built(),
)
add_rotated("rotation_no_axis", "M040", "header.key_count", lambda: _rotated(axis=None).built())
add_rotated(
    "rotation_of_nothing",
    "M040",
    _rotation_path("weight_names"),
    lambda: _rotated(weight_names=_names(b"blk.9.x.weight")).built(),
)
add_rotated("rotation_under_42", "M041", lambda: "tensor_infos[{}].type".format(
    next(i for i, each in enumerate(_rotated("Q2_0").tensors) if each.name == _WEIGHT.encode())),
    lambda: _rotated("Q2_0").built())  # fmt: skip
add_rotated("rotation_unsaid", "M042", lambda: "tensor_infos[{}].type".format(
    next(i for i, each in enumerate(_model("PQ2_0").tensors) if each.number == 142)),
    lambda: _model("PQ2_0").built())  # fmt: skip


# --- factors of the rotation --------------------------------------------------------------------------------------

_ORIGINAL = "{arch}.rope.scaling.original_context_length"


def _of_scaling(kind: bytes, *names: str) -> Bytes:
    return lambda: _scaled(kind, *names).built()


add_factors = partial(add_case, sound=lambda: _factors(1.0, 1.0, 1.5, 4.0))
add_factors("rope_factor_zero", "M033", "data[12]", lambda: _factors(1.0, 1.0, 0.0))
add_factors("rope_factor_negative", "M033", "data[12]", lambda: _factors(1.0, -1.0, 1.0))
add_factors("rope_factors_fall", "M034", "data[12]", lambda: _factors(1.0, 9.0))
add_factors("rope_factors_first", "M034", "data[12]", lambda: _factors(4.0, 4.0))
add_factors("rope_frequencies", "M034", "data[12]", lambda: _factors(*(10000 ** (-i / 16) for i in range(16))))
add_factors("rope_periods", "M034", "data[12]", lambda: _factors(*(10000 ** (i / 16) for i in range(16))))
_YARN = "key_values[{}].value"
add("yarn_original_missing", "M036", lambda: _YARN.format(_scaled(b"yarn").place("{arch}.rope.scaling.type")),
    _of_scaling(b"yarn"), sound=_of_scaling(b"yarn", _ORIGINAL))  # fmt: skip
add("longrope_factors_missing", "M035", _TENSOR_COUNT, _of_scaling(b"longrope", _ORIGINAL), sound=_LLAMA)


def _added_tokens() -> bytes:
    """Return a model with two more tokens than its embedding and vocab_size have."""
    model = Model("llama")
    model.items("tokenizer.ggml.tokens").extend((b"<|M0|>", b"<|M1|>"))
    model.items("tokenizer.ggml.token_type").extend((4, 4))
    return model.built()


add("tokens_without_rows", "M105", "tensor_infos[1].ne", _added_tokens, sound=_LLAMA)
