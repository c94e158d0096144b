"""Rounds in which all contenders take their turn, medians, and ratios pair by pair.

Machines are shared and their speed drifts, so figures that were measured minutes apart cannot be divided. Every round
runs each contender in turn; a ratio is computed inside each round, and the report has the median of these ratios with
the lowest and the highest. A very short contender runs several times in its turn and counts with its median; a slow one
runs once.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

#: The least number of rounds however long they take, if at least that many were requested.
LEAST_ROUNDS = 3


class Contender(NamedTuple):
    """One implementation of a job: `run` does it once and returns the seconds it took, timed inside."""

    name: str
    run: Callable[[], float]
    repeat: int = 1


class Row(NamedTuple):
    """The measurements of one contender: one value for each round, in `unit`."""

    name: str
    values: tuple[float, ...]
    unit: str

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def as_dict(self) -> dict[str, Any]:
        ends = {"median": self.median, "low": min(self.values), "high": max(self.values)}
        return {"name": self.name, "unit": self.unit, **_rounded(ends)}


class Claim(NamedTuple):
    """A sentence about a number, one for each round, that should be at least `least` or at most `most`.

    Without either it is only information. A missed goal is not an error; the table shows it.
    """

    text: str
    values: tuple[float, ...]
    unit: str
    least: float | None = None
    most: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def reached(self) -> bool | None:
        """Whether the median reaches the goal; None without a goal."""
        if self.least is not None:
            return self.median >= self.least
        return self.median <= self.most if self.most is not None else None

    def as_dict(self) -> dict[str, Any]:
        ends = {"median": self.median, "low": min(self.values), "high": max(self.values)}
        goal = {"least": self.least, "most": self.most, "reached": self.reached}
        return {"claim": self.text, "unit": self.unit, **_rounded(ends), **goal}


class Result(NamedTuple):
    """The outcome of one benchmark."""

    title: str
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "rows": [row.as_dict() for row in self.rows],
            "claims": [claim.as_dict() for claim in self.claims],
            "notes": list(self.notes),
        }


def timed(job: Callable[[], object], clock: Callable[[], float] = perf_counter) -> Callable[[], float]:
    """The job as a contender's `run`; its result is freed after the time is taken."""

    def run() -> float:
        start = clock()
        result = job()
        seconds = clock() - start
        del result
        return seconds

    return run


def fastest(
    job: Callable[[], object],
    calls: int,
    before: Callable[[], object] = lambda: None,
    clock: Callable[[], float] = perf_counter,
) -> Callable[[], float]:
    """The job as a contender's `run` that repeats it and returns the shortest time, with the least disturbance.

    :param before: called before each repetition, and not timed
    """
    run = timed(job, clock)

    def once() -> float:
        before()
        return run()

    def least() -> float:
        return min(once() for _ in range(calls))

    return least


def interleaved(
    contenders: Sequence[Contender],
    rounds: int,
    progress: Callable[[str], None] = lambda text: None,
    seconds: float | None = None,
) -> dict[str, tuple[float, ...]]:
    """Seconds of each contender in each round; every other round runs them in reverse order.

    :param seconds: after this time no further round begins, if there were three: the machine is busy
    """
    times: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    start = perf_counter()
    gc.collect()
    gc.freeze()  # so that the collections below skip everything that was imported
    try:
        for number in range(rounds):
            if seconds is not None and number >= LEAST_ROUNDS and perf_counter() - start > seconds:
                break
            for contender in contenders if number % 2 == 0 else reversed(contenders):
                progress(f"round {number + 1} of {rounds}: {contender.name}")
                gc.collect()  # garbage of others must not be collected during this run
                times[contender.name].append(statistics.median(contender.run() for _ in range(contender.repeat)))
    finally:
        gc.unfreeze()
    return {name: tuple(values) for name, values in times.items()}


def ratios(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, ...]:
    """Their value divided by ours, round by round."""
    return tuple(a / b for a, b in zip(theirs, ours, strict=True))


def beyond(values: Sequence[float], base: Sequence[float]) -> tuple[float, ...]:
    """The difference of each value and its base, pair by pair."""
    return tuple(a - b for a, b in zip(values, base, strict=True))


def rows(times: dict[str, tuple[float, ...]]) -> tuple[Row, ...]:
    """Seconds as rows of a table."""
    return tuple(Row(name, values, "s") for name, values in times.items())


def _rounded(values: dict[str, float]) -> dict[str, float]:
    """To six significant digits."""
    return {name: float(f"{value:.6g}") for name, value in values.items()}


class Setting(NamedTuple):
    """The arguments of benchmarks.

    :param quick: small input and one round, to check that everything runs; goals are then not checked
    :param rounds: number of rounds of all contenders
    :param folder: an empty folder for files, which is removed afterwards
    :param say: called with one line about the progress
    """

    quick: bool
    rounds: int
    folder: Path
    say: Callable[[str], None]


class Benchmark(NamedTuple):
    """One benchmark: its name, and the function that runs it."""

    name: str
    run: Callable[[Setting], Result]
