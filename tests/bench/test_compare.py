"""A run is compared with the committed results of its kind of processor; only results that got worse are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import __main__ as verb
from bench import machine, measure, report
from bench.report import RESULTS, worse


def row(name: str, unit: str, *values: float) -> dict[str, Any]:
    middle = sorted(values)[len(values) // 2]
    return {"name": name, "unit": unit, "median": middle, "low": min(values), "high": max(values), "values": values}


def claim(name: str, *values: float, least: float | None = None, most: float | None = None) -> dict[str, Any]:
    return {**row(name, "x", *values), "claim": name, "least": least, "most": most}


def run(rows: list[dict[str, Any]], claims: list[dict[str, Any]]) -> dict[str, Any]:
    return {"benchmarks": {"b": {"rows": rows, "claims": claims}}}


THEN = run(
    [row("read probe", "s", 1, 1, 1), row("scan", "s", 2, 2, 2), row("unpack", "GB/s", 10, 10, 10)],
    [claim("share", 0.9, 0.9, 0.9, least=0.75), claim("times", 2, 2, 2, most=3), claim("told", 5, 5, 5)],
)


@pytest.mark.parametrize(
    ("rows", "claims", "said"),
    [
        ([row("scan", "s", 2.3, 2.9, 9)], [], []),  # the best round counts
        ([row("scan", "s", 2.5, 2.5, 9)], [], ["b: scan: at best 2.50 s, was 2.00 s"]),
        ([row("unpack", "GB/s", 1, 1, 8.5)], [], []),
        ([row("unpack", "GB/s", 1, 1, 7.5)], [], ["b: unpack: at best 7.50 GB/s, was 10.0 GB/s"]),
        ([row("read probe", "s", 2, 2, 2), row("scan", "s", 4, 4, 4)], [], []),  # the machine was slower, not the scan
        (
            [row("read probe", "s", 0.5, 0.5, 0.5), row("scan", "s", 2, 2, 2)], [],
            ["b: scan: at best 2.00 s, was 2.00 s, 1.00 s by the probes of this run"],
        ),
        ([row("another", "s", 9, 9, 9), row("scan", "x", 9, 9, 9)], [], []),
        ([], [claim("share", 0.5, 0.6, 0.82, least=0.75)], []),
        ([], [claim("share", 0.5, 0.6, 0.8, least=0.75)], ["b: share: at best 0.80 x, was 0.90 x"]),
        ([], [claim("times", 2.3, 3, 3, most=3)], ["b: times: at best 2.30 x, was 2.00 x"]),
        ([], [claim("told", 50, 50, 50)], []),
    ],
)  # fmt: skip
def test_worse_results_are_named(rows: list[dict[str, Any]], claims: list[dict[str, Any]], said: list[str]) -> None:

    assert worse(run(rows, claims), THEN) == said


def test_a_result_is_not_worse_than_itself() -> None:

    results = [result for path in RESULTS.glob("*.json") for result in json.loads(path.read_text()).values()]
    for result in results:
        assert worse(result, result) == []
    assert results


def test_the_command_compares_with_committed_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:

    slow = measure.Result("title", (), (measure.Claim("share", (0.1,), "x", least=0.75),))
    monkeypatch.setattr(verb, "benchmarks_of", lambda part: [measure.Benchmark("b", lambda setting: slow)])
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    kind = machine.facts()["processor"]
    (tmp_path / "other.json").write_text('{"codec": {}}')
    assert verb.main(["codec", "--check"]) == 0
    assert (
        f"codec: not compared: no result of {kind} is committed; there are results of: other" in capsys.readouterr().out
    )
    then = {"machine": {"date": "2026-01-02"}, **run([], [claim("share", 0.9, least=0.75)])}
    (tmp_path / f"{kind}.json").write_text(json.dumps({"codec": then}))
    assert verb.main(["codec", "--check"]) == 1
    printed = capsys.readouterr().out
    assert f"codec: compared with {kind} of 2026-01-02: 1 worse\n  b: share: at best 0.10 x, was 0.90 x\n" in printed
    with pytest.raises(SystemExit):
        verb.main(["codec", "--check", "--quick"])
    assert "--check and --commit need a full run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("family", "model", "stepping", "kind"),
    [
        (6, 85, 4, "skylake-sp"), (6, 85, 7, "cascade-lake"), (6, 85, 11, "cooper-lake"), (6, 106, 6, "ice-lake-sp"),
        (6, 143, 8, "sapphire-rapids"), (6, 207, 2, "emerald-rapids"), (6, 42, 7, "genuineintel-6-42"),
    ],
)  # fmt: skip
def test_kinds_of_processor(family: int, model: int, stepping: int, kind: str) -> None:

    facts = {"vendor_id": "GenuineIntel", "cpu family": str(family), "model": str(model), "stepping": str(stepping)}
    assert machine.kind(facts, "x86_64") == kind
    assert machine.kind({**facts, "vendor_id": "Other"}, "x86_64") == f"other-{family}-{model}"


def test_processors_with_incomplete_facts_have_a_kind() -> None:

    assert machine.kind({"CPU implementer": "0x41", "CPU part": "0xd0c"}, "aarch64") == "neoverse-n1"
    assert machine.kind({"CPU implementer": "0x41", "CPU part": "0xfff"}, "aarch64") == "arm-fff"
    assert machine.kind({}, "arm64") == "arm64"
    assert (
        machine.kind({"vendor_id": "AuthenticAMD", "cpu family": "?", "model": "17"}, "x86_64") == "authenticamd--1-17"
    )


def test_types_with_a_scale_for_each_group_are_compared() -> None:

    (kind, *_) = report.kinds("codec")
    then = report.committed(kind)["codec"]
    now = json.loads(json.dumps(then))
    assert worse(now, then) == []
    slow = next(row for row in now["benchmarks"]["Q2_0"]["rows"] if row["name"] == "pack")
    slow |= {
        "median": slow["median"] / 2,
        "low": slow["low"] / 2,
        "high": slow["high"] / 2,
    }
    assert len(worse(now, then)) == 1


def test_results_are_committed_by_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A part that is there keeps its other benchmarks, and a later one names its machine."""
    claims = (measure.Claim("share", (0.9,), "x", least=0.75), measure.Claim("told", (0.9,), "x"))
    result = measure.Result("title", (), claims)
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    for name in ("a", "b"):
        monkeypatch.setattr(verb, "benchmarks_of", lambda part, name=name: [measure.Benchmark(name, lambda _: result)])
        assert verb.main(["codec", "--commit"]) == 0
    (path,) = tmp_path.iterdir()
    codec = report.committed(path.stem)["codec"]
    assert list(codec["benchmarks"]) == ["a", "b"]
    assert codec["benchmarks"]["b"]["machine"]["processor"] == path.stem == machine.kind()
    assert [each["claim"] for each in codec["benchmarks"]["a"]["claims"]] == ["share"]
    assert str(path) in capsys.readouterr().out
