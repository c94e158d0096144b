"""This module writes results: a table as text for people, one JSON object for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.measure import Claim, Result

SCHEMA_VERSION = 1


def as_dict(part: str, quick: bool, rounds: int, machine: dict[str, Any], results: dict[str, Result]) -> dict[str, Any]:
    """Everything about one run, in the form of the files in `bench/results/`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "part": part,
        "quick": quick,
        "rounds": rounds,
        "machine": machine,
        "benchmarks": {name: result.as_dict() for name, result in results.items()},
    }


def machine_line(machine: dict[str, Any]) -> str:
    """The machine in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items() if version)
    where = (
        f"{machine['cpu']} ({machine['processor']}), {machine['cores']} cores, {machine['memory']}, {machine['system']}"
    )
    return f"{where}; load {machine['load']}; Python {machine['python']}, {versions}"


def as_text(name: str, result: Result) -> str:
    """One result as a table: the contenders' figures, then the claims."""
    return "\n".join([f"{name}: {result.title}", *_rows(result), *_claims(result), *_notes(result)]) + "\n"


def _rows(result: Result) -> Iterator[str]:
    width = max((len(row.name) for row in result.rows), default=0)
    if result.rows:
        yield f"  {'':{width}}  {'median':>10}  {'low':>10}  {'high':>10}"
    for row in result.rows:
        shown = (shown_value(value, row.unit) for value in (row.median, min(row.values), max(row.values)))
        yield f"  {row.name:{width}}  " + "  ".join(f"{value:>10}" for value in shown)


def _claims(result: Result) -> Iterator[str]:
    if result.claims:
        yield ""
    for claim in result.claims:
        low, high = (shown_value(end, claim.unit) for end in (min(claim.values), max(claim.values)))
        spread = f" ({low} to {high})" if len(claim.values) > 1 else ""
        yield f"  {claim.text}: {shown_value(claim.median, claim.unit)}{spread}{_verdict(claim)}"


def _verdict(claim: Claim) -> str:
    if claim.reached is None:
        return ""
    goal = f"at least {shown_value(claim.least, claim.unit)}" if claim.least is not None else ""
    goal = f"at most {shown_value(claim.most, claim.unit)}" if claim.most is not None else goal
    return f"; goal: {goal}: {'reached' if claim.reached else 'NOT REACHED'}"


def _notes(result: Result) -> Iterator[str]:
    if result.notes:
        yield ""
    for note in result.notes:
        yield f"  {note}"


def shown_value(value: float, unit: str) -> str:
    """A number with its unit, scaled for reading."""
    if unit == "s":
        for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "us")):
            if abs(value) * factor >= 1 or name == "us":
                return f"{_digits(value * factor)} {name}"
    if unit == "B":
        for factor, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
            if abs(value) >= factor or name == "KiB":
                return f"{_digits(value / factor)} {name}"
    return f"{_digits(value)} {unit}"


def _digits(value: float) -> str:
    """Three digits, whole numbers from 100 on."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
