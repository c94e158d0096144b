"""The integer core of BitLinear: products with packed weights, against the limits of memory and processor.

Probes run beside every measurement, in the same round and in the threads that compute the products: reading every byte
of the weights in place; the widest multiplications of a kernel set, repeated on registers; and these with the masks that
2-bit weights need, as many as for that number of tokens. Some processors mask on the ports that multiply: there one
token reaches at most half of the multiplications. The slower of reading and of multiplying with masks is the limit of
any kernel.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from functools import partial
from importlib import util
from resource import RUSAGE_SELF, getrusage
from time import perf_counter
from typing import Any, Final

import numpy as np

from bench.measure import Benchmark, Claim, Contender, Result, Row, Setting, interleaved, ratios
from i2s_spec.codec.isa import KernelSet
from i2s_spec.errors import counted
from i2s_spec.gguf.source import HUGE_PAGE, huge_pages
from i2s_spec.model import _matmul
from i2s_spec.model.reference import matmul, table_lookup

#: The ternary matrices of a layer of BitNet-b1.58-2B-4T, rows and columns, and how many layers there are.
LAYER = [(2560, 2560), (640, 2560), (640, 2560), (2560, 2560), (6912, 2560), (6912, 2560), (2560, 6912)]
LAYERS = 30

SHAPES = [(640, 2560), (2560, 2560), (6912, 2560), (2560, 6912)]
#: Shapes of products of several tokens: one wide, one long.
WIDE = [(6912, 2560), (2560, 6912)]
TOKENS = [8, 32, 128, 512]

#: Alignment of the weights' start, and whether the pages are huge.
PLACES = {"at 32 bytes, as in a file": (32, False), "at 64 bytes, huge pages": (64, True)}

READ, PEAK, MASKED, TORCH = "read probe", "multiplication probe", "probe with masks", "torch._int_mm"

#: The set with AMX multiplies eight times as fast as vectors. The goal is the vectors' speed on all processors.
TILES = "amx"

#: The goal of a kernel, and its name.
SHARE = "share of its limit"
BESIDE = (
    "the limit of a kernel is in each round the slower of reading the weights and of its probe with masks, which does 4 "
    "masks for 4 multiplications of each token; that of AVX2 a shift as well, and an addition after each multiplication"
)


#: How often a measurement is repeated at most, if another process interrupted it.
TRIES = 5
#: Seconds for all rounds of a table's contenders or, if it has several shapes, of one shape; at least three rounds run.
#: All tables together take less than three minutes on an idle machine.
SECONDS = 20.0
SECONDS_OF_SHAPE = 4.0
#: A job longer than this multiple of the required time runs once, because warm-up no longer matters.
LONG = 8

#: Goals of several tokens: share of the limit; share of torch's speed, and from 512 tokens on.
PEAK_GOAL, TORCH_GOAL, TORCH_GOAL_512 = 0.8, 1.0, 0.95


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [
        *(Benchmark(f"vector-memory-{threads}", partial(_memory, threads=threads)) for threads in (1, 2)),
        *(Benchmark(f"vector-cache-{threads}", partial(_cache, threads=threads)) for threads in (1, 2)),
        *(Benchmark(f"matrix-{threads}", partial(_matrix, threads=threads)) for threads in (1, 2)),
        Benchmark("lookup", _lookup),
    ]


def _of_many() -> list[KernelSet]:
    """The compiled sets that this processor runs, without portable C and the set that only some processors choose."""
    return [each for each in matmul.kernel_sets() if each.available and each.name not in ("portable", "avx512vl")]


def _sets() -> list[KernelSet]:
    """The same without tiles, whose products of one token are those of the previous set."""
    return [each for each in _of_many() if each.name != TILES]


# --- one token -------------------------------------------------------------------------------------------------------


def _memory(setting: Setting, threads: int) -> Result:
    """All matrices of a model once from memory, as a decoder reads them for each token."""
    shapes = LAYER * (1 if setting.quick else LAYERS)
    codes = {columns: codes_of(1, columns) for _, columns in shapes}
    outs = {rows: np.empty((1, rows), dtype=np.int32) for rows, _ in shapes}
    with_goals = not setting.quick
    contenders: list[Contender] = []
    placed = {place: weights(shapes, start, huge) for place, (start, huge) in PLACES.items()}
    size = sum(rows * columns // 4 for rows, columns in shapes)

    def multiply(payloads: list[Any], row: int) -> None:
        for payload, (rows, columns) in zip(payloads, shapes, strict=True):
            _matmul.product(row, payload, rows, codes[columns], outs[rows], threads)

    def call(payloads: list[Any]) -> None:
        for payload, (rows, columns) in zip(payloads, shapes, strict=True):
            matmul.dot(payload, rows, columns, codes[columns], out=outs[rows], threads=threads)

    for place, (whole, payloads) in placed.items():
        contenders.append(Contender(f"{READ}, {place}", reading_run(whole[:size], threads)))
        for each in _sets():
            job = partial(multiply, payloads, each.row)
            contenders.append(Contender(f"{each.name}, {place}", partial(seconds_of, job)))
        contenders.append(Contender(f"matmul.dot, {place}", partial(seconds_of, partial(call, payloads))))
    for contender in contenders:
        contender.run()
    times = calm_rounds(contenders, setting, 11, SECONDS)

    best, least = _sets()[-1].name, (0.9, 0.85)[threads - 1]
    held_to = {best: least, "matmul.dot": None, "avx2": (0.8, 0.75)[threads - 1]}
    claims = []
    for place in PLACES:
        for name in [*(each.name for each in _sets()), "matmul.dot"]:
            values = ratios(times[f"{READ}, {place}"], times[f"{name}, {place}"])
            goal = held_to.get(name) if with_goals else None
            claims.append(Claim(f"{name}, {place}: speed of reading", values, "x", least=goal))
    rows_ = tuple(Row(name, tuple(size / t / 1e9 for t in values), "GB/s") for name, values in times.items())
    title = (
        f"one token by {len(shapes)} matrices in memory, {size / 1e6:.0f} MB of weights, {_threads_in_words(threads)}"
    )
    return Result(title, rows_, tuple(claims))


def _cache(setting: Setting, threads: int) -> Result:
    """One matrix repeatedly: the speed of the caches and of the processor."""
    least = 0.0002 if setting.quick else 0.005
    claims: list[Claim] = []
    rows_: list[Row] = []
    for rows, columns in SHAPES:
        _, (payload,) = weights([(rows, columns)], 64, True)
        codes, out = codes_of(1, columns), np.empty((1, rows), dtype=np.int32)
        contenders = [Contender(READ, reading_run(payload, threads, least))]
        for each in _sets():
            contenders.append(Contender(f"{MASKED}, {each.name}", peak_run(each, rows * columns, threads, least, 1)))
            # Sixteen in one call; `matmul.dot` measures the overhead of a call from Python separately.
            job = partial(_matmul.product, each.row, payload, rows, codes, out, threads, repeats=16)
            contenders.append(Contender(each.name, sixteenth(partial(seconds_of, job, least))))
        call = partial(matmul.dot, payload, rows, columns, codes, out=out, threads=threads)
        contenders.append(Contender("matmul.dot", partial(seconds_of, call, least)))
        times = calm_rounds(contenders, setting, 15)
        shape = f"{rows:,} x {columns:,}"
        for each in _sets():
            done = tuple(payload.size / t / 1e9 for t in times[each.name])
            rows_.append(Row(f"{each.name}, {shape}", done, "GB/s"))
            goal = 0.75 if not setting.quick and each == _sets()[-1] else None
            bound = _slower(times[READ], times[f"{MASKED}, {each.name}"])
            share = ratios(bound, times[each.name])
            claims.append(Claim(f"{each.name}, {shape}: {SHARE}", share, "x", least=goal))
        rows_.append(Row(f"matmul.dot, {shape}", tuple(payload.size / t / 1e9 for t in times["matmul.dot"]), "GB/s"))
        rows_.append(Row(f"{READ}, {shape}", tuple(payload.size / t / 1e9 for t in times[READ]), "GB/s"))
        best = _sets()[-1].name
        for each in _sets():
            roof = tuple(payload.size / t / 1e9 for t in times[f"{MASKED}, {each.name}"])
            rows_.append(Row(f"{MASKED} of {each.name}, {shape}", roof, "GB/s"))
        claims.append(Claim(f"{best}, {shape}: speed of reading", ratios(times[READ], times[best]), "x"))
    notes = (BESIDE,)
    return Result(f"one token by a matrix in cache, {_threads_in_words(threads)}", tuple(rows_), tuple(claims), notes)


def _lookup(setting: Setting) -> Result:
    """One token times a matrix in cache with tables of sums instead of multiplications: the kernels of
    `table_lookup`."""
    least = 0.0002 if setting.quick else 0.005
    rows_: list[Row] = []
    claims: list[Claim] = []
    for rows, columns in SHAPES:
        _, (payload,) = weights([(rows, columns)], 64, True)
        codes, out = codes_of(1, columns), np.empty((1, rows), dtype=np.int32)
        matrix = table_lookup.LookupMatrix(payload, rows, columns)
        tables = np.empty(columns // 4 * table_lookup.TABLE_BYTES, dtype=np.uint8)
        _matmul.lookup_tables(codes[0], tables)
        sums = np.empty(matrix.padded_rows, dtype=np.int32)
        contenders = []
        for each in _sets():
            job = partial(_matmul.product, each.row, payload, rows, codes, out, 1, repeats=16)
            contenders.append(Contender(each.name, sixteenth(partial(seconds_of, job, least))))
        looked = [each for each in table_lookup.lookup_sets() if each.available and each.name != "portable"]
        for each in looked:
            job = partial(matrix.run, each.row, tables, sums, 16)
            contenders.append(Contender(f"look-up, {each.name}", sixteenth(partial(seconds_of, job, least))))
        make = partial(_matmul.lookup_tables, codes[0], tables)
        contenders.append(Contender("tables of one token", partial(seconds_of, make, least)))
        times = calm_rounds(contenders, setting, 11)
        shape = f"{rows:,} x {columns:,}"
        for name, values in times.items():
            if name == "tables of one token":
                rows_.append(Row(f"{name}, {columns:,}", tuple(t * 1e6 for t in values), "us"))
            else:
                rows_.append(Row(f"{name}, {shape}", tuple(payload.size / t / 1e9 for t in values), "GB/s"))
        for each in looked:
            if each.name in times:
                share = ratios(times[each.name], times[f"look-up, {each.name}"])
                claims.append(Claim(f"look-up, {each.name}, {shape}: speed of multiplying", share, "x"))
    notes = (
        "bytes of weights a second; both kernels read 2 bits for each weight, and give the same bits",
        "for 128 weights of a row, AVX2 multiplies with 1 load, 4 masks, 4 multiplications and as many additions, and reads "
        "128 bytes of activations for several rows; it looks up with 1 load, 3 masks and shifts, 4 look-ups, 4 "
        "interleavings and 4 additions, and reads 64 bytes of tables for every 4 columns of 32 rows",
    )
    return Result(
        "one token by a matrix in cache, multiplied or looked up, 1 thread", tuple(rows_), tuple(claims), notes
    )


# --- several tokens --------------------------------------------------------------------------------------------------


def _matrix(setting: Setting, threads: int) -> Result:
    """Several tokens times a matrix: multiplications per second against the peak, and against torch."""
    least = 0.0002 if setting.quick else 0.01
    with_goals, torch = not setting.quick, _torch(threads)
    rows_: list[Row] = []
    claims: list[Claim] = []
    for rows, columns in WIDE[:1] if setting.quick else WIDE:
        _, (payload,) = weights([(rows, columns)], 32, False)
        for tokens in TOKENS[:1] if setting.quick else TOKENS:
            codes, out = codes_of(tokens, columns), np.empty((tokens, rows), dtype=np.int32)
            products = rows * columns * tokens
            contenders = [Contender(READ, reading_run(payload, threads, least))]
            for each in _of_many():
                if each.name != TILES:
                    contenders.append(
                        Contender(f"{MASKED}, {each.name}", peak_run(each, products, threads, least, tokens))
                    )
                job = partial(_matmul.product, each.row, payload, rows, codes, out, threads)
                contenders.append(Contender(each.name, partial(seconds_of, job, least)))
                if each == _sets()[-1] and (other := _other_kernel(each.row, tokens, contenders[-1].run)):
                    contenders.append(other._replace(name=f"{each.name} by {other.name}"))
            contenders.append(Contender(PEAK, peak_run(_sets()[-1], products, threads, least)))
            if torch is not None:
                contenders.append(Contender(TORCH, _torch_job(torch, codes, rows, least)))
            times = calm_rounds(contenders, setting, 9)
            shape = f"{rows:,} x {columns:,} by {tokens}"
            best = _sets()[-1].name
            row_names = {
                PEAK: f"{PEAK} of {best}",
                **{f"{MASKED}, {each.name}": f"{MASKED} of {each.name}" for each in _sets()},
            }
            for name in times:
                if name != READ:
                    done = tuple(products / t / 1e9 for t in times[name])
                    rows_.append(Row(f"{row_names.get(name, name)}, {shape}", done, "GMAC/s"))
            claims += _claims_of_products(shape, tokens, times, with_goals)
    notes = (BESIDE,) if torch is not None else (BESIDE, "torch: not installed: pip install torch")
    return Result(f"several tokens by a matrix, {_threads_in_words(threads)}", tuple(rows_), tuple(claims), notes)


def _slower(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    """The longer of two times, for each round."""
    return tuple(map(max, one, other))


def _claims_of_products(shape: str, tokens: int, times: dict[str, tuple[float, ...]], with_goals: bool) -> list[Claim]:
    """The shares of the peak and of torch's speed."""
    claims, best = [], _sets()[-1].name
    held = {best: None if TILES in times else PEAK_GOAL, "avx2": 0.6} if with_goals else {}
    for each in _sets():
        share = ratios(_slower(times[READ], times[f"{MASKED}, {each.name}"]), times[each.name])
        claims.append(Claim(f"{each.name}, {shape}: {SHARE}", share, "x", least=held.get(each.name)))
    if TILES in times:
        share = ratios(_slower(times[READ], times[f"{MASKED}, {best}"]), times[TILES])
        text = f"{TILES}, {shape}: in shares of the limit of {best}"
        claims.append(Claim(text, share, "x", least=PEAK_GOAL if with_goals else None))
    if TORCH in times:
        share = ratios(times[TORCH], times[TILES if TILES in times else best])
        least = TORCH_GOAL_512 if tokens >= 512 else TORCH_GOAL
        claims.append(Claim(f"{shape}: speed of torch", share, "x", least=least if with_goals else None))
    return claims


def _other_kernel(row: int, tokens: int, job: Callable[[], float]) -> Contender | None:
    """The kernel for several tokens that this processor does not choose; None if a set has only one."""
    chosen = _matmul.panels_from(row)
    panels = chosen is None or tokens < chosen

    def run() -> float:
        _matmul.force_panels(row, 1 if panels else 1 << 40)
        try:
            return job()
        finally:
            _matmul.force_panels(row, -1)

    try:
        _matmul.force_panels(row, -1)
    except ValueError:
        return None
    return Contender("panels" if panels else "tiles", run)


def _torch(threads: int) -> Any:
    if util.find_spec("torch") is None:
        return None
    import torch

    torch.set_num_threads(threads)
    return torch


def _torch_job(torch: Any, codes: Any, rows: int, least: float) -> Callable[[], float]:
    """torch's product of int8 matrices with unpacked weights, in the faster of two orders."""
    matrix = torch.randint(-1, 2, (rows, codes.shape[1]), dtype=torch.int8)
    activations = torch.from_numpy(codes)
    orders = [matrix.t(), matrix.t().contiguous()]
    jobs = [partial(torch._int_mm, activations, each) for each in orders]
    first = [min(seconds_of(job, least) for _ in range(3)) for job in jobs]
    return partial(seconds_of, jobs[first.index(min(first))], least)


def _threads_in_words(threads: int) -> str:
    return counted(threads, "thread")


# --- weights, rounds and probes --------------------------------------------------------------------------------------


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


#: Ways to stream memory: how far it is prefetched, and whether into the second-level cache. Kernels take the one that is
#: fastest on their processor: none on Zen 3, 1 KiB ahead on Zen 4, 4 KiB on Intel's servers.
STREAMS: Final = ((0, False), (1024, True), (4096, False), (4096, True))


def reading_run(payload: Any, threads: int, least: float = 0.0) -> Callable[[], float]:
    """Seconds for reading all bytes in the fastest way; repeated for about this long if they stay in cache."""
    repeats = max(1, round(least * 50e9 / payload.size))

    def once(ahead: int, second: bool) -> float:
        start = perf_counter()
        _matmul.probe_reading(payload, repeats, threads, ahead, second)
        return (perf_counter() - start) / repeats

    return lambda: min(once(*each) for each in (STREAMS if repeats == 1 else STREAMS[2:3]))
