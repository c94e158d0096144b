"""Interfaces to other tools: the hooks of pre-commit, and the GitHub action."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from malformed_cases import broken

from i2s_spec.cli import cli
from i2s_spec.cli.conform import run as conform_run
from i2s_spec.cli.lint import lint_command as lint
from i2s_spec.linter.selection import PROFILES
from i2s_spec.testing.sample import Draft

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]
OPTIONS = {name for parameter in lint.params for name in parameter.opts}
#: Options of `i2s conform run`, which the action's second mode calls.
ASKING = {option for parameter in conform_run.params for option in parameter.opts}


def loaded(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("hook", loaded(".pre-commit-hooks.yaml"), ids=lambda hook: hook["id"])
def test_the_hook_of_pre_commit(hook: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"id", "name", "entry", "language", "files", "types"} <= hook.keys()
    assert hook["language"] == "python"
    program, verb, *options = shlex.split(hook["entry"])
    assert (program, verb) == ("i2s", "lint")
    assert set(options) <= OPTIONS
    assert re.search(hook["files"], "models/a.gguf")
    assert not re.search(hook["files"], "a.gguf.txt")
    monkeypatch.chdir(tmp_path)
    cases = {name: broken(name) for name in ("lfs_pointer", "dup_key")}
    Path("good.gguf").write_bytes(Draft().data)
    Path("pointer.gguf").write_bytes(cases["lfs_pointer"])
    Path("bad.gguf").write_bytes(cases["dup_key"])
    for name, status in (("good.gguf", 0), ("pointer.gguf", 0), ("bad.gguf", 1)):
        run = subprocess.run([sys.executable, "-m", "i2s_spec", verb, *options, name], capture_output=True, check=False)
        assert run.returncode == status


def test_action_is_composite_and_names_what_exists() -> None:
    action = loaded("action.yml")
    assert action["runs"]["using"] == "composite"
    assert action["inputs"].keys() >= {"files", "profile", "fail-on", "payload", "jobs", "options", "sarif"}
    assert all(isinstance(given["default"], str) and given["description"] for given in action["inputs"].values())
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an input in the text of a script could be a command"
        for option in re.findall(r"(?<= )--[a-z-]+(?= )", step["run"]):
            assert option in OPTIONS | ASKING | {"--quiet", "--clear"}  # options of pip and of venv
        for name in re.findall(r"I2S_[A-Z_]+", " ".join(step["env"])):
            assert name in {parameter.envvar for parameter in lint.params}
    used = set(re.findall(r"\$\{\{ inputs\.([a-z-]+) \}\}", str(action["runs"]["steps"])))
    assert used == action["inputs"].keys()
    assert all(name in action["inputs"]["profile"]["description"] for name in PROFILES)


def test_action_runs(tmp_path: Path) -> None:
    """The step that lints, with the shell and the variables that GitHub gives it."""
    action = loaded("action.yml")
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "lint")
    program = tmp_path / "i2s"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m i2s_spec "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    work = tmp_path / "a repository"
    work.mkdir()
    (work / "good $(touch pwned).gguf").write_bytes(Draft().data)
    (work / "bad.gguf").write_bytes(broken("dup_key"))
    defaults = {name: given["default"] for name, given in action["inputs"].items()}

    def run(**given: str) -> tuple[int, str, str, str]:
        inputs = {**defaults, **given}
        summary, output = tmp_path / "summary", tmp_path / "output"
        summary.write_text("before\n")
        output.write_text("")
        own = {
            name: re.sub(r"\$\{\{ inputs\.([a-z-]+) \}\}", lambda found: inputs[found[1]], value)
            for name, value in step["env"].items()
        }
        environment = {
            **os.environ, **own, "I2S": str(program), "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(output),
        }  # fmt: skip
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, encoding="utf-8", check=False)
        return done.returncode, done.stdout, summary.read_text(encoding="utf-8"), output.read_text()

    status, out, summary, output = run()
    assert status == 1
    assert out.startswith("::error file=bad.gguf,title=G203 duplicate-key::")
    assert summary.startswith("before\n# i2s lint\n")
    assert "`G203`" in summary
    assert output == "sarif=i2s-lint.sarif\nexit-code=1\n"
    assert (work / "i2s-lint.sarif").read_text().startswith('{"$schema"')
    assert not (work / "pwned").exists()
    (work / "i2s-lint.sarif").unlink()
    assert run(files="good*", sarif="")[0] == 0
    assert run(files="bad.gguf\ngood*", options="--ignore\nG203", **{"fail-on": "note"})[0] == 0
    assert run(profile="nonsense")[0] == 2
    assert run(files="missing.gguf")[0] == 3


def test_action_compiles_once_in_a_job(tmp_path: Path) -> None:
    """The step that installs, with a Python that records its calls: a second use of the action compiles nothing."""
    step = next(step for step in loaded("action.yml")["runs"]["steps"] if step["name"] == "Install i2s-spec")
    python, asked, place = tmp_path / "a python", tmp_path / "asked", tmp_path / "temp" / "i2s-spec"
    python.write_text(
        '#!/bin/sh\nfor place; do :; done\nmkdir -p "$place/bin"\nrm -f "$place/installed"\n'
        f'printf \'#!/bin/sh\\necho "$@" >> %s\\n\' {shlex.quote(str(asked))} > "$place/bin/pip"\n'
        'chmod +x "$place/bin/pip"\n',
        encoding="utf-8",
    )
    python.chmod(0o755)

    def install(here: str) -> list[str]:
        environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(python), "HERE": here}
        command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
        subprocess.run(command, env={**environment, "PLACE": str(place)}, check=True)
        return asked.read_text().splitlines()

    assert install("/the action") == ["install --quiet /the action"]
    assert len(install("/the action")) == 1
    assert install("/another revision")[1:] == ["install --quiet /another revision"]
    assert install("/the action")[2:] == ["install --quiet /the action"]


def test_the_command_line_has_the_verb_lint() -> None:
    assert cli.get_command(None, "lint") is lint  # type: ignore[arg-type]
