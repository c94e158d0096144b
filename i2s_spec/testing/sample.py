"""Small sound files, and how to break them in one place: GGUF files, and a checkpoint.

`Draft`, the smallest, holds every kind of value and tensor that matters to a container, in about a kilobyte; it is not
a usable model. It is changed in two ways: by editing the records that the schema parses it into (`Draft.records`), or
by overwriting the bytes of one field, found by its path in the schema (`Draft.patch`). Wrong lengths, counts and
offsets are not corrected. `Model` is a complete model of an architecture, in about 100 kilobytes; its keys and tensors
can be changed, and it is laid out again. `CheckpointSample` is a checkpoint.

    >>> draft = Draft()
    >>> data = draft.patch("header.version", (4).to_bytes(4, "little"))
    >>> data[4]
    4
"""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import cache
from itertools import islice
from typing import Any, Final, Literal, Self

import numpy as np
from construct import Container

from i2s_spec.codec import blocks
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.convert.new import new
from i2s_spec.errors import counted
from i2s_spec.schema import container, faults
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.schema.blocks import BLOCK_LAYOUTS
from i2s_spec.schema.faults import order_prefix
from i2s_spec.schema.types import BY_NAME, ValueType, padded

ByteOrder = Literal["little", "big"]


def key_value(key: bytes, kind: ValueType, value: Any) -> Container:
    """Return a key-value record; `value` in the schema's form (bytes for strings)."""
    return Container(key=key, type=int(kind), value=value)


def array(element: ValueType, items: Iterable[Any]) -> Container:
    """Return an array value."""
    items = list(items)
    return Container(type=int(element), count=len(items), items=items)


def tensor_info(name: bytes, ne: tuple[int, ...], number: int, offset: int) -> Container:
    """Return a tensor info record; `ne` in ggml's order."""
    return Container(name=name, n_dims=len(ne), ne=list(ne), type=number, offset=offset)


def i2s_bytes(weights: int, scale: float = 0.75, order: ByteOrder = "little") -> bytes:
    """Return a canonical I2_S tensor of `weights` elements: a fixed pattern of the codes 0, 1 and 2, the scale, 28
    zeros.
    """
    payload = bytes(
        (0x15, 0x4A, 0x56, 0x29, 0x58, 0xA4, 0x62, 0x90, 0x88, 0x40, 0x21)[i % 11] for i in range(weights // 4)
    )
    return payload + struct.pack(order_prefix(order) + "f", scale) + bytes(28)


class Draft:
    """A sound file that can be changed; every call starts from the sound file.

    :param order: byte order of the file
    :param last: which tensor comes last: `i2s` (its tail ends the file) or `f32`
    """

    def __init__(self, order: ByteOrder = "little", last: str = "i2s") -> None:
        self.order: ByteOrder = order
        self._last = last
        self._data = container.build(self.records())
        trace: list[Any] = []
        container.parse(self._data, trace)
        self._spans = {node.path: (node.start, node.stop) for node in trace}

    @property
    def data(self) -> bytes:
        """The sound file."""
        return self._data

    def span(self, path: str) -> tuple[int, int]:
        """Return the bytes of a field, by its path in the schema."""
        return self._spans[path]

    def records(self) -> Container:
        """Return the sound file as records; a new copy at every call."""
        floats = struct.pack(order_prefix(self.order) + "8f", *(1 + i / 8 for i in range(8)))
        parts = [
            (b"embedding.weight", (8, 1), "F32", floats),
            (b"first.weight", (128, 4), "I2_S", i2s_bytes(512, 0.75, self.order)),
            (b"second.weight", (256, 2), "I2_S", i2s_bytes(512, 1.25, self.order)),
        ]
        if self._last == "f32":
            parts = [*parts[1:], parts[0]]
        infos, data = [], b""
        for name, ne, kind, content in parts:
            infos.append(tensor_info(name, ne, BY_NAME[kind].number, len(data)))
            data += content.ljust(padded(len(content), 32), b"\0")
        return self.relaid(
            Container(
                header=Container(magic=b"GGUF", version=3, tensor_count=0, key_count=0),
                key_values=[
                    key_value(b"general.architecture", ValueType.STRING, b"sample"),
                    key_value(b"general.name", ValueType.STRING, b"probe"),
                    key_value(b"general.quantization_version", ValueType.UINT32, 2),
                    key_value(b"sample.eps", ValueType.FLOAT32, 1e-5),
                    key_value(b"sample.flag", ValueType.BOOL, 1),
                    key_value(b"sample.words", ValueType.ARRAY, array(ValueType.STRING, [b"a", b"", b"word"])),
                    key_value(b"sample.numbers", ValueType.ARRAY, array(ValueType.INT16, [-1, 0, 32767])),
                    key_value(b"sample.flags", ValueType.ARRAY, array(ValueType.BOOL, [0, 1])),
                ],
                tensor_infos=infos,
                padding=b"",
                data=data,
                byte_order=self.order,
            )
        )

    def relaid(self, file: Container, alignment: int = 32) -> Container:
        """Set the counts and the padding before the data section according to the records."""
        file.header.key_count = len(file.key_values)
        file.header.tensor_count = len(file.tensor_infos)
        bare = file.copy()
        bare.padding = bare.data = b""
        end = len(container.build(bare))
        file.padding = bytes(faults.data_start(end, alignment) - end)
        return file

    def built(self, file: Container, alignment: int = 32) -> bytes:
        """Return the bytes of changed records, laid out again."""
        return container.build(self.relaid(file, alignment))

    def patch(self, path: str, data: bytes) -> bytes:
        """Return the sound file with the bytes of one field overwritten."""
        start, stop = self._spans[path]
        if len(data) != stop - start:
            raise ValueError(f"{path} has {counted(stop - start, 'byte')}, not {len(data)}")
        return self._data[:start] + data + self._data[stop:]

    def number(self, path: str, value: int) -> bytes:
        """Return the sound file with another number in one field; the value wraps to the field's width."""
        start, stop = self._spans[path]
        width = stop - start
        return self.patch(path, (value % (1 << 8 * width)).to_bytes(width, self.order))


@cache
def _made(architecture: str, order: ByteOrder, layers: int) -> Container:
    """Return the records of a small model that `new` makes."""
    target = io.BytesIO()
    new(target, architecture, layers=layers, vocab=ARCHITECTURES[architecture].small_vocab, byte_order=order)
    return container.parse(target.getvalue())


#: What is noted about models that are made here: no key names the token with which their template ends a turn.
NOTED: Final = frozenset({"T025"})


class Tensor:
    """A tensor of a `Model`: name, ggml's shape, type number, and its bytes without padding."""

    def __init__(self, name: bytes, ne: tuple[int, ...], number: int, data: bytes) -> None:
        self.name = name
        self.ne = ne
        self.number = number
        self.data = data


class Model:
    """A sound model of a declared architecture that can be changed; the linter has no finding on it but notes (`NOTED`).

    Published files are sound but have findings: 2B-4T has no `tokenizer.ggml.pre`, the embedding models no
    `general.quantization_version`. Here these keys exist.

    :param architecture: one of `ARCHITECTURES`
    :param order: byte order of the file
    """

    def __init__(self, architecture: str = "llama", order: ByteOrder = "little", layers: int = 1) -> None:
        file = deepcopy(_made(architecture, order, layers))
        self.order: ByteOrder = order
        self.architecture = architecture
        self.keys: list[Container] = list(file.key_values)
        self.tensors: list[Tensor] = []
        for info in file.tensor_infos:
            size = _READ_AS[info.type].nbytes(info.ne)
            content = bytes(file.data[info.offset : info.offset + size])
            self.tensors.append(Tensor(bytes(info.name), tuple(info.ne), info.type, content))
        if not self.has("tokenizer.ggml.pre"):
            self.add("tokenizer.ggml.pre", ValueType.STRING, b"llama-bpe")
        if not self.has("general.quantization_version"):
            self.add("general.quantization_version", ValueType.UINT32, 2)

    def _full(self, name: str) -> bytes:
        return name.replace("{arch}", ARCHITECTURES[self.architecture].prefix).encode()

    def has(self, name: str) -> bool:
        """Whether there is a key of this name; `{arch}` stands for the architecture's prefix."""
        return any(pair.key == self._full(name) for pair in self.keys)

    def place(self, name: str) -> int:
        """Return the row of a key."""
        return next(i for i, pair in enumerate(self.keys) if pair.key == self._full(name))

    def pair(self, name: str) -> Container:
        """Return a key with its type and value; both can be changed."""
        return self.keys[self.place(name)]

    def add(self, name: str, kind: ValueType, value: Any) -> Self:
        """Return the model with one more key."""
        self.keys.append(key_value(self._full(name), kind, value))
        return self

    def set(self, name: str, value: Any, kind: ValueType | None = None) -> Self:
        """Return the model with another value or type of a key."""
        pair = self.pair(name)
        pair.value = value
        if kind is not None:
            pair.type = int(kind)
        return self

    def drop(self, *names: str) -> Self:
        """Return the model without some keys."""
        gone = {self._full(name) for name in names}
        self.keys = [pair for pair in self.keys if pair.key not in gone]
        return self

    def split(self, *sizes: int, all_keys: bool = False) -> list[bytes]:
        """Return the model as the files of its parts (clause 2.8).

        :param sizes: how many tensors each part has
        :param all_keys: whether every part has the keys of the model, as some writers do, not only the first
        """
        files, tensors = [], iter(self.tensors)
        for number, size in enumerate(sizes):
            part = deepcopy(self)
            part.tensors = list(islice(tensors, size))
            part.keys = part.keys if all_keys or not number else []
            for name, kind, value in (
                ("split.no", ValueType.UINT16, number),
                ("split.count", ValueType.UINT16, len(sizes)),
                ("split.tensors.count", ValueType.INT32, len(self.tensors)),
            ):
                part.add(name, kind, value)
            files.append(part.built())
        return files

    def items(self, name: str) -> list[Any]:
        """Return the elements of an array, which can be changed; the count is updated."""
        items: list[Any] = self.pair(name).value["items"]
        return items

    def row(self, name: str) -> int:
        """Return the row of a tensor in the table."""
        return next(i for i, tensor in enumerate(self.tensors) if tensor.name == name.encode())

    def tensor(self, name: str) -> Tensor:
        """Return a tensor, which can be changed."""
        return self.tensors[self.row(name)]

    def without(self, *names: str) -> Self:
        """Return the model without some tensors."""
        self.tensors = [tensor for tensor in self.tensors if tensor.name.decode() not in names]
        return self

    def like(self, name: str, ne: tuple[int, ...], kind: str) -> Self:
        """Return the model with a tensor of another shape or type, which replaces one or comes after all others."""
        number = BY_NAME[kind]
        content = block_bytes if kind in BLOCK_LAYOUTS else _content
        made = Tensor(name.encode(), ne, number.number, content(name.encode(), ne, kind))
        if any(tensor.name == made.name for tensor in self.tensors):
            self.tensors[self.row(name)] = made
        else:
            self.tensors.append(made)
        return self

    def changed(self, change: Callable[[Self], object]) -> Self:
        """Return the model after a change."""
        change(self)
        return self

    def built(self) -> bytes:
        """Return the model as a file, with correct counts, offsets and padding."""
        infos, data = [], b""
        for tensor in self.tensors:
            infos.append(tensor_info(tensor.name, tensor.ne, tensor.number, len(data)))
            data += tensor.data.ljust(padded(len(tensor.data), 32), b"\0")
        for pair in self.keys:
            if pair.type == ValueType.ARRAY:
                pair.value["count"] = len(pair.value["items"])
        bare = Container(
            header=Container(magic=b"GGUF", version=3, tensor_count=len(infos), key_count=len(self.keys)),
            key_values=self.keys, tensor_infos=infos, padding=b"", data=b"", byte_order=self.order,
        )  # fmt: skip
        end = len(container.build(bare))
        bare.padding = bytes(faults.data_start(end, 32) - end)
        bare.data = data
        return container.build(bare)


def block_bytes(name: bytes, ne: tuple[int, ...], kind: str) -> bytes:
    """Return a sound tensor of a type with a scale for each group: weights and scales drawn anew for each name.

    :param ne: its shape, ggml's order
    """
    drawn = np.random.default_rng(list(name))
    tensor = blocks_of(ne[::-1], kind)
    scales = drawn.uniform(0.01, 0.04, tensor.groups).astype(np.float32)
    return blocks.pack(drawn.integers(-1, 2, ne[::-1], dtype=np.int8), scales, kind)


def _content(name: bytes, ne: tuple[int, ...], kind: str) -> bytes:
    """Return bytes for a tensor, different for each name: codes 0 to 2 and a scale if it has them, else floats near 1."""
    size = BY_NAME[kind].nbytes(ne)
    if kind in ("I2_S", "TL1"):
        codes = [byte for byte in range(256) if all(byte >> shift & 3 != 3 for shift in (0, 2, 4, 6))]
        chance = random.Random(name)
        return bytes(chance.choices(codes, k=size - 32)) + i2s_bytes(0, 0.5 + chance.random())
    one = struct.pack("<2f", 1.0, 0.875) if kind == "F32" else b"\0\x3c"
    return (one * (size // len(one) + 1))[:size]


#: The type of each number in these files.
_READ_AS = {kind.number: kind for kind in reversed(tuple(BY_NAME.values()))}


# --- checkpoint ------------------------------------------------------------------------------------------------------
# It is packed like BitNet b1.58 2B-4T. Its tensors have a few bytes each: it serves rules on names, shapes and scales,
# and no model can run it.

EMBD: Final = 8
FF: Final = 16
VOCAB: Final = 4
LAYER: Final = "model.layers.0."
Q: Final = f"{LAYER}self_attn.q_proj.weight"

_MATRICES: Final = {
    "self_attn.q_proj": (EMBD, EMBD), "self_attn.k_proj": (EMBD, EMBD), "self_attn.v_proj": (EMBD, EMBD),
    "self_attn.o_proj": (EMBD, EMBD), "mlp.gate_proj": (FF, EMBD), "mlp.up_proj": (FF, EMBD), "mlp.down_proj": (EMBD, FF),
}  # fmt: skip
_NORMS: Final = {
    "input_layernorm": EMBD, "post_attention_layernorm": EMBD, "self_attn.attn_sub_norm": EMBD, "mlp.ffn_sub_norm": FF,
}  # fmt: skip


class CheckpointSample:
    """Config and tensors by name: type, shape, bytes.

    :param scale: the `weight_scale` of every matrix
    """

    def __init__(self, scale: float = 0.5) -> None:
        self.config: dict[str, Any] = {
            "architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "hidden_act": "relu2", "hidden_size": EMBD,
            "intermediate_size": FF, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
            "vocab_size": VOCAB, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
            "quantization_config": {
                "quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline",
            },
        }  # fmt: skip
        self.tensors: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
        self.floats("model.embed_tokens.weight", (VOCAB, EMBD))
        self.floats("model.norm.weight", (EMBD,))
        for module, (rows, cols) in _MATRICES.items():
            self.tensors[f"{LAYER}{module}.weight"] = ("U8", (rows // 4, cols), bytes([0x24]) * (rows * cols // 4))
            self.floats(f"{LAYER}{module}.weight_scale", (1,), scale)
        for module, width in _NORMS.items():
            self.floats(f"{LAYER}{module}.weight", (width,))

    def floats(self, name: str, shape: tuple[int, ...], value: float = 1.0) -> None:
        """Add a tensor of equal floats."""
        count = 1
        for size in shape:
            count *= size
        self.tensors[name] = ("F32", shape, struct.pack("<f", value) * count)

    def changed(self, change: Callable[[CheckpointSample], object]) -> CheckpointSample:
        change(self)
        return self

    def files(self) -> dict[str, bytes]:
        """Return the files of the folder by name."""
        header, data = {}, b""
        for name, (dtype, shape, words) in self.tensors.items():
            header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(words)]}
            data += words
        text = json.dumps(header).encode()
        whole = struct.pack("<Q", len(text)) + text + data
        return {
            "config.json": json.dumps(self.config).encode(), "model.safetensors": whole,
            "tokenizer.model": b"".join(_piece(text) for text in "abcd"[:VOCAB]),
        }  # fmt: skip


def _piece(text: str) -> bytes:
    """Return a piece of a tokenizer.model: field 1 of its message, whose own field 1 is the text."""
    return bytes([10, 2 + len(text), 10, len(text)]) + text.encode()
