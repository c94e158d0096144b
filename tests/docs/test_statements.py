"""Annex A: every statement of the texts that it answers has a number, a verdict and evidence, and is counted.

The texts are not part of this repository. `statements_by_line.txt` says which statement each of their sentences makes;
where the texts are beside the checkout, every sentence is compared with it.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from i2s_site import annexes
from i2s_spec.schema.releases import RELEASES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAGE = (ROOT / "spec" / "annexes" / "reconciliation.md").read_text(encoding="utf-8")

#: Statements of each text.
COUNTS: Final = {"A": 20, "B": 24, "C": 75, "D": 34, "E": 41, "F": 2}

_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9(])")

#: For each text its lines, first and last, with what the sentences of a line or the whole of a range states.
Lines = dict[str, list[tuple[int, int, list[list[str]]]]]


def by_line() -> Lines:
    found: Lines = {}
    key = ""
    for line in (HERE / "statements_by_line.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        place, *states = line.split()
        if not states:
            found[key := place] = []
            continue
        first, _, last = place.partition("-")
        found[key].append((int(first), int(last or first), [[] if each == "-" else each.split("+") for each in states]))
    return found


def test_every_statement_has_one_answer() -> None:
    numbers = Counter(each for answer in annexes.answers() for each in answer.statements)
    assert set(numbers.values()) == {1}
    wanted = {f"{key}-{number}" for key, count in COUNTS.items() for number in range(1, count + 1)}
    assert set(numbers) == wanted


def test_every_row_of_the_annex_is_an_answer() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\|\s*[A-F]-\d", line)]
    assert len(rows) == len(annexes.answers())
    for answer in annexes.answers():
        assert answer.verdict in annexes.VERDICTS_OF_STATEMENTS, answer
        assert all(len(cell.strip()) > 3 for cell in (answer.claim, answer.verdict, answer.evidence)), answer


def test_sizes_are_those_of_the_declared_file() -> None:
    (numbers,) = re.findall(r"^size, layers, width, hidden, heads, groups = ([\d, ]+)$", PAGE, re.M)
    assert [int(each) for each in numbers.split(",")] == [RELEASES[0].size, *RELEASES[0].model.values()]


def test_statements_that_are_cited_exist() -> None:
    numbers = {each for answer in annexes.answers() for each in answer.statements}
    assert set(re.findall(r"\b[A-F]-\d+\b", PAGE)) == numbers


def test_the_lines_of_the_texts_state_what_the_annex_answers() -> None:
    stated = {each for lines in by_line().values() for _, _, states in lines for ids in states for each in ids}
    assert stated == {f"{key}-{number}" for key in "ABCDE" for number in range(1, COUNTS[key] + 1)}
    for key, lines in by_line().items():
        ends = [0, *(last for _, last, _ in lines)]
        assert all(before < first <= last for before, (first, last, _) in zip(ends, lines, strict=False)), key
        assert all(each.startswith(key) for _, _, states in lines for ids in states for each in ids)


@pytest.mark.parametrize("key", "ABCDE")
def test_every_sentence_of_the_texts_is_counted(key: str, shared: Path) -> None:
    texts = sorted((shared / "reference" / "sources").glob("*.txt"))
    if len(texts) != 5:
        pytest.skip("the texts are not beside this checkout")
    path = texts["ABCDE".index(key)]
    text = path.read_text(encoding="utf-8").splitlines()
    lines = by_line()[key]
    counted = {number for first, last, _ in lines for number in range(first, last + 1)}
    assert {number for number, line in enumerate(text, 1) if line.strip()} <= counted
    for first, last, states in lines:
        if first == last:
            assert len(_SENTENCES.split(text[first - 1].strip())) == len(states), f"{path.name}:{first}"


def test_the_table_counts_the_statements() -> None:
    *rows, everything = annexes.statements().splitlines()[2:]
    assert {row.split("|")[1].strip(" *"): int(row.split("|")[-2]) for row in rows} == COUNTS
    assert int(everything.split("|")[-2]) == sum(COUNTS.values())


def test_statements_have_anchors_on_the_site() -> None:
    made = annexes.with_anchors(PAGE)
    assert made.count("](#C-44){ #C-44 }") == 1
    assert len(re.findall(r"\{ #[A-F]-\d+ \}", made)) == sum(COUNTS.values())
    assert annexes.with_anchors("| A-1 of a matrix | x |\n") == "| A-1 of a matrix | x |\n"
