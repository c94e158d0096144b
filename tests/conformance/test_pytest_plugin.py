"""The plug-in of pytest: every vector is a test of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from hand_made import adapter, payloads

PLUGIN = "i2s_spec.conformance.run.pytest_plugin"


def pytest_with(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder of its own; a checkout that was installed before the plug-in was there names it."""
    installed = any(each.value == PLUGIN for each in entry_points(group="pytest11"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        *([] if installed else ["-p", PLUGIN]),
        "-p",
        "no:cacheprovider",
        "-v",
        "-n0",
    ]
    return subprocess.run([*command, *map(str, words)], capture_output=True, text=True, check=False, cwd=folder)


def test_vectors_are_tests(tmp_path: Path) -> None:
    folder, script, listed = payloads(tmp_path / "v"), tmp_path / "adapter.py", tmp_path / "known.txt"
    folder.add("forward", b"", b"")
    script.write_text(
        adapter("old = decode\ndef decode(d, a, op): return old(d, a, op) * (-1 if op == 'decode' else 1)")
    )
    words = ["--i2s-adapter", f"{sys.executable} {script}", "--i2s-vectors", folder.path]
    done = pytest_with(tmp_path, *words)
    assert done.returncode == 1, done.stdout + done.stderr
    for line in ("i2s[I2S-0001-decode] FAILED", "i2s[I2S-0002-dequant] PASSED", "i2s[I2S-0003-forward] SKIPPED"):
        assert line in done.stdout
    assert "I2S-0001 decode (clause 5.3): row 0, column " in done.stdout
    assert ": every sign is the other one" in done.stdout
    listed.write_text("I2S-0001 # row 0\n")
    done = pytest_with(tmp_path, *words, "--i2s-known", listed)
    assert (done.returncode, "i2s[I2S-0001-decode] XFAIL" in done.stdout) == (0, True), done.stdout
    listed.write_text("I2S-0002\n")
    done = pytest_with(tmp_path, *words, "--i2s-known", listed)
    assert "I2S-0002 is a known failure, and is now: pass" in done.stdout


def test_without_the_option_nothing_is_added(tmp_path: Path) -> None:
    done = pytest_with(tmp_path)
    assert done.returncode == 5, done.stdout  # no tests were collected
    done = pytest_with(tmp_path, "--i2s-adapter", "no-such-adapter")
    assert "--i2s-adapter: there is no program 'no-such-adapter' that can be run" in done.stdout + done.stderr
    assert done.returncode == 1
