"""Packed codes that a converter stored as floats are one finding, which names them; other floats are not taken for them."""

from __future__ import annotations

import io

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.gguf.writer import Writer
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Severity


def _written(architecture: str, type: str, values: object = None, beside: bool = False) -> bytes:
    """A model whose matrices are floats: packed codes, or what a function gives for the shape of a quarter."""
    data, out = io.BytesIO(), io.BytesIO()
    i2s.new(data, architecture)
    with i2s.open(data.getvalue()) as file, Writer(out) as writer:
        for key, value in file.metadata.items():
            writer.add(key, value)
        for name, tensor in file.tensors.items():
            if tensor.kind != "I2_S":
                writer.add_tensor(name, tensor.shape, tensor.kind, tensor.read())
                continue
            codes = (tensor.trits() + 1).astype(np.uint8).reshape(4, -1, tensor.shape[1])
            packed = codes[0] | codes[1] << 2 | codes[2] << 4 | codes[3] << 6
            floats = packed if values is None else values(packed.shape)  # type: ignore[operator]
            made = floats.astype({"F16": "<f2", "F32": "<f4"}[type])
            writer.add_tensor(name, packed.shape, type, made.tobytes())
            if beside:
                scale = np.array([tensor.scale()], "<f4").tobytes()
                writer.add_tensor(f"layers.{name[4:]}_scale", (1,), "F32", scale)
    return out.getvalue()


def _errors(data: bytes) -> list[str]:
    return [each.code for each in lint(data, payload="full").findings if each.severity is Severity.ERROR]


@pytest.mark.parametrize("architecture", ["llama", "bitnet-b1.58", "qwen3-lm"])
@pytest.mark.parametrize("type", ["F16", "F32"])
@pytest.mark.parametrize("beside", [False, True])
def test_packed_codes_are_one_finding(architecture: str, type: str, beside: bool) -> None:
    data = _written(architecture, type, beside=beside)
    assert set(_errors(data)) & {"M101", "M102", "M103", "M123"} == {"M123"}
    (found,) = (each for each in lint(data, payload="full").findings if each.code == "M123")
    assert "packed codes as floats" in found.message
    assert found.message.startswith("the matrices")


@pytest.mark.parametrize(
    "values",
    [
        lambda shape: np.random.default_rng(1).standard_normal(shape),
        lambda shape: np.random.default_rng(1).integers(0, 256, shape),
        lambda shape: np.random.default_rng(1).integers(-1, 2, shape),
        lambda shape: np.full(shape, np.nan),
        np.zeros,
    ],
    ids=["weights", "code 3", "trits", "NaN", "zeros"],
)
def test_other_floats_with_a_quarter_of_the_rows_are_wrong_shapes(values: object) -> None:
    codes = _errors(_written("llama", "F32", values))
    assert "M103" in codes
    assert "M123" not in codes
