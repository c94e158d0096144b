"""This module measures a run over 100,000 files on a local Dask cluster against `--jobs`: two whole runs, in turns.

Both are `i2s lint` with two processes and print the same reports. They take turns by blocks of files: while one
processes its block, all processes of the other are stopped (SIGSTOP). So a machine whose speed drifts is equally fast
for both, and neither works in the other's time. The run on Dask also detects equal contents, keeps its results, and
makes the Parquet table; its additional time beyond `--jobs` is the cost of these. The first block contains the start of
each run, the last its end.

Files have some kilobytes and different content, because equal files would be checked once. `I2S_BENCH_FILES` sets their
number; 100,000 take 400 MB on the disk.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from types import TracebackType

from bench.measure import Claim, Result, Row, ratios
from bench.parts import Benchmark, Setting
from bench.processes import ROOT

MANY = int(os.environ.get("I2S_BENCH_FILES", "100000"))
FEW = 60

#: Number of turns into which the files are divided.
BLOCKS = 10

#: Files in a folder.
IN_FOLDER = 1000

#: Bytes of text in each file.
TEXT = 2000

JOBS = 2

#: Position of the file's number in its bytes.
NUMBER = b"########"


def benchmarks() -> list[Benchmark]:
    """The benchmarks."""
    return [Benchmark("many-files", many_files)]


def small_file() -> bytes:
    """A sound file of a few kilobytes, with room for eight digits in a text."""
    from i2s_spec.schema import gguf
    from i2s_spec.schema.types import ValueType
    from i2s_spec.testing.sample import Draft, key_value

    draft = Draft()
    records = draft.records()
    text = NUMBER + b" small" * (TEXT // 6)
    records.key_values.append(key_value(b"general.description", ValueType.STRING, text))
    return bytes(gguf.build(draft.relaid(records)))


def make_files(folder: Path, count: int) -> int:
    """Write files of equal size and different content; returns the size."""
    data = small_file()
    at = data.index(NUMBER)
    for number in range(count):
        place = folder / f"{number // IN_FOLDER:04}"
        if number % IN_FOLDER == 0:
            place.mkdir(parents=True)
        (place / f"{number:07}.gguf").write_bytes(data[:at] + b"%08d" % number + data[at + 8 :])
    return len(data)


class Contender:
    """One run of `i2s lint`: a session of processes that works only during its turns."""

    def __init__(self, arguments: list[str], bytecode: Path) -> None:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(bytecode), "PYTHONPATH": str(ROOT)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._arguments, self._environment = arguments, environment
        self._run: subprocess.Popen[bytes] | None = None
        self.wall: list[float] = []
        self.processor = 0.0
        self.reports = 0

    def turn(self, files: int | None) -> None:
        """Run until this many more reports are printed, or to the end."""
        begin = perf_counter()
        if self._run is None:
            self._run = subprocess.Popen(
                [sys.executable, "-m", "i2s_spec", *self._arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=self._environment, start_new_session=True,
            )  # fmt: skip
        else:
            os.killpg(self._run.pid, signal.SIGCONT)
        assert self._run.stdout is not None
        left = files
        while left != 0 and (line := self._run.stdout.readline()):
            if b'"findings"' in line:
                self.reports += 1
                left = None if left is None else left - 1
        if files is not None:
            os.killpg(self._run.pid, signal.SIGSTOP)
        else:
            self._ended(self._run)
        self.wall.append(perf_counter() - begin)

    def _ended(self, run: subprocess.Popen[bytes]) -> None:
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        self.processor = usage.ru_utime + usage.ru_stime

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return None if self._run is None else self._run.returncode

    def __enter__(self) -> Contender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._run is None:
            return
        assert self._run.stdout is not None
        self._run.stdout.close()
        if self._run.returncode is None:
            os.killpg(self._run.pid, signal.SIGKILL)
            self._run.wait()


def many_files(setting: Setting) -> Result:
    """`lint --engine dask` against `lint --jobs`, two processes each."""
    count, blocks = (FEW, 3) if setting.quick else (MANY, BLOCKS)
    models = setting.folder / "many"
    setting.say(f"making {count:,} files")
    size = make_files(models, count)
    warm = setting.folder / "warm"
    make_files(warm, 2 * JOBS)

    def contender(name: str, folder: Path) -> Contender:
        common = ["lint", "--jobs", str(JOBS), "--format", "jsonl", str(folder)]
        results = setting.folder / f"{folder.name}.jsonl"
        engine = ["--engine", "dask", "--results", str(results), "-q"] if name == "dask" else []
        return Contender([*common, *engine], setting.folder / "bytecode")

    names = ("--jobs", "dask")
    for name in names:  # a first run compiles modules and fills the page cache
        with contender(name, warm) as first:
            first.turn(None)
    runs = {name: contender(name, models) for name in names}
    notes = [f"each file has {size:,} bytes; {blocks} turns each; load average {os.getloadavg()[0]:.1f} at the start"]
    with runs["--jobs"], runs["dask"]:
        for block in range(blocks):
            for name in names if block % 2 == 0 else reversed(names):
                setting.say(f"turn {block + 1} of {blocks}: {name}")
                runs[name].turn(None if block == blocks - 1 else count // blocks)
    notes.append(f"load average {os.getloadavg()[0]:.1f} at the end")
    for name, run in runs.items():
        if run.status not in (0, 1) or run.reports != count:
            raise RuntimeError(f"{name}: status {run.status}, {run.reports:,} of {count:,} reports")
    jobs, dask = runs.values()
    goal = None if setting.quick else 1.1
    middle = slice(1, -1)  # without the start and the end
    rows = (
        *(Row(f"{name}, the run", (sum(run.wall),), "s") for name, run in runs.items()),
        *(Row(f"{name}, its processor time", (run.processor,), "s") for name, run in runs.items()),
        *(Row(f"{name}, {count // blocks:,} files", tuple(run.wall[middle]), "s") for name, run in runs.items()),
    )
    claims = (
        Claim("time of the run on Dask as a share of --jobs", (sum(dask.wall) / sum(jobs.wall),), "x", most=goal),
        Claim("processor time, likewise", (dask.processor / jobs.processor,), "x", most=goal),
        Claim("time turn by turn, likewise", ratios(dask.wall[middle], jobs.wall[middle]), "x", most=goal),
    )
    return Result(
        f"{count:,} files on a Dask cluster of {JOBS} processes and with --jobs {JOBS}", rows, claims, tuple(notes)
    )
