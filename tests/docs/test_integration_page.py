"""The page on pipelines and programs names only options, keys and identifiers that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from i2s_site import checkout
from i2s_spec.cli.lint import lint_command as lint
from i2s_spec.linter import options

ROOT = Path(__file__).resolve().parents[2]
TEXT = (checkout.chapters() / "integration.md").read_text(encoding="utf-8")
#: Options of ruff on that page.
RUFF = {"--isolated", "--fix"}


def test_options_are_such_as_there_are() -> None:
    known = {name for parameter in lint.params for name in parameter.opts}
    docker = {"--rm"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", TEXT)) - known == RUFF | docker


def test_the_configuration_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text(found[1], encoding="utf-8")
    read = options.found()
    assert set(read.values) == set(tomllib.loads(found[1])["tool"]["i2s"])
    assert [each.reason for each in read.suppressions] == ["kept as a bad example"]


def test_workflows_name_what_exists() -> None:
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    workflow, precommit = (yaml.safe_load(each) for each in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL))
    steps = workflow["jobs"]["models"]["steps"]
    ours = next(step for step in steps if step["uses"].startswith("OWNER/i2s-spec@"))
    assert ours["with"].keys() <= action["inputs"].keys()
    assert set(re.findall(r"steps\.i2s\.outputs\.([\w-]+)", TEXT)) <= action["outputs"].keys()
    assert ours["id"] == "i2s"
    used = {hook["id"] for hook in precommit["repos"][0]["hooks"]}
    assert used <= {hook["id"] for hook in hooks}
