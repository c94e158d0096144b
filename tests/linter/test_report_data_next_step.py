"""Statements of reports about repairs agree with `i2s fix`."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from i2s_spec.cli import main
from i2s_spec.errors import quote
from i2s_spec.linter.repair.plan import REPAIRS, chosen
from i2s_spec.linter.report_data import on_command_line, other_command, repair_option, repair_step, repair_words
from i2s_spec.linter.rule import Fix
from i2s_spec.linter.rules import all_rules
from i2s_spec.testing.sample import Draft


def test_options_are_those_that_repairs_take() -> None:
    chosen((), ())  # registers all repairs
    for rule in all_rules():
        option = repair_option(rule)
        assert (option is None) == (rule.code not in REPAIRS), rule.code
        if option is None:
            continue
        repair = REPAIRS[rule.code]
        assert ("--unsafe" in option) == (rule.fix is Fix.UNSAFE), rule.code
        assert (f"--select {rule.code}" in option) == repair.by_name, rule.code
        for extra in ("--scrub-tail", "--dialect"):
            assert (extra in option) == (extra in repair.does), rule.code


def test_the_mildest_option_comes_first() -> None:
    step = repair_step([("G206", 1), ("G215", 2), ("I311", 1)], "a.gguf")
    assert step == ("i2s fix a.gguf --dry-run", 2)
    step = repair_step([("G206", 3), ("I311", 1)])
    assert step == ("i2s fix FILE --unsafe --dry-run", 3)
    assert repair_step([("I108", 14)]) is None
    assert repair_step([("X000", 1)]) is None
    assert repair_words("X000") == repair_words("I108") == ""


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
    step = repair_step([("G215", 1)], "a.gguf")
    assert step is not None
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(step.command)[1:])
    assert ended.value.code == 0
