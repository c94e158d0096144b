"""This module joins every requirement with what holds it: rules, test vectors, tests of this package, or a person.

A rule is tested by the broken copies of its code. A vector belongs to a requirement that it names, or whose rule it names.
A MUST that has neither a vector nor a test, and that no person has to check, is an error of the build.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from i2s_spec.conformance.vectors import suite
from i2s_spec.docs.checkout import chapters
from i2s_spec.docs.requirements import CHECKED_BY_PEOPLE, Requirement, requirements, tests
from i2s_spec.docs.runtimes import table
from i2s_spec.linter.rules import all_rules
from i2s_spec.testing.malformed import malformed

#: The test that every rule finds its broken copies; it has a case for each.
BROKEN_COPIES: Final = "tests/linter/test_broken_copies.py::test_case_gets_its_code"

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
    """A row for each requirement, in the order of the chapters."""
    return _register(chapters())


@cache
def _register(folder: Path) -> tuple[RequirementRow, ...]:
    """The rows for chapters in a folder; every vector is built for them."""
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


def missing() -> list[str]:
    """What the register lacks, a sentence for each."""
    return [row.missing for row in register() if row.missing]


def unknown() -> list[str]:
    """What vectors name that there is not: requirements, and rules."""
    known, codes = {each.id for each in requirements()}, {rule.code for rule in all_rules()}
    return [
        f"{vector.id} names {name}, which there is not"
        for vector in suite()
        for name, names in ((vector.requirement, known), (vector.rule, codes))
        if name is not None and name not in names
    ]


def as_tsv() -> str:
    """The register with a line for each requirement, its columns between tabs, several names in one between blanks."""
    lines = ["\t".join(COLUMNS)]
    for row in register():
        cells = (
            row.requirement.id, ",".join(row.requirement.levels), ",".join(row.requirement.binds), row.clause,
            *(" ".join(names) for names in (row.rules, row.vectors, row.tests)), row.person,
        )  # fmt: skip
        lines.append("\t".join(cell or "-" for cell in cells))
    return "\n".join(lines) + "\n"


def as_json() -> str:
    """The register as a list of objects with the same columns."""
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


MARK: Final = "<!-- Written by i2s_spec.docs.annexes.register from chapters, vectors and tests: edit those. -->\n"


def page() -> str:
    """The page of the register."""
    rows = register()
    musts = [row for row in rows if row.requirement.is_must]
    held = sum(bool(row.vectors) for row in musts)
    parts = [
        "---\nsearch:\n  exclude: true\n---\n",
        "# Register",
        "",
        f"The {len(rows)} requirements with everything that checks them. Of the {len(musts)} with a MUST, {held} have test",
        "vectors ([how to interpret them](conformance-vectors.md)); the others have tests of this package, and",
        f"{sum(bool(row.person) for row in musts)} only a person can check. A MUST without any of these fails the build.",
        "",
        "The same data for programs, with every vector and test: [register.tsv](register.tsv),",
        "[register.json](register.json). Here a long list shows only its first entries.",
        "",
    ]
    for chapter in sorted({row.requirement.chapter for row in rows}):
        cells = [list(_cells(row)) for row in rows if row.requirement.chapter == chapter]
        parts += [f"## Chapter {chapter}", "", table(["requirement", "level", "rules", "vectors", "tests"], cells)]
    return "\n".join([*parts, MARK])


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
