"""This module breaks keys and values that an architecture needs."""

from __future__ import annotations

import math
from functools import partial

from i2s_spec.schema.types import ValueType
from i2s_spec.testing.malformed.case import Place, model
from i2s_spec.testing.malformed.case import add as add_case
from i2s_spec.testing.sample import Model, array

U32, I32, F32, STRING, ARRAY = (
    ValueType.UINT32, ValueType.INT32, ValueType.FLOAT32, ValueType.STRING, ValueType.ARRAY,
)  # fmt: skip
_COUNT = "header.key_count"

_BITNET, _LLAMA, _GEMMA, _QWEN = model("bitnet"), model("llama"), model("gemma3"), model("qwen3")
add = partial(add_case, sound=model("bitnet-b1.58"))


def _b158() -> Model:
    return Model("bitnet-b1.58")


def _path(name: str, what: str = "value", architecture: str = "bitnet-b1.58") -> Place:
    return lambda: f"key_values[{Model(architecture).place(name)}].{what}"


def _set(name: str, value: object, architecture: str = "bitnet-b1.58") -> bytes:
    return Model(architecture).set(name, value).built()


def _without(name: str) -> bytes:
    return _b158().drop(name).built()


def _renamed(name: bytes, keys: bool = True) -> bytes:
    """A bitnet-b1.58 model under another name, with or without its keys."""
    model = _b158().set("general.architecture", name)
    for pair in model.keys if keys else ():
        pair.key = pair.key.replace(b"bitnet-b1.58.", name + b".")
    return model.built()


def _other_prefix() -> bytes:
    model = _b158()
    model.pair("{arch}.context_length").key = b"bitnet-25.context_length"
    return model.built()


# --- which architecture -------------------------------------------------------------------------------------------

_ARCHITECTURE = "key_values[0].value"
add("architecture_typo", "M001", _ARCHITECTURE, lambda: _renamed(b"bitnet-b1_58"))
add("architecture_case", "M001", _ARCHITECTURE, lambda: _renamed(b"BitNet"), ("G207",))
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
    """A model with the sizes of bitnet_b1_58-large and only the embedding, to test its epsilon."""
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
    """A model whose projections the converter left as F16 although the file says I2_S."""
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
    """A tensor of type 36 with 18 bytes for every 32 weights, its meaning in llama.cpp in November 2024."""
    model = _b158()
    tensor = model.tensor("blk.0.attn_q.weight")
    tensor.data += tensor.data[:4096][::-1] + tensor.data[992:1984]
    return model.built()


add("iq4_nl_4_4", "M032", "tensor_infos[10].type", _iq4_nl, ("P101",))
add("rope_base_default", "M022", _path("{arch}.rope.freq_base"),
    lambda: Model("bitnet-b1.58").set("{arch}.rope.freq_base", 10000.0).built())  # fmt: skip
