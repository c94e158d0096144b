"""This module measures a run over many small files on a local Dask cluster against `--jobs`, whole processes in pairs.

Both judge the same files with two processes and write the same report. The run on Dask looks for equal contents as well,
keeps its results, and makes the Parquet table; what it takes beyond `--jobs` is the price of all that. Files are of
different content: else one would be judged. A quarter of the files is a run of its own, so that what a cluster takes to
start is told from what each further file takes. There are small models, and twenty times as many files of some hundred
bytes, of which a run is little else than its own cost. `I2S_BENCH_FILES` says how many small models there are.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bench import processes
from bench.measure import Claim, Result, Row, ratios
from bench.parts import Benchmark, Setting

#: Small models; 100,000 take 15 GB and, on two processors, half an hour a contender.
MANY = int(os.environ.get("I2S_BENCH_FILES", "5000"))

#: Tiny files for each of them.
TINY = 20

#: Files in a folder.
IN_FOLDER = 1000

Times = dict[str, tuple[float, ...]]


def benchmarks() -> list[Benchmark]:
    """What is measured, in this order."""
    return [Benchmark("small-files", small_files), Benchmark("tiny-files", tiny_files)]


def _small_model(setting: Setting) -> bytes:
    from i2s_spec.convert.synthetic.new import new

    seed = setting.folder / "seed.gguf"
    new(seed, "bitnet-b1.58", layers=1)
    return seed.read_bytes()


def _tiny_file(setting: Setting) -> bytes:
    from i2s_spec.testing.sample import Draft

    return Draft().data + bytes(4)


def make_files(setting: Setting, seed: bytes, count: int) -> None:
    """Two folders of files of equal size and different content, a quarter and the rest."""
    data = bytearray(seed)
    for number in range(count):
        part = "quarter" if number % 4 == 0 else "rest"
        place = setting.folder / "many" / part / f"{number // IN_FOLDER:04}"
        place.mkdir(parents=True, exist_ok=True)
        data[-4:] = number.to_bytes(4, "little")
        (place / f"{number:07}.gguf").write_bytes(data)


class _Pair:
    """Both contenders over one folder, round by round."""

    def __init__(self, setting: Setting, folder: Path, count: int) -> None:
        self._setting, self._folder, self._count = setting, folder, count
        self._report, self._results = setting.folder / "report.jsonl", setting.folder / "results.jsonl"
        common = ["lint", "--jobs", "2", "--format", "jsonl", "-o", str(self._report), str(folder)]
        self._commands = {
            "--jobs": common,
            "dask": [*common, "--engine", "dask", "--results", str(self._results), "-q"],
        }
        self.wall: dict[str, list[float]] = {name: [] for name in self._commands}
        self.work: dict[str, list[float]] = {name: [] for name in self._commands}

    def round(self, number: int) -> None:
        """One run of each; every other round the other one first."""
        order = list(self._commands.items())
        for name, arguments in order if number % 2 == 0 else reversed(order):
            self._results.unlink(missing_ok=True)
            self._setting.say(f"round {number + 1}: {name}, {self._count:,} files")
            spent = processes.command(arguments, self._setting.folder / "bytecode")
            with self._report.open("rb") as lines:
                reports = sum(1 for line in lines if b'"findings"' in line)
            if spent.status not in (0, 1) or reports < self._count:
                raise RuntimeError(f"{name}: status {spent.status}, {reports:,} of {self._count:,} reports")
            self.wall[name].append(spent.wall)
            self.work[name].append(spent.processor)


def small_files(setting: Setting) -> Result:
    """`lint --engine dask` against `lint --jobs`, two processes each, of small models."""
    return _compared(setting, _small_model(setting), 60 if setting.quick else MANY)


def tiny_files(setting: Setting) -> Result:
    """The same of files with a header and a tensor."""
    return _compared(setting, _tiny_file(setting), 60 if setting.quick else TINY * MANY)


def _compared(setting: Setting, seed: bytes, count: int) -> Result:
    size = len(seed)
    make_files(setting, seed, count)
    setting.say(f"{count:,} files of {size:,} bytes")
    few = _Pair(setting, setting.folder / "many" / "quarter", (count + 3) // 4)
    all_of_them = _Pair(setting, setting.folder / "many", count)
    notes = [f"each file has {size:,} bytes"]
    for number in range(1 if setting.quick else setting.rounds):
        few.round(number)
        all_of_them.round(number)
        notes.append(f"round {number + 1}: load average {os.getloadavg()[0]:.1f}")
    shutil.rmtree(setting.folder / "many")
    wall, work = all_of_them.wall, all_of_them.work
    further = {
        name: tuple((whole - part) / (count * 3 // 4) for whole, part in zip(work[name], few.work[name], strict=True))
        for name in work
    }
    rows = (
        *(Row(f"{name}, {count:,} files", tuple(wall[name]), "s") for name in wall),
        *(Row(f"{name}, processor time", tuple(work[name]), "s") for name in work),
        *(Row(f"{name}, processor time for each further file", further[name], "s") for name in work),
        Row(
            "what Dask adds to that", tuple(b - a for a, b in zip(further["--jobs"], further["dask"], strict=True)), "s"
        ),
    )
    goal = None if setting.quick else 1.1
    claims = (
        Claim("time of the run on Dask as a share of --jobs", ratios(wall["dask"], wall["--jobs"]), "x", most=goal),
        Claim("processor time, likewise", ratios(work["dask"], work["--jobs"]), "x", most=goal),
        Claim(
            "processor time for each further file, likewise", ratios(further["dask"], further["--jobs"]), "x", most=goal
        ),
    )
    return Result(f"{count:,} small files, two processes", rows, claims, tuple(notes))
