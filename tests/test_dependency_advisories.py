"""No accepted version of a dependency has a known vulnerability in functions that we use; all dependencies are listed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parent.parent
TOOL = ROOT / ".ci" / "dependencies.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ci_dependencies", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_vulnerable_version_is_accepted(tool: ModuleType) -> None:
    assert tool.accepted() == []
    assert min(tool.floors().values()) != ""


def test_a_vulnerable_version_is_noticed(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("jinja2", "3.1.6"), ("jinja2", "3.1.5"), ("urllib3", "2.6.3"), ("click", "")]
    monkeypatch.setattr(tool, "requirements", lambda: iter(rows))
    wrong = tool.accepted()
    assert any("CVE-2025-27516" in line for line in wrong)
    assert not any("CVE-2024-56326" in line for line in wrong)
    assert any("CVE-2026-44431" in line for line in wrong)
    assert not any("CVE-2026-21441" in line for line in wrong)
    assert "click has no lowest version" in wrong
    monkeypatch.setattr(tool, "requirements", lambda: iter([("click", "8.1")]))
    assert "which is not used" in tool.accepted()[0]


def test_the_list_is_in_order(tool: ModuleType) -> None:
    listed = tool.advisories()
    assert len({each["id"] for each in listed}) == len(listed)
    for each in listed:
        assert list(each) == ["package", "mended_in", "id", "ghsa", "what"]
        assert re.fullmatch(r"CVE-\d{4}-\d{4,}", each["id"])
        assert re.fullmatch(r"GHSA(-[0-9a-z]{4}){3}", each["ghsa"])


def test_the_scheduled_check_runs_what_is_there() -> None:
    path = ROOT / ".github" / "workflows" / "advisories.yml"
    text = path.read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    assert document[True]["schedule"]  # YAML reads `on` as true
    assert document["permissions"] == {"contents": "read"}
    assert "python .ci/dependencies.py check" in text
    done = subprocess.run([sys.executable, TOOL, "check"], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout
    floors = subprocess.run([sys.executable, TOOL, "floors"], capture_output=True, encoding="utf-8", check=True).stdout
    assert re.search(r"^jinja2==3\.1\.6$", floors, re.MULTILINE)
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+", line) for line in floors.splitlines())
