"""Conclusions from density: rows that are rotated together, and channels that training has switched off."""

from __future__ import annotations

from math import comb, exp, log

import numpy as np
import pytest
from examples import share
from planted import opened, planted, written
from wrong_files import Copy, halves_to_neighbors

from i2s_spec.inspect.identify import identify
from i2s_spec.layout_inference.counts import log_tail, normal_of, zero_channels, zero_comparisons
from i2s_spec.layout_inference.evidence import LayoutEvidence, layout_evidence, pair_order
from i2s_spec.layout_inference.hypotheses import named
from i2s_spec.linter.engine import lint
from i2s_spec.schema.dialect import CODE_MAPS


def asked(data: bytes) -> LayoutEvidence:
    with opened(data) as file:
        found = layout_evidence(file, CODE_MAPS["offset-1"])
    assert found is not None
    return found


def for_neighbors() -> Copy:
    return (
        Copy()
        .trits("attn_q", lambda rows: halves_to_neighbors(rows, 4))
        .trits("attn_k", lambda rows: halves_to_neighbors(rows, 2))
    )


@pytest.mark.requirement("R7.7-2")
@pytest.mark.parametrize("dialect", ["interleave-128", "sequential-lsb", "rows-1x4"])
def test_halves_of_a_trained_model(dialect: str) -> None:
    """Adjacent rows are similar too, even more so, and still do not decide."""
    found = pair_order(asked(Copy().packed(dialect).written()))
    assert found.order == "neox"
    assert found.neighbors > found.halves


@pytest.mark.parametrize("dialect", ["interleave-128", "interleave-64", "rows-1x4"])
def test_rows_that_were_permuted(dialect: str) -> None:
    data = for_neighbors().packed(dialect).written()
    assert pair_order(asked(data)).order == "norm"
    assert "I215" in {finding.code for finding in lint(data).findings}
    answer = identify(data, payloads="full").question("rotation").answer
    assert answer is not None
    assert answer.name == "norm"


def test_models_of_the_package_have_no_finding() -> None:
    for name in ("stories", "llama"):
        assert "I215" not in {finding.code for finding in lint(Copy(name).written()).findings}


@pytest.mark.parametrize("seed", share(range(20)))
def test_random_rows_have_no_order(seed: int) -> None:
    found = asked(written(planted(seed, strength=0.0)))
    assert pair_order(found).comparisons
    assert pair_order(found).order is None


def switched_off(count: int) -> Copy:
    """The same channels of the feed-forward without weights in its three matrices."""

    def rows(trits: np.ndarray) -> np.ndarray:
        trits[7 : 7 + 11 * count : 11] = 0
        return trits

    def columns(trits: np.ndarray) -> np.ndarray:
        trits[:, 7 : 7 + 11 * count : 11] = 0
        return trits

    return Copy().trits("ffn_gate", rows).trits("ffn_up", rows).trits("ffn_down", columns)


@pytest.mark.parametrize("dialect", ["interleave-128", "interleave-64", "sequential-msb"])
def test_channels_that_are_switched_off(dialect: str) -> None:
    """They line up in the layout that the file has, and nowhere else."""
    found = asked(switched_off(20).packed(dialect).written())
    (first, *_) = zero_channels(found.counts, named(dialect))
    assert (first.rows, first.either, first.columns, first.both) == (20, 20, 20, 20)
    assert first.score > 10
    for _, scores in zero_comparisons(found.counts):
        best = max(scores[True], key=lambda name: scores[True][name])
        assert best == dialect
    assert any("all-zero rows" in one.text for one in found.comparisons)
    assert found.decided is not None
    assert found.decided.name == dialect


def test_a_file_without_such_channels() -> None:
    found = asked(Copy().written())
    assert list(zero_channels(found.counts, named("interleave-128"))) == []
    assert list(zero_comparisons(found.counts)) == []


@pytest.mark.parametrize(("n", "a", "b", "x"), [(384, 1, 1, 1), (100, 10, 20, 7), (30, 30, 5, 5), (50, 3, 4, 0)])
def test_the_chance_is_hypergeometric(n: int, a: int, b: int, x: int) -> None:
    total = sum(comb(b, k) * comb(n - b, a - k) for k in range(x, min(a, b) + 1)) / comb(n, a)
    assert exp(log_tail(n, a, b, x)) == pytest.approx(total)


def test_the_score_is_never_larger_than_the_normal_quantile() -> None:
    """One channel of 384 by chance is no evidence, and scores grow with what is unlikely."""
    assert normal_of(log(1 / 384)) == 0
    from math import erfc, sqrt

    for power in (5, 10, 50, 150, 300):
        z = normal_of(-power * log(10))
        assert log(erfc(z / sqrt(2))) >= -power * log(10)
        assert log(erfc((z + 0.3) / sqrt(2))) < -power * log(10)
