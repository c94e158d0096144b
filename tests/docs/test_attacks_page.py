"""The annex on attacks: every test that it names exists, and the package knows every advisory."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest

from i2s_spec.linter.rules import all_rules
from i2s_spec.schema.type_registry import ADVISORIES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "spec" / "annexes" / "attacks.md").read_text(encoding="utf-8")
TESTS = re.findall(r"`((?:tests|fuzz)/[\w/]+\.py)::(\w+)`", PAGE)
ROWS = [line for line in PAGE.split("\n") if line.startswith("| ") and not line.startswith(("| the format", "| what"))]


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))


@pytest.mark.parametrize(("path", "name"), sorted(set(TESTS)))
def test_every_test_exists(path: str, name: str) -> None:
    assert name.startswith("test_")
    assert name in functions(path)


def test_every_row_names_a_test() -> None:
    assert len(ROWS) > 30
    assert [row for row in ROWS if "::test_" not in row] == []
    assert PAGE.count("::test_") == len(TESTS)


def test_advisories_are_those_that_are_known() -> None:
    known = {each.id for each in ADVISORIES}
    known |= {each["id"] for each in json.loads((ROOT / ".ci" / "advisories.json").read_text(encoding="utf-8"))}
    named = set(re.findall(r"CVE-\d{4}-\d+|GHSA(?:-[0-9a-z]{4}){3}", PAGE))
    assert named <= known
    assert {each.id for each in ADVISORIES} <= named


def test_rules_exist() -> None:
    named = re.findall(r"\[([A-Z]\d{3})\]\(\.\./rules/([A-Z]\d{3})\.md\)", PAGE)
    rules = {rule.code for rule in all_rules()}
    assert all(shown == page and shown in rules for shown, page in named)
    assert len(named) > 10
