"""Whole processes: the time of a command, and the memory that a job takes in a fresh interpreter.

The second half is the child process: `bench.processes JOB FILE` does one job and prints one line of JSON.
Imports come before the measurement, and the peak is reset after them, so the result is the memory of the job itself.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

#: The checkout, and the folder in which `bench` is found.
ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"

#: Names a file made earlier by `i2s new --shape 2b4t`, for benchmarks that only read one.
MODEL_VARIABLE = "I2S_BENCH_MODEL"

#: Commands that take at least this many seconds run only once.
SLOW = 2.0

#: Jobs of the child process: modules to import first, then the function.
JOBS = {
    "i2s_spec": (("i2s_spec.gguf.reader",), "bench.container:ours_table"),
    "i2s_spec, all strings": (("i2s_spec.gguf.reader",), "bench.container:ours_strings"),
    "GGUFReader": (("gguf",), "bench.container:gguf_table"),
    "lint": (("i2s_spec.linter.engine", "i2s_spec.linter.rules"), "i2s_spec.linter.engine:lint"),
    "lint, payloads": (("bench.lint", "i2s_spec.linter.rules"), "bench.lint:whole"),
    "evidence": (("bench.lint",), "bench.lint:ask"),
    "import": (("bench.checkpoint",), "bench.checkpoint:whole"),
}


class Spent(NamedTuple):
    """Wall-clock seconds of a process, its processor seconds (user and system), exit status."""

    wall: float
    processor: float
    status: int


def given_model(quick: bool) -> Path | None:
    """The model of full size from an earlier run; None if not named, or if a small one is requested."""
    named = os.environ.get(MODEL_VARIABLE)
    return Path(named) if named and not quick else None


def command(arguments: Sequence[str], cache: Path) -> Spent:
    """Run `i2s` with these arguments as a whole process, and discard its output.

    Byte code is kept in the folder `cache`: a first run compiles every module and later runs find them, as with an
    installed package, whatever the environment and the checkout are.
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = perf_counter()
    run = subprocess.Popen(
        [sys.executable, "-m", "i2s_spec", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment,
    )
    _, status, usage = os.wait4(run.pid, 0)
    wall = perf_counter() - start
    run.returncode = os.waitstatus_to_exitcode(status)
    return Spent(wall, usage.ru_utime + usage.ru_stime, run.returncode)


def pairs(first: Sequence[str], second: Sequence[str], count: int, cache: Path) -> list[tuple[Spent, Spent]]:
    """Two commands in turn, `count` times in alternating order; once, if a command takes seconds."""
    warm = command(first, cache), command(second, cache)  # files and byte code are in memory from here on
    if max(spent.wall for spent in warm) > SLOW:
        return [warm]
    found = []
    for number in range(count):
        one, two = (first, second) if number % 2 == 0 else (second, first)
        spent = (command(one, cache), command(two, cache))
        found.append(spent if number % 2 == 0 else spent[::-1])
    return found


class Cost(NamedTuple):
    """Cost of a job in a fresh interpreter: seconds, and bytes of peak memory above that at the start."""

    seconds: float
    grown: int


def child(job: str, path: Path) -> Cost:
    """Run one of `JOBS` in a separate process."""
    return Cost(**json.loads(module("bench.processes", job, os.fspath(path))))


def module(name: str, *arguments: str) -> str:
    """Run a module of the benchmarks in a fresh interpreter with this checkout, and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(command, cwd=TESTS, env=environment, check=True, capture_output=True, encoding="utf-8").stdout


def peak() -> int:
    """The peak resident set so far in bytes, including pages of mapped files."""
    with open("/proc/self/status", encoding="latin-1") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def _restart_peak() -> int:
    """Reset the peak to the current resident set; if the system does not permit it, the peak includes the imports."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    return peak()


def _main(job: str, path: str) -> None:
    modules, function = JOBS[job]
    for module in modules:
        importlib.import_module(module)
    home, _, name = function.partition(":")
    work = getattr(importlib.import_module(home), name)
    before = _restart_peak()
    start = perf_counter()
    result: Any = work(Path(path))
    seconds = perf_counter() - start
    print(json.dumps({"seconds": seconds, "grown": peak() - before}))
    del result


if __name__ == "__main__":
    _main(*sys.argv[1:])
