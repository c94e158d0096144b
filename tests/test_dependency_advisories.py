"""No accepted version of a dependency has a known vulnerability in functions that we use; all dependencies are listed."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parent.parent
TOOL = ROOT / ".ci" / "dependencies.py"

#: Requirements of CycloneDX 1.6 on the fields used here.
SHAPE = {
    "type": "object",
    "required": ["bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies"],
    "additionalProperties": False,
    "properties": {
        "bomFormat": {"const": "CycloneDX"},
        "specVersion": {"const": "1.6"},
        "serialNumber": {"pattern": "^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"},
        "version": {"const": 1},
        "metadata": {"type": "object", "required": ["component"], "properties": {"component": {"$ref": "#/$defs/one"}}},
        "components": {"type": "array", "uniqueItems": True, "minItems": 4, "items": {"$ref": "#/$defs/one"}},
        "dependencies": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["ref", "dependsOn"],
                "additionalProperties": False,
                "properties": {"ref": {"type": "string"}, "dependsOn": {"type": "array", "uniqueItems": True}},
            },
        },
    },
    "$defs": {
        "one": {
            "type": "object",
            "required": ["type", "bom-ref", "name", "version", "purl"],
            "additionalProperties": False,
            "properties": {
                "type": {"const": "library"},
                "bom-ref": {"type": "string"},
                "name": {"type": "string"},
                "version": {"type": "string", "pattern": "^[0-9]"},
                "purl": {"pattern": "^pkg:pypi/[a-z0-9-]+@[0-9]"},
                "licenses": {"type": "array"},
            },
        }
    },
}


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


def test_the_bill_of_materials(tmp_path: Path) -> None:
    places = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in places:
        subprocess.run([sys.executable, TOOL, "sbom", path], check=True)
    assert places[0].read_bytes() == places[1].read_bytes()
    bom = json.loads(places[0].read_text(encoding="utf-8"))
    jsonschema.validate(bom, SHAPE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert bom["metadata"]["component"]["version"] == project["version"]
    references = {each["bom-ref"] for each in bom["components"]}
    names = {each["name"].lower() for each in bom["components"]}
    assert {re.split(r"[>=<\[]", each)[0] for each in project["dependencies"]} <= names
    for edge in bom["dependencies"]:
        assert edge["ref"] in references | {bom["metadata"]["component"]["bom-ref"]}
        assert set(edge["dependsOn"]) <= references
