"""Broken files of other kinds than models: adapters, projectors, importance matrices, control vectors."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import partial

from i2s_spec.schema import kinds
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.companions import Companion
from i2s_spec.testing.malformed.case import add, add_changed, info_field, key_field
from i2s_spec.testing.sample import Model

#: The path of a field, or what finds it in the sound file; and what breaks the file.
Place = str | Callable[[Model], str]
Change = Callable[[Companion], object]

_KEYS, _TENSORS = "header.key_count", "header.tensor_count"


def _cases(kind: str) -> Callable[[str, str, Place, Change], None]:
    """Return what adds a changed file of a kind, with the kind before its name."""
    prefix, start = kind.replace("-", "_"), partial(Companion, kind)
    return lambda name, code, place, change: add_changed(start, f"{prefix}_{name}", code, place, change)


def _shape(name: str, *ne: int) -> Change:
    return lambda file: setattr(file.tensor(name), "ne", ne)


def _half(name: str) -> Change:
    """Return a tensor as F16: the type, and half of the bytes."""

    def change(file: Companion) -> None:
        tensor = file.tensor(name)
        tensor.number, tensor.data = BY_NAME["F16"].number, tensor.data[: len(tensor.data) // 2]

    return change


def _value(name: str, value: float) -> Change:
    """Put another value in the third place of a tensor of F32."""

    def change(file: Companion) -> None:
        tensor = file.tensor(name)
        tensor.data = tensor.data[:8] + struct.pack("<f", value) + tensor.data[12:]

    return change


# --- adapters --------------------------------------------------------------------------------------------------------

_adapter = _cases(kinds.ADAPTER)
_A, _B = "blk.0.attn_q.weight.lora_a", "blk.0.attn_q.weight.lora_b"

_adapter("no_type", "M201", _KEYS, lambda file: file.drop("adapter.type"))
_adapter("dora", "M201", key_field("adapter.type"), lambda file: file.set("adapter.type", b"dora"))
_adapter("no_general_type", "M201", _KEYS, lambda file: file.drop("general.type"))
_adapter("model", "M201", key_field("general.type"), lambda file: file.set("general.type", b"model"))
_adapter("no_architecture", "M201", _KEYS, lambda file: file.drop("general.architecture"))
_adapter("alpha_u32", "M202", key_field("adapter.lora.alpha", "type"),
         lambda file: file.set("adapter.lora.alpha", 16, ValueType.UINT32))  # fmt: skip
_adapter("alpha_nan", "M203", key_field("adapter.lora.alpha"),
         lambda file: file.set("adapter.lora.alpha", math.nan))  # fmt: skip
_adapter("no_b", "M204", info_field(_A, "name"), lambda file: file.without(_B))
_adapter("ranks", "M205", info_field(_B, "ne"), _shape(_B, 4, 256))
_adapter("one_transposed", "M205", info_field(_B, "ne"), _shape(_A, 8, 128))
_adapter("transposed", "M206", info_field(_A, "ne"),
         lambda file: (_shape(_A, 8, 128)(file), _shape(_B, 128, 8)(file)))  # fmt: skip
_adapter("stray", "M207", "tensor_infos[4].name", lambda file: file.floats("rope_freqs.weight", 16))
_adapter("norm", "M208", "tensor_infos[4].name", lambda file: file.floats("blk.0.attn_norm.weight", 128))
_adapter("empty", "M208", _TENSORS, lambda file: file.tensors.clear())


# --- projectors ------------------------------------------------------------------------------------------------------

_projector = _cases(kinds.PROJECTOR)
_EMBEDDING, _BLOCKS = "clip.vision.embedding_length", "clip.vision.block_count"

_projector("no_type", "M211", _KEYS, lambda file: file.drop("clip.projector_type"))
_projector("type", "M211", key_field("clip.projector_type"),
           lambda file: file.set("clip.projector_type", b"llava"))  # fmt: skip
_projector("no_encoder", "M212", _KEYS, lambda file: file.drop("clip.has_vision_encoder"))
_projector("encoder_false", "M212", key_field("clip.has_vision_encoder"),
           lambda file: file.set("clip.has_vision_encoder", 0))  # fmt: skip
_projector("no_embedding_length", "M213", _KEYS, lambda file: file.drop(_EMBEDDING))
_projector("no_mean", "M213", _KEYS, lambda file: file.drop("clip.vision.image_mean"))
_projector("size_u64", "M214", key_field("clip.vision.image_size", "type"),
           lambda file: file.set("clip.vision.image_size", 28, ValueType.UINT64))  # fmt: skip
_projector("flag_u8", "M214", key_field("clip.has_vision_encoder", "type"),
           lambda file: file.set("clip.has_vision_encoder", 1, ValueType.UINT8))  # fmt: skip
_projector("two_means", "M215", key_field("clip.vision.image_mean"),
           lambda file: file.items("clip.vision.image_mean").pop())  # fmt: skip
_projector("no_heads", "M215", key_field("clip.vision.attention.head_count"),
           lambda file: file.set("clip.vision.attention.head_count", 0))  # fmt: skip
_projector("two_activations", "M215", "key_values[15].value",
           lambda file: file.key("clip.use_gelu", "bool", True).key("clip.use_silu", "bool", True))  # fmt: skip
_projector("two_blocks", "M216", key_field(_BLOCKS), lambda file: file.set(_BLOCKS, 2))
_projector("no_attn_out", "M216", _TENSORS, lambda file: file.without("v.blk.0.attn_out.weight"))
_projector("no_result", "M216", _TENSORS, lambda file: file.without("mm.2.weight"))
_projector("block_unused", "M217", key_field(_BLOCKS),
           lambda file: file.floats("v.blk.1.attn_out.weight", 64, 64))  # fmt: skip


def _two_encoders(width: int) -> bytes:
    """Return a projector for images and sounds whose results have these widths: the second is given."""
    file, audio = Companion(kinds.PROJECTOR), Companion(kinds.PROJECTOR, "qwen2a", width=width)
    file.drop("clip.projector_type").key("clip.vision.projector_type", "str", "mlp")
    file.key("clip.audio.projector_type", "str", "qwen2a")
    file.keys += [pair for pair in audio.keys if pair.key.startswith((b"clip.audio.", b"clip.has_audio"))]
    file.tensors += audio.tensors
    return file.built()


add("projector_widths", "M218", lambda: f"tensor_infos[{_audio_row()}].ne", lambda: _two_encoders(64),
         sound=lambda: _two_encoders(128))  # fmt: skip


def _audio_row() -> int:
    return len(Companion(kinds.PROJECTOR).tensors) + Companion(kinds.PROJECTOR, "qwen2a").row("mm.a.fc.weight")


# --- importance matrices and control vectors -------------------------------------------------------------------------

_imatrix = _cases(kinds.IMATRIX)
_SUMS, _COUNTS = "blk.0.attn_q.weight.in_sum2", "blk.0.attn_q.weight.counts"

_imatrix("no_chunk_size", "M221", _KEYS, lambda file: file.drop("imatrix.chunk_size"))
_imatrix("chunk_count_u64", "M221", key_field("imatrix.chunk_count", "type"),
         lambda file: file.set("imatrix.chunk_count", 25, ValueType.UINT64))  # fmt: skip
_imatrix("no_counts", "M222", info_field(_SUMS, "name"), lambda file: file.without(_COUNTS))
_imatrix("counts_f16", "M222", info_field(_COUNTS, "type"), _half(_COUNTS))
_imatrix("counts_of_three", "M222", info_field(_COUNTS, "ne"),
         lambda file: file.without(_COUNTS).tensors.insert(1, Companion().floats(_COUNTS, 1, 3).tensors[-1]))  # fmt: skip
_imatrix("empty", "M222", _TENSORS, lambda file: file.tensors.clear())
_imatrix("stray", "M223", "tensor_infos[4].name", lambda file: file.floats("blk.0.attn_q.weight.in_sum", 128))
_imatrix("negative", "M224", "data[0]", _value(_SUMS, -1.0))

_vector = _cases(kinds.CONTROL_VECTOR)
_FIRST, _SECOND = "direction.1", "direction.2"

_vector("layer_0", "M226", info_field(_FIRST, "name"),
        lambda file: setattr(file.tensor(_FIRST), "name", b"direction.0"))  # fmt: skip
_vector("f16", "M226", info_field(_SECOND, "type"), _half(_SECOND))
_vector("widths", "M226", info_field(_SECOND, "ne"),
        lambda file: file.without(_SECOND).floats(_SECOND, 64))  # fmt: skip
_vector("matrix", "M226", info_field(_SECOND, "ne"), _shape(_SECOND, 64, 2))
_vector("no_hint", "M227", _KEYS, lambda file: file.drop("controlvector.model_hint"))
_vector("layers", "M227", key_field("controlvector.layer_count"),
        lambda file: file.set("controlvector.layer_count", 3))  # fmt: skip
