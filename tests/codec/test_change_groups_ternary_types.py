"""TQ1_0 and TQ2_0 equal the gguf package, bit for bit."""

from __future__ import annotations

from typing import Any

import gguf
import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec.change_groups import (
    BLOCK_TYPES,
    NotTernaryError,
    half_scale,
    pack_blocks,
    scales_in_use,
    unpack_blocks,
)
from i2s_spec.schema.types import BY_NAME

TYPES = ["TQ1_0", "TQ2_0"]
BLOCK = 256


def peer(name: str) -> Any:
    return getattr(gguf.GGMLQuantizationType, name)


def random_trits(seed: int, rows: int, blocks: int) -> np.ndarray[Any, np.dtype[np.int8]]:
    rng = np.random.default_rng(seed)
    trits = rng.integers(-1, 2, (rows, blocks * BLOCK), dtype=np.int8)
    trits[rng.random(rows) < 0.2] = 0  # rows of zeros, so that some block scales are arbitrary
    return trits


@pytest.mark.parametrize("name", TYPES)
@examples(40)
@given(
    seed=st.integers(0, 1 << 32),
    rows=st.integers(1, 4),
    blocks=st.integers(1, 3),
    scale=st.floats(2.0**-23, 60000, width=32),
)
def test_bytes_are_those_of_the_gguf_package(name: str, seed: int, rows: int, blocks: int, scale: float) -> None:
    trits = random_trits(seed, rows, blocks)
    data = pack_blocks(trits, scale, name)
    theirs = gguf.quants.quantize(trits * np.float32(scale), peer(name))
    assert data == theirs.tobytes()
    assert len(data) == BY_NAME[name].nbytes(trits.shape[::-1])
    decoded, scales = unpack_blocks(data, trits.shape, name)
    assert np.array_equal(decoded, trits)
    weights = decoded.reshape(-1, BLOCK) * scales[:, None]
    assert np.array_equal(weights.reshape(trits.shape), gguf.quants.dequantize(theirs, peer(name)))
    assert scales_in_use(decoded, scales).tolist() == ([float(half_scale(scale))] if trits.any() else [])


def test_every_byte_of_tq1_0_decodes_as_ggml_decodes_it() -> None:
    rng = np.random.default_rng(0)
    raw = rng.integers(0, 256, (64, 54), dtype=np.uint8)
    raw[:, 52:] = np.frombuffer(np.float16(1).tobytes(), dtype=np.uint8)
    trits, _ = unpack_blocks(raw.tobytes(), (64, 256), "TQ1_0")
    assert np.array_equal(trits, gguf.quants.dequantize(raw, peer("TQ1_0")))


@pytest.mark.parametrize("name", TYPES)
def test_byte_order_turns_the_scale_alone(name: str) -> None:
    trits = random_trits(3, 2, 2)
    little, big = (np.frombuffer(pack_blocks(trits, 0.3, name, order), dtype=np.uint8) for order in ("little", "big"))
    at, size = BLOCK_TYPES[name].scale.offset, BLOCK_TYPES[name].nbytes
    little, big = little.reshape(-1, size), big.reshape(-1, size)
    assert np.array_equal(little[:, :at], big[:, :at])
    assert np.array_equal(little[:, at:], big[:, : at - 1 : -1])
    decoded, scales = unpack_blocks(big.tobytes(), trits.shape, name, "big")
    assert np.array_equal(decoded, trits)
    assert set(scales.tolist()) <= {0.0, float(np.float16(0.3))}


def test_a_negative_scale_is_kept() -> None:
    trits = random_trits(1, 1, 1)
    decoded, scales = unpack_blocks(pack_blocks(trits, -0.5, "TQ2_0"), trits.shape, "TQ2_0")
    assert np.array_equal(decoded, trits)
    assert scales.tolist() == [-0.5]


@pytest.mark.parametrize("scale", [float("nan"), float("inf"), 1e5, 65520.0, 1e-9, -1e-9])
def test_scales_that_float16_lacks_are_refused(scale: float) -> None:
    with pytest.raises(ValueError, match="has no float16"):
        half_scale(scale)


def test_rounding_is_to_nearest_and_ties_go_to_even() -> None:
    assert half_scale(1 + 2**-11) == 1
    assert half_scale(1 + 3 * 2**-11) == 1 + 2**-9
    assert half_scale(65519) == 65504


@pytest.mark.parametrize("name", TYPES)
def test_wrong_shapes_and_values_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"rows of 384 elements are not whole blocks"):
        pack_blocks(np.zeros((2, 384), dtype=np.int8), 1, name)
    with pytest.raises(ValueError, match="there are -1 to 2"):
        pack_blocks(np.array([[-1, 2] * 128], dtype=np.int8), 1, name)
    with pytest.raises(ValueError, match=r"there are 53 bytes"):
        unpack_blocks(bytes(53), (1, 256), name)


def test_code_3_of_tq2_0_is_counted_and_placed() -> None:
    data = bytearray(pack_blocks(np.zeros((2, 256), dtype=np.int8), 1, "TQ2_0"))
    data[66 + 5] |= 3 << 2  # row 1, element 32 + 5
    with pytest.raises(ValueError, match=r"it occurs once, at element 293 \(row 1, column 37\)"):
        unpack_blocks(data, (2, 256), "TQ2_0")


def test_plus_two_of_q2_0_is_a_weight_and_no_trit() -> None:
    data = bytearray(pack_blocks(np.zeros((2, 64), dtype=np.int8), 1, "Q2_0"))
    data[18 + 2 + 5] |= 3 << 2
    with pytest.raises(NotTernaryError, match=r"1 of them are \+2 times the scale, which Q2_0 has a code for"):
        unpack_blocks(data, (2, 64), "Q2_0")


@pytest.mark.parametrize("name", list(BLOCK_TYPES))
def test_every_type_gives_trits_and_their_scale_back(name: str) -> None:
    trits = random_trits(9, 4, 2)
    trits[0] = 0
    decoded, scales = unpack_blocks(pack_blocks(trits, 0.5, name), trits.shape, name)
    assert np.array_equal(decoded, trits)
    assert scales_in_use(decoded, scales).tolist() == [0.5]
    assert scales.min() == 0  # the scale of a group of zeros
