"""Records of runs: valid by their schema, with reproducible files; installed programs still give the same results."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from peers.child import cleaned
from peers.judge import missing
from peers.programs import PROGRAMS, Program
from peers.records import NO_ANSWER, TOKENS_ALONE, Recorder, as_text, wanted
from peers.small_files import SMALL_FILES, Small
from peers.taken import devices, rows

from i2s_spec.linter.runtimes.records import RECORDS_FILE, records

ABOUT = json.loads(RECORDS_FILE.read_text(encoding="utf-8"))

#: Each program with these two files, or with the first ones that are recorded for it if it runs on others.
ASKED_AGAIN = [
    (program, file)
    for program in PROGRAMS
    for file in sorted(wanted(program), key=lambda file: file.name not in ("llama.i2_s", "llama.q2_0"))[:2]
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def test_records_follow_their_schema() -> None:
    schema = json.loads(files("i2s_spec.linter.runtimes").joinpath("records.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(ABOUT)
    assert as_text(ABOUT) == RECORDS_FILE.read_text(encoding="utf-8")


def test_every_program_was_run_on_its_files() -> None:
    run = [record for record in records().values() if not record.taken]
    of_small_files = [record.id for record in run if not record.file.name.startswith("smallest.")]
    assert of_small_files == [f"{program.name}/{file.name}" for program in PROGRAMS for file in wanted(program)]
    versions = {record.program: record.version for record in run}
    assert versions == {program.name: program.version for program in PROGRAMS}


def test_runs_by_hand_are_those_that_are_declared() -> None:
    recorded = [record for record in ABOUT["records"] if "taken" in record]
    assert recorded == [{name: value for name, value in row.items() if value or name == "loads"} for row in rows()]
    assert ABOUT["devices"] == devices()


def test_llama_cpp_ran_the_smallest_files_of_other_architectures() -> None:
    smallest = [record for record in records().values() if record.file.name.startswith("smallest.")]
    assert len({record.file.form.architecture for record in smallest if record.result == "ran"}) > 50


def test_files_are_what_their_commands_make(folder: Path) -> None:
    """Where this fails because `i2s new` or `i2s convert` writes other bytes: `python tests/peers runs`."""
    recorder, files = Recorder(folder), {each["name"]: each for each in ABOUT["files"]}
    assert list(SMALL_FILES) == [name for name in files if not name.startswith("smallest.")]
    for name, file in SMALL_FILES.items():
        if missing() is None or not any(command.startswith("peers quantise") for command in file.commands):
            assert files[name] == recorder.file(file)


def test_nothing_of_a_machine_is_recorded() -> None:
    for record in records().values():
        for line in (*record.printed, record.shown):
            assert line.isprintable()
            assert not any(word in line for word in ("/tmp", "/root", "i2s-run", ".cache"))


def test_programs_that_compute_were_compared() -> None:
    for program in PROGRAMS:
        compared = [record for record in records().values() if record.program == program.name and record.computed]
        assert bool(compared) == (program.computes or program.name in TOKENS_ALONE)
    for record in records().values():
        for one in record.computed:
            assert one.against in SMALL_FILES


@pytest.mark.thorough
@pytest.mark.parametrize(("program", "file"), ASKED_AGAIN, ids=lambda each: each.name)
def test_programs_that_are_installed_agree(program: Program, file: Small, folder: Path) -> None:
    """They are asked as for the record: a program that computes may end only at that."""
    reason = program.missing()
    if reason is not None:
        pytest.skip(reason)
    if program.name == "modelaudit":
        pytest.skip("it takes ten seconds for a file: python tests/peers runs modelaudit")
    record = records()[f"{program.name}/{file.name}"]
    answer = Recorder(folder).answer(program, file)
    assert answer.loads == record.loads
    signal = not answer.loads and answer.outcome.name.startswith(("SIG", "died"))
    assert (NO_ANSWER if signal else answer.outcome.name) == record.end


def test_output_of_programs_is_bounded_and_the_same_on_every_machine() -> None:
    text = "\n".join(
        [
            "0.00.004.654 E gguf_init: tensor 'x' of type 36", "0.00.004.7 I srv: 41801", "0.01.000.001 I srv: 127.0.0.1",
            "[node-llama-cpp] gguf_init: tensor 'x' of type 36", "    at stack (file:///home/me/x.js:1)", "Traceback",
            "RuntimeError: /home/me/model.gguf \x1b[31m" + "x" * 900,
        ]
    )  # fmt: skip
    lines = cleaned(text, Path("/home/me/model.gguf"))
    assert lines[0] == "gguf_init: tensor 'x' of type 36"
    assert len(lines) <= 8
    assert all(line.isprintable() and len(line) <= 340 for line in lines)
    assert not any("127.0.0.1" in line or "/home/me/model.gguf" in line for line in lines)
    assert len(cleaned("\n".join(f"line {i}" for i in range(100)), Path("x"))) == 8
