"""The pytest plug-in makes a separate test of every vector."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

from examples import some
from hand_made import adapter, payloads

PLUGIN = "i2s_spec.conformance.pytest_plugin"


def pytest_with(folder: Path, *words: object, alone: bool = True) -> subprocess.CompletedProcess[str]:
    """Run pytest in a folder of its own: with this plug-in alone, or as it is found among all that are installed.

    A checkout that was installed before the plug-in was there names it.
    """
    installed = not alone and any(each.value == PLUGIN for each in entry_points(group="pytest11"))
    plugins = [*(["-n0"] if not alone else []), *([] if installed else ["-p", PLUGIN])]
    command = [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider", "-v", *map(str, words)]
    environment = os.environ | ({"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} if alone else {})
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False, cwd=folder, env=environment)


def test_vectors_are_tests(tmp_path: Path) -> None:
    folder, script, listed = payloads(tmp_path / "v"), tmp_path / "adapter.py", tmp_path / "known.txt"
    folder.add("forward", b"", b"")
    script.write_text(
        adapter("old = decode\ndef decode(d, a, op): return old(d, a, op) * (-1 if op == 'decode' else 1)")
    )
    words = ["--i2s-adapter", f"{sys.executable} {script}", "--i2s-vectors", folder.path]
    done = pytest_with(tmp_path, *words, alone=False)
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


def test_whether_there_is_a_program_is_known_before_the_suite_is_written(tmp_path: Path) -> None:
    """Nothing else is checked either: a missing folder of vectors is not reported."""
    (tmp_path / "no_suite.py").write_text(
        "import i2s_spec.conformance.vectors.all_vectors as module\n"
        "def write_suite(folder): raise AssertionError('the suite is written')\n"
        "module.write_suite = write_suite\n"
    )
    for more in some([["--i2s-vectors", tmp_path / "missing"], []]):
        done = pytest_with(tmp_path, "-p", "no_suite", "--i2s-adapter", "no-such-adapter", *more)
        assert "--i2s-adapter: there is no program 'no-such-adapter' that can be run" in done.stdout + done.stderr
        assert done.returncode == 1
