"""Every harness also checks that no input leads to the exit code of a bug: if a command ends so, the harness fails."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import harness
import pytest
from harness import HERE

from i2s_spec.errors import EXIT_BUG
from i2s_spec.testing.sample import Draft

HARNESSES = sorted(path.stem for path in HERE.glob("fuzz_*.py"))

#: Inputs of harnesses that do not read GGUF files.
PROGRAMS = {
    "fuzz_command_line": b"show @\n" + Draft().data,
    "fuzz_golden_compare": b"\0PK",
    "fuzz_payload": bytes(600),
    "fuzz_writer": b"",
}


@pytest.fixture(autouse=True)
def _of_all_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "EVERY", 1)


def given(name: str) -> None:
    import_module(name).one_input(PROGRAMS.get(name, Draft().data))


@pytest.mark.parametrize("name", HARNESSES)
def test_a_bug_in_a_verb_fails_the_harness(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(words: list[str]) -> None:
        sys.exit(EXIT_BUG)

    monkeypatch.setattr(harness, "main", fails)
    with pytest.raises(AssertionError, match="ended as a bug of this package"):
        given(name)


@pytest.mark.parametrize("name", HARNESSES)
def test_sound_input_passes(name: str) -> None:
    given(name)


def test_no_argument_leads_out_of_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb that reads the folder around this one would read files of other processes, for hours."""
    command_line, seen = import_module("fuzz_command_line"), []

    def caught(words: list[str], *_: object) -> tuple[int, str, str]:
        seen.extend(words)
        return 0, "", ""

    monkeypatch.setattr(command_line, "answered", caught)
    command_line.one_input(b"lint .. / /tmp --config=/etc/x ./../.. a/../../b\n")
    assert seen[0] == "lint"
    assert len(seen) == 7
    for part in (part for word in seen for part in word.split("=")):
        assert not part.startswith("/")
        assert ".." not in part


def test_the_exit_code_of_a_bug_is_declared_once() -> None:
    from i2s_spec.linter.report_data import Totals, exit_code

    report: Any = {"bugs": ["x"], "findings": [], "summary": {"readable": True}}
    assert exit_code(report) == EXIT_BUG
    totals = Totals()
    totals.fail(EXIT_BUG)
    assert totals.exit_code == EXIT_BUG
    package = HERE.parent / "i2s_spec"
    places = [path.name for path in package.rglob("*.py") if ", EXIT_BUG, EXIT_REMOTE = " in path.read_text("utf-8")]
    assigned = [path.name for path in package.rglob("*.py") if "\nEXIT_BUG = " in path.read_text("utf-8")]
    assert (places, assigned) == (["errors.py"], [])
