"""Rules: each has a page, a clause, and a broken copy (`test_broken_copies`) or a pair of files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from malformed_cases import CASES

from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import FAMILIES, rule
from i2s_spec.linter.rules import REGISTRY, all_rules
from i2s_spec.schema.faults import REMOTE
from i2s_spec.testing.malformed.situations import ReferenceCase, compared
from i2s_spec.testing.sample import Draft

PAIRS = list(compared())

#: Rules about the environment of the file (cases in test_engine.py), about files of other formats (tests/convert,
#: tests/checkpoints), about runtimes (test_runtimes.py), and those of programs that use a model (tests/model).
OUTSIDE = {
    *("S901", "S902", "S903", "S904", "S905", *REMOTE, "G412", "H101", "H102", "H103", "H104", "H105", "P201", "P202"),
    *("P203", "P204", "P205", *(f"H{number}" for number in range(201, 217))),
    "G218",  # a value at which released programs end (tests/gguf/test_scanner.py)
    *("G233", "G234", "G235", "G238"),  # files that other parts of their model belong to (test_split_models.py)
    *("T901", "T905", "T907", "T908", "T909", "T951", "M901"),
}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.code}-{pair.name}")
def test_a_file_with_a_reference_gets_its_code(pair: ReferenceCase) -> None:
    """Files that only a reference gives away: with it exactly the code, and without it nothing."""
    report = lint(pair.data, reference=pair.reference)
    assert {finding.code for finding in report.findings} == {pair.code} | pair.also
    assert pair.path in {finding.span.path for finding in report.findings}
    assert all(0 <= f.span.start <= f.span.stop <= len(pair.data) and f.message.isprintable() for f in report.findings)
    assert lint(pair.data).findings == ()
    assert lint(pair.reference, reference=pair.reference).findings == ()


@pytest.mark.requirement("R12.1-1")
def test_every_rule_has_a_case() -> None:
    assert {rule.code for rule in all_rules()} == {case.code for case in [*CASES.values(), *PAIRS]} | OUTSIDE


def test_case_names_are_unique() -> None:
    assert len({case.name for case in [*CASES.values(), *PAIRS]}) == len(CASES) + len(PAIRS)


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("last", ["i2s", "f32"])
def test_sound_file_has_no_finding(order: str, last: str) -> None:
    report = lint(Draft("big" if order == "big" else "little", last).data)
    assert {finding.code for finding in report.findings} == ({"G106"} if order == "big" else set())
    assert report.ok


@pytest.mark.parametrize("made", list(all_rules()), ids=lambda made: made.code)
def test_rule_is_documented(made: object) -> None:
    rule_ = REGISTRY[made.code]  # type: ignore[attr-defined]
    assert re.fullmatch(r"[BGHIMTSP]\d{3}", rule_.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule_.slug)
    assert re.fullmatch(r"\d+\.\d+", rule_.clause)
    assert rule_.family in FAMILIES
    assert rule_.title.endswith(".")
    assert set(rule_.sections) == {"Why", "Example", "Fix"}
    assert all(len(words) > 4 for words in rule_.sections.values())


def test_slugs_are_unique() -> None:
    slugs = [made.slug for made in all_rules()]
    assert len(set(slugs)) == len(slugs)


def test_a_code_cannot_be_used_twice() -> None:
    with pytest.raises(ValueError, match="used twice"):
        rule("G001", "again", "again", clause="1.1")(lambda subject: [])


def test_clauses_exist() -> None:
    """Every clause that a rule cites is a heading of the specification, if its chapter is written."""
    spec = Path(__file__).resolve().parents[2] / "spec"
    pages = sorted(spec.glob("[0-9]*.md"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    headings = set(re.findall(r"^## (\d+\.\d+) ", text, re.MULTILINE))
    written = {page.name.partition("-")[0].lstrip("0") for page in pages}
    assert {"2", "5", "6", "12"} <= written
    assert {made.clause for made in all_rules() if made.clause.partition(".")[0] in written} <= headings
