"""The action with an adapter, and the reusable workflow."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hand_made import adapter, payloads

from i2s_spec.cli.conform import run as conform_run

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[2]


def test_the_action_runs_vectors(tmp_path: Path) -> None:
    """The step, with the shell and the variables that GitHub gives it."""
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    step = next(step for step in action["runs"]["steps"] if step.get("id") == "conform")
    folder, script, program = payloads(tmp_path / "v"), tmp_path / "adapter.py", tmp_path / "i2s"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m i2s_spec "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script.write_text(adapter("def decode(d, a, op): return np.zeros(512, '<f4' if op == 'dequant' else 'i1')"))
    inputs = {"adapter": f"{sys.executable} {script}", "known": "", "options": f"--vectors\n{folder.path}"}
    own = {name: re.sub(r"\$\{\{ inputs\.([a-z]+) \}\}", lambda found: inputs[found[1]], value)
           for name, value in step["env"].items()}  # fmt: skip
    summary, output = tmp_path / "summary", tmp_path / "output"
    github = {"I2S": str(program), "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_OUTPUT": str(output)}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]],
        cwd=tmp_path, env={**os.environ, **own, **github}, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert (done.returncode, output.read_text()) == (1, "exit-code=1\n"), done.stderr
    assert "I2S-0001 decode: row 0, column " in done.stdout
    assert "every value is 0" in summary.read_text()
    assert json.loads((tmp_path / "i2s-conform.json").read_text())["message"] == "0 of 2"
    assert {path.name for path in tmp_path.glob("i2s-conform.*")} == {
        f"i2s-conform.{end}" for end in ("ndjson", "xml", "html", "json")
    }


def test_the_workflow_calls_the_action_with_inputs_that_it_has() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "adapter-ci.yml").read_text(encoding="utf-8"))
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    called = workflow[True]["workflow_call"]["inputs"]  # YAML 1.1 reads `on` as true
    steps = workflow["jobs"]["vectors"]["steps"]
    (ours,) = (step for step in steps if step.get("uses", "").startswith("OWNER/i2s-spec@"))
    assert ours["with"].keys() <= action["inputs"].keys()
    text = str(workflow["jobs"])
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == called.keys()
    assert all("${{" not in step.get("run", "") for step in steps), (
        "an input in the text of a script could be a command"
    )
    assert {"--known", "--report"} <= {option for parameter in conform_run.params for option in parameter.opts}
