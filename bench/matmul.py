"""This module measures the integer core of BitLinear: products with packed weights, against memory and processor limits.

Probes run beside every measurement, in the same round and in the threads that compute the products: reading every byte
of the weights in place; the widest multiplications of a kernel set, repeated on registers; and these with the masks that
2-bit weights need, as many as for that number of tokens. Some processors mask on the ports that multiply: there one
token reaches at most half of the multiplications. The slower of reading and of multiplying with masks is the limit of
any kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import util
from typing import Any

import numpy as np

from bench.goals import goals
from bench.measure import Claim, Contender, Result, Row, interleaved, ratios
from bench.parts import Benchmark, Setting
from bench.product_probes import SECONDS, calm_rounds, codes_of, peak_run, reading_run, seconds_of, sixteenth, weights
from i2s_spec.codec.isa import KernelSet
from i2s_spec.errors import counted
from i2s_spec.model import _matmul
from i2s_spec.model.reference import bitlinear, matmul, table_lookup

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


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [
        *(Benchmark(f"vector-memory-{threads}", partial(_memory, threads=threads)) for threads in (1, 2)),
        *(Benchmark(f"vector-cache-{threads}", partial(_cache, threads=threads)) for threads in (1, 2)),
        *(Benchmark(f"matrix-{threads}", partial(_matrix, threads=threads)) for threads in (1, 2)),
        Benchmark("lookup", _lookup),
        Benchmark("activations", _activations),
        Benchmark("definition", _definition),
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
    """The shares of the peak and of torch's speed, with the goals of this class of processors."""
    claims, best, goal = [], _sets()[-1].name, goals().products_of(tokens)
    shares = {
        each.name: ratios(_slower(times[READ], times[f"{MASKED}, {each.name}"]), times[each.name]) for each in _sets()
    }
    torch = ratios(times[TORCH], times[TILES if TILES in times else best]) if TORCH in times else None
    either = goal.either and torch is not None
    held = {best: None if either or TILES in times else goal.peak, "avx2": min(goal.peak, 0.6)} if with_goals else {}
    for name, share in shares.items():
        claims.append(Claim(f"{name}, {shape}: {SHARE}", share, "x", least=held.get(name)))
    if TILES in times:
        share = ratios(_slower(times[READ], times[f"{MASKED}, {best}"]), times[TILES])
        least = goal.peak if with_goals and not either else None
        claims.append(Claim(f"{TILES}, {shape}: in shares of the limit of {best}", share, "x", least=least))
        shares[best] = share
    if torch is not None:
        least = goal.torch if with_goals and not either else None
        claims.append(Claim(f"{shape}: speed of torch", torch, "x", least=least))
    if torch is not None and either:
        nearer = tuple(max(a / goal.peak, b / goal.torch) for a, b in zip(shares[best], torch, strict=True))
        text = f"{shape}: of the nearer goal, {goal.peak:g} of its limit or {goal.torch:g} times torch"
        claims.append(Claim(text, nearer, "x", least=1.0 if with_goals else None))
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


# --- other steps -----------------------------------------------------------------------------------------------------


def _activations(setting: Setting) -> Result:
    """Floats to codes, and sums to floats: small compared with the products."""
    rows_: list[Row] = []
    columns = 2560
    for tokens in (1, 128):
        x = np.random.Generator(np.random.PCG64(3)).standard_normal((tokens, columns)).astype(np.float32)
        contenders = []
        for each in [each for each in matmul.kernel_sets() if each.available]:

            def job(row: int = each.row, x: Any = x) -> None:
                made = (np.empty(x.shape, np.int8), np.empty(len(x), np.float32), np.empty(len(x), np.int32))
                _matmul.quantize(row, x, *made, 1)

            contenders.append(Contender(each.name, partial(seconds_of, job, 0.002)))
        contenders.append(
            Contender("definition", partial(seconds_of, partial(bitlinear.quantize_activations, x), 0.002))
        )
        times = calm_rounds(contenders, setting, 9)
        rows_ += [
            Row(f"{name}, {tokens} x {columns:,}", tuple(x.size / t / 1e9 for t in values), "G/s")
            for name, values in times.items()
        ]
    return Result("activations to codes, one thread", tuple(rows_), ())


def _definition(setting: Setting) -> Result:
    """The definition and plain C against the fastest kernels; for information."""
    rows, columns = (64, 2560) if setting.quick else (2560, 2560)
    _, (payload,) = weights([(rows, columns)], 32, False)
    contenders = []
    for tokens in (1, 8):
        codes = codes_of(tokens, columns)
        define = partial(bitlinear.dot, payload, rows, columns, codes)
        contenders.append(Contender(f"definition, {tokens}", partial(seconds_of, define)))
        for each in [each for each in matmul.kernel_sets() if each.available]:
            out = np.empty((tokens, rows), dtype=np.int32)
            job = partial(_matmul.product, each.row, payload, rows, codes, out, 1)
            contenders.append(Contender(f"{each.name}, {tokens}", partial(seconds_of, job, 0.002)))
    times = interleaved(contenders, setting.rounds, setting.say)
    rows_ = tuple(Row(f"{name} tokens", values, "s") for name, values in times.items())
    return Result(f"{rows:,} x {columns:,} weights, one thread", rows_, ())


def _threads_in_words(threads: int) -> str:
    return counted(threads, "thread")
