"""Activations and products of profile `llamacpp-2026`, compared with ggml's own AVX2 kernels through ctypes.

Codes and steps are equal, and so are products with Q2_0, to the bit: ggml has no vector code for them. The kernels for
TQ1_0 and TQ2_0 have the same integers, and add their floats over eight lanes.
"""

from __future__ import annotations

from typing import Any

import ggml_library
import numpy as np
import pytest

from i2s_spec.codec import blocks_native
from i2s_spec.model.numerics import NUMERIC_PROFILES
from i2s_spec.model.reference import bitlinear
from i2s_spec.model.reference.linear import grouped_product
from i2s_spec.model.weights import grouped

REASON = ggml_library.missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

PROFILE = NUMERIC_PROFILES["llamacpp-2026"]
COLUMNS = 1024


@pytest.fixture(autouse=True)
def processor() -> None:
    from pathlib import Path

    flags = (
        Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace") if Path("/proc/cpuinfo").exists() else ""
    )
    if not {"avx2", "fma", "f16c"} <= set(flags.split()):
        pytest.skip("this processor does not run ggml's kernels for AVX2")


def tokens(seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Tokens of several magnitudes, with a block of zeros, equal largest elements of both signs, and ties."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(24, COLUMNS)) * 10.0 ** rng.integers(-4, 5, (24, 1))).astype(np.float32)
    x[0, 256:512] = 0
    x[1, :256] = np.tile([127, -127, 0.5, 1.5, 2.5, -0.5, -1.5, 3], 32)
    return x


@pytest.mark.parametrize("seed", range(4))
def test_q8_0_is_ggmls(seed: int) -> None:
    x = tokens(seed)
    found = bitlinear.quantize(x, PROFILE.quantizer_of("Q2_0"))
    steps = bitlinear.steps_of(found)
    for token in range(len(x)):
        blocks = ggml_library.activations(x[token], "q8_0").reshape(-1, 34)
        assert np.array_equal(found.codes[token], blocks[:, 2:].copy().view(np.int8).reshape(-1))
        assert np.array_equal(steps[token], blocks[:, :2].copy().view("<f2")[:, 0].astype(np.float32))


@pytest.mark.parametrize("seed", range(4))
def test_q8_k_is_ggmls(seed: int) -> None:
    x = tokens(seed)
    found = bitlinear.quantize(x, PROFILE.quantizer_of("TQ2_0"))
    steps = bitlinear.steps_of(found)
    for token in range(len(x)):
        blocks = ggml_library.activations(x[token], "q8_K").reshape(-1, 292)
        assert np.array_equal(found.codes[token], blocks[:, 4:260].copy().view(np.int8).reshape(-1))
        assert np.array_equal(steps[token], blocks[:, :4].copy().view("<f4")[:, 0])


@pytest.mark.parametrize(
    ("type", "kind", "kernel"),
    [("Q2_0", "q8_0", "q2_0_q8_0"), ("TQ2_0", "q8_K", "tq2_0_q8_K"), ("TQ1_0", "q8_K", "tq1_0_q8_K")],
)
def test_products_are_ggmls(type: str, kind: str, kernel: str) -> None:
    rng = np.random.default_rng(11)
    most = 3 if type == "Q2_0" else 2
    values = rng.integers(-1, most, (16, COLUMNS)).astype(np.int8)
    group = 64 if type == "Q2_0" else 256
    scales = rng.uniform(0.1, 2, (16, COLUMNS // group)).astype(np.float16)
    x = tokens(7)
    rule = PROFILE.quantizer_of(type)
    y, _ = grouped_product(bitlinear.quantize(x, rule), rule, grouped(values, scales.astype(np.float32)))
    theirs = np.empty_like(y)
    for token in range(len(x)):
        blocks = ggml_library.activations(x[token], kind)
        for row in range(len(values)):
            data = blocks_native.pack(values[row : row + 1], scales[row], type)
            theirs[token, row] = ggml_library.dot(data, blocks, COLUMNS, kernel)
    if type == "Q2_0":
        assert np.array_equal(y, theirs)
    sums = np.abs(x) @ np.abs(values * np.repeat(scales.astype(np.float32), group, axis=1)).T
    assert (np.abs(y - theirs) <= 2.0**-22 * sums).all()
