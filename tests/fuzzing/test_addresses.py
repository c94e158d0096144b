"""Buffers at any address give the same results, and sanitizers detect a kernel that relies on alignment."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from builders import model_bytes

from i2s_spec.linter.engine import lint
from i2s_spec.model.load import load_model
from i2s_spec.model.reference import reductions

TOKENS = [1, 2, 3, 4, 5]


#: A file of one layer.
model_file = partial(model_bytes, layers=1, seed=3)


def moved(data: bytes, by: int) -> memoryview:
    """The same bytes at this offset from the start of an allocation."""
    held = bytearray(len(data) + by)
    held[by:] = data
    return memoryview(held)[by:]


@pytest.mark.parametrize("by", [1, 2, 3])
@pytest.mark.parametrize("profile", ["bitnet-golden-1", "fast", "hf-f32"])
@pytest.mark.parametrize("architecture", ["bitnet-b1.58", "llama", "gemma3"])
def test_a_model_in_memory(architecture: str, profile: str, by: int) -> None:
    data = model_file(architecture)

    def result(odd: int) -> np.ndarray:
        with load_model(moved(data, odd), profile) as loaded:
            found = loaded.forward(TOKENS)
            value = found.embedding if found.logits is None else found.logits
            assert value is not None
            return value

    assert result(by).tobytes() == result(0).tobytes()


@pytest.mark.parametrize("kind", [np.float32, np.float16, np.uint16])
def test_matrices_at_odd_addresses(kind: type) -> None:
    """Rows of floats, of halves and of bfloat16 that begin at an odd address."""
    random = np.random.default_rng(1)
    plain = random.normal(size=(17, 35)).astype(np.float32)
    w = (plain.view(np.uint32) >> 16).astype(np.uint16) if kind is np.uint16 else plain.astype(kind)
    odd: np.ndarray = np.frombuffer(moved(w.tobytes(), 1), dtype=kind).reshape(w.shape)
    assert not odd.flags.aligned
    x = random.normal(size=(3, 35)).astype(np.float32)
    assert reductions.products(x, odd).tobytes() == reductions.products(x, w).tobytes()
    assert reductions.lanes(x, odd).tobytes() == reductions.lanes(x, w).tobytes()


@pytest.mark.parametrize("by", [1, 2, 3])
def test_payloads(by: int) -> None:
    data = model_file("llama")
    assert lint(moved(data, by), payload="full").as_dict() == lint(moved(data, 0), payload="full").as_dict()
