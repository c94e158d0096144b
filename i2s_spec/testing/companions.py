"""Small sound files that are no models: adapters, projectors of any type, importance matrices, control vectors.

`Companion` makes them; it is changed as a `sample.Model` is. A projector has what the table of types says its loader
needs, so one is made for each type without a list here.

    >>> Companion("adapter").has("adapter.lora.alpha")
    True
"""

from __future__ import annotations

import struct
from typing import Any, Final

from i2s_spec.schema import kinds
from i2s_spec.schema.types import BY_NAME, ValueType
from i2s_spec.testing.sample import ByteOrder, Model, Tensor, array, key_value

#: How each type of a key is written.
_WRITTEN: Final = {
    "u32": ValueType.UINT32, "i32": ValueType.INT32, "f32": ValueType.FLOAT32, "bool": ValueType.BOOL,
    "str": ValueType.STRING, "arr[f32]": ValueType.FLOAT32, "arr[i32]": ValueType.INT32,
}  # fmt: skip

#: Values of keys of projectors that a loader divides by, multiplies with, or compares; of all others the value is 1.
_VALUES: Final[dict[str, Any]] = {
    "projection_dim": 0, "image_size": 28, "patch_size": 14, "embedding_length": 64, "feed_forward_length": 128,
    "block_count": 1,
    "attention.head_count": 2, "attention.head_count_kv": 2, "attention.layer_norm_epsilon": 1e-5, "num_mel_bins": 80,
    "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "projector.scale_factor": 2, "spatial_merge_size": 2,
    "image_min_pixels": 784, "image_max_pixels": 7840, "conv_kernel_size": 3, "subsampling_factor": 8, "window_size": 8,
    "rvq.codebook_size": [4], "feature_layer": [1], "projector.spatial_offsets": [0], "wa_pattern_mode": [0],
    "wa_layer_indexes": [0], "chunk_size": 8, "max_pos_emb": 8,
}  # fmt: skip

#: Shapes of tensors that a loader compares; all others are squares.
_SHAPES: Final = {"a.mel_filters": (257, 80), "a.window": (400,)}

#: What every block of an encoder has besides what loaders require.
_BLOCK: Final = ("attn_q", "attn_k", "attn_v", "attn_out", "ln1", "ln2", "ffn_up", "ffn_down")


class Companion(Model):
    """A sound file of another kind than a model; the linter has no finding on it.

    :param kind: the name of a kind of `schema.kinds`
    :param type: the type of a projector
    :param width: the width of the model beside which it is used
    """

    def __init__(
        self, kind: str = kinds.ADAPTER, type: str = "mlp", order: ByteOrder = "little", width: int = 128
    ) -> None:
        self.order = order
        self.architecture = ""
        self.keys = []
        self.tensors = []
        self.width = width
        {
            kinds.ADAPTER: self._adapter, kinds.PROJECTOR: lambda: self._projector(type), kinds.IMATRIX: self._imatrix,
            kinds.CONTROL_VECTOR: self._control_vector, kinds.VOCABULARY: self._vocabulary, kinds.OTHER: self._other,
            kinds.NO_MODEL: self._no_model,
        }[kind]()  # fmt: skip

    def _full(self, name: str) -> bytes:
        return name.encode()

    def key(self, name: str, label: str, value: Any) -> Companion:
        """Return the file with one more key, whose type is given in the usual notation."""
        kind = _WRITTEN[label]
        if label.startswith("arr"):
            self.keys.append(key_value(name.encode(), ValueType.ARRAY, array(kind, value)))
        else:
            self.keys.append(key_value(name.encode(), kind, value.encode() if isinstance(value, str) else value))
        return self

    def floats(self, name: str, *ne: int, value: float = 0.5) -> Companion:
        """Return the file with one more tensor of F32."""
        count = 1
        for n in ne:
            count *= n
        data = struct.pack(
            f"{'<' if self.order == 'little' else '>'}{count}f", *[value + i % 7 / 64 for i in range(count)]
        )
        self.tensors.append(Tensor(name.encode(), ne, BY_NAME["F32"].number, data))
        return self

    def _adapter(self) -> None:
        self.key("general.architecture", "str", "llama").key("general.type", "str", "adapter")
        self.key("adapter.type", "str", "lora").key("adapter.lora.alpha", "f32", 16.0)
        for name in ("blk.0.attn_q.weight", "blk.0.attn_output.weight"):
            self.floats(f"{name}.lora_a", self.width, 8).floats(f"{name}.lora_b", 8, self.width)

    def _imatrix(self) -> None:
        self.key("general.type", "str", "imatrix")
        self.keys.append(key_value(b"imatrix.datasets", ValueType.ARRAY, array(ValueType.STRING, [b"calibration.txt"])))
        self.key("imatrix.chunk_count", "u32", 25).key("imatrix.chunk_size", "u32", 512)
        for name in ("blk.0.attn_q.weight", "blk.0.ffn_down.weight"):
            self.floats(f"{name}.in_sum2", self.width, 1).floats(f"{name}.counts", 1, 1, value=12_800)

    def _control_vector(self) -> None:
        self.key("general.architecture", "str", "controlvector").key("controlvector.model_hint", "str", "llama")
        self.keys.append(key_value(b"controlvector.layer_count", ValueType.INT32, 2))
        for layer in (1, 2):
            self.floats(f"direction.{layer}", self.width)

    def _vocabulary(self) -> None:
        whole = Model("llama").drop("tokenizer.chat_template")
        self.keys = [pair for pair in whole.keys if pair.key != b"general.quantization_version"]

    def _other(self) -> None:
        self.key("general.type", "str", "dataset").floats("rows", 8, 4)

    def _no_model(self) -> None:
        self.floats("first", 8, 4)

    def _projector(self, name: str) -> None:
        self.key("general.architecture", "str", "clip").key("general.type", "str", "mmproj")
        self.key("clip.projector_type", "str", name)
        table = kinds.projector_table()["types"]
        for encoder in kinds.ENCODERS:
            type_ = table[name].get("replaced", {encoder_of(name): name}).get(encoder.name)
            if type_ is None:
                continue
            if encoder.name == "speech":  # it comes with the encoder of speakers, and each names its type
                self.drop("clip.projector_type")
                other = name.replace("_gen", "_spkenc")
                self.key("clip.audio.projector_type", "str", other).key("clip.gen.audio.projector_type", "str", name)
                self._encoder(kinds.ENCODERS[1], table[other])
            if "tensors" in table[type_]:
                self._encoder(encoder, table[type_])

    def _encoder(self, encoder: kinds.ProjectorEncoder, row: dict[str, Any]) -> None:
        """Add the keys and tensors of an encoder, with one block."""
        self.key(encoder.flag, "bool", True)
        own = kinds.ENCODER_KEYS | kinds.ONE_ENCODER_KEYS[encoder.name]
        wanted = {f"{encoder.keys}.{name}": label for name, label in own.items()} | row.get("keys", {})
        if any("feature_layer" in str(group.get("for")) for group in row["tensors"]):
            wanted[f"{encoder.keys}.feature_layer"] = "arr[i32]"
        for key, label in wanted.items():
            if not self.has(key):
                end = next((end for end in _VALUES if key.endswith("." + end)), "")
                value = _VALUES.get(end, [1] if label.startswith("arr") else 1.0 if label == "f32" else 1)
                self.key(key, label, self.width if end == "projection_dim" else value)
        if row.get("blocks", True):
            for part in _BLOCK:
                self._tensor(f"{encoder.tensors}.blk.0.{part}.weight", *((64,) if part.startswith("ln") else (64, 64)))
        for group in row["tensors"]:
            if "if" in group and self.has(group["if"][0]):  # the value is another one
                continue
            loops = group.get("for", {})
            first = loops.get("i", [0])
            for i in first if isinstance(first, list) else [int(first.endswith("+1"))]:
                for j in loops.get("j", [0]):
                    for each in group["names"].split():
                        made = each.replace("{p}", encoder.tensors).replace("{i}", str(i)).replace("{j}", str(j))
                        self._tensor(made, *_SHAPES.get(made, (64, 64)))
        if "width" in row:
            each, dimension = row["width"]
            made = each.replace("{p}", encoder.tensors)
            self.without(made)
            self._tensor(made, *(((self.width,), (64, self.width), (1, 64, self.width))[dimension]))

    def _tensor(self, name: str, *ne: int) -> None:
        if not any(tensor.name == name.encode() for tensor in self.tensors):
            self.floats(name, *ne)


def encoder_of(type: str) -> str:
    """Return the encoder that a type of projector belongs to, by the tensors and keys that it needs."""
    row = kinds.projector_table()["types"].get(type, {})
    asked = " ".join(
        [*row.get("keys", {}), *row.get("optional", {}), *(each["names"] for each in row.get("tensors", ()))]
    )
    if "a.gen." in asked:
        return "speech"
    audio = "clip.audio." in asked or any(f" {name}" in f" {asked}" for name in ("a.", "mm.a."))
    return "audio" if audio else "vision"
