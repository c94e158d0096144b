"""Every requirement is numbered once, bound to somebody, and held by something; every clause that is cited is there."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from i2s_spec.docs import checkout, requirements
from i2s_spec.docs.evidence import EVIDENCE, Proof
from i2s_spec.docs.exports.description import records
from i2s_spec.linter.rules import all_rules

ROOT = Path(__file__).resolve().parents[2]
EVERY = requirements.requirements()
TEXTS = {page: page.read_text(encoding="utf-8") for page in checkout.pages()}


def test_numbers_are_unique_and_in_order() -> None:
    numbers = [tuple(int(part) for part in re.findall(r"\d+", each.id)) for each in EVERY]
    assert not [number for number, count in Counter(numbers).items() if count > 1]
    assert len(EVERY) == sum(len(re.findall(r"^- \*\*\[R\d", text, re.MULTILINE)) for text in TEXTS.values())
    for chapter, section in {number[:2] for number in numbers}:
        inside = [last for *rest, last in numbers if tuple(rest) == (chapter, section)]
        assert inside == list(range(1, len(inside) + 1)), f"{chapter}.{section}"


def test_a_number_stands_in_its_section() -> None:
    for page, text in TEXTS.items():
        section = ""
        for line in text.splitlines():
            if met := re.match(r"## (\d+\.\d+) ", line):
                section = met[1]
            if met := re.match(r"- \*\*\[R(\d+\.\d+)-", line):
                assert met[1] == section, f"{page.name}: {line[:60]}"


@pytest.mark.parametrize("requirement", EVERY, ids=lambda requirement: requirement.id)
def test_every_requirement_binds_and_every_must_is_held(requirement: requirements.Requirement) -> None:
    assert requirement.levels
    assert requirement.binds
    if requirement.is_must:
        assert list(requirements.held_by(requirement)), "cite a rule, a test or a reason (docs/evidence.py)"


def test_rules_that_are_cited_are_there_and_cite_clauses_that_are() -> None:
    known, clauses = {rule.code for rule in all_rules()}, requirements.clauses()
    for page, text in TEXTS.items():
        assert set(re.findall(r"rules/([A-Z]\d{3})\.md", text)) <= known, page.name
    assert {rule.clause for rule in all_rules()} <= clauses
    for record in records():
        assert {record.clause, *(field.clause for field in record.fields)} <= clauses


def test_clauses_that_the_code_cites_are_there() -> None:
    clauses = requirements.clauses()
    for module in sorted((ROOT / "i2s_spec").rglob("*.py")):
        text = module.read_text(encoding="utf-8")
        cited = re.findall(r"\bclauses? (\d+\.\d+)", text) + re.findall(r"\bclauses \d+\.\d+ and (\d+\.\d+)", text)
        missing = set(cited) - clauses
        assert not missing, f"{module.name} cites {missing}"


def test_evidence_is_there_and_is_needed() -> None:
    known = {each.id for each in EVERY}
    assert EVIDENCE.keys() <= known
    functions: dict[str, set[str]] = {}
    for evidence in (each for held in EVIDENCE.values() for each in held if isinstance(each, Proof)):
        if evidence.path not in functions:
            tree = ast.parse((ROOT / evidence.path).read_text(encoding="utf-8"))
            functions[evidence.path] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert evidence.name in functions[evidence.path], f"{evidence.path}::{evidence.name}"


@pytest.mark.parametrize("name", requirements.CLASSES)
def test_lists_of_chapter_11_are_current(name: str) -> None:
    text = (checkout.chapters() / "11-conformance.md").read_text(encoding="utf-8")
    assert requirements.listed(name) in text
    assert f"| *{name}* | {requirements.CLASSES[name]} |" in text


def test_the_page_of_all_is_current() -> None:
    assert (checkout.chapters() / "requirements.md").read_text(encoding="utf-8") == requirements.page()


def test_links_between_pages_lead_somewhere() -> None:
    """What `mkdocs build --strict` checks as well, for those who have no mkdocs."""
    anchors = {page: requirements.anchors(text) for page, text in TEXTS.items()}
    for page, text in TEXTS.items():
        plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for target, _, anchor in re.findall(r"\]\(([^)#:\s]*)(#([^)\s]+))?\)", plain):
            to = (page.parent / target).resolve() if target else page
            assert to.is_file(), f"{page.name} -> {target}"
            if anchor and to in anchors:
                assert anchor in anchors[to], f"{page.name} -> {target}#{anchor}"
