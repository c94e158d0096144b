"""Products and their limits, and the time limits of tables."""

from __future__ import annotations

import pytest

from bench import matmul as matmul_bench
from bench.measure import Contender, interleaved
from i2s_spec.codec.isa import KernelSet
from i2s_spec.model import _matmul
from i2s_spec.model.reference import matmul


def test_a_slow_machine_gets_three_rounds() -> None:

    contenders = [Contender("any", lambda: 1.0)]
    assert len(interleaved(contenders, 9, seconds=0.0)["any"]) == 3
    assert len(interleaved(contenders, 2, seconds=0.0)["any"]) == 2
    assert len(interleaved(contenders, 9)["any"]) == 9


def test_a_product_is_compared_with_the_slower_of_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each round, the limit of a kernel is what takes longer: reading, or multiplying with masks."""

    monkeypatch.setattr(matmul_bench, "_sets", lambda: [KernelSet(0, "avx512", True)])
    times = {"read probe": (1.0, 3.0), "probe with masks, avx512": (2.0, 2.0), "avx512": (4.0, 4.0)}
    (claim,) = matmul_bench._claims_of_products("a shape", 8, times, with_goals=True)
    assert claim.values == (0.5, 0.75)


@pytest.mark.parametrize("tokens", [0, 1, 8])
def test_probes_say_how_many_products_they_did(tokens: int) -> None:
    """Rounds of twelve multiplications or, with masks, of twelve for each token; of tiles four, each of 16 x 16 x 64."""

    for each in matmul.kernel_sets():
        if each.available and each.name != "portable":
            done = _matmul.probe_multiplications(each.row, 10, 2, tokens)
            assert done > 0
            if each.name == matmul_bench.TILES and tokens == 0:
                assert done == 10 * 2 * 4 * 16 * 16 * 64
            else:
                assert done % (10 * 12 * 2 * max(tokens, 1)) == 0
