from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import shape as shapes
from i2s_spec.codec.quantize import numpy_mean, torch_mean

sizes = st.one_of(st.integers(1, 300), st.integers(1, 40_000))


def magnitudes(seed: int, n: int) -> Any:
    """Numbers whose sum depends on the order: over twelve powers of ten."""
    random = np.random.default_rng(seed)
    return (10 ** random.uniform(-6, 6, n)).astype(np.float32)


def cascade(values: Any) -> np.float32:
    """PyTorch's order once more, one row at a time, as it is described: carries like those of a counter."""
    total = np.float32(0)
    vectors = values.size // 8
    rows = values[: vectors // 4 * 32].reshape(-1, 32)
    bits = max(4, max(len(rows) - 1, 0).bit_length() // 4)
    levels = np.zeros((4, 32), np.float32)
    for number, row in enumerate(rows, 1):
        levels[0] += row
        for level in range(1, 4):
            if number % (1 << bits * level):
                break
            levels[level] += levels[level - 1]
            levels[level - 1] = 0
    sums = (((levels[0] + levels[1]) + levels[2]) + levels[3]).reshape(4, 8)
    for vector in values[vectors // 4 * 32 : vectors * 8].reshape(-1, 8):
        sums[0] += vector
    for value in (*values[vectors * 8 :], *(((sums[0] + sums[1]) + sums[2]) + sums[3])):
        total += value
    return np.float32(total / np.float32(values.size))


@examples(50)
@given(seed=st.integers(0, 2**32), n=sizes, window=st.integers(1, 5000))
def test_windows_change_no_sum(seed: int, n: int, window: int) -> None:
    values = magnitudes(seed, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "WINDOW", window)
        assert numpy_mean(lambda a, b: values[a:b], n) == np.mean(values)
        assert torch_mean(lambda a, b: values[a:b], n) == cascade(values)


def test_the_two_orders_of_summation_differ() -> None:
    """Or there would be no reason for two of them."""
    values = [magnitudes(seed, 5000) for seed in range(20)]
    means = [(numpy_mean(lambda a, b, v=v: v[a:b], 5000), torch_mean(lambda a, b, v=v: v[a:b], 5000)) for v in values]
    assert any(first != second for first, second in means)
    assert all(abs(float(first) / float(second) - 1) < 1e-6 for first, second in means)


def test_many_elements() -> None:
    """More rows than a run of runs of runs has."""
    values = magnitudes(1, 32 * 70_000 + 13)
    assert torch_mean(lambda a, b: values[a:b], values.size) == cascade(values)
    assert numpy_mean(lambda a, b: values[a:b], values.size) == np.mean(values)


def test_sums_overflow_to_infinity() -> None:
    values = np.full(512, np.finfo(np.float32).max, np.float32)
    assert numpy_mean(lambda a, b: values[a:b], 512) == np.inf
    assert torch_mean(lambda a, b: values[a:b], 512) == np.inf
