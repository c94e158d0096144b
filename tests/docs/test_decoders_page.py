"""The pages on answers of programs: from records alone, each figure with version and date, nothing that ends a program."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from peers.decoders import ENDED, ENDINGS, LISTED, from_records

from i2s_site import decoders
from i2s_spec.conformance.vectors import vector as ledger


def rows(text: str, head: str) -> dict[str, list[str]]:
    """The rows of the table with a head, by their first cell."""
    body = text.partition(head)[2].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body]
    return {re.sub(r"\[(.*)\]\(.*", r"\1", row[0]): row[1:] for row in cells}


PAGE = decoders.page()


def test_programs_of_others_have_a_row_and_evidence() -> None:
    others = [run for run in decoders.runs() if run.source]
    assert len(others) > 30
    for run in others:
        assert f"run {run.date} with suite {run.suite_version}" in PAGE.partition(f"{{ #run-{run.id} }}")[2][:300]
        assert bool(run.failures) == bool(run.failed)


def test_every_figure_has_a_version_and_a_date() -> None:
    found = [line for line in PAGE.splitlines() if line.startswith("| [")]
    assert len(found) > 50
    for line in found:
        _, version, date, suite = (cell.strip() for cell in line.split("|")[1:5])
        assert version
        assert re.fullmatch(r"20\d\d-\d\d-\d\d \d+\.\d+\.\d+", f"{date} {suite}"), line


def test_of_an_ending_a_row_has_its_kind_and_a_number() -> None:
    """No row and no paragraph names a vector, a file or a message at which a program ended."""
    known = {line.id for line in ledger.read().values()}
    for run in decoders.runs():
        assert run.ended.keys() <= set(ENDINGS.values())
        assert len(run.failures) <= LISTED
        for failure in run.failures:
            assert not ENDED.search(failure), (run.id, failure)
            vector, op = re.match(r"(I2S-\d+)? ?(\w+): ", failure).groups()  # type: ignore[union-attr]
            assert vector in known if vector else not re.search(r"I2S-|\.(in|gguf)\b|\w_\w+\)", failure), failure
            assert bool(vector) == (op not in ("container", "verdict"))
    for each in decoders.wrong_answers():
        assert not re.search(r"I2S-\d+|crash|hang", each.text), each


def test_wrong_answers_are_of_programs_with_rows() -> None:
    """Each program with a wrong answer has a paragraph, and each paragraph is of a program with a row."""
    others = {run.id: run for run in decoders.runs() if run.source}
    told = {each.id for each in decoders.wrong_answers()}
    assert told <= others.keys()
    assert {name for name, run in others.items() if run.failed} <= told
    text = decoders.wrong_page()
    for name in told:
        assert f"run {others[name].date} ([its answers](decoders.md#run-{name}))" in text


def record(folder: Path, *results: dict[str, object]) -> dict[str, object]:
    """The row of a record with these results."""
    header = {"record": "header", "schema_version": 1, "date": "2026-01-02", "suite_version": "1.0.0",
              "implementation": {"name": "<x>|y", "version": "3", "source": "PyPI x 3"}}  # fmt: skip
    lines = [
        header,
        *({"record": "result", **each} for each in results),
        {"record": "footer", "given_up": "", "unexpected": []},
    ]
    (folder / "x.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return from_records([folder / "x.ndjson"])


def test_vectors_that_were_not_run_are_empty_cells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vector = {"op": "decode", "features": ["type.i2_s", "layout.x86-128"], "verdict": "valid"}
    run = decoders.Run(**record(
        tmp_path,
        {**vector, "id": "I2S-0001", "status": "pass"},
        {**vector, "id": "I2S-0002", "status": "fail", "message": "row 0", "mistake": "every <value> is 0"},
        {**vector, "id": "I2S-0003", "status": "skipped", "features": ["type.tq1_0"]},
        {**vector, "id": "I2S-0004", "status": "not run", "features": ["type.tq2_0"]},
        {**vector, "id": "I2S-0005", "op": "container", "status": "fail", "fault": "crash", "message": "ended at 0x7"},
        {"id": "I2S-0006", "op": "container", "verdict": "valid", "status": "fail", "message": "panic: 0x8 in I2S-0006.in"},
    ))  # type: ignore[arg-type]  # fmt: skip
    assert (run.id, run.ended, run.failures) == (
        "x", {"ended by itself": 1}, ["I2S-0002 decode: row 0: every <value> is 0", "container: it did not answer rightly"],
    )  # fmt: skip
    monkeypatch.setattr(decoders, "runs", lambda: [run])
    text = decoders.page()
    (tensors,) = rows(text, "### Types of tensors\n\n").values()
    assert tensors == ["3", "2026-01-02", "1.0.0", "1 of 2", *[""] * 11]
    assert "- `I2S-0002` decode: row 0: every &lt;value> is 0" in text
    assert "1 without an answer: it ended by itself" in text
    assert not [word for word in ("I2S-0005", "0x7", "I2S-0006", "0x8", "<x>") if word in text]


def test_a_refusal_counts_beside_its_sound_twin_alone(tmp_path: Path) -> None:
    def container(number: int, verdict: str, status: str, *features: str) -> dict[str, object]:
        return {"op": "container", "id": f"I2S-{number:04}", "verdict": verdict, "status": status, "features": features}

    def files(refuses_36: bool, refuses_all: bool) -> object:
        sound = ("fail" if refuses_all else "pass", "fail" if refuses_36 or refuses_all else "pass")
        return record(
            tmp_path, container(200, "valid", sound[0]), container(191, "valid", sound[1], "type.i2_s"),
            container(206, "invalid", "pass"), container(216, "invalid", "pass" if refuses_all else "fail"),
            *(container(number, "invalid", "pass", "type.i2_s") for number in (301, 302, 303)),
        )["files"]  # fmt: skip

    assert files(False, False) == {"type_36": True, "sound": [2, 2], "container": [4, 5]}
    assert files(True, False) == {"type_36": False, "sound": [1, 1], "container": [1, 2], "alone": 3}
    assert files(True, True) == {"type_36": False, "sound": [0, 1], "alone": 5}


def test_every_link_of_the_tables_leads_to_evidence() -> None:
    anchors = set(re.findall(r"\{ #(run-[^ ]+) \}", PAGE))
    assert anchors == set(re.findall(r"\]\(#(run-[^)]+)\)", PAGE))
