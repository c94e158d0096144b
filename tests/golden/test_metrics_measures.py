"""Measures of the difference of two values: at a limit, across zero, and with NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from i2s_spec.golden.metrics import beyond, distance, is_bfloat16, logit_measures, measure, relative

INF, NAN = float("inf"), float("nan")


def f32(*values: float) -> NDArray[np.float32]:
    return np.array(values, dtype=np.float32)


def test_a_value_at_its_limit_is_within_it() -> None:
    got, want = f32(1.5, 1.75, -1.5, 0), f32(1, 1, -1, 0)
    assert beyond(got, want, 0.5).tolist() == [False, True, False, False]
    assert beyond(got, want, np.array([0.25, 0.75, 0.5, 0])).tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("got", "want", "off"),
    [(NAN, 1, True), (1, NAN, True), (NAN, NAN, True), (INF, 1, True), (1, INF, True), (INF, INF, False),
     (INF, -INF, True), (NAN, INF, True)],
)  # fmt: skip
def test_unexpected_infinities_and_nan_are_wrong(got: float, want: float, off: bool) -> None:
    assert beyond(f32(got, 0), f32(want, 0), 1e9).tolist() == [off, False]
    found = measure(f32(got, 2), f32(want, 2), 1e9)
    strange = off and not np.isfinite(got)
    assert (found.over, found.largest, found.relative) == (off / 2, *((INF, INF) if strange else (0, 0)))
    assert found.at == (0,)
    assert found.not_finite == int(off and not np.isfinite(got))


def test_distances_count_numbers() -> None:
    tiny = float(np.float32(2**-149))
    assert distance(f32(tiny), f32(-tiny)) == 2
    assert distance(f32(0.0), f32(-0.0)) == 0
    assert distance(f32(1), np.nextafter(f32(1), f32(2))) == 1
    assert distance(f32(-1), -np.nextafter(f32(1), f32(2))) == 1
    assert distance(f32(1, NAN, 2), f32(1, 3, 2)) == 0
    assert distance(f32(), f32()) == 0


@pytest.mark.parametrize(
    ("got", "want", "far"),
    [((3, 4), (3, 4), 0), ((0, 5), (3, 4), 10**0.5 / 5), ((3, INF), (3, 4), INF), ((3, NAN), (3, NAN), 0),
     ((3, 4), (3, NAN), INF), ((0, 0), (0, 0), 0), ((1, 0), (0, 0), INF)],
)  # fmt: skip
def test_relative(got: Any, want: Any, far: float) -> None:
    assert relative(f32(*got), f32(*want)) == pytest.approx(far)


def test_the_divergence_is_that_of_the_candidate_from_the_record() -> None:
    """sum p log(p / q), p being the record's; by hand for two words."""
    want, got = np.log(f32(0.75, 0.25)), np.log(f32(0.5, 0.5))
    same, far = logit_measures(got[None], want[None])
    assert far == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5), rel=1e-6)
    assert same == 1
    assert logit_measures(f32(1, 2)[None], f32(2, 1)[None])[0] == 0
    assert logit_measures(f32(1, NAN)[None], f32(2, 1)[None])[1] == INF


def test_narrow_floats_are_distinguished_from_float32() -> None:
    values = np.random.default_rng(3).normal(size=64).astype(np.float32)
    assert not is_bfloat16(values)
    assert is_bfloat16(values.astype(np.float16).astype(np.float32))
    assert is_bfloat16((values.view(np.uint32) & 0xFFFF0000).view(np.float32))
    assert not is_bfloat16(f32(*[1.0] * 64))  # too few numbers to decide
