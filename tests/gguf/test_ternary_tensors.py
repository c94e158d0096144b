"""The trits, the scale and the weights of a tensor, through the tensor's own methods."""

from __future__ import annotations

import io

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.schema.faults import ByteOrder

TRITS = np.random.default_rng(3).integers(-1, 2, (4, 256), dtype=np.int8)


def one(kind: str, data: bytes, shape: tuple[int, ...] = (4, 256), byte_order: ByteOrder = "little") -> i2s.Tensor:
    out = io.BytesIO()
    with i2s.Writer(out, byte_order=byte_order) as writer:
        writer.add("general.architecture", "bitnet-b1.58")
        writer.add_tensor("w", shape, kind, data)
    return i2s.open(out.getvalue()).tensors["w"]


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize(
    "dialect", ["canonical", "interleave-64", "rows-1x4/zero-first", "interleave-128/offset-1/replicated-8"]
)
def test_i2_s_in_a_dialect(dialect: str, byte_order: ByteOrder) -> None:
    tensor = one("I2_S", i2s.pack(TRITS, 0.75, dialect, byte_order=byte_order), byte_order=byte_order)
    assert np.array_equal(tensor.trits(dialect, threads=2), TRITS)
    assert tensor.scale(dialect) == np.float32(0.75)
    weights = tensor.dequantize(dialect)
    assert weights.dtype == np.float32
    assert np.array_equal(weights, TRITS * np.float32(0.75))


def test_floats_that_are_ternary_and_others() -> None:
    ternary = one("F16", (TRITS * np.float16(0.5)).tobytes())
    assert np.array_equal(ternary.trits(), TRITS)
    assert ternary.scale() == 0.5
    assert np.array_equal(ternary.dequantize(), TRITS * np.float32(0.5))
    values = np.linspace(-1, 1, 1024, dtype=np.float32)
    other = one("F32", values.tobytes())
    assert np.array_equal(other.dequantize(), values.reshape(4, 256))
    with pytest.raises(ValueError, match="not ternary"):
        other.trits()


def test_invalid_ternary_tensors_are_refused() -> None:
    unused = one("I2_S", b"\xff" + i2s.pack(TRITS, 1.0)[1:])
    with pytest.raises(ValueError, match="code 3"):
        unused.trits()
    with pytest.raises(ValueError, match="code 3"):
        unused.dequantize()
    assert unused.trits(unused_code="zero")[0, 0] == 0
    assert unused.scale() == 1
    with pytest.raises(ValueError, match="tensor 'w'"):
        one("I2_S", bytes(96 + 32), (3, 128)).dequantize("rows-1x4")
    with pytest.raises(ValueError, match="Q8_0 tensors hold no trits"):
        one("Q8_0", bytes(34 * 32)).trits()


def test_a_file_that_ends_early() -> None:
    out = io.BytesIO()
    with i2s.Writer(out) as writer:
        writer.add("general.architecture", "bitnet-b1.58")
        writer.add_tensor("w", (4, 256), "I2_S", i2s.pack(TRITS, 1.0))
    tensor = i2s.open(out.getvalue()[:-40]).tensors["w"]
    for ask in (tensor.trits, tensor.scale, tensor.dequantize):
        with pytest.raises(i2s.FormatError, match="G401"):
            ask()
