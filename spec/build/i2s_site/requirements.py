"""The numbered requirements of the chapters, and the register that joins each with what holds it.

A requirement is a list item that begins with its number. Whom it binds follows from its own words (section 11.1); the
lists of chapter 11 and the table of all requirements are made from that, so that neither can forget one.

What holds a requirement is a rule, a test vector, a test of this package, or a person. A rule is tested by the broken
copies of its code. A vector belongs to a requirement that it names, or whose rule it names. A MUST that has neither a
vector nor a test, and that no person has to check, is an error.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from i2s_site.checkout import chapters, pages, root
from i2s_site.runtimes import table
from i2s_spec.conformance.vectors import suite
from i2s_spec.linter.rules import all_rules
from i2s_spec.testing.malformed import malformed

#: Classes of what can conform, and what each is; a runtime keeps what a reader keeps as well.
CLASSES: Final = {
    "file": "a GGUF file with I2_S tensors",
    "reader": "a program that takes anything from such a file",
    "writer": "a program that makes or changes such a file, converters included",
    "runtime": "a reader that computes with the weights",
    "validator": "a reader that judges files, names their origin, or compares results",
}

#: Requirements that no rule and no test can hold, and why.
CHECKED_BY_PEOPLE: Final = {
    "R11.1-1": "a claim is made by people; what it rests on are the requirements that it names",
    "R11.1-2": "a claim is made by people; what it rests on are the requirements that it names",
}

_ITEM: Final = re.compile(
    r"^- \*\*\[(?P<id>R\d+\.\d+-\d+)\]\(#(?P=id)\)\*\*\{ #(?P=id) \} (?P<text>.*?)(?=\n\s*\n|\n- |\Z)",
    re.MULTILINE | re.DOTALL,
)
_WORDS: Final = re.compile(r"\b(MUST NOT|MUST|SHOULD NOT|SHOULD|MAY)\b")
_RULE: Final = re.compile(r"\(rules/([A-Z]\d{3})\.md\)")

#: Words that say whom a requirement binds.
_BOUND: Final = (
    ("reader", re.compile(r"\b(reader|readers)\b", re.IGNORECASE)),
    ("writer", re.compile(r"\b(writer|converter|writes)\b", re.IGNORECASE)),
    ("runtime", re.compile(r"\bruntime\b", re.IGNORECASE)),
    ("validator", re.compile(r"\b(validator|program)s?\b", re.IGNORECASE)),
)


class Requirement(NamedTuple):
    """A numbered requirement: its text on one line, its levels, whom it binds, the rules that check it."""

    id: str
    text: str
    levels: tuple[str, ...]
    binds: tuple[str, ...]
    rules: tuple[str, ...]
    page: str

    @property
    def chapter(self) -> int:
        return int(self.id[1:].partition(".")[0])

    @property
    def is_must(self) -> bool:
        return any(level.startswith("MUST") for level in self.levels)


def requirements() -> list[Requirement]:
    """Every requirement, in the order of the chapters."""
    found = []
    for page in pages():
        if not page.name[0].isdigit() or page.parent != chapters():
            continue
        for item in _ITEM.finditer(page.read_text(encoding="utf-8")):
            text = " ".join(item["text"].split())
            levels = tuple(dict.fromkeys(_WORDS.findall(text)))
            binds, rules = _binds(item["id"], text), tuple(_RULE.findall(text))
            found.append(Requirement(item["id"], text, levels, binds, rules, page.name))
    return found


def _binds(number: str, text: str) -> tuple[str, ...]:
    """Whom a requirement binds: who stands before its MUST or SHOULD; else, by its chapter, files, runtimes, records."""
    bound: list[str] = []
    for sentence in re.split(r"(?<=[.;])\s", text):
        modal = _WORDS.search(sentence)
        if modal is None:
            continue
        subject = sentence[: modal.start()]
        if subject.strip() == "It" and bound:
            continue  # who was meant before
        bound += [name for name, word in _BOUND if word.search(subject)] or [_default(number)]
    return tuple(name for name in CLASSES if name in bound)


def _default(number: str) -> str:
    chapter = int(number[1:].partition(".")[0])
    return {9: "runtime", 10: "validator"}.get(chapter, "file")


def held_by(requirement: Requirement) -> Iterator[str]:
    """Yield what enforces a requirement, as Markdown: rules, tests, or the reason why nothing does."""
    for rule in requirement.rules:
        yield f"[{rule}](rules/{rule}.md)"
    for test in tests().get(requirement.id, ()):
        yield f"`{test}`"
    if requirement.id in CHECKED_BY_PEOPLE:
        yield CHECKED_BY_PEOPLE[requirement.id]


def missing(requirement: Requirement) -> str:
    """Return what a requirement lacks to be enforced, as an instruction; nothing for one that is enforced.

    A rule checks files. What a reader, a writer, a runtime or a validator has to do is held by a test of this package.
    """
    if requirement.id in CHECKED_BY_PEOPLE or tests().get(requirement.id):
        return ""
    if set(requirement.binds) - {"file"}:
        return f"{requirement.id} binds programs: mark a test with pytest.mark.requirement, or reword it"
    return "" if requirement.rules else f"{requirement.id}: cite a rule, mark a test, or reword it"


def tests() -> dict[str, list[str]]:
    """The tests that hold each requirement, as `file::function`: those marked `@pytest.mark.requirement("R2.1-1")`."""
    return _tests(root())


@cache
def _tests(checkout: Path) -> dict[str, list[str]]:
    """Return the same for a checkout; all its tests are read for it."""
    found: dict[str, list[str]] = {}
    for path in sorted((checkout / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if ".requirement(" not in text:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                for number in _marked(node):
                    found.setdefault(number, []).append(f"{path.relative_to(checkout).as_posix()}::{node.name}")
    return found


def _marked(test: ast.FunctionDef) -> Iterator[str]:
    """Yield the requirements that a test is marked with."""
    for mark in test.decorator_list:
        if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute) and mark.func.attr == "requirement":
            yield from (ast.literal_eval(argument) for argument in mark.args)


def listed(name: str) -> str:
    """Return the requirements of a class, chapter by chapter, as a Markdown table."""
    rows = []
    chosen = [each for each in requirements() if name in each.binds]
    for chapter in sorted({each.chapter for each in chosen}):
        links = [f"[{each.id}]({each.page}#{each.id})" for each in chosen if each.chapter == chapter and each.is_must]
        others = [
            f"[{each.id}]({each.page}#{each.id})" for each in chosen if each.chapter == chapter and not each.is_must
        ]
        rows.append([str(chapter), ", ".join(links), ", ".join(others)])
    return table(["chapter", "MUST", "SHOULD, MAY"], rows)


def page() -> str:
    """Return the page of every requirement: level, whom it binds, what holds it."""
    every = requirements()
    parts = [
        "---\nsearch:\n  exclude: true\n---\n",
        "# Every requirement",
        "",
        f"The {len(every)} numbered requirements of the chapters: whom each binds, and what checks it: rules of the",
        "linter, tests of this package, or, if neither can check it, the reason.",
        "",
    ]
    for chapter in sorted({each.chapter for each in every}):
        rows = [
            [
                f"[{each.id}]({each.page}#{each.id})",
                ", ".join(each.levels),
                ", ".join(each.binds),
                "; ".join(held_by(each)),
            ]
            for each in every
            if each.chapter == chapter
        ]
        parts += [f"## Chapter {chapter}", "", table(["requirement", "level", "binds", "checked by"], rows)]
    return "\n".join(parts)


def clauses() -> set[str]:
    """Every numbered section of the chapters."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages() if page.name[0].isdigit())
    return set(re.findall(r"^## (\d+\.\d+) ", text, re.MULTILINE))


#: The test that every rule finds its broken copies; it has a case for each.
BROKEN_COPIES: Final = "tests/linter/test_engine_broken_copies.py::test_case_gets_its_code"

#: Columns of the table, in this order.
COLUMNS: Final = ("requirement", "level", "binds", "clause", "rules", "vectors", "tests", "person")


class RequirementRow(NamedTuple):
    """A requirement and all that holds it; `person` is why only a person can check it, or empty."""

    requirement: Requirement
    clause: str
    rules: tuple[str, ...]
    vectors: tuple[str, ...]
    tests: tuple[str, ...]
    person: str

    @property
    def missing(self) -> str:
        """What a MUST lacks, as an instruction; empty for a row that is held."""
        if not self.requirement.is_must or self.vectors or self.tests or self.person:
            return ""
        return f"{self.requirement.id}: add a vector that names it, or mark a test with pytest.mark.requirement"


def register() -> tuple[RequirementRow, ...]:
    """Return a row for each requirement, in the order of the chapters."""
    return _register(chapters())


@cache
def _register(folder: Path) -> tuple[RequirementRow, ...]:
    """Return the rows for chapters in a folder; every vector is built for them."""
    copies: dict[str, list[str]] = {}
    for case in malformed():
        copies.setdefault(case.code, []).append(case.name)
    return tuple(_row(each, copies) for each in requirements())


def _row(requirement: Requirement, copies: dict[str, list[str]]) -> RequirementRow:
    vectors = [
        vector.id
        for vector in suite()
        if vector.requirement == requirement.id or (vector.rule in requirement.rules and vector.requirement is None)
    ]
    broken = [f"{BROKEN_COPIES}[{code}-{name}]" for code in requirement.rules for name in copies.get(code, ())]
    return RequirementRow(
        requirement,
        requirement.id[1:].partition("-")[0],
        requirement.rules,
        tuple(vectors),
        (*tests().get(requirement.id, ()), *broken),
        CHECKED_BY_PEOPLE.get(requirement.id, ""),
    )


def lacking() -> list[str]:
    """Return the gaps of the register, a sentence for each."""
    return [row.missing for row in register() if row.missing]


def unknown() -> list[str]:
    """Return the requirements and rules that vectors name and that do not exist."""
    known, codes = {each.id for each in requirements()}, {rule.code for rule in all_rules()}
    return [
        f"{vector.id} names {name}, which there is not"
        for vector in suite()
        for name, names in ((vector.requirement, known), (vector.rule, codes))
        if name is not None and name not in names
    ]


def as_tsv() -> str:
    """Return the register with a line for each requirement, its columns between tabs, several names in one between
    blanks.
    """
    lines = ["\t".join(COLUMNS)]
    for row in register():
        cells = (
            row.requirement.id, ",".join(row.requirement.levels), ",".join(row.requirement.binds), row.clause,
            *(" ".join(names) for names in (row.rules, row.vectors, row.tests)), row.person,
        )  # fmt: skip
        lines.append("\t".join(cell or "-" for cell in cells))
    return "\n".join(lines) + "\n"


def as_json() -> str:
    """Return the register as a list of objects with the same columns."""
    rows = [
        {
            "requirement": row.requirement.id,
            "level": list(row.requirement.levels),
            "binds": list(row.requirement.binds),
            "clause": row.clause,
            "rules": list(row.rules),
            "vectors": list(row.vectors),
            "tests": list(row.tests),
            "person": row.person or None,
        }
        for row in register()
    ]
    return json.dumps(rows, indent=1, ensure_ascii=True) + "\n"


def register_page() -> str:
    """Return the page of the register."""
    rows = register()
    musts = [row for row in rows if row.requirement.is_must]
    held = sum(bool(row.vectors) for row in musts)
    parts = [
        "---\nsearch:\n  exclude: true\n---\n",
        "# Register",
        "",
        f"The {len(rows)} requirements with everything that checks them. Of the {len(musts)} with a MUST, {held} have test",
        "vectors ([how to interpret them](conformance-vectors.md)); the others have tests of this package, and",
        f"{sum(bool(row.person) for row in musts)} only a person can check. A MUST without any of these fails a test.",
        "",
        "The same data for programs, with every vector and test: [register.tsv](register.tsv),",
        "[register.json](register.json). Here a long list shows only its first entries.",
        "",
    ]
    for chapter in sorted({row.requirement.chapter for row in rows}):
        cells = [list(_cells(row)) for row in rows if row.requirement.chapter == chapter]
        parts += [f"## Chapter {chapter}", "", table(["requirement", "level", "rules", "vectors", "tests"], cells)]
    return "\n".join(parts)


def _cells(row: RequirementRow) -> Iterator[str]:
    each = row.requirement
    yield f"[{each.id}]({each.page}#{each.id})"
    yield ", ".join(each.levels)
    yield ", ".join(f"[{rule}](rules/{rule}.md)" for rule in row.rules)
    yield _cut(row.vectors)
    names = list(dict.fromkeys(test.partition("[")[0].rpartition("/")[2] for test in row.tests))
    yield f"a person: {row.person}" if row.person else _cut([f"`{name}`" for name in names])


def _cut(names: tuple[str, ...] | list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
