"""Campaigns against decoders with one bug each, and against a correct one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from malformed_cases import SMALL, broken

import i2s_spec.fuzzing
from i2s_spec.fuzzing.bounded_process import Bounds, Command
from i2s_spec.fuzzing.campaign import Campaign, CampaignSettings, minimised
from i2s_spec.fuzzing.expectations import DecoderPolicy, Expectation, Statuses, expected_answer, shape_of
from i2s_spec.fuzzing.report import as_dict, json_report, junit_report, text_report
from i2s_spec.testing.sample import Draft

PYTHON = [sys.executable, "-I", "-S", "-c"]
#: For programs that end by themselves, on slow machines too.
PATIENT = Bounds(seconds=300)
SCHEMA = json.loads((Path(i2s_spec.fuzzing.__file__).parent / "fuzz.schema.json").read_text())

#: A correct reader: it indexes everything and reads the bytes of every tensor.
RIGHT = """
import sys
import i2s_spec as i2s
from i2s_spec.errors import FormatError
try:
    with i2s.open(sys.argv[1]) as file:
        for tensor in file.tensors.rows:
            start = file.data_start + tensor.offset
            if tensor.type is None or start + tensor.nbytes > file.size:
                sys.exit(1)
except FormatError:
    sys.exit(1)
"""


def campaign(*words: str, runs: int = 12, folder: Path | None = None, **settings: Any) -> Campaign:
    bounds = settings.pop("bounds", PATIENT)
    with Campaign(Command(words), CampaignSettings(bounds=bounds, **settings), folder) as made:
        for _ in made.run(runs):
            pass
    return made


def replayed(*words: str, names: tuple[str, ...], **settings: Any) -> Campaign:
    files = [(name, broken(name)) for name in names]
    with Campaign(Command(words), CampaignSettings(bounds=PATIENT, **settings)) as made:
        for _ in made.replay(files):
            pass
    return made


def found_by(made: Campaign) -> list[tuple[str, str, int, int]]:
    return [(found.signature, found.sha256, found.index, found.times) for found in made.findings]


def test_a_decoder_that_rejects_everything_is_found(tmp_path: Path) -> None:
    made = campaign("false", folder=tmp_path / "c")
    (found,) = made.findings
    assert (found.kind, found.code, found.confirmed) == ("rejects", None, True)
    assert found.times > 5
    small = (tmp_path / "c" / "findings" / found.file).read_bytes()
    assert expected_answer(small, DecoderPolicy()).answer is Expectation.ACCEPT
    assert len(small) <= found.original_size


def test_a_decoder_that_accepts_everything_is_found() -> None:
    names = (
        "empty",
        "lfs_pointer",
        "nk_over",
        "key_len_huge",
        "trunc_data",
        "off_wrap",
        "arr_type_bad",
        "gap",
        "dup_key",
    )
    made = replayed("true", names=names)
    assert {found.code for found in made.findings} == {"G001", "G003", "G108", "G209", "G401", "G402", "G214"}
    assert {found.kind for found in made.findings} == {"accepts"}
    assert all(found.clause and found.slug and found.reason for found in made.findings)


def test_an_accepted_file_is_minimized(tmp_path: Path) -> None:
    script = 'test "$(head -c 4 "$1")" = GGUF'  # checks the magic only
    made = campaign("sh", "-c", script, "sh", runs=120, folder=tmp_path / "c", effort=200)
    short = next(found for found in made.findings if found.code == "G101")
    assert (tmp_path / "c" / "findings" / short.file).read_bytes() == b"GGUF"


def test_a_crash_is_found_described_and_minimized(tmp_path: Path) -> None:
    script = 'grep -q sample.eps "$1" && { echo "at byte 12 of $1" >&2; kill -SEGV $$; }; exit 0'
    made = campaign("sh", "-c", script, "sh", runs=8, folder=tmp_path / "c", policy=DecoderPolicy(supports=frozenset()))
    found = next(found for found in made.findings if found.kind == "crash")
    assert found.outcome == "SIGSEGV"
    small = (tmp_path / "c" / "findings" / found.file).read_bytes()
    assert b"sample.eps" in small
    assert len(small) < 60
    assert "at byte 12" in found.stderr_tail
    assert [f for f in made.findings if f.kind == "crash"] == [found]  # repeated crashes count once


def test_statuses_can_be_crashes() -> None:
    made = campaign("sh", "-c", "exit 70", runs=3, statuses=Statuses(reject=frozenset({1, 2})))
    assert {found.kind for found in made.findings} == {"crash"}
    assert {found.outcome for found in made.findings} == {"status 70"}
    with pytest.raises(ValueError, match="both"):
        Statuses(frozenset({0}), frozenset({0, 1}))


def test_a_hang_is_found() -> None:
    script = 'grep -q sample.eps "$1" && sleep 600; exit 0'
    with Campaign(Command(["sh", "-c", script, "sh"]), CampaignSettings(bounds=Bounds(seconds=0.4), effort=12)) as made:
        made.index = 6  # the first file with that key; before it, a slow start could count as a hang
        assert list(made.run(1)) == [1]
    (hang,) = made.findings
    assert (hang.kind, hang.confirmed) == ("hang", True)
    assert hang.seconds < 300


def test_excessive_memory_use_is_found() -> None:
    script = "import sys\nif b'sample.eps' in open(sys.argv[1], 'rb').read(): x = bytearray(b'x') * (300 << 20)"
    made = campaign(*PYTHON, script, runs=7, bounds=Bounds(seconds=300, memory=100 << 20), effort=6)
    found = next(found for found in made.findings if found.kind == "memory")
    assert found.memory > 100 << 20


def test_a_hang_that_uses_too_much_memory_the_second_time_is_confirmed(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    program = f"""
import os, sys, time
if os.path.exists({str(seen)!r}):
    hoard = bytearray(1 << 29)
    hoard[::4096] = bytes(len(hoard[::4096]))
open({str(seen)!r}, "w")
time.sleep(60)
"""
    bounds = Bounds(seconds=2, memory=100 << 20)
    made = campaign(*PYTHON, program, runs=1, bounds=bounds, effort=0)
    (found,) = made.findings
    assert (found.kind, found.confirmed) == ("hang", True)


def test_a_right_decoder_has_no_finding() -> None:
    names = tuple(name for name, case in SMALL.items() if case.code[0] in "GI" and len(case.data) < 9000)[::6]
    made = replayed(sys.executable, "-c", RIGHT, names=names, jobs=2)
    assert made.findings == []
    assert made.totals["must reject"] > 5
    sound = campaign(sys.executable, "-c", RIGHT, runs=10, jobs=2)
    assert sound.findings == []
    assert sound.totals["must accept"] >= 7


def test_the_same_seed_finds_the_same(tmp_path: Path) -> None:
    script = 'test "$(head -c 4 "$1")" = GGUF || exit 1; test "$(wc -c < "$1")" -lt 700'
    words = ("sh", "-c", script, "sh")
    one, two = (campaign(*words, runs=60, seed=5, effort=20) for _ in range(2))
    assert found_by(one) == found_by(two) != []


def test_a_campaign_goes_on_where_it_stopped(tmp_path: Path) -> None:
    words = ("sh", "-c", 'test "$(wc -c < "$1")" -lt 700', "sh")
    whole = campaign(*words, runs=50, folder=tmp_path / "whole", effort=20)
    for runs in (7, 30, 13):
        parts = campaign(*words, runs=runs, folder=tmp_path / "parts", effort=20)
    assert parts.index == whole.index == 50
    assert parts.totals == whole.totals
    assert found_by(parts) == found_by(whole)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("my thesis")
    with pytest.raises(ValueError, match="holds no campaign"):
        Campaign(Command(["true"]), folder=tmp_path)
    campaign("true", runs=1, folder=tmp_path / "c", effort=0)
    with pytest.raises(ValueError, match="differs in: seed"):
        Campaign(Command(["true"]), CampaignSettings(seed=9, bounds=Bounds(seconds=5)), folder=tmp_path / "c")
    (tmp_path / "c" / "state.json").write_text('{"state_version": 1}')
    with pytest.raises(ValueError, match="not a state of a campaign"):
        Campaign(Command(["true"]), folder=tmp_path / "c")


def test_a_state_that_names_other_files_is_refused(tmp_path: Path) -> None:
    campaign("true", runs=2, folder=tmp_path / "c", effort=0)
    path = tmp_path / "c" / "state.json"
    state = json.loads(path.read_text())
    state["learned"] = ["../../secret"]
    path.write_text(json.dumps(state))
    with pytest.raises(ValueError, match="not a state of a campaign"):
        Campaign(Command(["true"]), CampaignSettings(bounds=Bounds(seconds=5)), folder=tmp_path / "c")


def test_an_interrupted_campaign_leaves_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from i2s_spec.fuzzing import campaign as module

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "expected_answer", interrupted)
    with pytest.raises(KeyboardInterrupt), Campaign(Command(["sleep", "60"]), folder=tmp_path / "c") as made:
        next(made.run(1))
    assert json.loads((tmp_path / "c" / "state.json").read_text())["index"] == 0


HOSTILE = ["sh", "-c", r'printf "\033]52;c;x\007 <&\"> %s\n" "$1" >&2; kill -ABRT $$', "sh"]


def test_reports(tmp_path: Path) -> None:
    made = campaign(*HOSTILE, runs=2, folder=tmp_path / "c", effort=5)
    jsonschema.validate(json.loads(json_report(made)), SCHEMA)
    jsonschema.validate(as_dict(campaign("true", runs=20, effort=5)), SCHEMA)
    jsonschema.validate(as_dict(campaign("true", runs=1)), SCHEMA)
    suite = ElementTree.fromstring(junit_report(made))
    assert len(suite.findall(".//failure")) == 1
    assert len(suite.findall(".//testcase")) == 5
    text = text_report(made, str(tmp_path / "c"))
    assert "ended by SIGABRT" in text
    for report in (text, json_report(made), junit_report(made)):
        assert report.isascii()
        assert "\x1b" not in report
    path = tmp_path / "c" / "findings" / made.findings[0].file
    assert json.loads(path.with_suffix(".json").read_text())["outcome"] == "SIGABRT"


def test_minimizing_keeps_the_outcome() -> None:
    data = minimised(Draft().data, lambda data: b"second" in data and len(data) > 50, runs=500, seconds=60)
    assert b"second" in data
    assert 50 < len(data) < 80
    assert minimised(b"abc", lambda data: False) == b"abc"
    tries = []
    minimised(Draft().data, lambda data: bool(tries.append(data)), runs=7)
    assert len(tries) == 7


def test_messages_are_compared_without_their_numbers() -> None:
    assert shape_of("Error at 0x3f in /tmp/a.gguf: 'x' (12)\n") == shape_of("Error at 0x99 in /tmp/b.gguf: 'yy' (7)")
    assert shape_of("") == ""
    assert shape_of("a\x1b[2J").isprintable()
