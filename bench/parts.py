"""This module is the registry of benchmarks: a part is a module with `benchmarks()`, listed here by its name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from bench.measure import Result

#: Every part and its module; `codec` takes in `block_types`. A new part adds a line here, and a module whose
#: `benchmarks()` lists what it measures.
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

#: Parts that have no committed result yet: a full run takes gigabytes, or a machine that does nothing else meanwhile.
UNMEASURED: tuple[str, ...] = ()


class Setting(NamedTuple):
    """What benchmarks are given.

    :param quick: small input and one round, to see that everything runs; goals are then not judged
    :param rounds: how many rounds of all contenders
    :param folder: an empty folder for files, which is removed afterwards
    :param peers: where npm packages are
    :param say: called with one line on what is going on
    """

    quick: bool
    rounds: int
    folder: Path
    peers: Path
    say: Callable[[str], None]


class Benchmark(NamedTuple):
    """One benchmark: a name to call it by, and what runs it."""

    name: str
    run: Callable[[Setting], Result]


def benchmarks_of(part: str) -> list[Benchmark]:
    """The benchmarks of a part; its module is imported now."""
    found: list[Benchmark] = import_module(PARTS[part]).benchmarks()
    return found
