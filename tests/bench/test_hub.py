"""The simulation of a run over a hub: it satisfies the invariants of any run, and the page shows its numbers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def hub() -> Iterator[Any]:
    """The module; the benchmarks are no part of the package."""
    sys.path.insert(0, str(ROOT))
    from bench import hub

    yield hub
    sys.path.remove(str(ROOT))


def test_a_run_takes_as_long_as_its_bottleneck(hub: Any) -> None:
    header = hub.Header("x", 5_000_000, 1.0, 0.1)
    mode, kinds = hub.Mode("m", 3, 1.0), [0] * 6000
    each = 4 * hub.LATENCY + 0.1 + 0.1
    free = hub.simulate(kinds, [header], 4, mode, hub.Limit("none", None))
    assert free.hours * 3600 == pytest.approx(6000 * each / 4)
    assert (free.requests, free.bytes, free.waiting) == (24_000, 30_000_000_000, 0)
    limited = hub.simulate(kinds, [header], 1000, mode, hub.Limit("slow", 300, 60.0))
    assert limited.hours * 3600 == pytest.approx((6000 - 300) / 5 + each, rel=0.01)
    assert limited.waiting > 0.9
    wide = hub.simulate(kinds, [header], 4, mode, hub.Limit("wide", 1e9, 60.0))
    assert wide.hours == pytest.approx(free.hours)


def test_more_workers_and_wider_limits_never_take_longer(hub: Any) -> None:
    headers = [hub.Header("a", 10_000, 0.5, 0.01), hub.Header("b", 8_000_000, 0.5, 0.05)]
    result = hub.run(3000, headers)
    assert hub.run(3000, headers) == result
    for table in result["tables"]:
        hours = [each["hours"] for each in table["outcomes"]]
        assert hours == sorted(hours, reverse=True)
    for first, second in zip(result["tables"], result["tables"][1:], strict=False):
        if first["mode"] == second["mode"]:
            pairs = zip(first["outcomes"], second["outcomes"], strict=True)
            assert all(one["hours"] >= other["hours"] - 1e-9 for one, other in pairs)


def test_the_page_shows_the_numbers(hub: Any) -> None:
    result = json.loads(hub.RESULT.read_text(encoding="utf-8"))
    page = hub.PAGE.read_text(encoding="utf-8")
    assert result["files"] == hub.FILES
    assert hub.page_with(result, page) == page
    assert hub.tables_of(result) in page
