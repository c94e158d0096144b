"""A process of `i2s` ends with the exit code of the verb, and says what could not be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from i2s_spec.testing.sample import Draft


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "sample.gguf"
    path.write_bytes(Draft().data)
    return path


def run(*words: str, **streams: int) -> subprocess.CompletedProcess[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    argv = [sys.executable, "-m", "i2s_spec", *words]
    return subprocess.run(argv, encoding="utf-8", check=False, **pipes)  # type: ignore[call-overload,no-any-return]


def test_exit_codes(sample: Path, tmp_path: Path) -> None:
    ended = run("lint", str(sample))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ": no error in what was checked: sample, 3 tensors" in ended.stdout
    data = sample.read_bytes()
    sample.write_bytes(data[:-40])
    assert run("lint", str(sample)).returncode == 1
    assert run("lint", str(tmp_path / "missing.gguf")).returncode == 3
    assert run("lint", "--profile", "odd", str(sample)).returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", [["lint"], ["--version"]])
def test_a_full_disk_is_reported_at_the_end(sample: Path, words: list[str]) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        ended = run(*words, *([str(sample)] if words == ["lint"] else []), stdout=full.fileno())
    assert ended.returncode
    assert "No space left" in ended.stderr
