"""The list of seeded bugs fits the code; `python fuzz/seeded/run.py`, which tries them, takes too long for every run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FUZZ = str(ROOT / "fuzz")
if FUZZ not in sys.path:
    sys.path.append(FUZZ)

from seeded.bug import Bug, broken, faults_of, seeded  # noqa: E402
from seeded.catalogue import BUGS  # noqa: E402

RESULTS = ROOT / "fuzz" / "seeded" / "results.json"


def test_every_bug_fits_the_code() -> None:
    assert faults_of(BUGS) == []


def test_bugs_cover_every_part() -> None:
    assert len(BUGS) >= 60
    files = {bug.file for bug in BUGS}
    for room in (
        "i2s_spec/gguf/",
        "pyx/_scanner.pyx",
        "pyx/_strings.pyx",
        "i2s_spec/codec/",
        "pyx/kernels_",
        "pyx/survey",
    ):
        assert any(file.startswith(room) for file in files), room


def test_targets_are_few() -> None:
    """The tests of a bug are those of what it is in, not all that there are."""
    assert {bug.name: len(bug.tests) for bug in BUGS if len(bug.tests) > 5} == {}


def test_the_recorded_outcome_is_of_this_list() -> None:
    outcomes = {row["name"]: row for row in json.loads(RESULTS.read_text())}
    assert set(outcomes) == {bug.name for bug in BUGS}
    survivors = {name for name, row in outcomes.items() if not row["killed"]}
    assert survivors == {bug.name for bug in BUGS if bug.survives}
    assert len(survivors) <= len(BUGS) / 10


def test_outdated_lists_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("if a < b:\nif c < d:\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_code.py").touch()
    good, twice, gone = seeded(
        "code.py",
        "test_code.py",
        ("good", "it breaks", "a < b", "a <= b"),
        ("twice", "it breaks", " < ", " <= "),
        ("gone", "it breaks", "e < f", "e <= f"),
    )
    assert faults_of([good], tmp_path) == []
    for bad, said in [
        (twice, "has 2 places"), (gone, "has 0 places"), (good._replace(new=good.old), "breaks nothing"),
        (good._replace(tests=("tests/test_other.py",)), "is not there"), (good._replace(tests=()), "no tests"),
    ]:  # fmt: skip
        assert [said in fault for fault in faults_of([bad], tmp_path)] == [True]
    assert "twice" in faults_of([good, good], tmp_path)[0]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_broken_module_still_compiles(bug: Bug) -> None:
    """A seeded bug changes results; an obvious failure such as a syntax error does not count."""
    if bug.file.endswith(".py"):
        text = (ROOT / bug.file).read_text(encoding="utf-8")
        made = broken(text, bug)
        assert made is not None
        compile(made, bug.file, "exec")


def test_a_rename_leaves_a_bug_where_it_is() -> None:
    (bug,) = seeded(
        "code.py", "test_code.py", ("bound", "one too many", "if at + size < len(data):", "if at + size <= len(data):")
    )
    assert broken("if start + width <\\n        len(raw):\n", bug) is None  # a backslash is another token
    assert (
        broken("a = 1\nif start + width < len(raw):\n    b\n", bug) == "a = 1\nif start + width <= len(raw):\n    b\n"
    )
    assert broken("if (\n    x\n):\nif start + width < len(\n    raw):\n", bug) is not None
    assert broken("if start + start < len(raw):\n", bug) is None  # two identifiers are not one
    assert broken("if a + b < len(c):\nif d + e < len(f):\n", bug) is None  # two places
    assert broken("if a + b < len(c):\nif at + e < len(f):\n", bug) == "if a + b < len(c):\nif at + e <= len(f):\n"
    assert broken("if start + width <= len(raw):\n", bug) is None
