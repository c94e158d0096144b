"""Statements of reports about repairs agree with `i2s fix`."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from i2s_spec.cli import main
from i2s_spec.errors import quote
from i2s_spec.linter.repair.plan import REPAIRS, chosen
from i2s_spec.linter.report_data import (
    on_command_line,
    other_command,
    repair_option,
    repair_step,
    repair_words,
    repairs_of,
)
from i2s_spec.linter.rule import Fix
from i2s_spec.linter.rules import all_rules
from i2s_spec.testing.sample import Draft


def test_options_are_those_that_repairs_take() -> None:
    chosen((), ())  # registers all repairs
    for rule in all_rules():
        option = repair_option(rule.code, rule.fix)
        assert (option is None) == (rule.code not in REPAIRS), rule.code
        if option is None:
            continue
        repair = REPAIRS[rule.code]
        assert ("--unsafe" in option) == (rule.fix is Fix.UNSAFE), rule.code
        assert (f"--select {rule.code}" in option) == repair.by_name, rule.code
        for extra in ("--scrub-tail", "--dialect"):
            assert (extra in option) == (extra in repair.does), rule.code


def test_the_mildest_option_comes_first() -> None:
    step = repair_step([("--unsafe", 1), ("", 2), ("--scrub-tail", 1)], "a.gguf")
    assert step == ("i2s fix a.gguf --dry-run", 2)
    step = repair_step([("--unsafe", 3), ("--scrub-tail", 1)])
    assert step == ("i2s fix FILE --unsafe --dry-run", 3)
    assert repair_step([]) is None


def test_repairs_of_one_code_are_counted_by_option() -> None:
    found = [
        ("G407", "safe"),
        ("G407", "unsafe"),
        ("M102", "unsafe"),
        ("M102", "none"),
        ("G206", "unsafe"),
        ("I108", "none"),
    ]
    assert repairs_of(found, {"G206": 9, "M102": 7, "I108": 3}) == {
        "G407": {"": 1, "--unsafe": 1}, "M102": {"--unsafe": 1}, "G206": {"--unsafe": 10}, "I108": {},
    }  # fmt: skip
    assert repair_words("") == "repairable"
    assert repair_words("--unsafe", 3) == "3 repairable with --unsafe"
    assert repair_option("X000", "safe") is None


@pytest.mark.parametrize("name", ["a.gguf", "a b.gguf", "-q", "$(id)", "a;b", "\u00fc.gguf", "it's"])
def test_quoted_paths_are_read_back_by_a_shell(name: str) -> None:
    (word,) = shlex.split(on_command_line(quote(name, bare=True)))
    assert word in (name, f"./{name}")


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "a\\b", "\u202e"])
def test_paths_that_cannot_be_shown_are_not_typed(name: str) -> None:
    assert on_command_line(quote(name, bare=True)) == "FILE"


def test_commands_of_rules_take_plain_values_only() -> None:
    assert other_command("I401", "rows-1x4", "a") == "i2s convert a OUT.gguf --from rows-1x4 --to canonical"
    assert other_command("G321", 42, "a") == "i2s convert a OUT.gguf --to Q2_0"
    assert other_command("I401", "$(id)", "a") == other_command("G001", "x") == other_command("X000", "x") == ""


def test_the_suggested_command_repairs_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.gguf").write_bytes(Draft().number("key_values[4].value", 2))
    step = repair_step([("", 1)], "a.gguf")
    assert step is not None
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(step.command)[1:])
    assert ended.value.code == 0
