"""How much the logits of float profiles change if a runtime adds in another order: the bound that section 9.9 states."""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.model.load import load_model
from i2s_spec.model.numerics import NumericProfile, numeric_profile
from i2s_spec.model.reference.linear import Projections

Floats = np.ndarray[Any, np.dtype[np.float32]]

ARCHITECTURES: Final = ("bitnet", "bitnet-b1.58", "llama")
SEEDS: Final = range(4)


def in_lanes(self: Projections, x: Floats, w: Any) -> Floats:
    """Products of floats added in eight lanes of float32, as vector units do, instead of in one exact sum."""
    weights = np.asarray(w, dtype=np.float32)
    lanes = np.zeros((len(x), len(weights), 8), dtype=np.float32)
    for start in range(0, weights.shape[1], 8):
        lanes += x[:, None, start : start + 8] * weights[None, :, start : start + 8]
    total: Floats = lanes.sum(axis=2, dtype=np.float32)
    return total


def model(architecture: str, seed: int) -> bytes:
    """A small model with F32 projections."""
    file = io.BytesIO()
    i2s.new(file, architecture, layers=2, seed=seed, type="F32")
    return file.getvalue()


def moved(data: bytes, numerics: str | NumericProfile, seed: int, patch: pytest.MonkeyPatch) -> float:
    """The relative L2 distance of the logits of a sequence between both orders."""
    tokens = np.random.default_rng(seed).integers(0, 250, 24).tolist()
    ours = load_model(data, numerics, threads=1).forward(tokens).logits
    with patch.context() as context:
        context.setattr(Projections, "products", in_lanes)
        theirs = load_model(data, numerics, threads=1).forward(tokens).logits
    assert ours is not None
    assert theirs is not None
    return float(np.linalg.norm(ours - theirs) / np.linalg.norm(ours))


@pytest.mark.parametrize("numerics", ["ik-f32", "ik-iq2bn"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_another_order_moves_logits_by_less_than_the_stated_bound(
    architecture: str, numerics: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With F32 weights both profiles are the same; what a sum is off by can round a key or a value to another F16."""
    found = [moved(model(architecture, seed), numerics, seed, monkeypatch) for seed in SEEDS]
    assert all(0 < distance < 2e-4 for distance in found)
    assert max(found) > 1e-6  # so 1e-6 is no bound


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_without_an_f16_cache_only_the_sums_differ(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = numeric_profile("ik-f32").replace(cache="f32")
    found = [moved(model(architecture, seed), exact, seed, monkeypatch) for seed in SEEDS]
    assert all(0 < distance < 1e-6 for distance in found)
