"""A process of `i2s` exits without Python's teardown, with the same exit code and output as otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from i2s_spec.testing.sample import Draft

#: The open file's buffer is flushed only when Python destroys the module.
PROGRAM = """
import sys
left_open = open({mark!r}, "w")
left_open.write("taken apart")
{more}
sys.argv = {argv!r}
from i2s_spec.cli import program
program()
"""


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.gguf"
    path.write_bytes(Draft().data)
    return path


def run(
    mark: Path, more: str, *words: str, options: tuple[str, ...] = (), **streams: int
) -> subprocess.CompletedProcess[str]:
    code = PROGRAM.format(mark=str(mark), more=more, argv=["i2s", *words])
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.run([sys.executable, *options, "-c", code], text=True, check=False, **pipes)  # type: ignore[call-overload,no-any-return]


def test_a_process_ends_at_once_with_all_that_it_wrote(sample: Path, tmp_path: Path) -> None:
    ended = run(tmp_path / "mark", "", "lint", str(sample))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ": ok: sample, 3 tensors" in ended.stdout
    assert (tmp_path / "mark").read_text() == ""


def test_exit_codes_stay(sample: Path, tmp_path: Path) -> None:
    data = sample.read_bytes()
    sample.write_bytes(data[:-40])
    assert run(tmp_path / "mark", "", "lint", str(sample)).returncode == 1
    assert run(tmp_path / "mark", "", "lint", str(tmp_path / "missing.gguf")).returncode == 3
    assert run(tmp_path / "mark", "", "lint", "--profile", "odd", str(sample)).returncode == 2


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ("import atexit; atexit.register(print, 'at exit')", ()),
        ("import threading; threading.Timer(0.2, print, ['at exit']).start()", ()),
        ("sys.setprofile(lambda *found: None)", ()),
        ("sys.settrace(lambda *found: None)", ()),
        ("", ("-X", "dev")),
    ],
    ids=["atexit", "thread", "profile", "trace", "dev"],
)
def test_pending_work_is_done_before_the_end(more: str, options: tuple[str, ...], sample: Path, tmp_path: Path) -> None:
    ended = run(tmp_path / "mark", more, "lint", str(sample), options=options)
    assert ended.returncode == 0
    assert (tmp_path / "mark").read_text() == "taken apart"
    assert ("at exit" in ended.stdout) == ("at exit" in more)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_reported_at_the_end(sample: Path, tmp_path: Path) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = run(tmp_path / "mark", "", "lint", str(sample), stdout=full.fileno())
    assert ended.returncode
    assert "No space left" in ended.stderr
