"""Broken models: keys and values that an architecture needs, tensors that do not fit it, keys of a folded rotation."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from i2s_spec.schema.rotation import AXIS, PREFIX, TRANSFORM
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.malformed.case import add, add_changed, info_field, key_field
from i2s_spec.testing.malformed.case import model as sound_model
from i2s_spec.testing.sample import Model, array

U32, I32, F32, STRING, ARRAY = (
    ValueType.UINT32, ValueType.INT32, ValueType.FLOAT32, ValueType.STRING, ValueType.ARRAY,
)  # fmt: skip
_COUNT, _TENSOR_COUNT = "header.key_count", "header.tensor_count"

add_b158, add_bitnet, add_llama, add_gemma, add_qwen = (
    partial(add_changed, partial(Model, name)) for name in ("bitnet-b1.58", "bitnet", "llama", "gemma3", "qwen3")
)


def _renamed(name: bytes) -> Callable[[Model], object]:
    """Give a bitnet-b1.58 model and its keys another name."""

    def change(model: Model) -> None:
        model.set("general.architecture", name)
        for pair in model.keys:
            pair.key = pair.key.replace(b"bitnet-b1.58.", name + b".")

    return change


def _like(name: str, ne: tuple[int, ...], kind: str) -> Callable[[Model], object]:
    return lambda model: model.like(name, ne, kind)


def _resized(**sizes: int) -> Callable[[Model], object]:
    """Give a model other sizes, and leave its tensors as they are."""
    return lambda model: [model.set("{arch}." + name.replace("__", "."), size) for name, size in sizes.items()]


def _retyped(model: Model, kind: str, former: int = 36) -> Model:
    """Return a model whose tensors of a type are of another one."""
    for tensor in list(model.tensors):
        if tensor.number == former:
            model.like(tensor.name.decode(), tensor.ne, kind)
    return model


# --- which architecture -------------------------------------------------------------------------------------------

_ARCHITECTURE = "key_values[0].value"
add_b158("architecture_typo", "M001", _ARCHITECTURE, _renamed(b"bitnet-b1_58"))
add_b158("architecture_case", "M001", _ARCHITECTURE, _renamed(b"BitNet"), ("G207",))
add_llama("expert_groups_without_experts", "M023", lambda model: f"key_values[{len(model.keys)}].value",
          lambda model: model.add("{arch}.expert_group_count", U32, 2))  # fmt: skip
add_b158("architecture_foo", "M001", _ARCHITECTURE, _renamed(b"foo"))
add_b158("architecture_missing", "M002", _COUNT, lambda model: model.drop("general.architecture"))
add_b158("architecture_number", "M003", "key_values[0].type", lambda model: model.set("general.architecture", 7, U32))
add("architecture_former", "M019", _ARCHITECTURE, sound_model("bitnet-25"), sound=sound_model("bitnet-b1.58"))
add_b158("prefix_of_another", "M018", "key_values[3].key",
         lambda model: setattr(model.pair("{arch}.context_length"), "key", b"bitnet-25.context_length"))  # fmt: skip


# --- keys that loaders need ---------------------------------------------------------------------------------------

for _name in (
    "context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count",
    "attention.layer_norm_rms_epsilon",
):  # fmt: skip
    _slug = _name.rpartition(".")[2]
    add_b158(f"no_{_slug}", "M002", _COUNT, lambda model, name=_name: model.drop("{arch}." + name))  # type: ignore[misc]


def _of_type(slug: str, name: str, value: object, kind: ValueType) -> None:
    """Add a key with a value of another type."""
    add_b158(slug, "M003", key_field(name, "type"), lambda model: model.set(name, value, kind))


_of_type("block_count_i32", "{arch}.block_count", 1, I32)
_of_type("file_type_i32", "general.file_type", 40, I32)
_of_type("bos_i32", "tokenizer.ggml.bos_token_id", 1, I32)
_of_type("template_number", "tokenizer.chat_template", 1, U32)

# --- values -------------------------------------------------------------------------------------------------------


def _value(name: str, slug: str, code: str, value: object, also: tuple[str, ...] = ()) -> None:
    """Add a key of the architecture with another value."""
    add_b158(slug, code, key_field("{arch}." + name), lambda model: model.set("{arch}." + name, value), also)


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
add_bitnet("rope_scaling_other", "M004", key_field("{arch}.rope.scaling.type"),
           lambda model: model.set("{arch}.rope.scaling.type", b"other"))  # fmt: skip
add_bitnet("rope_scaling_twice", "M015", "key_values[22].value",
           lambda model: model.add("{arch}.rope.scale_linear", F32, 4.0))  # fmt: skip
add_b158("ff_array_long", "M005", key_field("{arch}.feed_forward_length"),
         lambda model: model.set("{arch}.feed_forward_length", array(U32, [256, 256]), ARRAY))  # fmt: skip
add_b158("ff_array_of_0", "M004", key_field("{arch}.feed_forward_length"),
         lambda model: model.set("{arch}.feed_forward_length", array(U32, [0]), ARRAY))  # fmt: skip
add_qwen("rope_dimensions_unsaid", "M009", "key_values[9].value",
         lambda model: model.drop("{arch}.rope.dimension_count"), ("P301",))  # fmt: skip
add_b158("rope_base_missing", "M010", _COUNT, lambda model: model.drop("{arch}.rope.freq_base"))
add_b158("quantization_version_missing", "M012", _COUNT, lambda model: model.drop("general.quantization_version"))
add_b158("experts_unused", "M014", "key_values[25].value",
         lambda model: model.add("{arch}.expert_used_count", U32, 2))  # fmt: skip
add_b158("name_missing", "M016", _COUNT, lambda model: model.drop("general.name"))
add_b158("key_misspelt", "M017", "key_values[25].key", lambda model: model.add("{arch}.rope.freq_bass", F32, 1e4))
add_bitnet(  # the sizes of bitnet_b1_58-large
    "epsilon_uncertain", "M020", key_field("{arch}.attention.layer_norm_rms_epsilon"),
    _resized(block_count=24, embedding_length=1536, feed_forward_length=4096, attention__head_count=16,
             attention__head_count_kv=16),
    ("M103", "M104"),
)  # fmt: skip
add_qwen("pooling_mean", "M021", key_field("{arch}.pooling_type"), lambda model: model.set("{arch}.pooling_type", 1),
         ("P301",))  # fmt: skip
add_gemma("pooling_unsaid", "M021", _COUNT, lambda model: model.drop("{arch}.pooling_type"), ("P301",))

# --- numbers that mean different things ---------------------------------------------------------------------------


def _file_type(slug: str, code: str, value: int) -> None:
    """Add a model with another `general.file_type`."""
    add_b158(slug, code, key_field("general.file_type"), lambda model: model.set("general.file_type", value))


def _iq4_nl(model: Model) -> None:
    """Give a tensor of type 36 18 bytes for every 32 weights, its meaning in llama.cpp in November 2024."""
    tensor = model.tensor("blk.0.attn_q.weight")
    tensor.data += tensor.data[:4096][::-1] + tensor.data[992:1984]


_file_type("file_type_f16", "M030", 1)
_file_type("file_type_unknown", "M030", 1000)
add_llama("file_type_of_f16", "M030", key_field("general.file_type"),
          lambda model: _retyped(model, "F16").drop("general.quantization_version"))  # fmt: skip
_file_type("file_type_41", "M031", 41)
_file_type("file_type_38", "M031", 38)
add_b158("iq4_nl_4_4", "M032", "tensor_infos[10].type", _iq4_nl, ("P101",))
_value("rope.freq_base", "rope_base_default", "M022", 10000.0)

# --- which tensors ------------------------------------------------------------------------------------------------


def _prefixed(model: Model) -> None:
    """Put a prefix before the name of every tensor."""
    for tensor in model.tensors:
        tensor.name = b"model." + tensor.name


for _tensor in (
    "output_norm.weight", "token_embd.weight", "blk.0.attn_sub_norm.weight", "blk.0.ffn_sub_norm.weight",
    "blk.0.attn_q.weight",
):  # fmt: skip
    _slug = f"no_{_tensor.removeprefix('blk.0.').removesuffix('.weight')}"
    add_b158(_slug, "M101", _TENSOR_COUNT, lambda model, name=_tensor: model.without(name))  # type: ignore[misc]
add_qwen("no_attn_q_norm", "M101", _TENSOR_COUNT, lambda model: model.without("blk.0.attn_q_norm.weight"), ("P301",))
add_bitnet("head_of_bitnet", "M102", "tensor_infos[13].name", _like("output.weight", (128, 272), "F16"))
add_llama("names_with_prefix", "M123", "tensor_infos[0].name", _prefixed)
add_llama("sub_norm_of_llama", "M102", "tensor_infos[12].name", _like("blk.0.attn_sub_norm.weight", (128,), "F32"),
          ("M119",))  # fmt: skip
add_llama("permutation_uncertain", "M119", info_field("blk.0.attn_q.weight", "name"),
          _like("blk.0.ffn_sub_norm.weight", (128,), "F32"), ("M102",))  # fmt: skip
add_b158("scale_of_b158", "M102", "tensor_infos[13].name", _like("blk.0.attn_q.scale", (1,), "F32"))
add_llama("scale_of_llama", "M102", "tensor_infos[12].name", _like("blk.0.attn_q.scale", (1,), "F32"))
add_llama("scale_of_head", "M102", "tensor_infos[12].name", _like("output.scale", (1,), "F32"))
add_llama("scale_of_norm", "M102", "tensor_infos[12].name", _like("blk.0.attn_norm.scale", (1,), "F32"))
add_b158("experts_of_dense", "M102", "tensor_infos[13].name", _like("blk.0.ffn_gate_inp.weight", (128, 8), "F32"))
add_b158("names_of_a_checkpoint", "M102", "tensor_infos[13].name",
         _like("model.layers.0.mlp.down_proj.weight", (128, 8), "F32"))  # fmt: skip
add_bitnet("scale_twice", "M114", "tensor_infos[13].name", _like("blk.0.attn_q.scale", (1,), "F32"))
add_llama("head_of_llama_missing", "M112", _TENSOR_COUNT, lambda model: model.without("output.weight"))
add_b158("head_ignored", "M113", "tensor_infos[13].name", _like("output.weight", (128, 272), "F16"))
add_qwen("input_norms_missing", "M115", _TENSOR_COUNT, lambda model: model.without("blk.0.attn_q_norm_in.weight"),
         ("P301",))  # fmt: skip
add("input_norms_upstream", "P301", "tensor_infos[2].name", sound_model("gemma3"), sound=sound_model("llama"))


def _without_layer(model: Model) -> None:
    model.tensors = [tensor for tensor in model.tensors if not tensor.name.startswith(b"blk.1.")]


_BLOCKS = key_field("{arch}.block_count")
add_changed(partial(Model, "bitnet-b1.58", layers=3), "layer_missing", "M104", _BLOCKS, _without_layer)
add_changed(partial(Model, "bitnet-b1.58", layers=2), "layers_too_many", "M104", _BLOCKS, _resized(block_count=1))
add_b158("layers_too_few", "M104", _BLOCKS, _resized(block_count=30))

# --- shapes -------------------------------------------------------------------------------------------------------


def _shaped(slug: str, code: str, name: str, ne: tuple[int, ...], kind: str, add: Callable[..., None]) -> None:
    """Add a tensor of another shape."""
    add(slug, code, info_field(name, "ne"), _like(name, ne, kind))


_shaped("kv_rows", "M103", "blk.0.attn_k.weight", (128, 128), "I2_S", add_b158)
_shaped("transposed", "M103", "blk.0.ffn_down.weight", (128, 256), "I2_S", add_b158)
_shaped("embedding_narrow", "M103", "token_embd.weight", (64, 272), "F16", add_bitnet)
_shaped("embedding_short", "M105", "token_embd.weight", (128, 270), "F16", add_bitnet)
add_b158("kv_unsaid", "M103", info_field("blk.0.attn_k.weight", "ne"),
         lambda model: model.drop("{arch}.attention.head_count_kv"))  # fmt: skip

# --- types --------------------------------------------------------------------------------------------------------


def _typed(slug: str, code: str, name: str, ne: tuple[int, ...], kind: str, add: Callable[..., None]) -> None:
    """Add a tensor of another type."""
    add(slug, code, info_field(name, "type"), _like(name, ne, kind))


def _with_q8_0(model: Model) -> None:
    """Give a model 256 columns and an embedding of Q8_0."""
    model.set("{arch}.embedding_length", 256)
    for tensor in list(model.tensors):
        ne = tuple(256 if n == 128 else n for n in tensor.ne)
        if b"attn_k" in tensor.name or b"attn_v" in tensor.name:
            ne = (256, 128)
        model.like(tensor.name.decode(), ne, {0: "F32", 1: "F16", 36: "I2_S"}[tensor.number])
    tensor = model.tensor("token_embd.weight")
    tensor.number, tensor.data = 8, (b"\x00\x3c" + bytes(range(32))) * (256 * 272 // 32)


_NORM = "blk.0.attn_norm.weight"
_typed("norm_f16", "M106", _NORM, (128,), "F16", add_b158)
_typed("norm_of_llama_f16", "M106", _NORM, (128,), "F16", add_llama)
_typed("embedding_i2s", "M107", "token_embd.weight", (128, 272), "I2_S", add_bitnet)
add_bitnet("embedding_q8_0", "M107", info_field("token_embd.weight", "type"), _with_q8_0)
_typed("projection_f16", "M108", "blk.0.attn_v.weight", (128, 64), "F16", add_b158)
_typed("ternary_mixed", "M109", "blk.0.attn_v.weight", (128, 64), "TL1", add_b158)

# --- faults that only hints show ----------------------------------------------------------------------------------


def _near_zero(model: Model) -> None:
    """Store the norms of Gemma without the 1 that is added to them."""
    for name in (_NORM, "blk.0.ffn_norm.weight", "output_norm.weight"):
        model.tensor(name).data = struct.pack("<e", 0.02) * 128


def _sentence_pieces(model: Model) -> None:
    """Give a model with the vocabulary of 1bitLLM's models the name of 2B-4T's architecture."""
    for pair in model.keys:
        pair.key = pair.key.replace(b"bitnet.", b"bitnet-b1.58.")
    model.set("general.architecture", b"bitnet-b1.58")


def _small_2b4t(model: Model) -> None:
    """Give a model the name and the sizes of 2B-4T, for which its tensors are too small."""
    model.set("general.name", b"bitnet2b").changed(
        _resized(embedding_length=2560, feed_forward_length=6912, attention__head_count=20, attention__head_count_kv=5,
                 rope__dimension_count=128)
    )  # fmt: skip


def _gains(value: Callable[[int], float]) -> Callable[[Model], object]:
    """Give a model other gains."""

    def change(model: Model) -> None:
        for tensor in model.tensors:
            if b"norm" in tensor.name:
                tensor.data = struct.pack(f"<{tensor.ne[0]}f", *(value(i) for i in range(tensor.ne[0])))

    return change


add_gemma("gemma_norms", "M116", lambda model: f"data[{model.row(_NORM)}]", _near_zero, ("P301",))
add_bitnet("activation_uncertain", "M117", key_field("tokenizer.ggml.model"), _sentence_pieces)
add_b158("activation_contradicted", "M118", "key_values[25].value",
         lambda model: model.add("{arch}.hidden_activation", STRING, b"silu"))  # fmt: skip
add_changed(partial(Model, "bitnet-b1.58", layers=30), "release_changed", "M120", "key_values[1].value", _small_2b4t,
            ("M103",), large=True)  # fmt: skip
add_b158("gains_all_one", "M121", "data[1]", _gains(lambda i: 1.0))
add_b158("gains_less_one", "M122", "data[1]", _gains(lambda i: 0.125 * (i % 3 - 1)))


# --- rotation --------------------------------------------------------------------------------------------------------
# The keys are broken, or combined with wrong tensors.

_WEIGHT = "blk.0.attn_q.weight"
#: The number of the type, and that of the file, of rotated weights.
_PQ2_0, _FILE_PQ2_0, _FILE_Q2_0 = 142, 141, 41


def _rotated() -> Model:
    """Return a llama model whose ternary tensors are rotated, with the keys that say so."""
    model = _retyped(Model("llama"), "PQ2_0").set("general.file_type", _FILE_PQ2_0)
    width = model.tensor(_WEIGHT).ne[0]
    for key, kind, value in (
        ("version", U32, 1), ("block_size", U32, 128), ("transform", STRING, TRANSFORM.encode()),
        ("axis", STRING, AXIS.encode()), ("sign_mode", STRING, b"explicit"),
        ("weight_names", ARRAY, array(STRING, [_WEIGHT.encode()])), ("sign_widths", ARRAY, array(U32, [width])),
        ("sign_values", ARRAY, array(I32, [1, -1] * (width // 2))),
    ):  # fmt: skip
        model.add(PREFIX + key, kind, value)
    return model


def _rotation(slug: str, key: str, value: Any) -> None:
    """Add another value of a key of the rotation."""
    add_rotated(slug, "M040", key_field(PREFIX + key, "key"), lambda model: model.set(PREFIX + key, value))


def _first_rotated(model: Model) -> str:
    return f"tensor_infos[{next(i for i, each in enumerate(model.tensors) if each.number == _PQ2_0)}].type"


def _without_rotation(model: Model) -> None:
    model.keys = [pair for pair in model.keys if not pair.key.startswith(PREFIX.encode())]


add_rotated = partial(add_changed, _rotated)
_rotation("rotation_block", "block_size", 96)
_rotation("rotation_row", "block_size", 1 << 14)
_rotation("rotation_sign", "sign_values", array(I32, [0, 1]))
_rotation("rotation_signs_short", "sign_values", array(I32, [1, 1]))
_rotation("rotation_transform", "transform", b"dct")
add_rotated("rotation_no_axis", "M040", _COUNT, lambda model: model.drop(PREFIX + "axis"))
_rotation("rotation_of_nothing", "weight_names", array(STRING, [b"blk.9.x.weight"]))
add_rotated("rotation_under_42", "M041", info_field(_WEIGHT, "type"),
            lambda model: _retyped(model, "Q2_0", _PQ2_0).set("general.file_type", _FILE_Q2_0))  # fmt: skip
add_rotated("rotation_unsaid", "M042", _first_rotated, _without_rotation)


# --- factors of the rotation --------------------------------------------------------------------------------------

_ORIGINAL = "{arch}.rope.scaling.original_context_length"


def _factors(*values: float) -> Callable[[Model], Model]:
    """Give a model factors of the rotation; those that are not given are 8."""

    def change(model: Model) -> Model:
        model.like("rope_freqs.weight", (16,), "F32")
        model.tensor("rope_freqs.weight").data = struct.pack("<16f", *values, *(8.0,) * (16 - len(values)))
        return model

    return change


def _scaled(model: Model, kind: bytes) -> Model:
    """Return a model with a scaling of the rotation."""
    model.add("{arch}.rope.scaling.type", STRING, kind).add("{arch}.rope.scaling.factor", F32, 4.0)
    return model.add(_ORIGINAL, U32, 128)


add_factors = partial(add_changed, lambda: _factors(1.0, 1.0, 1.5, 4.0)(Model("llama")))
add_factors("rope_factor_zero", "M033", "data[12]", _factors(1.0, 1.0, 0.0))
add_factors("rope_factor_negative", "M033", "data[12]", _factors(1.0, -1.0, 1.0))
add_factors("rope_factors_fall", "M034", "data[12]", _factors(1.0, 9.0))
add_factors("rope_factors_first", "M034", "data[12]", _factors(4.0, 4.0))
add_factors("rope_frequencies", "M034", "data[12]", _factors(*(10000 ** (-i / 16) for i in range(16))))
add_factors("rope_periods", "M034", "data[12]", _factors(*(10000 ** (i / 16) for i in range(16))))
add_changed(lambda: _scaled(Model("llama"), b"yarn"), "yarn_original_missing", "M036",
            key_field("{arch}.rope.scaling.type"), lambda model: model.drop(_ORIGINAL))  # fmt: skip
add_llama("longrope_factors_missing", "M035", _TENSOR_COUNT, lambda model: _scaled(model, b"longrope"))


def _with_added_tokens(model: Model) -> None:
    """Give a model two more tokens than its embedding and vocab_size have."""
    model.items("tokenizer.ggml.tokens").extend((b"<|M0|>", b"<|M1|>"))
    model.items("tokenizer.ggml.token_type").extend((4, 4))


add_llama("tokens_without_rows", "M105", "tensor_infos[1].ne", _with_added_tokens)
