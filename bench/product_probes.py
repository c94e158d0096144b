"""This module measures products beside their probes: weights in place, undisturbed rounds, and limits.

Probes of the extension read and multiply in the threads that compute the products.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from typing import Any

import numpy as np

from bench.measure import Contender, interleaved
from bench.parts import Setting
from i2s_spec.codec.isa import KernelSet
from i2s_spec.gguf.huge_pages import HUGE_PAGE, huge_pages
from i2s_spec.model import _matmul

#: How often a measurement is repeated at most, if another process interrupted it.
TRIES = 5
#: Seconds for all rounds of a table's contenders or, if it has several shapes, of one shape; at least three rounds run.
#: All tables together take less than three minutes on an idle machine.
SECONDS = 20.0
SECONDS_OF_SHAPE = 4.0
#: A job longer than this multiple of the required time runs once, because warm-up no longer matters.
LONG = 8


def memory_at(nbytes: int, start: int, huge: bool) -> Any:
    """Memory whose start is a multiple of `start` and of no larger power of two, in pages of this kind."""
    raw = huge_pages(nbytes + 2 * HUGE_PAGE) if huge else mmap.mmap(-1, nbytes + 2 * HUGE_PAGE)
    whole = np.frombuffer(raw, dtype=np.uint8)
    skip = -_matmul.address(whole) % HUGE_PAGE + start
    return whole[skip : skip + nbytes]


def weights(shapes: list[tuple[int, int]], start: int, huge: bool) -> tuple[Any, list[Any]]:
    """Consecutive payloads, as in a file: 32 bytes of tail, then the next multiple of `start`."""
    sizes = [rows * columns // 4 for rows, columns in shapes]
    steps = [-(-(size + 32) // start) * start for size in sizes]
    whole = memory_at(sum(steps), start, huge)
    noise = np.frombuffer(np.random.Generator(np.random.PCG64(1)).bytes(1 << 20), dtype=np.uint8)
    for at in range(0, whole.size, noise.size):
        part = whole[at : at + noise.size]
        part[:] = noise[: part.size]
    starts = np.cumsum([0, *steps[:-1]])
    return whole, [whole[at : at + size] for at, size in zip(starts, sizes, strict=True)]


def codes_of(tokens: int, columns: int) -> Any:
    return np.random.Generator(np.random.PCG64(2)).integers(-127, 128, (tokens, columns)).astype(np.int8)


def _undisturbed(run: Callable[[], float], deadline: float) -> Callable[[], float]:
    """The time of a run that no other process interrupted, as the system counts; otherwise the least of several.

    After the deadline nothing is repeated.
    """

    def again() -> float:
        seen = []
        for _ in range(TRIES):
            before = getrusage(RUSAGE_SELF).ru_nivcsw
            seen.append(run())
            if getrusage(RUSAGE_SELF).ru_nivcsw == before:
                return seen[-1]
            if perf_counter() > deadline:
                break
        return min(seen)

    return again


def calm_rounds(
    contenders: list[Contender], setting: Setting, least: int, seconds: float = SECONDS_OF_SHAPE
) -> dict[str, tuple[float, ...]]:
    """Interleaved rounds as elsewhere, but many: each takes milliseconds, and machines are shared."""
    deadline = perf_counter() + seconds
    calm = [contender._replace(run=_undisturbed(contender.run, deadline)) for contender in contenders]
    return interleaved(calm, 1 if setting.quick else max(setting.rounds, least), setting.say, seconds)


def seconds_of(job: Callable[[], object], least: float = 0.0) -> float:
    """Seconds of a job, from several runs for at least this time; the first run does not count unless it is long."""
    if least:
        start = perf_counter()
        job()
        if (first := perf_counter() - start) >= LONG * least:
            return first
    start, count = perf_counter(), 0
    while True:
        job()
        count += 1
        if (now := perf_counter()) - start >= least:
            return (now - start) / count


def peak_run(each: KernelSet, products: int, threads: int, least: float, tokens: int = 0) -> Callable[[], float]:
    """Seconds of this many products at the set's peak, with the masks that this many tokens share, if any."""
    # A round has twelve multiplications or, with masks, as many for each token: six cycles or twelve. The probe takes no
    # longer than the kernels, so that a shared machine interrupts it no more often.
    rounds = max(1, round(least * 4e8 / (tokens + 1)))

    def run() -> float:
        _matmul.probe_multiplications(each.row, rounds // 100, threads, tokens)
        start = perf_counter()
        done = _matmul.probe_multiplications(each.row, rounds, threads, tokens)
        return products / done * (perf_counter() - start)

    return run


def sixteenth(run: Callable[[], float]) -> Callable[[], float]:
    return lambda: run() / 16


def reading_run(payload: Any, threads: int, least: float = 0.0) -> Callable[[], float]:
    """Seconds for reading all bytes; repeated for about this long if they stay in cache."""
    repeats = max(1, round(least * 50e9 / payload.size))

    def run() -> float:
        start = perf_counter()
        _matmul.probe_reading(payload, repeats, threads)
        return (perf_counter() - start) / repeats

    return run
