"""Advisories: a citation of an advisory is about the same problem as the advisory."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from i2s_spec.linter.rules import all_rules
from i2s_spec.schema.type_registry import ADVISORIES

ROOT = Path(__file__).resolve().parents[2]
BY_ID = {each.id: each for each in ADVISORIES}
_ID = re.compile(r"\b(?:CVE-\d{4}-\d+|GHSA(?:-[0-9a-z]{4}){3})\b")


def test_advisories_are_unique_and_in_order() -> None:
    ids = [each.id for each in ADVISORIES]
    assert ids == sorted(set(ids))
    assert all(_ID.fullmatch(name) for name in ids)
    assert all(each.subject and each.program for each in ADVISORIES)


def test_rules_cite_the_advisories_that_are_about_them_and_no_others() -> None:
    cited = {rule.code: {name for source in rule.provenance for name in _ID.findall(source)} for rule in all_rules()}
    listed = {code: {each.id for each in ADVISORIES if code in each.rules} for code in cited}
    assert cited == listed
    assert {code for each in ADVISORIES for code in each.rules} <= cited.keys()


@pytest.mark.parametrize("page", sorted((ROOT / "spec").glob("[01]*.md")), ids=lambda page: page.stem)
def test_clauses_that_cite_one_cite_its_rule(page: Path) -> None:
    for section in re.split(r"(?m)^## ", page.read_text(encoding="utf-8"))[1:]:
        rules = set(re.findall(r"rules/([A-Z]\d{3})\.md", section))
        for name in _ID.findall(section):
            assert name in BY_ID, f"{page.name}: {name}"
            assert rules & set(BY_ID[name].rules), f"{page.name}: {name} is about {BY_ID[name].subject}"


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("CVE-2024-8063", "block_count"), ("CVE-2025-0317", "alignment"), ("CVE-2024-12055", "out of bounds"),
        ("CVE-2025-49847", "token's text"), ("CVE-2025-0315", "allocated"),
    ],
)  # fmt: skip
def test_subjects_that_were_once_confused(name: str, word: str) -> None:
    assert word in BY_ID[name].subject
