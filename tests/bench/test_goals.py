"""The goals of each class of processors, and the time limits of tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True, scope="module")
def checkout() -> Iterator[None]:
    """The benchmarks are no part of the package: they are imported from the checkout."""
    root = str(Path(__file__).resolve().parents[2])
    sys.path.insert(0, root)
    yield
    sys.path.remove(root)


def test_a_slow_machine_gets_three_rounds() -> None:
    from bench.measure import Contender, interleaved

    contenders = [Contender("any", lambda: 1.0)]
    assert len(interleaved(contenders, 9, seconds=0.0)["any"]) == 3
    assert len(interleaved(contenders, 2, seconds=0.0)["any"]) == 2
    assert len(interleaved(contenders, 9)["any"]) == 9


def test_every_class_has_its_goals() -> None:
    from bench.goals import goals

    old, new = goals("cascade-lake"), goals("emerald-rapids")
    assert [old.products_of(tokens)[:2] for tokens in (8, 32, 128, 512)] == [
        (0.45, 1.5), (0.6, 1.5), (0.75, 1.0), (0.75, 1.0)
    ]  # fmt: skip
    assert [old.products_of(tokens).either for tokens in (8, 32, 128)] == [True, True, False]
    assert [new.products_of(tokens) for tokens in (8, 128, 512)] == [(0.8, 1.0, False)] * 2 + [(0.8, 0.95, False)]
    assert [each.prompts[512] for each in (old, new)] == [0.6, 0.75]
    assert [(each.behind, each.survey, each.lint) for each in (old, new)] == [(0.8, 0.8, 0.65), (0.85, 0.85, 0.75)]
    assert goals("genuineintel-6-42") is new


@pytest.mark.parametrize(
    ("tokens", "seconds", "torch", "reached"),
    [
        (8, 2.0, 2.0, {"limit": True, "nearer": None, "torch": True}),
        (32, 2.0, 4.0, {"limit": None, "nearer": True, "torch": None}),  # half of the peak, twice as fast as torch
        (32, 2.0, 2.6, {"limit": None, "nearer": False, "torch": None}),
        (128, 1.25, 1.0, {"limit": True, "nearer": None, "torch": False}),
    ],
)
def test_few_tokens_reach_one_of_two_goals(
    tokens: int, seconds: float, torch: float, reached: dict[str, bool | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench import matmul
    from bench.goals import goals
    from i2s_spec.codec.isa import KernelSet

    kind = "cascade-lake" if tokens > 8 else "zen-4"
    monkeypatch.setattr(matmul, "goals", lambda: goals(kind))
    monkeypatch.setattr(matmul, "_sets", lambda: [KernelSet(0, "avx512", True)])
    peak = 1.0 if tokens > 8 else 1.7
    times = {
        "read probe": (0.5,), "probe with masks, avx512": (peak,), "avx512": (seconds,), "torch._int_mm": (torch,)
    }  # fmt: skip
    claims = matmul._claims_of_products("a shape", tokens, times, with_goals=True)
    found = {name: [c.reached for c in claims if name in c.text and ("nearer" in c.text) == (name == "nearer")]
             for name in reached}  # fmt: skip
    assert {name: each[0] if each else None for name, each in found.items()} == reached


def test_a_product_is_compared_with_the_slower_of_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each round, the limit of a kernel is what takes longer: reading, or multiplying with masks."""
    from bench import matmul
    from i2s_spec.codec.isa import KernelSet

    monkeypatch.setattr(matmul, "_sets", lambda: [KernelSet(0, "avx512", True)])
    times = {"read probe": (1.0, 3.0), "probe with masks, avx512": (2.0, 2.0), "avx512": (4.0, 4.0)}
    (claim,) = matmul._claims_of_products("a shape", 8, times, with_goals=True)
    assert claim.values == (0.5, 0.75)


@pytest.mark.parametrize("tokens", [0, 1, 8])
def test_probes_say_how_many_products_they_did(tokens: int) -> None:
    """Rounds of twelve multiplications or, with masks, of twelve for each token; of tiles four, each of 16 x 16 x 64."""
    from bench import matmul as matmul_bench
    from i2s_spec.model import _matmul
    from i2s_spec.model.reference import matmul

    for each in matmul.kernel_sets():
        if each.available and each.name != "portable":
            done = _matmul.probe_multiplications(each.row, 10, 2, tokens)
            assert done > 0
            if each.name == matmul_bench.TILES and tokens == 0:
                assert done == 10 * 2 * 4 * 16 * 16 * 64
            else:
                assert done % (10 * 12 * 2 * max(tokens, 1)) == 0
