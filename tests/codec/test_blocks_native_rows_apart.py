"""I2_SR, which stores the scales of all rows after the codes of I2_S: the definition and the compiled path."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import blocks as block_reference
from i2s_spec.codec import blocks_native, isa, kernels, native
from i2s_spec.codec.change_groups import ScalesDifferError, convert
from i2s_spec.codec.reference import UnusedCodeError
from i2s_spec.schema.types import BY_NAME

NAME = "I2_SR"


def noise(seed: int, rows: int, blocks: int) -> tuple[bytes, tuple[int, int]]:
    """Random bytes as a tensor."""
    shape = rows, 128 * blocks
    return np.random.default_rng(seed).bytes(BY_NAME[NAME].nbytes(shape[::-1])), shape


def tensor(seed: int, rows: int, cols: int, order: Any = "little") -> tuple[bytes, Any, Any]:
    rng = np.random.default_rng(seed)
    values = rng.integers(-1, 2, (rows, cols), dtype=np.int8)
    scales = rng.uniform(0.5, 2, rows).astype(np.float32)
    return bytes(blocks_native.pack(values, scales, NAME, byte_order=order)), values, scales


def test_bytes_by_hand() -> None:
    """Codes as I2_S has them, then two floats, then 32 zeros."""
    values = np.zeros((2, 128), dtype=np.int8)
    values[0, 0], values[0, 33], values[1, 127] = 1, -1, -1
    data = block_reference.pack(values, [0.5, 3.0], NAME)
    assert data[:64] == native.pack(values, 1.0)[:64]
    assert (data[0], data[1], data[63]) == (0b10010101, 0b01000101, 0b01010100)
    assert data[64:] == struct.pack("<2f", 0.5, 3.0) + bytes(32)
    weights = block_reference.dequantize(data, (2, 128), NAME)
    assert (weights[0, 0], weights[0, 33], weights[1, 127], weights[1, 0]) == (0.5, -0.5, -3.0, 0.0)


@pytest.mark.parametrize("order", ["little", "big"])
@examples(30)
@given(seed=st.integers(0, 1 << 32), rows=st.integers(1, 5), blocks=st.integers(1, 9), threads=st.integers(1, 2))
def test_any_bytes_decode_as_the_definition_says(order: Any, seed: int, rows: int, blocks: int, threads: int) -> None:
    data, shape = noise(seed, rows, blocks)
    for unused in ("zero", "plus-two"):
        want = block_reference.unpack(data, shape, NAME, byte_order=order, unused_code=unused)
        got = blocks_native.unpack(data, shape, NAME, byte_order=order, unused_code=unused, threads=threads)
        assert np.array_equal(got[0], want[0])
        assert got[1].tobytes() == want[1].tobytes()
        wanted = block_reference.dequantize(data, shape, NAME, byte_order=order, unused_code=unused)
        found = blocks_native.dequantize(data, shape, NAME, byte_order=order, unused_code=unused, threads=threads)
        assert np.array_equal(found, wanted, equal_nan=True)
    assert blocks_native.histogram(data, shape, NAME) == block_reference.histogram(data, shape, NAME)
    assert blocks_native.scan(data, shape, NAME) == block_reference.scan(data, shape, NAME)
    assert blocks_native.read_scales(data, shape, NAME, order).tobytes() == want[1].tobytes()


@pytest.mark.parametrize("order", ["little", "big"])
@examples(30)
@given(seed=st.integers(0, 1 << 32), rows=st.integers(1, 5), blocks=st.integers(1, 9), most=st.integers(1, 2))
def test_both_pack_the_same_bytes(order: Any, seed: int, rows: int, blocks: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(-1, most + 1, (rows, 128 * blocks), dtype=np.int8)
    scales = rng.normal(size=rows).astype(np.float32)
    want = block_reference.pack(values, scales, NAME, byte_order=order)
    out = bytearray(b"\xff" * len(want))
    blocks_native.pack(values, scales, NAME, byte_order=order, out=out)
    assert out == want == blocks_native.pack(values.astype(np.int64), scales, NAME, byte_order=order)
    back = blocks_native.unpack(want, values.shape, NAME, byte_order=order, unused_code="plus-two")
    assert np.array_equal(back[0], values)
    assert np.array_equal(back[1], scales)


def test_threads_share_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "THREAD_BYTES", 32)
    monkeypatch.setattr(kernels, "SCANNED", 1 << 11)
    data, values, scales = tensor(3, 300, 128)
    assert np.array_equal(blocks_native.unpack(data, (300, 128), NAME, threads=4)[0], values)
    with pytest.raises(UnusedCodeError, match="code 3") as caught:
        blocks_native.unpack(data[:9599] + b"\xff" + data[9600:], (300, 128), NAME, threads=4)
    assert caught.value.first == 299 * 128 + 31
    assert np.array_equal(blocks_native.dequantize(data, (300, 128), NAME, threads=4), values * scales[:, None])


@pytest.mark.parametrize("way", ["PLAIN", "PAST", "OWNED"])
def test_every_kernel_set_scales_every_row(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Infinities, NaN and the sign of zero too, however results are stored."""
    rows, cols = 9, 128 * 5
    data = bytearray(tensor(4, rows, cols)[0])
    scales = np.array([0.5, -0.25, 0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38], "<f4")
    data[rows * cols // 4 : rows * cols // 4 + 4 * rows] = scales.tobytes()
    want = block_reference.dequantize(data, (rows, cols), NAME)
    monkeypatch.setattr(kernels, "way_of", lambda *ignored: getattr(kernels, way))
    for each in isa.kernel_sets():
        if not each.available:
            continue
        monkeypatch.setattr(kernels, "chosen", lambda each=each: each)
        found = blocks_native.dequantize(data, (rows, cols), NAME)
        assert np.array_equal(found, want, equal_nan=True), each.name
        numbers = ~np.isnan(want)
        assert found[numbers].tobytes() == want[numbers].tobytes(), each.name
        broken = bytearray(data)
        broken[-32 - 4 * rows - 1] |= 3  # the last code
        with pytest.raises(UnusedCodeError, match="code 3"):
            blocks_native.dequantize(broken, (rows, cols), NAME)


def test_code_3_and_other_values_are_refused() -> None:
    data, _, _ = tensor(1, 3, 256)
    broken = bytearray(data)
    broken[70] |= 0xC0
    for codec in (block_reference, blocks_native):
        with pytest.raises(UnusedCodeError, match="code 3") as caught:
            codec.unpack(broken, (3, 256), NAME)  # type: ignore[attr-defined]
        assert caught.value.first == 256 + 6
        with pytest.raises(ValueError, match=r"no codes for|has codes for"):
            codec.pack(np.full((1, 128), 3, np.int8), 1.0, NAME)  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="not whole blocks"):
            codec.unpack(bytes(16 + 4 + 32), (1, 64), NAME)  # type: ignore[attr-defined]
        with pytest.raises(ValueError, match="bytes"):
            codec.unpack(data[:-1], (3, 256), NAME)  # type: ignore[attr-defined]


def test_rows_with_scales_of_their_own_have_no_one_scale() -> None:
    data, values, scales = tensor(5, 4, 256)
    with pytest.raises(ScalesDifferError, match="4 different ones"):
        convert(data, (4, 256), NAME, "I2_S")
    there = convert(data, (4, 256), NAME, "IQ2_BN")
    assert there.rounding == 0
    assert np.array_equal(blocks_native.dequantize(there.data, (4, 256), "IQ2_BN"), values * scales[:, None])
    assert convert(there.data, (4, 256), "IQ2_BN", NAME).data == data
    half = convert(data, (4, 256), NAME, "Q2_0")
    assert 0 < half.rounding < 2**-11
    assert blocks_native.read_scales(half.data, (4, 256), "Q2_0").tolist() == [
        float(np.float16(scale)) for scale in scales for _ in range(4)
    ]


def test_groups_of_a_row_that_differ_are_refused() -> None:
    values = np.ones((1, 256), dtype=np.int8)
    data = blocks_native.pack(values, np.array([0.5, 1.0], np.float16), "PQ2_0")
    with pytest.raises(ScalesDifferError, match=r"from 0\.5 to 1, 2 times as much"):
        convert(data, (1, 256), "PQ2_0", NAME)
