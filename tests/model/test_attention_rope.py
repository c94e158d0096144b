"""Rotation: angles of every kind and both kinds of pairs, compared with independent formulas."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.model.reference import attention, ggml_math, transcendental

POSITIONS = np.array([0, 1, 63, 4095])
BASES = (10_000.0, 500_000.0)


def heads(seed: int, width: int = 64) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(len(POSITIONS), 3, width)).astype(np.float32)


@pytest.mark.requirement("R9.5-1")
@pytest.mark.parametrize("pairs", ["neox", "norm"])
def test_pairs_turn_by_their_angle(pairs: str) -> None:
    """As complex numbers in float64."""
    x = heads(0)
    cos, sin = attention.cos_sin("f64", POSITIONS, 500_000.0, 64, 1.0, None)
    got = attention.rotate(x, cos, sin, pairs)
    i = np.arange(32)
    angles = POSITIONS[:, None] * 500_000.0 ** (-2.0 * i / 64)
    first, second = (i, i + 32) if pairs == "neox" else (2 * i, 2 * i + 1)
    turned = (x[..., first] + 1j * x[..., second].astype(np.float64)) * np.exp(1j * angles)[:, None]
    np.testing.assert_allclose(got[..., first], turned.real, atol=2e-6)
    np.testing.assert_allclose(got[..., second], turned.imag, atol=2e-6)


@pytest.mark.requirement("R9.3-1")
def test_permuted_rows_with_neighbours_are_halves() -> None:
    """What the conversion to architecture llama does: the same dot products, in another order of dimensions."""
    x = heads(1)
    cos, sin = attention.cos_sin("f64", POSITIONS, 10_000.0, 64, 1.0, None)
    halves = attention.rotate(x, cos, sin, "neox")
    permuted = x.reshape(*x.shape[:2], 2, 32).swapaxes(2, 3).reshape(x.shape)
    neighbors = attention.rotate(permuted, cos, sin, "norm")
    back = neighbors.reshape(*x.shape[:2], 32, 2).swapaxes(2, 3).reshape(x.shape)
    assert back.tobytes() == halves.tobytes()


@pytest.mark.parametrize("how", ["f64", "recurrence", "f32"])
@pytest.mark.parametrize("base", BASES)
def test_position_0_turns_nothing_and_angles_drift_as_known(how: str, base: float) -> None:
    """Errors of cosine and sine against float64 grow with the position: 4e-4 at 4096 for float32 angles (forward.md 3)."""
    cos, sin = attention.cos_sin(how, POSITIONS, base, 128, 1.0, None)
    assert (cos[0] == 1).all()
    assert (sin[0] == 0).all()
    angles = POSITIONS[:, None] * base ** (-np.arange(64) / 64)
    error = np.abs(cos - np.cos(angles)).max(axis=1), np.abs(sin - np.sin(angles)).max(axis=1)
    limits = [0, 6e-8, 6e-8, 6e-8] if how == "f64" else [0, 2e-7, 1e-5, 1e-3]
    assert (np.array(error) <= limits).all()


def test_ggml_angles_are_a_recurrence_of_float32() -> None:
    """Step by step, with the correctly rounded step."""
    with localcontext() as context:
        context.prec = 40
        step = np.float32(float(Decimal(500_000) ** (Decimal(-2) / Decimal(64))))
    theta, angles = np.float32(7), []
    for _ in range(32):
        angles.append(float(theta))
        theta = np.float32(theta * step)
    cos, sin = attention.cos_sin("recurrence", np.array([7]), 500_000.0, 64, 1.0, None)
    assert cos[0].tolist() == [float(np.float32(math.cos(a))) for a in angles]
    assert sin[0].tolist() == [float(np.float32(math.sin(a))) for a in angles]


def test_factors_divide_and_scale_multiplies() -> None:
    factors = np.full(32, 2, dtype=np.float32)
    for how in ("f64", "recurrence", "f32"):
        halved = attention.cos_sin(how, POSITIONS, 10_000.0, 64, 1.0, factors)
        scaled = attention.cos_sin(how, POSITIONS, 10_000.0, 64, 0.5, None)
        np.testing.assert_array_equal(halved, scaled)


def test_dimensions_after_the_rotated_ones_are_unchanged() -> None:
    x = heads(2, width=80)
    cos, sin = attention.cos_sin("f64", POSITIONS, 10_000.0, 64, 1.0, None)
    for pairs in ("neox", "norm"):
        assert (attention.rotate(x, cos, sin, pairs)[..., 64:] == x[..., 64:]).all()


def test_fused_rotation_rounds_one_product_less() -> None:
    x = heads(3)
    cos, sin = attention.cos_sin("f64", POSITIONS, 10_000.0, 64, 1.0, None)
    plain, fused = attention.rotate(x, cos, sin, "neox"), attention.rotate(x, cos, sin, "neox", fused=True)
    assert 0 < (plain != fused).sum() < plain.size / 2
    a, b, c, s = (each.astype(np.float64) for each in (x[..., :32], x[..., 32:], cos[:, None], sin[:, None]))
    assert np.abs(fused[..., :32] - (a * c - b * s)).max() < 3e-7


@examples(60)
@given(st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=50))
def test_cosine_and_sine_are_within_an_ulp(angles: list[float]) -> None:
    cos, sin = transcendental.cos_sin(np.array(angles))
    for a, c, s in zip(angles, cos, sin, strict=True):
        assert abs(c - math.cos(a)) <= 2.3e-16
        assert abs(s - math.sin(a)) <= 2.3e-16


@examples(60)
@given(st.lists(st.floats(-746, 709), min_size=1, max_size=50))
def test_exp_is_within_two_ulp(powers: list[float]) -> None:
    for x, e in zip(powers, transcendental.exp(np.array(powers)), strict=True):
        assert abs(e - math.exp(x)) <= max(2 * math.ulp(math.exp(x)), 5e-324)


def test_functions_at_their_ends() -> None:
    x = np.array([-np.inf, np.inf, np.nan, 0.0, -0.0])
    assert transcendental.exp(x[:2]).tolist() == [0.0, np.inf]
    assert np.isnan(transcendental.exp(x[2:3]))
    assert transcendental.exp(x[3:]).tolist() == [1.0, 1.0]
    narrow = np.array([-200, -30, 0, 30, 200], dtype=np.float32)
    assert transcendental.silu(narrow)[[2, 3, 4]].tolist() == [0.0, 30.0, 200.0]
    assert transcendental.gelu(narrow).tolist() == [0.0, 0.0, 0.0, 30.0, 200.0]
    assert transcendental.silu(narrow)[0] == pytest.approx(-200 * math.exp(-200))
    with pytest.raises(ValueError, match="no model has such positions"):
        transcendental.cos_sin(np.array([1e9]))


def test_activations_are_correctly_rounded() -> None:
    """Against 60 digits, on 500 inputs of each kind."""
    x = np.random.default_rng(4).normal(scale=3, size=500).astype(np.float32)
    with localcontext() as context:
        context.prec = 60
        c = (2 / Decimal("3.14159265358979323846264338327950288419716939937510582097494459")).sqrt()
        for value, silu, gelu in zip(x.tolist(), transcendental.silu(x), transcendental.gelu(x), strict=True):
            d = Decimal(value)
            assert np.float32(float(d / (1 + (-d).exp()))) == silu
            inner = 2 * c * (d + Decimal("0.044715") * d**3)
            assert np.float32(float(d / (1 + (-inner).exp()))) == gelu


@examples(60)
@given(*[st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-2.0**60, max_value=2.0**60),
                  min_size=8, max_size=8) for _ in range(3)])  # fmt: skip
def test_fma_rounds_once(a: list[float], b: list[float], c: list[float]) -> None:
    from fractions import Fraction

    got = ggml_math.fma(np.float32(a), np.float32(b), np.float32(c))
    for x, y, z, r in zip(a, b, c, got, strict=True):
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        below, above = np.nextafter(r, np.float32(-np.inf)), np.nextafter(r, np.float32(np.inf))
        here = abs(Fraction(float(r)) - exact)
        assert here <= abs(Fraction(float(below)) - exact)
        assert here <= abs(Fraction(float(above)) - exact)


def test_fma_beside_a_tie_that_float64_cannot_tell() -> None:
    """a b is 2^-24 less 2^-70: with 1 + 2^-23 the sum lies 2^-70 beside a tie, on either side."""
    a, b = np.float32(2.0**-12 * (1 + 2.0**-23)), np.float32(2.0**-12 * (1 - 2.0**-23))
    c = np.float32(1 + 2.0**-23)
    assert ggml_math.fma(a, b, c) == c
    assert ggml_math.fma(-a, b, -c) == -c
    assert ggml_math.fma(-a, b, c) == c
    assert ggml_math.fma(a, b, -c) == -c
    assert np.float32(np.float64(a) * np.float64(b) + np.float64(c)) != c
