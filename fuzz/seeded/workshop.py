"""A private copy of the checkout in which a bug is put in, its extension is built, and the tests run.

The copy contains the files that git tracks, so the checkout itself is never changed. Extensions are built with the C
compiler alone, by their entries in pyproject.toml but with less optimization, which does not change their results.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tomllib
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, NamedTuple

from seeded.bug import ROOT, Bug, broken

#: Timeout for the tests of one bug in seconds; a hang counts as noticed.
PATIENCE = 400

_FIRST = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


class Outcome(NamedTuple):
    """The result of a test run: `by` is the first failed test, or the reason for no result; empty if all passed."""

    killed: bool
    by: str


class Workshop:
    """One copy; every worker has its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
        for name in filter(None, names):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        with (folder / "pyproject.toml").open("rb") as file:
            self._extensions: list[dict[str, Any]] = tomllib.load(file)["tool"]["setuptools"]["ext-modules"]
        shared = os.environ.get("I2S_SHARED") or str(ROOT.parent / "shared")
        self._environment = {**os.environ, "PYTHONPATH": str(folder), "I2S_SHARED": shared}

    def build_all(self) -> None:
        """Build every extension."""
        for extension in self._extensions:
            self._translate(extension)
            self._compile(extension)

    def take_built(self, other: Workshop) -> None:
        """Copy the extensions that another copy of the same files has built."""
        for extension in self._extensions:
            for made in (_translated(extension), _library(extension)):
                shutil.copy2(other.folder / made, self.folder / made)

    def broken(self, bug: Bug) -> Outcome:
        """Insert a bug, run its tests, and restore everything."""
        path = self.folder / bug.file
        before = path.read_text(encoding="utf-8")
        after = broken(before, bug)
        assert after is not None, f"{bug.name}: its text does not have exactly one place"
        concerned = [each for each in self._extensions if bug.file in (*each["sources"], *each.get("depends", ()))]
        made = [self.folder / made(each) for each in concerned for made in (_translated, _library)]
        originals = {each: each.read_bytes() for each in made}
        try:
            self._write(path, after)
            for extension in concerned:
                if bug.file in extension["sources"] or path.suffix == ".pxi":
                    self._translate(extension)
                self._compile(extension)
            return self.tested(bug.tests)
        finally:
            self._write(path, before)
            for each, data in originals.items():
                each.unlink(missing_ok=True)  # a library in use must not be overwritten
                each.write_bytes(data)

    def tested(self, tests: tuple[str, ...], patience: float = PATIENCE) -> Outcome:
        """Run tests until one fails or the time is over."""
        shutil.rmtree(self.folder / ".hypothesis", ignore_errors=True)  # examples of one run must not help another
        options = ["-q", "-p", "no:cacheprovider", "--hypothesis-seed=0", "-x", "-m", ""]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        with subprocess.Popen(
            command, cwd=self.folder, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, text=True, errors="replace", start_new_session=True,
        ) as child:  # fmt: skip
            try:
                output, _ = child.communicate(timeout=patience)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.communicate()
                return Outcome(True, f"no end within {patience:g} seconds")
        if child.returncode == 0:
            return Outcome(False, "")
        if child.returncode < 0:
            return Outcome(True, f"the interpreter died: {signal.Signals(-child.returncode).name}")
        if child.returncode in (3, 4, 5):
            raise RuntimeError(f"pytest could not run {' '.join(tests)}:\n{output[-2000:]}")
        found = _FIRST.search(output)
        return Outcome(True, found[1] if found else output.strip().splitlines()[-1])

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        if path.suffix == ".py":  # time stamps have whole seconds, and a bug may not change the size
            Path(cache_from_source(str(path))).unlink(missing_ok=True)

    def _translate(self, extension: dict[str, Any]) -> None:
        self._run([sys.executable, "-m", "cython", "-3", extension["sources"][0], "-o", _translated(extension)])

    def _compile(self, extension: dict[str, Any]) -> None:
        flags = [flag for flag in extension.get("extra-compile-args", ()) if not flag.startswith("-O")]
        paths = [sysconfig.get_path("include"), "pyx", *extension.get("include-dirs", ())]
        (self.folder / _library(extension)).unlink(missing_ok=True)
        self._run([
            os.environ.get("CC") or "cc", "-shared", "-fPIC", "-DNDEBUG", "-O1", "-w", *flags,
            *(f"-I{path}" for path in paths), _translated(extension), "-o", _library(extension),
            *extension.get("extra-link-args", ()),
        ])  # fmt: skip

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command[:4])} ...: {(done.stderr or done.stdout)[-2000:]}")


def _translated(extension: dict[str, Any]) -> str:
    return str(Path(extension["sources"][0]).with_suffix(".c"))


def _library(extension: dict[str, Any]) -> str:
    return f"{extension['name'].replace('.', '/')}{sysconfig.get_config_var('EXT_SUFFIX')}"
