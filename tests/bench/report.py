"""Results as text and as JSON, and the comparison with the committed results of the same kind of processor.

Figures of different days vary with the machine's load. The ratio of a claim was measured inside one run and is compared
directly. A row is first corrected by the probes of its benchmark, which show how fast the machine was on either day. A
result is worse only if its best round is worse than the committed median by more than the tolerance.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from bench.measure import Claim, Result

SCHEMA_VERSION: Final = 2

#: A file for each kind of processor: its parts, as `as_dict` makes them.
RESULTS: Final = Path(__file__).parent / "results"

#: Tolerance between the best round and the committed median: for ratios, and for rows after correction by probes.
CLAIM_TOLERANCE: Final = 0.1
ROW_TOLERANCE: Final = 0.2

#: Units of which less is better; of rates, more is better.
SMALLER: Final = ("s", "us", "ms", "B")


def as_dict(part: str, quick: bool, rounds: int, machine: dict[str, Any], results: dict[str, Result]) -> dict[str, Any]:
    """Everything about one run, as the files in `results/` have it for each part."""
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


def committed(kind: str) -> dict[str, Any]:
    """The committed results of a kind of processor, by part; empty if there are none."""
    path = RESULTS / f"{kind}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def kinds(part: str) -> list[str]:
    """The kinds of processor with a committed result of a part."""
    return sorted(path.stem for path in RESULTS.glob("*.json") if part in committed(path.stem))


def commit(runs: list[dict[str, Any]], order: Callable[[str], list[str]]) -> Path:
    """Put the benchmarks of full runs into the results of this kind of processor, and return the file.

    Claims without a goal are left out, because nothing is compared with them. A benchmark that was not measured together
    with the rest of its part names its own machine.

    :param order: the names of all benchmarks of a part, in their order
    """
    for run in runs:
        for benchmark in run["benchmarks"].values():
            benchmark["claims"] = [each for each in benchmark["claims"] if each["reached"] is not None]
    kind = runs[0]["machine"]["processor"]
    found = committed(kind)
    for run in runs:
        before = found.get(run["part"])
        if before is None:
            found[run["part"]] = run
            continue
        for name, benchmark in run["benchmarks"].items():
            before["benchmarks"][name] = {**benchmark, "machine": run["machine"]}
        names = order(run["part"])
        before["benchmarks"] = {
            name: before["benchmarks"][name]
            for name in (*(each for each in before["benchmarks"] if each not in names), *names)
            if name in before["benchmarks"]
        }
    path = RESULTS / f"{kind}.json"
    path.write_text(as_lines(dict(sorted(found.items()))) + "\n", encoding="utf-8")
    return path


def as_lines(value: Any) -> str:
    """JSON with a line for each row and claim."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(each, dict | list) and each for each in parts):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(as_lines, value)) + "\n]"
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {as_lines(each)}" for key, each in value.items()) + "\n}"


def worse(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    """A sentence for each claim and row that got worse, among the benchmarks in both results."""
    found = []
    for name, benchmark in now["benchmarks"].items():
        before = then["benchmarks"].get(name)
        if before is not None:
            found += [
                f"{name}: {line}" for line in (*_worse_claims(benchmark, before), *_worse_rows(benchmark, before))
            ]
    return found


def _worse_claims(now: dict[str, Any], then: dict[str, Any]) -> Iterator[str]:
    old = {claim["claim"]: claim for claim in then["claims"] if claim["unit"].startswith("x")}
    for claim in now["claims"]:
        before = old.get(claim["claim"])
        larger = claim["least"] is not None
        if before is None or (not larger and claim["most"] is None):
            continue
        yield from _change(claim["claim"], claim, before, larger, CLAIM_TOLERANCE, 1.0)


def _worse_rows(now: dict[str, Any], then: dict[str, Any]) -> Iterator[str]:
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
