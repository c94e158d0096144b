"""Quantization of floats to blocks by ggml's rules, compared with ggml's own library and with the rules as written."""

from __future__ import annotations

import math
from typing import Any

import ggml_library
import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import blocks_native
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.codec.blocks_native import quantize
from i2s_spec.schema.blocks import BLOCK_LAYOUTS
from i2s_spec.schema.types import BY_NAME

MISSING = ggml_library.missing()
with_ggml = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")

#: Types that the library supports under the same numbers.
OF_GGML = ["TQ1_0", "TQ2_0", "Q2_0"]


def floats(seed: int, name: str, rows: int, blocks: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Weights of every size, ties and zeros among them."""
    rng = np.random.default_rng(seed)
    shape = rows, blocks * BLOCK_LAYOUTS[name].block
    found = rng.normal(size=shape) * np.exp(rng.normal(size=(rows, 1)) * 4)
    found[rng.random(shape) < 0.2] = 0
    found[rng.random(shape) < 0.2] = 0.5
    found[rng.random(rows) < 0.2] = 0
    return np.clip(found, -60000, 60000).astype(np.float32)


@with_ggml
@pytest.mark.parametrize("name", OF_GGML)
def test_sizes_are_those_of_the_library(name: str) -> None:
    kind = ggml_library.traits(BY_NAME[name].number)
    assert (kind.blck_size, kind.type_size) == (BY_NAME[name].block, BY_NAME[name].bytes)
    assert kind.type_name.decode() == name.lower()
    assert ggml_library.traits(36).type_size == 0


@with_ggml
@pytest.mark.parametrize("name", OF_GGML)
@examples(40)
@given(seed=st.integers(0, 1 << 32), rows=st.integers(1, 4), blocks=st.integers(1, 4))
def test_bytes_are_those_of_the_library(name: str, seed: int, rows: int, blocks: int) -> None:
    weights = floats(seed, name, rows, blocks)
    number = BY_NAME[name].number
    data = quantize(weights, name)
    assert data == ggml_library.quantize(weights, number)
    ours = blocks_native.dequantize(data, weights.shape, name)
    assert ours.tobytes() == ggml_library.dequantize(data, number, weights.size).tobytes()


@with_ggml
@pytest.mark.parametrize("name", OF_GGML)
@examples(40)
@given(seed=st.integers(0, 1 << 32))
def test_any_bytes_are_dequantized_as_by_the_library(name: str, seed: int) -> None:
    shape = 3, 3 * BLOCK_LAYOUTS[name].block
    data = np.random.default_rng(seed).bytes(blocks_of(shape, name).nbytes)
    ours = blocks_native.dequantize(data, shape, name, unused_code="plus-two").reshape(-1)
    theirs = ggml_library.dequantize(data, BY_NAME[name].number, ours.size)
    number = ~np.isnan(theirs)
    assert np.array_equal(np.isnan(ours), ~number)
    assert ours[number].tobytes() == theirs[number].tobytes()


def c_round(value: float) -> int:
    """roundf: halves away from 0."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


@pytest.mark.parametrize("name", [name for name, layout in BLOCK_LAYOUTS.items() if layout.scale.per == "block"])
def test_the_rule_as_it_is_written(name: str) -> None:
    weights = floats(3, name, 4, 2)
    values, scales = blocks_native.unpack(quantize(weights, name), weights.shape, name)
    for group, (block, scale) in enumerate(zip(weights.reshape(scales.size, -1), scales, strict=True)):
        largest = np.abs(block).max()
        assert scale == np.float32(np.float16(largest))
        gain = np.float32(1) / largest if largest else np.float32(0)
        assert values.reshape(scales.size, -1)[group].tolist() == [c_round(float(w * gain)) for w in block]


def test_groups_of_128_by_the_same_rule_as_groups_of_64() -> None:
    """The types that only PrismML's fork has follow ggml's rule with another group size."""
    weights = floats(5, "PQ2_0", 3, 2)
    assert quantize(weights, "PQ2_0") == quantize(weights, "Q2_0_G128")
    values, _ = blocks_native.unpack(quantize(weights, "PTQ1_0"), weights.shape, "PTQ1_0")
    assert np.array_equal(values, blocks_native.unpack(quantize(weights, "PQ2_0"), weights.shape, "PQ2_0")[0])


@pytest.mark.parametrize("name", ["IQ1_BN", "IQ2_BN"])
def test_rows_have_one_scale_and_half_of_it_is_the_threshold(name: str) -> None:
    weights = np.array([[2.0, -1.0, 0.999, -0.999] * 16, [0.0] * 64], dtype=np.float32)
    values, scales = blocks_native.unpack(quantize(weights, name), weights.shape, name)
    assert scales.tolist() == [2, 0]
    assert values[0, :4].tolist() == [1, -1, 0, 0]
    assert values[1].tolist() == [1] * 64  # no absolute value is below half of the scale 0


def test_halves_are_rounded_away_from_0() -> None:
    weights = np.array([[1.0, 0.5, -0.5, 0.49999997] * 16], dtype=np.float32)
    values, _ = blocks_native.unpack(quantize(weights, "Q2_0"), weights.shape, "Q2_0")
    assert values[0, :4].tolist() == [1, 1, -1, 0]


@pytest.mark.parametrize("name", list(BLOCK_LAYOUTS))
def test_weights_without_a_result_are_refused(name: str) -> None:
    weights = np.ones((1, BLOCK_LAYOUTS[name].block), dtype=np.float32)
    for odd in (np.inf, -np.inf, np.nan):
        weights[0, 3] = odd
        with pytest.raises(ValueError, match="infinities or NaN are among the weights"):
            quantize(weights, name)
    weights[0, 3] = 65536
    if BLOCK_LAYOUTS[name].scale.type == "F16":
        with pytest.raises(ValueError, match="magnitudes go up to 65536, which is beyond float16"):
            quantize(weights, name)
    else:
        assert blocks_native.read_scales(quantize(weights, name), weights.shape, name).tolist() == [65536]


def test_bfloat16_and_halves_are_widened_first() -> None:
    weights = floats(7, "Q2_0", 2, 2)
    bits = (weights.view(np.uint32) >> 16).astype(np.uint16)
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    assert quantize(bits, "Q2_0") == quantize(wide, "Q2_0")
    half = (weights / 100).astype(np.float16)
    assert quantize(half, "Q2_0") == quantize(half.astype(np.float32), "Q2_0")


def test_magnitudes_without_a_reciprocal() -> None:
    weights = np.full((1, 64), 1e-40, dtype=np.float32)
    values, scales = blocks_native.unpack(quantize(weights, "Q2_0"), weights.shape, "Q2_0")
    assert scales.tolist() == [0]
    assert not values.any()
