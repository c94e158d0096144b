"""An option of `lint` is declared in one place, and click, the configuration, `Options` and the key of results have it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import click
import pytest

from i2s_spec.cli.lint import IN_HELP, lint_command, lint_options
from i2s_spec.linter.options import KEYS, OptionGroup, Options, RunOptions, declared, options_of

#: One more field, and nothing else.
FIELD = """
    depth: int = option(
        "--depth", kind=OptionKind.COUNT, default=3, group=OptionGroup.RULES, env="I2S_DEPTH", key="depth", help="How deep."
    )
"""

#: A program with `FIELD` in its copy of the only file that it belongs to. The file is executed under its own name.
PROGRAM = """
import importlib.util
import json
import os
import sys
from pathlib import Path

spec = importlib.util.find_spec("i2s_spec.linter.options")
before = "    suppressed: Mapping[str, str]"
text = Path(spec.origin).read_text(encoding="utf-8")
assert text.count(before) == 1
module = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = module
exec(compile(text.replace(before, sys.argv[1] + before), spec.origin, "exec"), module.__dict__)

import click
from i2s_spec.cli.lint import lint_command as command
from i2s_spec.linter import lint_run
from i2s_spec.linter.cluster.check import options_key

class Seen(Exception):
    pass

def options(*words):
    made = []
    class LintRun(lint_run.LintRun):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self.options)
            raise Seen
    import i2s_spec.cli.lint as verb
    verb.LintRun = LintRun
    try:
        command.main([*words, "a.gguf"], standalone_mode=False)
    except Seen:
        pass
    return made[0]

found = {"help": command.get_help(click.Context(command)), "default": options().depth, "line": options("--depth=5").depth}
keys = {options_key(options()), options_key(options("--depth=5")), options_key(options("--threads=2"))}
os.environ["I2S_DEPTH"] = "6"
found |= {"keys": len(keys), "variable": options().depth}
del os.environ["I2S_DEPTH"]
Path("i2s.toml").write_text("depth = 7")
found |= {"file": options().depth, "over": options("--depth=5").depth}
Path("i2s.toml").write_text("depth = 0")
try:
    options()
except ValueError as error:
    found["wrong"] = str(error)
print(json.dumps(found))
"""


def test_one_field_makes_an_option(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, FIELD], capture_output=True, encoding="utf-8", check=False, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    (line,) = (line for line in found["help"].splitlines() if "--depth" in line)
    assert "--depth N" in line
    assert "x>=1" in line
    assert (found["default"], found["line"], found["variable"]) == (3, 5, 6)
    assert (found["file"], found["over"]) == (7, 5)
    assert found["wrong"] == "i2s.toml: depth must be a number of at least 1"
    assert found["keys"] == 2


def test_click_has_every_option_that_is_declared() -> None:
    names = {each.name for each in lint_command.params if isinstance(each, click.Option) and each.expose_value}
    options = declared(Options, RunOptions)
    assert names == options.keys() | {short.name for option in options.values() for short in option.shorts}
    assert set(IN_HELP) == set(OptionGroup)


def test_keys_are_flags_or_options() -> None:
    flags = {flag.removeprefix("--") for option in declared(Options, RunOptions).values() for flag in option.flags}
    assert KEYS.keys() - flags == {"limits"}


@pytest.mark.parametrize("cls", [Options, RunOptions])
def test_defaults_are_those_of_click(cls: type) -> None:
    @lint_options(cls)
    def nothing(**given: object) -> None:
        """Do nothing."""

    verb = click.command(nothing)
    given = verb.make_context("nothing", []).params
    defaults = {each.name: getattr(cls(), each.name) for each in fields(cls)}
    for name in declared(cls):
        assert given[name] == defaults[name], name


def test_any_sequence_and_path_makes_options() -> None:
    assert options_of({"select": ["G"], "limits": None}) == Options(select=("G",))
