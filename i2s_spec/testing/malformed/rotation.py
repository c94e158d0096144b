"""This module breaks the keys of a folded rotation, and combines them with wrong tensors."""

from __future__ import annotations

from functools import partial
from typing import Any

from i2s_spec.schema.architectures.rotation import AXIS, PREFIX, TRANSFORM
from i2s_spec.schema.types import ValueType
from i2s_spec.testing.malformed.case import Place
from i2s_spec.testing.malformed.case import add as add_case
from i2s_spec.testing.sample import Model, array

_WEIGHT = "blk.0.attn_q.weight"
_NUMBERS = {"PQ2_0": 141, "Q2_0": 41}


def _model(kind: str) -> Model:
    """A llama model whose ternary tensors are of another type."""
    model = Model("llama")
    for tensor in list(model.tensors):
        if tensor.number == 36:
            model.like(tensor.name.decode(), tensor.ne, kind)
    return model.set("general.file_type", _NUMBERS[kind])


def _rotated(kind: str = "PQ2_0", **other: Any) -> Model:
    """The same with the keys of a rotation; one that is None is left out."""
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


def _path(key: str) -> Place:
    return lambda: f"key_values[{_rotated().place(PREFIX + key)}].key"


def _names(*names: bytes) -> tuple[ValueType, Any]:
    return ValueType.ARRAY, array(ValueType.STRING, names)


add = partial(add_case, sound=lambda: _rotated().built())

add("rotation_block", "M040", _path("block_size"), lambda: _rotated(block_size=(ValueType.UINT32, 96)).built())
add("rotation_row", "M040", _path("block_size"), lambda: _rotated(block_size=(ValueType.UINT32, 1 << 14)).built())
add("rotation_sign", "M040", _path("sign_values"),
    lambda: _rotated(sign_values=(ValueType.ARRAY, array(ValueType.INT32, [0, 1]))).built())  # fmt: skip
add("rotation_signs_short", "M040", _path("sign_values"),
    lambda: _rotated(sign_values=(ValueType.ARRAY, array(ValueType.INT32, [1, 1]))).built())  # fmt: skip
add("rotation_transform", "M040", _path("transform"), lambda: _rotated(transform=(ValueType.STRING, b"dct")).built())
add("rotation_no_axis", "M040", "header.key_count", lambda: _rotated(axis=None).built())
add(
    "rotation_of_nothing",
    "M040",
    _path("weight_names"),
    lambda: _rotated(weight_names=_names(b"blk.9.x.weight")).built(),
)
add("rotation_under_42", "M041", lambda: "tensor_infos[{}].type".format(
    next(i for i, each in enumerate(_rotated("Q2_0").tensors) if each.name == _WEIGHT.encode())),
    lambda: _rotated("Q2_0").built())  # fmt: skip
add("rotation_unsaid", "M042", lambda: "tensor_infos[{}].type".format(
    next(i for i, each in enumerate(_model("PQ2_0").tensors) if each.number == 142)),
    lambda: _model("PQ2_0").built())  # fmt: skip
