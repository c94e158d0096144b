"""This module is the registry of benchmarks: a part is a module with `benchmarks()`, listed here by its name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from bench.measure import Result

#: Every part and its module; `codec` includes `block_types`. A new part adds a line here, and a module whose
#: `benchmarks()` lists its benchmarks.
PARTS = {
    "container": "bench.container",
    "codec": "bench.codec",
    "matmul": "bench.matmul",
    "model": "bench.model",
    "lint": "bench.lint",
    "groups": "bench.group_lint",
    "evidence": "bench.evidence",
    "import": "bench.checkpoint_import",
    "cluster": "bench.cluster",
    "start": "bench.start",
}

#: Parts without a committed result: a full run needs gigabytes, or an idle machine.
UNMEASURED: tuple[str, ...] = ()


class Setting(NamedTuple):
    """The arguments of benchmarks.

    :param quick: small input and one round, to check that everything runs; goals are then not checked
    :param rounds: number of rounds of all contenders
    :param folder: an empty folder for files, which is removed afterwards
    :param peers: folder of npm packages
    :param say: called with one line about the progress
    """

    quick: bool
    rounds: int
    folder: Path
    peers: Path
    say: Callable[[str], None]


class Benchmark(NamedTuple):
    """One benchmark: its name, and the function that runs it."""

    name: str
    run: Callable[[Setting], Result]


def benchmarks_of(part: str) -> list[Benchmark]:
    """The benchmarks of a part; its module is imported now."""
    found: list[Benchmark] = import_module(PARTS[part]).benchmarks()
    return found
