"""Sound files of llama.cpp's own programs: the jobs are consistent, and the results have a line for each kind."""

from __future__ import annotations

import json
from pathlib import Path

from peers.sound import CHECKPOINTS, SOUND_FILE, _jobs, as_text


def test_every_file_has_a_name_of_its_own() -> None:
    jobs = list(_jobs(Path("files")))
    assert len({file.path for file, _ in jobs}) == len(jobs) > 120
    assert len({each.name for each in CHECKPOINTS}) == len(CHECKPOINTS) >= 65
    for file, job in jobs:
        assert job["file"] == str(file.path)
        json.dumps(job)


def test_results_count_files_that_load() -> None:
    found = [
        {"kind": "a", "file": "x", "verdict": "load", "errors": [], "warnings": ["T008"]},
        {"kind": "a", "file": "y", "verdict": "refuse", "errors": ["M101"], "warnings": []},
        {"kind": "a", "file": "z", "verdict": "load", "errors": [], "warnings": []},
        {"kind": "b", "file": "w", "verdict": "load", "errors": ["M101"], "warnings": []},
    ]
    made = json.loads(as_text(found))
    assert made["kinds"] == [["a", 3, 2, 0, 1], ["b", 1, 1, 1, 0]]
    assert made["found"] == [["x", [], ["T008"]], ["w", ["M101"], []]]


def test_recorded_results_have_no_error() -> None:
    if SOUND_FILE.is_file():
        assert all(errors == 0 for *_, errors, _ in json.loads(SOUND_FILE.read_text(encoding="utf-8"))["kinds"])
