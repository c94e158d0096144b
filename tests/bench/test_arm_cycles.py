"""Estimated cycles of the ARM kernels: the committed result is complete, names its model, and is reproducible."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from i2s_site import benchmarks

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def cycles() -> Iterator[Any]:
    """The module; the benchmarks are no part of the package."""
    sys.path.insert(0, str(ROOT))
    from bench import arm_cycles

    yield arm_cycles
    sys.path.remove(str(ROOT))


def test_the_committed_estimates_are_complete(cycles: Any) -> None:
    found = json.loads(cycles.RESULT.read_text())
    assert found["estimated_by"].startswith("llvm-mca ")
    want = [
        (processor, kernel.set, kernel.does)
        for processor, sets in cycles.PROCESSORS.items() for kernel in cycles.KERNELS if kernel.set in sets
    ]  # fmt: skip
    assert [(row["processor"], row["set"], row["kernel"]) for row in found["rows"]] == want
    assert {"cortex-a76", "neoverse-n1", "apple-m1"} <= {row["processor"] for row in found["rows"]}
    assert {row["model"] for row in found["rows"]} <= set(cycles.MODELS.values())
    # A vector pipe issues at most one of these instructions a cycle, and there are at most four pipes.
    least = {each: found["weights"] / 4 / most for each, most in {"neon": 8, "dotprod": 16, "i8mm": 32}.items()}
    assert all(row["cycles"] >= least[row["set"]] for row in found["rows"] if row["tokens"])


def test_the_page_says_that_cycles_are_estimated(cycles: Any) -> None:
    drawn = benchmarks.estimates()
    assert "Estimated by llvm-mca" in drawn
    assert "not measured" in drawn
    for row in json.loads(cycles.RESULT.read_text())["rows"]:
        assert f"{row['processor']} (model of {row['model']})" in drawn
    assert "```i2s-estimates\n```" in (ROOT / "spec" / "benchmarks.md").read_text()


def test_loops_are_found_in_assembly(cycles: Any) -> None:
    """The inner loop that multiplies, without its labels; not the loop around it, nor one that adds up."""
    lines = [
        ".L1:", "\tmov\tx1, 0", ".L2:", "\tldr\tq1, [x0], 16", "\tsdot\tv0.4s, v1.16b, v2.16b", "\tcbnz\tx3, .L2",
        "\tbne\t.L1", ".L3:", "\tadd\tx5, x5, 1", "\tb.ne\t.L3", "\tret",
    ]  # fmt: skip
    loop = cycles._loop(lines)
    assert loop == lines[3:6]
    assert (cycles._products(loop), cycles._unpacked(loop)) == (16, 0)
    assert cycles._unpacked(["\tstr\tq1, [x0]", "\tstp\tq1, q2, [x0, 32]", "\tstr\tx1, [x0]", "\tldr\tq1, [x0]"]) == 48
    assert cycles._read(["\tstr\tq1, [x0]", "\tldp\tq1, q2, [x0, 32]", "\tldr\tx1, [x0]"]) == 128


def test_a_missing_program_is_named(
    cycles: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert cycles.main([]) == 1
    assert "llvm-mca is not installed" in capsys.readouterr().err


@pytest.mark.thorough
def test_the_committed_estimates_are_current(cycles: Any) -> None:
    """With the same tools the same cycles; with others every loop is found and estimated."""
    if shutil.which(cycles.COMPILER) is None:
        pytest.skip(f"no cross-compiler: {cycles.COMPILER} is not there")
    try:
        found = cycles.estimates()
    except cycles.MissingProgramError as missing:
        pytest.skip(str(missing))
    committed = json.loads(cycles.RESULT.read_text())
    rows = {(row["processor"], row["set"], row["kernel"]): row["cycles"] for row in found["rows"]}
    if (found["estimated_by"], found["compiler"]) == (committed["estimated_by"], committed["compiler"]):
        assert found == committed
    assert len(rows) == len(committed["rows"])
    for (
        processor,
        kernels,
        does,
    ), each in rows.items():  # panels unpack the weights once, so each product takes less, on every core model
        if does == "panels, eight tokens":
            assert each < rows[processor, kernels, "four tokens"]
