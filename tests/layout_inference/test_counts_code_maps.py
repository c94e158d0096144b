"""Balance reveals the code map of trained weights, but not of random weights or if half of the weights are missing."""

from __future__ import annotations

import numpy as np
import pytest
from examples import share

from i2s_spec.layout_inference.counts import foreign_code_map
from i2s_spec.schema.dialect import CODE_MAPS, CodeMap

#: Number of payloads of a model, and of weights in each.
PAYLOADS, WEIGHTS = 28, 1 << 16


def counted(shares: list[float], seed: int = 0) -> list[list[int]]:
    """Counts of codes of payloads whose weights are drawn by shares of the codes 0 to 3."""
    return np.random.default_rng(seed).multinomial(WEIGHTS, shares, size=PAYLOADS).tolist()


def told(payloads: list[list[int]]) -> CodeMap | None:
    return foreign_code_map(np.sum(payloads or [[0] * 4], axis=0).tolist(), payloads)


@pytest.mark.requirement("R7.7-3")
def test_zeros_where_minus_one_should_be() -> None:
    assert told(counted([0.5, 0.25, 0.25, 0])) == CODE_MAPS["zero-first"]
    assert told(counted([0.31, 0.345, 0.345, 0])) == CODE_MAPS["zero-first"]
    assert told([]) is None


@pytest.mark.requirement("R7.7-3")
@pytest.mark.parametrize("zeros", [0.1, 0.31, 0.33, 1 / 3, 0.35, 0.5, 0.9])
def test_canonical_codes_are_not_contradicted(zeros: float) -> None:
    """Not even if they are as unbalanced as the weights of 2B-4T."""
    for off in (0, 0.0034, -0.0034):
        signs = (1 - zeros) / 2
        assert told(counted([signs * (1 + off), zeros, signs * (1 - off), 0])) is None


@pytest.mark.parametrize("seed", share(range(100)))
def test_random_codes_decide_nothing(seed: int) -> None:
    assert told(counted([1 / 3, 1 / 3, 1 / 3, 0], seed)) is None


def test_payloads_of_zero_bytes_decide_no_code_map() -> None:
    """Zero bytes in half of the payloads, where the other codes are equally likely."""
    payloads = counted([1 / 3, 1 / 3, 1 / 3, 0])
    for counts in payloads[::2]:
        counts[0] += WEIGHTS
    assert told(payloads) is None
