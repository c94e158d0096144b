"""Exact conversions between I2_S and types with a scale for each group: equal weights, or a refusal with a reason."""

from __future__ import annotations

from typing import Any

import ggml_library
import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import blocks_native, native
from i2s_spec.codec.change_groups import CONVERTIBLE, ONE_SCALE, Converted, ScalesDifferError, convert
from i2s_spec.schema.blocks import BLOCK_LAYOUTS
from i2s_spec.schema.types import BY_NAME

MISSING = ggml_library.missing()
COLS = 512


def weights_of(data: Any, shape: tuple[int, int], name: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    if name == ONE_SCALE:
        return native.dequantize(data, shape)
    return blocks_native.dequantize(data, shape, name)


def tensor(seed: int, name: str, rows: int, scale: float) -> bytes:
    """A tensor with one scale for all of it, and rows of zeros among the others."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-1, 2, (rows, COLS), dtype=np.int8)
    values[rng.random(rows) < 0.2] = 0
    data = native.pack(values, scale) if name == ONE_SCALE else blocks_native.pack(values, scale, name)
    return bytes(data)


@pytest.mark.parametrize("source", CONVERTIBLE)
@pytest.mark.parametrize("target", CONVERTIBLE)
@examples(6)
@given(seed=st.integers(0, 1 << 32), rows=st.integers(1, 4), scale=st.integers(1, 1 << 15))
def test_one_scale_converts_to_every_type_and_back(source: str, target: str, seed: int, rows: int, scale: int) -> None:
    """Scales that float16 holds: the weights are the same after any conversion."""
    half = float(np.uint16(scale >> 1).view(np.float16)) if scale < 31744 * 2 else 1.0
    half = half or 1.0
    data, shape = tensor(seed, source, rows, half), (rows, COLS)
    there = convert(data, shape, source, target)
    assert there.rounding == 0
    assert np.array_equal(weights_of(there.data, shape, target), weights_of(data, shape, source))
    assert len(there.data) == BY_NAME[target].nbytes((COLS, rows))
    back = convert(there.data, shape, target, source)
    assert np.array_equal(weights_of(back.data, shape, source), weights_of(data, shape, source))


@examples(30)
@given(seed=st.integers(0, 1 << 32), scale=st.floats(2.0**-14, 60000, width=32))
def test_the_rounding_of_the_scale_is_reported(seed: int, scale: float) -> None:
    shape = (2, COLS)
    data = tensor(seed, ONE_SCALE, 2, scale)
    converted = convert(data, shape, ONE_SCALE, "Q2_0")
    values, _ = native.unpack(data, shape)
    half = np.float64(np.float16(scale))
    wanted = abs(half - scale) / scale if values.any() else 0
    assert converted.rounding == pytest.approx(wanted, rel=1e-12, abs=0)
    assert converted.rounding <= 2**-11
    assert np.array_equal(weights_of(converted.data, shape, "Q2_0"), values * np.float32(half))
    assert convert(data, shape, ONE_SCALE, "IQ2_BN").rounding == 0  # its scales are float32


@pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
@pytest.mark.parametrize("name", ["Q2_0", "TQ1_0", "TQ2_0"])
def test_ggml_quantizes_to_the_same_bytes_and_reads_the_same_weights(name: str) -> None:
    shape = (6, COLS)
    data = tensor(11, ONE_SCALE, 6, 0.7)
    converted = convert(data, shape, ONE_SCALE, name).data
    number = BY_NAME[name].number
    values, _ = native.unpack(data, shape)
    weights = values * np.float32(np.float16(0.7))
    assert converted == ggml_library.quantize(weights, number)
    assert np.array_equal(ggml_library.dequantize(converted, number, weights.size), weights.reshape(-1))


@examples(30)
@given(seed=st.integers(0, 1 << 32), rows=st.integers(1, 4), source=st.sampled_from(["PQ2_0", "Q2_0_G128"]))
def test_groups_of_128_become_groups_of_64_with_each_scale_twice(seed: int, rows: int, source: str) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(-1, 3, (rows, COLS), dtype=np.int8)
    scales = rng.normal(size=rows * COLS // 128).astype(np.float16)
    data, shape = blocks_native.pack(values, scales, source), (rows, COLS)
    there = convert(data, shape, source, "Q2_0")
    assert there.rounding == 0
    assert np.array_equal(blocks_native.read_scales(there.data, shape, "Q2_0"), np.repeat(scales.astype(np.float32), 2))
    assert weights_of(there.data, shape, "Q2_0").tobytes() == weights_of(data, shape, source).tobytes()
    back = convert(there.data, shape, "Q2_0", source)
    assert weights_of(back.data, shape, source).tobytes() == weights_of(data, shape, source).tobytes()


def test_groups_whose_scales_differ_do_not_become_one() -> None:
    values = np.ones((2, 256), dtype=np.int8)
    scales = np.array([0.5, 0.5, 0.5, 0.75], dtype=np.float16)
    data = blocks_native.pack(values, scales, "PQ2_0")
    with pytest.raises(
        ScalesDifferError, match=r"2 different ones are in use, from 0\.5 to 0\.75, 1\.5 times as much"
    ) as caught:
        convert(data, (2, 256), "PQ2_0", ONE_SCALE)
    assert (caught.value.count, caught.value.least, caught.value.most) == (2, 0.5, 0.75)
    with pytest.raises(ScalesDifferError, match="TQ2_0 has one scale where 2"):
        convert(data, (2, 256), "PQ2_0", "TQ2_0")
    with pytest.raises(ScalesDifferError):
        convert(data, (2, 256), "PQ2_0", "IQ2_BN")
    # Only half of the tensor is exact.
    assert convert(data[:68], (1, 256), "PQ2_0", "TQ2_0") == Converted(
        blocks_native.pack(values[:1], 0.5, "TQ2_0"), 0.0
    )


def test_the_scale_of_a_group_of_zeros_does_not_matter() -> None:
    values = np.ones((1, 256), dtype=np.int8)
    values[0, 128:] = 0
    data = blocks_native.pack(values, np.array([0.5, 9.0], dtype=np.float16), "PTQ1_0")
    assert np.array_equal(
        native.dequantize(convert(data, (1, 256), "PTQ1_0", ONE_SCALE).data, (1, 256)),
        blocks_native.dequantize(data, (1, 256), "PTQ1_0"),
    )
    nothing = blocks_native.pack(np.zeros((1, 256), dtype=np.int8), np.array([0.5, 9.0], dtype=np.float16), "PTQ1_0")
    assert not native.dequantize(convert(nothing, (1, 256), "PTQ1_0", ONE_SCALE).data, (1, 256)).any()


def test_twice_the_scale_has_no_code_in_most_types() -> None:
    values = np.zeros((1, 256), dtype=np.int8)
    values[0, 200] = 2
    data = blocks_native.pack(values, 0.5, "PQ2_0")
    for target in (ONE_SCALE, "PTQ1_0", "TQ1_0", "IQ1_BN"):
        with pytest.raises(
            ValueError, match=rf"{target} has no code for \+2 times the scale, which 1 of 256 weights are"
        ):
            convert(data, (1, 256), "PQ2_0", target)
    assert weights_of(convert(data, (1, 256), "PQ2_0", "Q2_0").data, (1, 256), "Q2_0")[0, 200] == 1


def test_impossible_conversions_are_refused() -> None:
    data = blocks_native.pack(np.ones((1, 128), dtype=np.int8), np.array([np.inf], dtype=np.float16), "PQ2_0")
    with pytest.raises(ValueError, match="1 scale is infinite or NaN"):
        convert(data, (1, 128), "PQ2_0", "Q2_0")
    with pytest.raises(ValueError, match="F16 cannot be converted exactly"):
        convert(data, (1, 128), "PQ2_0", "F16")
    with pytest.raises(ValueError, match="rows of 128 elements are not whole blocks"):
        convert(data, (1, 128), "PQ2_0", "TQ2_0")
    small = native.pack(np.ones((1, 128), dtype=np.int8), 1e-9)
    with pytest.raises(ValueError, match="has no float16"):
        convert(small, (1, 128), ONE_SCALE, "Q2_0")


def test_rows_of_8640_fit_only_groups_of_64() -> None:
    data = native.pack(np.ones((4, 8640), dtype=np.int8), 0.5, strict=False)  # as released programs write rows
    assert len(convert(data, (4, 8640), ONE_SCALE, "Q2_0").data) == 4 * 135 * 18
    for target in BLOCK_LAYOUTS:
        if BLOCK_LAYOUTS[target].block > 64:
            with pytest.raises(ValueError, match="rows of 8,640 elements are not whole blocks"):
                convert(data, (4, 8640), ONE_SCALE, target)


def test_dialects_and_byte_order() -> None:
    rng = np.random.default_rng(2)
    values = rng.integers(-1, 2, (4, 128), dtype=np.int8)
    data = native.pack(values, 0.5, "interleave-64/zero-first", byte_order="big")
    there = convert(data, (4, 128), ONE_SCALE, "PQ2_0", dialect="interleave-64/zero-first", byte_order="big").data
    assert there == blocks_native.pack(values, 0.5, "PQ2_0", byte_order="big")
    back = convert(there, (4, 128), "PQ2_0", ONE_SCALE, byte_order="big").data
    assert back == native.pack(values, 0.5, byte_order="big")
