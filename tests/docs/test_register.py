"""The register: every MUST has a vector or a test, and everything that it names exists."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from i2s_spec.conformance.vectors import suite
from i2s_spec.docs import checkout, requirements
from i2s_spec.docs.annexes import register
from i2s_spec.testing.malformed import malformed

ROOT = Path(__file__).resolve().parents[2]


def test_every_must_has_a_vector_or_a_test() -> None:
    assert register.missing() == []


def test_a_must_without_a_test_or_vector_is_reported() -> None:
    must = next(row for row in register.register() if row.requirement.is_must and row.vectors)
    bare = must._replace(vectors=(), tests=(), rules=("G001",))
    assert must.requirement.id in bare.missing  # a rule alone is not enough: a test is missing
    assert bare._replace(tests=("tests/x.py::test_x",)).missing == ""
    assert bare._replace(person="a claim").missing == ""
    other = next(row for row in register.register() if not row.requirement.is_must)
    assert other._replace(vectors=(), tests=()).missing == ""


def test_vectors_name_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert register.unknown() == []
    monkeypatch.setattr(register, "requirements", tuple)
    assert "which there is not" in register.unknown()[0]


def test_every_requirement_has_a_row_and_names_exist() -> None:
    assert [row.requirement.id for row in register.register()] == [each.id for each in requirements.requirements()]
    ids = {vector.id for vector in suite()}
    names = {f"{case.code}-{case.name}" for case in malformed()}
    functions: dict[str, set[str]] = {}
    for test in {test for row in register.register() for test in row.tests}:
        path, _, rest = test.partition("::")
        function, _, case = rest.partition("[")
        if path not in functions:
            body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
            functions[path] = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        assert function in functions[path], test
        assert not case or case.removesuffix("]") in names, test
    assert all(set(row.vectors) <= ids for row in register.register())
    assert {row.requirement.id for row in register.register() if row.person} == requirements.CHECKED_BY_PEOPLE.keys()


def test_the_files_say_the_same() -> None:
    rows = json.loads(register.as_json())
    head, *lines = register.as_tsv().splitlines()
    assert tuple(head.split("\t")) == register.COLUMNS
    assert len(rows) == len(lines) == len(register.register())
    for line, row in zip(lines, rows, strict=True):
        cells = dict(zip(register.COLUMNS, line.split("\t"), strict=True))
        assert cells["requirement"] == row["requirement"]
        for name in ("rules", "vectors", "tests"):
            assert cells[name] == (" ".join(row[name]) or "-")


@pytest.mark.parametrize("name", ["register.md", "register.tsv", "register.json", "conformance-vectors.md"])
def test_the_written_files_are_current(name: str) -> None:
    from i2s_spec.docs.derived import FILES

    assert (checkout.chapters() / name).read_text(encoding="utf-8") == FILES[name](""), "run: i2s spec write"
