"""One key changed in a large file: `python tests/bench/edit.py [--rounds N] [--quick] [--folder DIR]`.

The file is that of BitNet-b1.58-2B-4T with TQ2_0 for I2_S (1.2 GB, 128,256 tokens, 280,147 merges), its data section
written out. In each round `cp` copies it and brings the copy to the disk, as `i2s fix` does, and `i2s fix --set` and
`gguf-new-metadata` of the package `gguf` give it another name. Goals: 1.1 x the time of the copy, and a twentieth of
gguf-new-metadata's user time. Exit code 1 if one is missed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import headers
from bench.measure import Claim, Result, Row, ratios
from bench.report import as_text

COPY, OURS, THEIRS = "cp and sync", "i2s fix --set", "gguf-new-metadata"
#: Where scripts of this environment are.
SCRIPTS: Final = Path(sysconfig.get_path("scripts"))


class Run(NamedTuple):
    """Seconds of a process and its children: on the clock, and of the processor for the program itself and the system."""

    wall: float
    user: float
    system: float


def run_of(command: list[str], cache: Path) -> Run:
    """Run a command; byte code is kept, as of an installed package.

    :raises RuntimeError: where it fails
    """
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return Run(perf_counter() - start, usage.ru_utime, usage.ru_stime)


def main() -> int:
    """Measure, print, and compare with the goals."""
    parser = argparse.ArgumentParser(description="One key changed in a large file, beside cp and gguf-new-metadata.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a small file; goals are not checked")
    parser.add_argument("--folder", type=Path, help="for 4 GB of temporary files")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="i2s-bench-", dir=asked.folder) as name:
        result = measured(Path(name), asked.rounds, asked.quick)
    print(as_text("edit", result))
    return int(not asked.quick and any(claim.reached is False for claim in result.claims))


def measured(folder: Path, rounds: int, quick: bool) -> Result:
    """The runs of all programs in turn, every second round in reverse order."""
    source, cache = folder / "source.gguf", folder / "cache"
    header = headers.bitnet(share=16 if quick else 1, ternary=headers.TQ2_0)
    with source.open("wb") as file:
        file.write(header.data)
        left, block = min(header.data_size, 64 << 20 if quick else header.data_size), os.urandom(1 << 20)
        if quick:
            file.truncate(len(header.data) + header.data_size)
        while left:
            left -= file.write(block[: min(left, len(block))])
        os.fsync(file.fileno())
    commands = {
        COPY: ["sh", "-c", f"cp {source} {folder}/copy && sync {folder}/copy"],
        OURS: [sys.executable, "-m", "i2s_spec", "fix", str(source), "--set", "general.name=new", "-o", f"{folder}/ours"],
        THEIRS: [str(SCRIPTS / THEIRS), "--force", "--general-name", "new", str(source), f"{folder}/theirs"],
    }  # fmt: skip
    notes = ["TQ2_0 in place of I2_S, which gguf-new-metadata refuses"]
    if shutil.which(commands[THEIRS][0]) is None:
        del commands[THEIRS]
        notes.append("gguf-new-metadata is not installed: pip install gguf")
    outputs = [folder / name for name in ("copy", "ours", "theirs")]
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    run_of(commands[OURS], cache)
    for number in range(rounds):
        for name in commands if number % 2 == 0 else reversed(commands):
            for output in outputs:
                output.unlink(missing_ok=True)
            os.sync()
            runs[name].append(run_of(commands[name], cache))
    values = {
        name: {field: tuple(getattr(run, field) for run in found) for field in Run._fields}
        for name, found in runs.items()
    }
    rows = tuple(Row(f"{name}, {field}", values[name][field], "s") for name in runs for field in Run._fields)
    claims = [
        Claim(
            "time of i2s fix over that of cp and sync",
            ratios(values[OURS]["wall"], values[COPY]["wall"]),
            "x",
            most=1.1,
        )
    ]
    if THEIRS in runs:
        less = ratios(values[THEIRS]["user"], values[OURS]["user"])
        claims.append(Claim("user time of gguf-new-metadata over that of i2s fix", less, "x", least=20))
    return Result(f"one key changed in {source.stat().st_size:,} bytes", rows, tuple(claims), tuple(notes))


if __name__ == "__main__":
    sys.exit(main())
