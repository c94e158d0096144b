"""The page "Who decodes what": cells come from records, and cells of missing runs are empty."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from peers.decoders import from_record

from i2s_site import annexes
from i2s_spec.linter.runtimes.records import DecoderRun, decoders


def rows(text: str, head: str) -> dict[str, list[str]]:
    """The rows of the table with a head, by their first cell."""
    body = text.partition(head)[2].split("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in body]
    return {re.sub(r"\[(.*)\]\(.*", r"\1", row[0]): row[1:] for row in cells}


def test_programs_of_others_have_a_row_and_evidence() -> None:
    text = annexes.decoders_page()
    others = [run for run in decoders() if run.source]
    assert len(others) >= 8
    for run in others:
        assert run.version
        assert f"{run.source}, run {run.date}".replace("_", "\\_") in text
        for failure in run.failures:
            assert f"`{failure.partition(' ')[0]}`" in text


def test_vectors_that_were_not_run_are_empty_cells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    header = {"record": "header", "schema_version": 1, "date": "2026-01-02", "suite_version": "1.0.0",
              "implementation": {"name": "<x>|y", "version": "3", "source": "PyPI x 3"}}  # fmt: skip
    vector = {"record": "result", "op": "decode", "features": ["type.i2_s", "layout.x86-128"], "verdict": "valid"}
    lines = [
        header,
        {**vector, "id": "I2S-0001", "status": "pass"},
        {**vector, "id": "I2S-0002", "status": "fail", "message": "row 0", "mistake": "every <value> is 0"},
        {**vector, "id": "I2S-0003", "status": "skipped", "features": ["type.tq1_0"]},
        {**vector, "id": "I2S-0004", "status": "not run", "features": ["type.tq2_0"]},
        {**vector, "id": "I2S-0005", "op": "container", "status": "fail", "fault": "crash", "message": "it was ended"},
        {"record": "footer", "given_up": "", "unexpected": []},
    ]
    (tmp_path / "x.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = DecoderRun(**from_record(tmp_path / "x.ndjson"))
    assert (run.id, run.files["ended"], run.failures[0]) == (
        "x",
        ["I2S-0005"],
        "I2S-0002 decode: row 0: every <value> is 0",
    )
    monkeypatch.setattr(annexes, "decoders", lambda: [run])
    text = annexes.decoders_page()
    (tensors,) = rows(text, "### Tensors and models\n\n").values()
    assert tensors == ["1 of 2", *[""] * 10]
    (files,) = rows(text, "only.\n\n").values()
    assert files == ["0 of 1", "", "1"]
    assert "- `I2S-0002` decode: row 0: every &lt;value> is 0" in text
    assert "<x>" not in text


def test_every_link_of_the_tables_leads_to_evidence() -> None:
    text = annexes.decoders_page()
    anchors = set(re.findall(r"\{ #(run-[^ ]+) \}", text))
    assert anchors == set(re.findall(r"\]\(#(run-[^)]+)\)", text))
