"""The register: every MUST has a vector or a test, and everything that it names exists."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from i2s_site import requirements
from i2s_spec.conformance.vectors import suite
from i2s_spec.testing.malformed import malformed

ROOT = Path(__file__).resolve().parents[2]


def test_every_must_has_a_vector_or_a_test() -> None:
    assert requirements.lacking() == []


def test_a_must_without_a_test_or_vector_is_reported() -> None:
    must = next(row for row in requirements.register() if row.requirement.is_must and row.vectors)
    bare = must._replace(vectors=(), tests=(), rules=("G001",))
    assert must.requirement.id in bare.missing  # a rule alone is not enough: a test is missing
    assert bare._replace(tests=("tests/x.py::test_x",)).missing == ""
    assert bare._replace(person="a claim").missing == ""
    other = next(row for row in requirements.register() if not row.requirement.is_must)
    assert other._replace(vectors=(), tests=()).missing == ""


def test_vectors_name_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert requirements.unknown() == []
    monkeypatch.setattr(requirements, "requirements", tuple)
    assert "which there is not" in requirements.unknown()[0]


def test_every_requirement_has_a_row_and_names_exist() -> None:
    assert [row.requirement.id for row in requirements.register()] == [each.id for each in requirements.requirements()]
    ids = {vector.id for vector in suite()}
    names = {f"{case.code}-{case.name}" for case in malformed()}
    functions: dict[str, set[str]] = {}
    for test in {test for row in requirements.register() for test in row.tests}:
        path, _, rest = test.partition("::")
        function, _, case = rest.partition("[")
        if path not in functions:
            body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
            functions[path] = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        assert function in functions[path], test
        assert not case or case.removesuffix("]") in names, test
    assert all(set(row.vectors) <= ids for row in requirements.register())
    assert {
        row.requirement.id for row in requirements.register() if row.person
    } == requirements.CHECKED_BY_PEOPLE.keys()


def test_the_files_say_the_same() -> None:
    rows = json.loads(requirements.as_json())
    head, *lines = requirements.as_tsv().splitlines()
    assert tuple(head.split("\t")) == requirements.COLUMNS
    assert len(rows) == len(lines) == len(requirements.register())
    for line, row in zip(lines, rows, strict=True):
        cells = dict(zip(requirements.COLUMNS, line.split("\t"), strict=True))
        assert cells["requirement"] == row["requirement"]
        for name in ("rules", "vectors", "tests"):
            assert cells[name] == (" ".join(row[name]) or "-")
