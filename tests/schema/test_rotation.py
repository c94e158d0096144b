"""The keys of a folded rotation: their meaning, and every way in which they describe no computable rotation."""

from __future__ import annotations

from typing import Any

import pytest

from i2s_spec.schema.keys import REQUIRED
from i2s_spec.schema.rotation import AXIS, KEYS, PREFIX, TRANSFORM, Rotation, RotationError, declared

NAMES = ["blk.0.ffn_up.weight", "output.weight"]


def metadata(**other: Any) -> dict[str, Any]:
    """The keys of a small file; a key of None is left out."""
    found = {
        "version": 1, "block_size": 4, "transform": TRANSFORM, "axis": AXIS, "sign_mode": "explicit",
        "sign_widths": [8, 4], "sign_values": [1, -1, 1, 1, 1, 1, -1, 1, -1, -1, -1, 1], "weight_names": NAMES,
        "inverse_weight_names": ["token_embd.weight"], "gdn_v_grouped": True, **other,
    }  # fmt: skip
    return {"general.name": "x"} | {PREFIX + key: value for key, value in found.items() if value is not None}


def test_keys_of_a_rotation() -> None:
    rotation = declared(metadata())
    assert rotation == Rotation(
        4, tuple(NAMES), ("token_embd.weight",), {8: (1, -1, 1, 1, 1, 1, -1, 1), 4: (-1, -1, -1, 1)}, True
    )
    assert rotation.rotates(NAMES[0])
    assert not rotation.rotates("token_embd.weight")
    assert rotation.signs_of(4) == (-1, -1, -1, 1)
    without = dict.fromkeys(("sign_widths", "sign_values", "inverse_weight_names", "gdn_v_grouped"))
    plain = declared(metadata(sign_mode="identity", **without))
    assert plain == Rotation(4, tuple(NAMES))
    assert plain.signs_of(12) is None
    assert declared({"general.name": "x"}) is None


@pytest.mark.parametrize("key", [key.name.removeprefix(PREFIX) for key in KEYS if key.need == REQUIRED])
def test_keys_that_are_missing(key: str) -> None:
    with pytest.raises(RotationError, match=rf"prism\.hadamard\.{key} is missing") as caught:
        declared(metadata(**{key: None}))
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("version", 2, "is '2'; known are 1"),
        ("transform", "dct", "is 'dct'; known are normalized-sylvester-walsh-hadamard"),
        ("axis", "output", "is 'output'"),
        ("sign_mode", "random", "is 'random'; known are identity, explicit"),
        ("block_size", 12, "is '12', which is not a power of two"),
        ("block_size", 1, "is '1', which is not a power of two"),
        ("sign_widths", [8, 8], "widths must be positive and different"),
        ("sign_widths", [8, 5], "has 12 signs, and the widths add up to 13"),
        ("sign_widths", [], "is missing, and sign_mode is explicit"),
        ("sign_values", [1] * 11 + [0], "has '0' at 11; signs must be -1 or \\+1"),
    ],
)
def test_keys_that_cannot_be_meant(key: str, value: Any, why: str) -> None:
    with pytest.raises(RotationError, match=why):
        declared(metadata(**{key: value}))


def test_rows_that_do_not_fit() -> None:
    rotation = declared(metadata())
    assert rotation is not None
    rotation.require_width(12)
    with pytest.raises(RotationError, match="block_size is 4, which does not divide rows of 10 elements"):
        rotation.require_width(10)
    with pytest.raises(RotationError, match="sign_widths has no signs for rows of 12 elements"):
        rotation.signs_of(12)
