"""Wrong copies of a trained model: typical mistakes of converters, of merging files and of editing metadata."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from i2s_spec.codec.native import pack, unpack
from i2s_spec.convert.trained import open_trained
from i2s_spec.gguf.writer import Writer

Trits = np.ndarray
PROJECTIONS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


class Copy:
    """A model in parts that can be changed: keys with their types, and the tensors' shapes, types and bytes."""

    def __init__(self, name: str = "stories") -> None:
        with open_trained(name) as file:
            self.keys = {key: (file.metadata[key], file.metadata.entry(key).label) for key in file.metadata}
            self.tensors: dict[str, tuple[tuple[int, ...], str, bytes]] = {}
            for tensor in file.tensors.values():
                assert tensor.type is not None
                data = file.source.read(tensor.span.start, tensor.span.stop - tensor.span.start)
                self.tensors[tensor.name] = tensor.shape, tensor.type.name, bytes(data)
        self.architecture = str(self.keys["general.architecture"][0])

    def written(self) -> bytes:
        out = io.BytesIO()
        with Writer(out) as writer:
            for key, (value, label) in self.keys.items():
                writer.add(key, value, label)
            for name, (shape, kind, data) in self.tensors.items():
                writer.add_tensor(name, shape, kind, data)
        return out.getvalue()

    # Keys

    def set(self, key: str, value: Any, label: str | None = None) -> Copy:
        """Another value; `$` in front stands for the architecture's name."""
        key = key.replace("$", self.architecture)
        self.keys[key] = value, label or self.keys[key][1]
        return self

    def without(self, key: str) -> Copy:
        del self.keys[key.replace("$", self.architecture)]
        return self

    def items(self, key: str, change: Callable[[list[Any]], object]) -> Copy:
        """Change the elements of an array."""
        value = list(self.keys[key][0])
        change(value)
        return self.set(key, value)

    # Tensors

    def names(self, role: str) -> list[str]:
        """The tensors of a role in all layers."""
        return [name for name in self.tensors if name.endswith(f".{role}.weight")]

    def trits(self, role: str, change: Callable[[Trits], Trits], layers: slice = slice(None)) -> Copy:
        """Change the trits of the matrices of a role, [rows, columns]; the shape stays."""
        for name in self.names(role)[layers]:
            shape, kind, data = self.tensors[name]
            found, scale = unpack(data, shape)
            changed = np.ascontiguousarray(change(found)).reshape(shape)
            self.tensors[name] = shape, kind, pack(changed, float(scale))
        return self

    def each(self, change: Callable[[Trits], Trits]) -> Copy:
        """Change the trits of all matrices."""
        for role in PROJECTIONS:
            self.trits(role, change)
        return self

    def packed(self, dialect: str, *roles: str, layers: slice = slice(None)) -> Copy:
        """Pack the matrices of some roles, or of all, in another dialect."""
        for role in roles or PROJECTIONS:
            for name in self.names(role)[layers]:
                shape, kind, data = self.tensors[name]
                found, scale = unpack(data, shape)
                self.tensors[name] = shape, kind, pack(found, float(scale), dialect)
        return self

    def scales(self, change: Callable[[np.float32], Any], *roles: str) -> Copy:
        for role in roles or PROJECTIONS:
            for name in self.names(role):
                shape, kind, data = self.tensors[name]
                (scale,) = struct.unpack("<f", data[-32:-28])
                tail = struct.pack("<f", change(np.float32(scale)))
                self.tensors[name] = shape, kind, data[:-32] + tail + data[-28:]
        return self

    def floats(self, change: Callable[[np.ndarray], np.ndarray], role: str = "") -> Copy:
        """Change gains: those of a role, or all."""
        for name, (shape, kind, data) in self.tensors.items():
            if kind == "F32" and role in name:
                array = np.asarray(change(np.frombuffer(data, "<f4")), dtype="<f4")
                self.tensors[name] = shape, kind, array.tobytes()
        return self

    def embedding(self, change: Callable[[np.ndarray], np.ndarray]) -> Copy:
        shape, kind, data = self.tensors["token_embd.weight"]
        array = np.asarray(change(np.frombuffer(data, "<f2").reshape(shape)), dtype="<f2")
        self.tensors["token_embd.weight"] = shape, kind, array.tobytes()
        return self

    def exchange(self, one: str, other: str) -> Copy:
        """Exchange tensors whose names hold `one` with those that hold `other` there."""
        pairs = [(name, name.replace(one, other)) for name in self.tensors if one in name]
        for first, second in pairs:
            self.tensors[first], self.tensors[second] = self.tensors[second], self.tensors[first]
        return self


def halves_to_neighbors(rows: Trits, heads: int) -> Trits:
    """The rows of q or k in the order of runtimes that rotate neighbors, from that of those that rotate halves."""
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def neighbors_to_halves(rows: Trits, heads: int) -> Trits:
    return rows.reshape(heads, -1, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def column_by_column(matrix: Trits) -> Trits:
    return np.ascontiguousarray(matrix.T).reshape(matrix.shape)


def spread_rows(rows: Trits) -> Trits:
    """Query heads 0, 1, 2, 3 of two groups as 0, 2, 1, 3."""
    return rows.reshape(4, -1, rows.shape[1])[[0, 2, 1, 3]].reshape(rows.shape)


def spread_columns(matrix: Trits) -> Trits:
    return matrix.reshape(len(matrix), 4, -1)[:, [0, 2, 1, 3]].reshape(matrix.shape)
