"""A simple call of `i2s lint` is parsed without click, with the same result as by click."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from i2s_spec.cli.files.lint import command
from i2s_spec.cli.lint_calls.plain_call import DEFAULTS, plain_call
from i2s_spec.testing.sample import Draft

CALLS = [
    ["a.gguf"],
    ["a.gguf", "b.gguf", "@list"],
    ["--header-only", "a.gguf"],
    ["a.gguf", "--sample", "-q"],
    ["--quiet", "--json", "a"],
    ["--format", "sarif", "a"],
    ["--format=jsonl", "a"],
    ["--threads", "2", "--jobs=0", "a"],
    ["--profile", "strict", "--payload", "none", "a"],
    ["--runtimes", "--skip-lfs", "--no-config", "a"],
    ["--format", "json", "--format", "text", "a"],
]

#: Command lines that click must parse: they are invalid, or have other than plain options.
OTHERS = [
    [], ["--help"], ["--header", "a"], ["--format", "a"], ["--format"], ["--threads", "0", "a"], ["--threads=x", "a"],
    ["--jobs", "-1", "a"], ["--", "a"], ["-", "a"], ["-qq", "a"], ["--select", "G", "a"], ["-o", "x", "a"],
    ["--json=1", "a"], ["--format=", "a"], ["", "a"],
]  # fmt: skip


def by_click(words: list[str]) -> tuple[Any, Any, Any]:
    """The files, the values and their sources as click has them."""
    context = command.make_context("lint", list(words), auto_envvar_prefix="I2S_LINT")
    given = dict(context.params)
    files = given.pop("files")
    sources = {name: context.get_parameter_source(name) for name in given}
    return files, given, {name: source.name for name, source in sources.items() if source is not None}


@pytest.mark.parametrize("words", CALLS, ids=" ".join)
def test_a_plain_call_is_read_as_click_reads_it(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("I2S_FORMAT", raising=False)
    assert plain_call(words) == by_click(words)


def test_defaults_are_those_of_the_options() -> None:
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    names = {option.name for option in options if option.expose_value}
    assert DEFAULTS.keys() == names


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_anything_else_is_left_to_click(words: list[str]) -> None:
    assert plain_call(words) is None


@pytest.mark.parametrize("name", ["I2S_PROFILE", "I2S_LINT_QUIET", "I2S_NEW_OPTION"])
def test_variables_that_set_options_are_left_to_click(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert plain_call(["a.gguf"]) is None


def test_both_ways_answer_the_same(tmp_path: Path) -> None:
    """`--` makes click read the line, and changes nothing else; a wrong combination ends with click's words."""
    good, broken = tmp_path / "good.gguf", tmp_path / "broken.gguf"
    good.write_bytes(Draft().data)
    broken.write_bytes(Draft().data[:-20])
    for options in ([], ["--json"], ["--header-only"], ["--header-only", "--sample"], ["--format", "github"]):
        answers = []
        for mark in ([], ["--"]):
            argv = [sys.executable, "-m", "i2s_spec", "lint", *options, *mark, str(good), str(broken), "nothing"]
            run = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=tmp_path)
            answers.append((run.returncode, run.stdout, run.stderr))
        assert answers[0] == answers[1]
    assert answers[0][0] == 3
