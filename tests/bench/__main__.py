"""The command line of the benchmarks: `python tests/bench [PART...]`, in a checkout.

Tables go to stdout, progress to stderr. A slow result is not a failure, unless --check asks for it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import machine, report
from bench.measure import Benchmark, Result, Setting

#: Every part and its module, whose `benchmarks()` lists its benchmarks.
PARTS = {
    "claims": "bench.claims",
    "codec": "bench.codec",
    "container": "bench.container",
    "functions": "bench.functions",
    "import": "bench.checkpoint",
    "lint": "bench.lint",
    "matmul": "bench.matmul",
    "model": "bench.model",
}


def benchmarks_of(part: str) -> list[Benchmark]:
    """The benchmarks of a part; its module is imported now."""
    found: list[Benchmark] = import_module(PARTS[part]).benchmarks()
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the requested benchmarks."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if (asked.check or asked.commit) and asked.quick:
        parser.error(
            "--quick measures small input, which no committed result is of; --check and --commit need a full run"
        )
    rounds = asked.rounds or (1 if asked.quick else 3)
    parts = asked.parts or list(PARTS)
    runs = []
    for part in parts:
        facts = machine.facts()
        print(f"{part}\n{report.machine_line(facts)}\n", flush=True)
        results: dict[str, Result] = {}
        for benchmark in benchmarks_of(part):
            if asked.only and benchmark.name not in asked.only:
                continue
            with tempfile.TemporaryDirectory(prefix="i2s-bench-", dir=asked.folder) as folder:
                say = _say(f"{part} {benchmark.name}")
                setting = Setting(asked.quick, rounds, Path(folder), say)
                results[benchmark.name] = benchmark.run(setting)
                say("")
            print(report.as_text(benchmark.name, results[benchmark.name]), flush=True)
        runs.append(report.as_dict(part, asked.quick, rounds, facts, results))
    if asked.json:
        value = runs[0] if len(runs) == 1 else runs
        asked.json.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    status = _check(runs) if asked.check else 0
    if asked.commit:
        print(f"written to {report.commit(runs, lambda part: [each.name for each in benchmarks_of(part)])}")
    return status


def _check(runs: list[dict[str, Any]]) -> int:
    """Print what is slower than the committed results of this kind of processor; 1 if anything is."""
    found = 0
    for run in runs:
        part, kind = run["part"], run["machine"]["processor"]
        then = report.committed(kind).get(part)
        if then is None:
            there = ", ".join(report.kinds(part)) or "none"
            print(f"{part}: not compared: no result of {kind} is committed; there are results of: {there}")
            continue
        sentences = report.worse(run, then)
        found += len(sentences)
        print(f"{part}: compared with {kind} of {then['machine']['date']}: {len(sentences)} worse")
        print("".join(f"  {sentence}\n" for sentence in sentences), end="")
    return 1 if found else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python tests/bench", description="Benchmarks, each against named peers or a limit, in the same run."
    )
    parser.add_argument("parts", nargs="*", type=_part, metavar="PART", help=f"of: {', '.join(PARTS)}; default: all")
    parser.add_argument("--quick", action="store_true", help="small input, one round: does everything run?")
    parser.add_argument("--rounds", type=_count, metavar="N", help="rounds of all contenders (default: 3)")
    parser.add_argument("--only", action="append", metavar="NAME", help="this benchmark only; may be repeated")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the result as JSON")
    parser.add_argument(
        "--check", action="store_true",
        help="compare with the results of this kind of processor; name what got worse, and exit with 1 if anything did",
    )  # fmt: skip
    parser.add_argument("--commit", action="store_true", help="put the results into tests/bench/results")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="for temporary files, 2 GB of them")
    return parser


def _part(text: str) -> str:
    if text not in PARTS:
        raise argparse.ArgumentTypeError(f"there are: {', '.join(PARTS)}")
    return text


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least one round is needed")
    return number


def _say(name: str) -> Callable[[str], None]:
    """Print a line that the next one overwrites, on terminals only."""

    def say(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\033[K{f'{name}: {text}' if text else ''}", end="", file=sys.stderr, flush=True)

    return say


if __name__ == "__main__":
    sys.exit(main())
