"""Kinds of damage to a sound file, each as one change: `damages(content)` gives every changed copy, `Content` is what is
changed.

    >>> content = Content.read("sound.gguf")
    >>> for damage in damages(content):
    ...     damage.content.write(f"{damage.kind}-{damage.where}.gguf")

A change makes a file that is another file, not always one that is bad: whether it is, llama.cpp says.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import i2s_spec as i2s
from i2s_spec.gguf.writer import Writer

#: NumPy's types of the tensor types that smallest files consist of.
_DTYPES: Final = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I32": "<i4"}

#: Bytes of a block of Q8_0: a scale in F16, and 32 elements.
_Q8_0: Final = (32, 34)

_TOKENIZER: Final = "tokenizer.ggml."


class Value(NamedTuple):
    """A metadata value and its type, as `Writer.add` takes it: `u32`, `arr[str]`."""

    kind: str
    value: Any


class Weight(NamedTuple):
    """A tensor: its shape in NumPy's order, the name of its type, and its bytes."""

    shape: tuple[int, ...]
    kind: str
    data: bytes

    def array(self) -> np.ndarray[Any, Any]:
        """The values of a tensor of floats or integers."""
        return np.frombuffer(self.data, _DTYPES[self.kind]).reshape(self.shape)

    @classmethod
    def of(cls, array: np.ndarray[Any, Any], kind: str) -> Weight:
        """The tensor of an array, in a type of floats or integers."""
        return cls(array.shape, kind, np.ascontiguousarray(array, _DTYPES[kind]).tobytes())


@dataclass(frozen=True)
class Content:
    """What a file holds: metadata and tensors by name, in their order."""

    keys: dict[str, Value]
    tensors: dict[str, Weight]

    @classmethod
    def read(cls, path: Path | str) -> Content:
        """The content of a sound file."""
        with i2s.open(path) as file:
            keys = {entry.key: Value(entry.label, _plain(file.metadata[entry.key])) for entry in file.metadata.rows}
            tensors = {
                name: Weight(tensor.shape, tensor.type.name, tensor.read())
                for name, tensor in file.tensors.items()
                if tensor.type is not None
            }
        return cls(keys, tensors)

    def write(self, path: Path) -> None:
        """Write a file."""
        with Writer(path, force=True) as writer:
            for name, (kind, value) in self.keys.items():
                writer.add(name, value, kind)
            for name, (shape, kind, data) in self.tensors.items():
                writer.add_tensor(name, shape, kind, data)

    @property
    def architecture(self) -> str:
        """The name of the architecture."""
        return str(self.keys["general.architecture"].value)

    def with_key(self, name: str, value: Value | None) -> Content:
        """A copy with one value set, or without it."""
        keys = {each: old for each, old in self.keys.items() if each != name or value is not None}
        return replace(self, keys=keys | ({name: value} if value is not None else {}))

    def with_tensor(self, name: str, weight: Weight | None) -> Content:
        """A copy with one tensor set, or without it."""
        tensors = {each: old for each, old in self.tensors.items() if each != name or weight is not None}
        return replace(self, tensors=tensors | ({name: weight} if weight is not None else {}))


def _plain(value: Any) -> Any:
    """A metadata value without NumPy's types."""
    return value.tolist() if hasattr(value, "tolist") else value


class Damage(NamedTuple):
    """A changed copy.

    :param kind: the name of the change in `KINDS`, :param where: the tensor or key that it changes
    """

    kind: str
    where: str
    content: Content


#: A kind of damage: from a content, the changed copies, each with the name of the tensor or key.
_Kind = Callable[[Content], Iterator[tuple[str, Content]]]

KINDS: Final[dict[str, _Kind]] = {}


def _kind(function: _Kind) -> _Kind:
    """Declare a kind of damage under the name of its function."""
    KINDS[function.__name__.strip("_").replace("_", "-")] = function
    return function


def damages(content: Content) -> Iterator[Damage]:
    """Every changed copy of a content, by kind."""
    for kind, change in KINDS.items():
        for where, changed in change(content):
            yield Damage(kind, where, changed)


# Tensors.


def _first_of_each(content: Content) -> Iterator[tuple[str, Weight]]:
    """Tensors, each once: those of block 0 and of no block, and of other blocks those that block 0 has not."""
    seen = set()
    for name, weight in content.tensors.items():
        pattern = re.sub(r"\.\d+\.", ".#.", name)
        if pattern not in seen:
            seen.add(pattern)
            yield name, weight


@_kind
def _tensor_dropped(content: Content) -> Iterator[tuple[str, Content]]:
    for name, _ in _first_of_each(content):
        yield name, content.with_tensor(name, None)


@_kind
def _tensor_with_one_more_row(content: Content) -> Iterator[tuple[str, Content]]:
    for name, (shape, kind, data) in _first_of_each(content):
        row = len(data) // shape[0]
        yield name, content.with_tensor(name, Weight((shape[0] + 1, *shape[1:]), kind, data + data[:row]))


@_kind
def _tensor_transposed(content: Content) -> Iterator[tuple[str, Content]]:
    for name, weight in _first_of_each(content):
        if len(weight.shape) == 2 and weight.shape[0] != weight.shape[1]:
            yield name, content.with_tensor(name, Weight.of(weight.array().T, weight.kind))


@_kind
def _tensor_renamed(content: Content) -> Iterator[tuple[str, Content]]:
    for name, weight in _first_of_each(content):
        yield name, content.with_tensor(name, None).with_tensor(f"{name.removesuffix('.weight')}x.weight", weight)


@_kind
def _tensor_extra(content: Content) -> Iterator[tuple[str, Content]]:
    for name in ("foo.weight", "blk.0.foo.weight", "blk.99.attn_norm.weight"):
        yield name, content.with_tensor(name, Weight((32,), "F32", bytes(128)))


def _retyped(kind: str) -> _Kind:
    def change(content: Content) -> Iterator[tuple[str, Content]]:
        for name, weight in _first_of_each(content):
            if weight.kind != kind:
                yield name, content.with_tensor(name, Weight.of(weight.array(), kind))

    change.__name__ = f"tensor_as_{kind.lower()}"
    return change


for _each in ("F16", "F64", "I32"):
    _kind(_retyped(_each))


@_kind
def _nan_in_a_tensor(content: Content) -> Iterator[tuple[str, Content]]:
    for name, weight in _first_of_each(content):
        if weight.kind in ("F16", "F32"):
            array = weight.array().copy()
            array.reshape(-1)[-1] = math.nan
            yield name, content.with_tensor(name, Weight.of(array, weight.kind))


@_kind
def _nan_in_a_scale(content: Content) -> Iterator[tuple[str, Content]]:
    elements, size = _Q8_0
    for name, (shape, kind, _) in _first_of_each(content):
        if kind == "F16" and len(shape) > 1 and shape[-1] % elements == 0:
            blocks = math.prod(shape) // elements
            data = bytearray((struct.pack("<e", 0.01) + bytes(range(elements))) * blocks)
            data[(blocks - 1) * size : (blocks - 1) * size + 2] = struct.pack("<e", math.nan)
            yield name, content.with_tensor(name, Weight(shape, "Q8_0", bytes(data)))


# Keys.


def _own_keys(content: Content) -> Iterator[tuple[str, Value]]:
    """The keys of the architecture."""
    for name, value in content.keys.items():
        if name.startswith(f"{content.architecture}."):
            yield name, value


@_kind
def _key_dropped(content: Content) -> Iterator[tuple[str, Content]]:
    for name, _ in _own_keys(content):
        yield name, content.with_key(name, None)


#: The type that stands in for another, and how a value of it is made.
_OTHER_TYPE: Final[dict[str, Callable[[Any], Value]]] = {
    "u32": lambda value: Value("u64", value),
    "i32": lambda value: Value("i64", value),
    "u64": lambda value: Value("u32", value),
    "f32": lambda value: Value("f64", value),
    "bool": lambda value: Value("u32", int(value)),
    "str": lambda value: Value("arr[str]", [value]),
}


@_kind
def _key_of_another_type(content: Content) -> Iterator[tuple[str, Content]]:
    for name, (kind, value) in _own_keys(content):
        scalar = kind.removeprefix("arr[").removesuffix("]")
        other = _OTHER_TYPE[scalar]
        if kind != scalar:
            first = other(value[0] if value else 0)
            yield name, content.with_key(name, Value(f"arr[{first.kind}]", [other(each).value for each in value]))
        else:
            yield name, content.with_key(name, other(value))


@_kind
def _key_as_text(content: Content) -> Iterator[tuple[str, Content]]:
    for name, (kind, value) in _own_keys(content):
        if kind != "str":
            yield name, content.with_key(name, Value("str", str(value)))


@_kind
def _key_raised_by_one(content: Content) -> Iterator[tuple[str, Content]]:
    for name, (kind, value) in _own_keys(content):
        if kind in ("u32", "i32", "u64"):
            yield name, content.with_key(name, Value(kind, value + 1))


@_kind
def _key_set_to_zero(content: Content) -> Iterator[tuple[str, Content]]:
    for name, (kind, value) in _own_keys(content):
        if kind in ("u32", "f32") and value:
            yield name, content.with_key(name, Value(kind, type(value)(0)))


@_kind
def _key_set_to_nan(content: Content) -> Iterator[tuple[str, Content]]:
    for name, (kind, _) in _own_keys(content):
        if kind == "f32":
            yield name, content.with_key(name, Value(kind, math.nan))


@_kind
def _array_shortened(content: Content) -> Iterator[tuple[str, Content]]:
    for name, (kind, value) in content.keys.items():
        if kind.startswith("arr") and len(value) > 1:
            yield name, content.with_key(name, Value(kind, list(value)[:-1]))


# Tokenizer, names, parts.


@_kind
def _tokenizer_key_dropped(content: Content) -> Iterator[tuple[str, Content]]:
    for name in content.keys:
        if name.startswith(_TOKENIZER):
            yield name, content.with_key(name, None)


@_kind
def _tokenizer_unknown(content: Content) -> Iterator[tuple[str, Content]]:
    for name in (f"{_TOKENIZER}model", f"{_TOKENIZER}pre"):
        if name in content.keys:
            yield name, content.with_key(name, Value("str", "foo"))


@_kind
def _tokenizer_key_of_another_type(content: Content) -> Iterator[tuple[str, Content]]:
    for name, (kind, value) in content.keys.items():
        if name.startswith(_TOKENIZER) and kind == "u32":
            yield name, content.with_key(name, Value("u64", value))
        elif name.startswith(_TOKENIZER) and kind == "arr[i32]":
            yield name, content.with_key(name, Value("arr[u64]", list(value)))
        elif name.startswith(_TOKENIZER) and kind == "str":
            yield name, content.with_key(name, Value("u32", 1))


@_kind
def _token_doubled(content: Content) -> Iterator[tuple[str, Content]]:
    name = f"{_TOKENIZER}tokens"
    if name in content.keys:
        tokens = list(content.keys[name].value)
        yield name, content.with_key(name, Value("arr[str]", [*tokens[:-1], tokens[0]]))


@_kind
def _special_token_outside(content: Content) -> Iterator[tuple[str, Content]]:
    for name in (f"{_TOKENIZER}bos_token_id", f"{_TOKENIZER}eos_token_id"):
        if name in content.keys:
            yield name, content.with_key(name, Value("u32", 1 << 20))


@_kind
def _architecture_unknown(content: Content) -> Iterator[tuple[str, Content]]:
    for other in ("foo", content.architecture.upper()):
        if other != content.architecture:
            yield other, content.with_key("general.architecture", Value("str", other))


@_kind
def _part_of_two(content: Content) -> Iterator[tuple[str, Content]]:
    keys = {"split.no": Value("u16", 0), "split.count": Value("u16", 2)}
    count = {"split.tensors.count": Value("i32", len(content.tensors))}
    yield "split.count", replace(content, keys=content.keys | keys | count)
