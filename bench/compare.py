"""This module compares a run with the committed results of the same kind of processor, and names what got worse.

Figures of different days vary with the machine's load. The ratio of a claim was measured inside one run and is compared
directly. A row is first corrected by the probes of its benchmark, which show how fast the machine was on either day. A
result is worse only if its best round is worse than the committed median by more than the tolerance.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.report import shown_value

RESULTS: Final = Path(__file__).parent / "results"

#: Tolerance between the best round and the committed median: for ratios, and for rows after correction by probes.
CLAIM_TOLERANCE: Final = 0.1
ROW_TOLERANCE: Final = 0.2

#: Units of which less is better; of rates, more is better.
SMALLER: Final = ("s", "us", "ms", "B")


def committed(part: str, kind: str) -> dict[str, Any] | None:
    """The committed result of a part on a kind of processor, or None."""
    path = RESULTS / kind / f"{part}.json"
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def kinds(part: str) -> list[str]:
    """The kinds of processor with a committed result of a part."""
    return sorted(path.parent.name for path in RESULTS.glob(f"*/{part}.json"))


def worse(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    """A sentence for each claim and row that got worse, among the benchmarks in both results."""
    found = []
    for name, benchmark in now["benchmarks"].items():
        before = then["benchmarks"].get(name)
        if before is not None:
            found += [f"{name}: {line}" for line in (*_claims(benchmark, before), *_rows(benchmark, before))]
    return found


def _claims(now: dict[str, Any], then: dict[str, Any]) -> Iterator[str]:
    old = {claim["claim"]: claim for claim in then["claims"] if claim["unit"].startswith("x")}
    for claim in now["claims"]:
        before = old.get(claim["claim"])
        larger = claim["least"] is not None
        if before is None or (not larger and claim["most"] is None):
            continue
        yield from _change(claim["claim"], claim, before, larger, CLAIM_TOLERANCE, 1.0)


def _rows(now: dict[str, Any], then: dict[str, Any]) -> Iterator[str]:
    old = {(row["name"], row["unit"]): row for row in then["rows"]}
    pairs = [(row, old[key]) for row in now["rows"] if (key := (row["name"], row["unit"])) in old]
    for row, before in pairs:
        larger = _larger(row["unit"])
        if larger is None or "probe" in row["name"]:
            continue
        same = [(a["median"], b["median"]) for a, b in pairs if "probe" in a["name"] and a["unit"] == row["unit"]]
        drift = statistics.median(a / b for a, b in same if b) if same else 1.0
        yield from _change(row["name"], row, before, larger, ROW_TOLERANCE, drift)


def _larger(unit: str) -> bool | None:
    """Whether more of a unit is better; None if unknown."""
    if unit in SMALLER:
        return False
    return True if "/s" in unit else None


def _change(
    name: str, now: dict[str, Any], then: dict[str, Any], larger: bool, tolerance: float, drift: float
) -> Iterator[str]:
    """The sentence, if the best round is behind the committed median by more than the tolerance."""
    expected = then["median"] * drift
    best = now["high"] if larger else now["low"]
    behind = best < expected * (1 - tolerance) if larger else best > expected * (1 + tolerance)
    if behind:
        was, here, unit = shown_value(then["median"], now["unit"]), shown_value(best, now["unit"]), now["unit"]
        corrected = "" if drift == 1 else f", {shown_value(expected, unit)} by the probes of this run"
        yield f"{name}: at best {here}, was {was}{corrected}"
