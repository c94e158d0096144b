"""`i2s fuzz`: options, exit codes, output formats, and a campaign that is continued."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

import i2s_spec.fuzzing
from i2s_spec.cli.fuzz import fuzz_command
from i2s_spec.testing.sample import Draft

SCHEMA = json.loads((Path(i2s_spec.fuzzing.__file__).parent / "fuzz.schema.json").read_text())


def fuzz(*words: str) -> Result:
    result = CliRunner().invoke(fuzz_command, list(words), standalone_mode=False)
    assert result.exception is None or isinstance(result.exception, SystemExit | Exception)
    return result


def status(*words: str) -> int:
    return CliRunner().invoke(fuzz_command, list(words)).exit_code


def test_a_finding_is_status_1(tmp_path: Path) -> None:
    result = fuzz("--runs", "3", "--effort", "10", "--corpus", str(tmp_path / "c"), "--", "false")
    assert result.return_value == 1
    assert "rejected what must be accepted" in result.stdout
    assert re.search(r"file: .*/findings/rejects-[0-9a-f]{12}\.gguf", result.stdout)


def test_nothing_found_is_status_0() -> None:
    result = fuzz("--runs", "3", "--", "true")
    assert result.return_value == 0
    assert result.stdout.startswith("3 files: 3 accepted")


def test_output_formats() -> None:
    made = fuzz("--runs", "2", "--effort", "0", "--format", "json", "--", "false")
    document = json.loads(made.stdout)
    jsonschema.validate(document, SCHEMA)
    assert document["ok"] is False
    assert "<failure" in fuzz("--runs", "2", "--effort", "0", "--format", "junit", "--", "false").stdout


def test_a_campaign_continues(tmp_path: Path) -> None:
    folder = str(tmp_path / "c")
    fuzz("--runs", "3", "--corpus", folder, "--", "true")
    document = json.loads(fuzz("--runs", "2", "--format", "json", "--corpus", folder, "--", "true").stdout)
    assert (document["next"], document["summary"]["runs"]) == (5, 5)
    assert status("--runs", "1", "--seed", "2", "--corpus", folder, "--", "true") == 2


def test_a_finding_can_be_replayed(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    fuzz("--runs", "2", "--effort", "10", "--corpus", str(folder), "--", "false")
    (find,) = (folder / "findings").glob("*.gguf")
    assert fuzz("--replay", str(find), "--", "false").return_value == 1
    assert fuzz("--replay", str(find), "--", "true").return_value == 0
    assert status("--replay", str(find), "--runs", "1", "--", "true") == 2


def test_given_seeds_are_used(tmp_path: Path) -> None:
    (tmp_path / "mine.gguf").write_bytes(Draft().data.replace(b"probe", b"needl"))
    script = 'grep -q needl "$1" && kill -SEGV $$; exit 0'
    result = fuzz("--runs", "20", "--effort", "5", "--seeds", str(tmp_path), "--", "sh", "-c", script, "sh")
    assert "ended by SIGSEGV" in result.stdout
    assert "(given)" in result.stdout


@pytest.mark.parametrize(
    "words",
    [
        (), ("--",), ("--", "no-such-program-anywhere"), ("--memory", "0", "--", "true"),
        ("--supports", "all", "--", "true"),
        ("--memory", "lots", "--", "true"), ("--accept", "256", "--", "true"), ("--accept", "1,x", "--", "true"),
        ("--accept", "0", "--reject", "0-3", "--", "true"), ("--must-reject", "X999", "--", "true"),
        ("--runs", "0", "--", "true"), ("--timeout", "0", "--", "true"), ("--corpus", os.devnull, "--", "true"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(fuzz_command, list(words))
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_exit_codes_and_sizes_are_parsed() -> None:
    script = 'test "$(head -c 4 "$1")" = GGUF && exit 3; exit 65'
    words = (
        "--runs",
        "2",
        "--accept",
        "3",
        "--reject",
        "64-66",
        "--memory",
        "1G",
        "--max-size",
        "64K",
        "--timeout",
        "5",
    )
    assert fuzz(*words, "--", "sh", "-c", script, "sh").return_value == 0


def test_files_are_passed_through_standard_input() -> None:
    assert fuzz("--stdin", "--runs", "6", "--", "sh", "-c", 'test "$(head -c 4)" = GGUF').return_value == 0


def test_duties_are_listed() -> None:
    result = CliRunner().invoke(fuzz_command, ["--list-duties"])
    assert result.exit_code == 0
    assert "G209  string-past-end" in result.output
    assert "a decoder that reads tensors must reject" in result.output


def test_must_reject_and_may_accept_change_the_policy() -> None:
    script = 'case "$(head -c 4 "$1")" in GGUF) exit 0;; esac; exit 1'
    spared = fuzz("--runs", "1", "--may-accept", "G101", "--must-reject", "g203", "--format", "json", "--",
                  "sh", "-c", script, "sh")  # fmt: skip
    policy: Any = json.loads(spared.stdout)["policy"]["must_reject"]
    assert "G101" not in policy
    assert "G203" in policy


@pytest.mark.thorough
def test_a_progress_bar_is_shown_on_a_terminal_only() -> None:
    leader, follower = pty.openpty()
    code = "from i2s_spec.cli.fuzz import fuzz_command; fuzz_command(['--runs', '4', '--', 'true'])"
    run = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=follower, env={**os.environ, "TERM": "xterm"}
    )
    os.close(follower)
    out, _ = run.communicate(timeout=600)
    shown = os.read(leader, 65536)
    os.close(leader)
    assert b"fuzzing" in shown
    assert out.startswith(b"4 files")
