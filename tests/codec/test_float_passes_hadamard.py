"""The folded rotation: the butterfly equals the matrix, and products are the same with and without it."""

from __future__ import annotations

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec.float_passes import fold, matrix, restore, rotate, transform
from i2s_spec.schema.rotation import Rotation, RotationError

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def rotated_input(x: Floats, name: str, rotation: Rotation | None) -> Floats:
    """The input of a weight as the product takes it."""
    if rotation is None or not rotation.rotates(name):
        return x
    rotation.require_width(x.shape[-1])
    return rotate(x, rotation.block, rotation.signs_of(x.shape[-1]))


def sylvester(block: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """By Sylvester's own construction, twice as large each time."""
    h = np.ones((1, 1))
    while len(h) < block:
        h = np.block([[h, h], [h, -h]])
    return h / np.sqrt(block)


@pytest.mark.parametrize("block", [1, 2, 4, 64, 1024])
def test_the_matrix_is_sylvesters_and_its_own_inverse(block: int) -> None:
    assert np.array_equal(matrix(block), sylvester(block))
    assert np.allclose(matrix(block) @ matrix(block), np.eye(block), atol=1e-12)


@examples(40)
@given(st.integers(0, 10), st.integers(1, 3), st.integers(0, 1 << 32))
def test_the_butterfly_is_the_product_with_the_matrix(power: int, blocks: int, seed: int) -> None:
    block = 1 << power
    rng = np.random.default_rng(seed)
    x, signs = rng.normal(size=(2, blocks * block)).astype(np.float32), rng.choice([-1, 1], blocks * block)
    wanted = ((x * signs).reshape(-1, block).astype(np.float64) @ matrix(block)).reshape(x.shape)
    assert np.allclose(rotate(x, block, signs.tolist()), wanted, atol=1e-5, rtol=1e-5)
    assert np.allclose(restore(rotate(x, block, signs.tolist()), block, signs.tolist()), x, atol=1e-5)
    assert rotate(x, block).dtype == np.float32


def test_sums_of_small_integers_are_exact() -> None:
    x = np.arange(64, dtype=np.float32)
    assert np.array_equal(transform(x, 64), (np.rint(sylvester(64) * 8) @ x / 8).astype(np.float32))


def test_folded_weights_times_rotated_inputs_are_weights_times_inputs() -> None:
    rng = np.random.default_rng(3)
    weights, x = rng.normal(size=(5, 2048)).astype(np.float32), rng.normal(size=(3, 2048)).astype(np.float32)
    signs = tuple(int(sign) for sign in rng.choice([-1, 1], 2048))
    rotation = Rotation(1024, ("w",), (), {2048: signs})
    folded = fold(weights, 1024, signs)
    assert np.allclose(rotated_input(x, "w", rotation) @ folded.T, x @ weights.T, atol=1e-3)
    assert rotated_input(x, "other", rotation) is x
    assert rotated_input(x, "w", None) is x
    assert not np.allclose(x @ folded.T, x @ weights.T, atol=1)


def test_impossible_rotations_are_refused() -> None:
    with pytest.raises(ValueError, match="it is not a power of two"):
        transform(np.zeros(12, dtype=np.float32), 3)
    with pytest.raises(ValueError, match="rows of 12 elements are not whole blocks of 8"):
        transform(np.zeros(12, dtype=np.float32), 8)
    with pytest.raises(RotationError, match="does not divide rows of 12"):
        rotated_input(np.zeros(12, dtype=np.float32), "w", Rotation(8, ("w",)))
