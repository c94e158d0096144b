"""Every requirement has one number, a subject, and something that checks it; every cited clause exists."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from i2s_site import checkout, requirements
from i2s_spec.exports.json_form import records
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
def test_every_requirement_has_a_subject_and_a_check(requirement: requirements.Requirement) -> None:
    """What binds files is held by a rule or a test; what programs must do, by a test: a rule judges no program."""
    assert requirement.levels
    assert requirement.binds
    assert requirements.missing(requirement) == ""


def test_a_requirement_without_a_rule_or_test_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = requirements.Requirement("R1.1-1", "A file MUST be.", ("MUST",), ("file",), (), "01-scope.md")
    assert "cite a rule" in requirements.missing(bare)
    assert requirements.missing(bare._replace(rules=("G001",))) == ""
    assert "mark a test" in requirements.missing(bare._replace(rules=("G001",), binds=("file", "reader")))
    monkeypatch.setattr(requirements, "tests", lambda: {"R1.1-1": ["tests/x.py::test_x"]})
    assert requirements.missing(bare._replace(binds=("reader",), levels=("MAY",))) == ""


def test_exceptions_to_the_gguf_document_say_so() -> None:
    """Section 1.4 lists where this text departs from a MUST of the document; each names the document in its reason."""
    scope = next(text for page, text in TEXTS.items() if page.name == "01-scope.md")
    section = scope[scope.index("## 1.4") : scope.index("## 1.5")]
    lenient, strict = section.split("- What the document allows")
    cited = re.findall(r"\[(R\d+\.\d+-\d+)\]", lenient), re.findall(r"\[(R\d+\.\d+-\d+)\]", strict)
    assert (len(cited[0]), len(cited[1])) == (5, 3)
    by_id = {each.id: each for each in EVERY}
    for number in (*cited[0], *cited[1]):
        text = (checkout.chapters() / by_id[number].page).read_text(encoding="utf-8")
        reason = text[text.index(f"{{ #{number} }}") :].split("\n- **[R")[0].split("\n## ")[0]
        assert "GGUF document" in reason, number
    for number in set(cited[0]) - {"R2.3-1"}:
        assert "SHOULD" in by_id[number].levels, number
    assert all("MUST" in by_id[number].levels or "MUST NOT" in by_id[number].levels for number in cited[1])


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


def test_tests_and_reviews_name_existing_requirements() -> None:
    known = {each.id for each in EVERY}
    assert requirements.tests().keys() <= known
    assert requirements.CHECKED_BY_PEOPLE.keys() <= known


def test_a_mark_is_found_and_a_missing_one_is_missed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text('@pytest.mark.requirement("R1.2-1", "R1.2-2")\ndef test_x(): pass\n')
    monkeypatch.setattr(requirements, "root", lambda: tmp_path)
    found = requirements.tests()
    assert found == {"R1.2-1": ["tests/test_a.py::test_x"], "R1.2-2": ["tests/test_a.py::test_x"]}


@pytest.mark.parametrize("name", requirements.CLASSES)
def test_chapter_11_lists_each_class(name: str) -> None:
    text = (checkout.chapters() / "11-conformance.md").read_text(encoding="utf-8")
    assert f"```i2s-table\nrequirements {name} (" in text
    assert f"| *{name}* | {requirements.CLASSES[name]} |" in text


def test_the_page_has_every_requirement() -> None:
    page = requirements.page()
    assert re.findall(r"^\| \[(R[\d.]+-\d+)\]", page, re.MULTILINE) == [each.id for each in EVERY]
