"""The exclusions of the fuzz harnesses' coverage report exist; the report itself takes too long for every run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FUZZ = str(Path(__file__).resolve().parent.parent.parent / "fuzz")
if FUZZ not in sys.path:
    sys.path.append(FUZZ)

import coverage_report  # noqa: E402


def test_excluded_lines_exist() -> None:
    assert coverage_report.outdated() == []


def test_rooms_and_harnesses_exist() -> None:
    assert all((coverage_report.PACKAGE / room).is_dir() for room in coverage_report.ROOMS.values())
    harnesses = {path.stem.removeprefix("fuzz_") for path in Path(FUZZ).glob("fuzz_*.py")}
    assert set(coverage_report.HARNESSES) == harnesses
    assert set(coverage_report.OF_FILES) <= harnesses


@pytest.mark.parametrize("entry", [("gguf/gone.py", "*", "why"), ("gguf/source.py", "if gone:", "why")])
def test_entries_for_missing_lines_are_reported(monkeypatch: pytest.MonkeyPatch, entry: tuple[str, str, str]) -> None:
    monkeypatch.setattr(coverage_report, "UNREACHABLE", (entry,))
    assert coverage_report.outdated() == [f"{entry[0]}: {entry[1]}"]
