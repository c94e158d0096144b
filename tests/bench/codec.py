"""The codec: payload kernels against the speed of memory and the `gguf` package.

The types with a scale for each group follow. Each of their jobs is measured beside a copy that moves as many bytes as it
reads and writes; counting codes is compared with reading the same bytes.

Three probes run beside every measurement, in the same round: reading every byte of the payload (`_codec.read`, an OR over
it), copying it (NumPy's copy, which is the C library's), and filling the window for results (memset). The limit of a
kernel is what takes longest: its traffic, the bytes that it reads and writes, at the speed of a copy; its reads at the
speed of reading; its writes at the speed of filling. Cores that share a path to memory write half as fast as they read,
which limits kernels that write four times, or sixteen times, what they read. Results larger than a window are written
into the same window repeatedly.

Kernel sets are measured in turn, in one round: other work on the same core slows everything down for half a minute, and
a set that is measured later would look slower than it is. In the cache a call is a third of the time, and the limit of a
kernel is not copying but storing; there the shortest of many calls counts, minus the time of an almost empty call. That
call follows one that has filled the cache, like every other call, so the interpreter's own data are no longer in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from bench.measure import Benchmark, Claim, Contender, Result, Row, Setting, fastest, interleaved, ratios, timed
from i2s_spec.codec import _codec, blocks_native, isa, kernels, native
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.errors import counted
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

MIB = 1 << 20
#: Largest window in bytes for results.
WINDOW = 1 << 30
COLS = 2560

READ, COPY, FILL, WRITE, CALL = "read probe", "copy probe", "fill probe", "write probe", "a call"
#: What the limits of kernels from memory are derived from.
PROBES = (READ, COPY, FILL)
#: Goal for kernels whose result is larger than its payload: share of the speed of plain stores into the second-level
#: cache.
IN_CACHE = 0.7
#: Goal for floats: share of the speed at which a constant is written to the same number of places.
NEW, FILLED = "filling a new array", "filling an array"
FILLING = {NEW: 0.7, FILLED: 0.85}
OFFSET_1 = CODE_MAPS["offset-1"]


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    found = [
        Benchmark(f"memory-{size}-{threads}", partial(_stream, size=size, threads=threads))
        for size in (64, 512)
        for threads in (1, 2)
    ]
    return [
        *found,
        Benchmark("cache", _cache),
        Benchmark("sets", _sets),
        Benchmark("gguf", _gguf),
        # Q2_0_G128 is PQ2_0 under another number.
        *(Benchmark(name, partial(_blocks, name=name)) for name in GROUP_LAYOUTS if name != "Q2_0_G128"),
    ]


class Job(NamedTuple):
    """One operation of a kernel: bytes read and written, and the goals for its ratios to the probes."""

    name: str
    run: Callable[[], object]
    traffic: int
    probe: str = COPY
    least: float | None = None
    #: Bytes of the result, and the number of calls that write them.
    written: int = 0
    calls: int = 1


@contextmanager
def _using(name: str) -> Iterator[None]:
    """Force a kernel set temporarily."""
    before = os.environ.get(isa.VARIABLE)
    os.environ[isa.VARIABLE] = name
    try:
        yield
    finally:
        os.environ.pop(isa.VARIABLE, None)
        if before is not None:
            os.environ[isa.VARIABLE] = before


def _aligned(nbytes: int) -> Any:
    raw = np.empty(nbytes + 64, dtype=np.uint8)
    skip = -raw.ctypes.data % 64
    return raw[skip : skip + nbytes]


def _payload(nbytes: int) -> Any:
    """Codes 0 to 2, one zero in two, at an aligned address."""
    table = np.array([0, 1, 1, 2], dtype=np.uint8)
    random = np.random.Generator(np.random.PCG64(1))
    payload = _aligned(nbytes)
    step = 16 * MIB
    for start in range(0, nbytes, step):
        part = payload[start : start + step]
        noise = np.frombuffer(random.bytes(part.size), dtype=np.uint8)
        part[:] = 0
        for shift in (0, 2, 4, 6):
            part |= table[noise >> np.uint8(shift) & 3] << np.uint8(shift)
    return payload


def _in_threads(threads: int, size: int, call: Callable[[int, int], object]) -> None:
    step = -(-size // threads)
    if threads == 1:
        call(0, size)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda start: call(start, min(start + step, size)), range(0, size, step)))


def _jobs(payload: Any, threads: int, with_goals: bool, fast_set: bool, wide: Any = None) -> list[Job]:
    """All jobs on one payload, with the probes first; `wide` is the buffer for elements."""
    size = payload.size
    target, wide = _aligned(size), _aligned(min(WINDOW, 4 * size)) if wide is None else wide
    target[:] = 0
    wide[:] = 0
    elements = _aligned(min(WINDOW, 4 * size)).view(np.int8)
    elements[:] = 1
    rows = 4 * size // COLS
    where = {name: kernels.run_layout(layout, rows, COLS) for name, layout in LAYOUTS.items()}

    def unpack(name: str) -> None:
        step = wide.size // 4
        for start in range(0, size, step):
            part = payload[start : start + step]
            kernels.unpack(part, where[name], OFFSET_1, wide[: 4 * part.size], threads)

    def pack(name: str) -> None:
        step = elements.size // 4
        for start in range(0, size, step):
            part = target[start : start + step]
            assert kernels.pack(elements[: 4 * part.size].view(np.uint8), where[name], OFFSET_1, part, threads)

    def floats() -> None:
        step = wide.size // 16
        for start in range(0, size, step):
            part = payload[start : start + step]
            out = wide[: 16 * part.size].view(np.float32)
            kernels.floats(part, where["interleave-128"], OFFSET_1, np.float32(0.75), out, threads)

    def recode(source: str, to: str, codes: tuple[int, ...]) -> None:
        kernels.recode(payload, rows, COLS, LAYOUTS[source], LAYOUTS[to], codes, target, threads)

    same, other = (0, 1, 2, 3), (1, 2, 0, 3)
    pairs = [
        ("interleave-128", "interleave-64", same), ("interleave-64", "interleave-128", same),
        ("interleave-128", "sequential-msb", same), ("sequential-lsb", "interleave-128", same),
        ("interleave-128", "rows-1x4", same), ("rows-1x4", "interleave-128", same),
        ("row-blocks-4", "interleave-128", same), ("interleave-128", "interleave-128", other),
    ]  # fmt: skip
    goal = 1.0 if with_goals else None
    return [
        Job(READ, lambda: _in_threads(threads, size, lambda a, b: _codec.read(isa.chosen().row, payload[a:b])), size),
        Job(COPY, lambda: _in_threads(threads, size, lambda a, b: np.copyto(target[a:b], payload[a:b])), 2 * size,
            written=size),
        Job(FILL, lambda: _in_threads(threads, wide.size, lambda a, b: wide[a:b].fill(1)), wide.size, written=wide.size),
        Job("scan", lambda: kernels.occurs(payload, 3, threads), size, READ, 0.9 if with_goals else None),
        Job("histogram", lambda: kernels.histogram(payload, threads), size, READ,
            (0.85 if fast_set else 0.8) if with_goals and threads == 1 else None),
        *(Job(f"unpack {name}", partial(unpack, name), 5 * size, COPY, goal, 4 * size)
          for name in ("interleave-128", "interleave-64", "sequential-msb", "rows-1x4")),
        *(Job(f"pack {name}", partial(pack, name), 5 * size, COPY, goal, size)
          for name in ("interleave-128", "interleave-64", "sequential-msb", "rows-1x4")),
        *(Job(f"{source} to {to}" if source != to else "another code map", partial(recode, source, to, codes),
              2 * size, COPY, goal, size) for source, to, codes in pairs),
        Job("dequantize to float32", floats, 17 * size, COPY, goal, 16 * size, -(-16 * size // wide.size)),
    ]  # fmt: skip


def _measured(jobs: list[Job], setting: Setting, repeat: int) -> dict[str, tuple[float, ...]]:
    contenders = [Contender(job.name, timed(job.run), repeat) for job in jobs]
    for job in jobs:
        job.run()  # maps the pages and raises the clock rate
    return interleaved(contenders, setting.rounds, setting.say)


def _rates(jobs: list[Job], times: dict[str, tuple[float, ...]], payload: int) -> tuple[Row, ...]:
    return tuple(Row(job.name, tuple(payload / t / 1e9 for t in times[job.name]), "GB/s of payload") for job in jobs)


def _shares(job: Job, jobs: list[Job], times: dict[str, tuple[float, ...]]) -> tuple[float, ...]:
    """The time that the probes allow over that of a job, round by round."""
    probes = {probe.name: probe for probe in jobs if probe.name in PROBES}
    read = job.traffic - job.written
    shares = []
    for spent, reading, copying, filling in zip(times[job.name], times[READ], times[COPY], times[FILL], strict=True):
        limits = [reading * read / probes[READ].traffic]
        if job.written:
            limits.append(copying * job.traffic / probes[COPY].traffic)
            limits.append(filling * job.written / probes[FILL].written)
        shares.append(max(limits) / spent)
    return tuple(shares)


def _stream(setting: Setting, size: int, threads: int) -> Result:
    """All jobs from and to memory, against the probes."""
    nbytes = (4 if setting.quick else size) * MIB
    payload = _payload(nbytes)
    fast_set = isa.chosen().name == "avx512"
    jobs = _jobs(payload, threads, not setting.quick, fast_set)
    times = _measured(jobs, setting, 1 if size > 64 else 3)
    claims = [
        Claim(f"{job.name}: share of its limit", _shares(job, jobs, times), "x", least=job.least)
        for job in jobs
        if job.name not in PROBES
    ]
    title = f"{nbytes // MIB} MB of payload, {counted(threads, 'thread')}, kernels {isa.chosen().name}"
    return Result(title, _rates(jobs, times, nbytes), tuple(claims))


def _by_sets(jobs: list[Job], shared: tuple[str, ...] = ()) -> Iterator[tuple[str, str, Job]]:
    """Every job with every set that this processor runs, named by both; jobs without sets appear once."""
    names = [each.name for each in isa.kernel_sets() if each.available]
    for job in jobs:
        for name in names[-1:] if job.name in shared else names:
            yield job.name if job.name in shared else f"{name}: {job.name}", name, job


def _with(name: str, run: Callable[[], float]) -> Callable[[], float]:
    """A contender's `run` with a kernel set; choosing the set is not timed."""

    def chosen() -> float:
        with _using(name):
            return run()

    return chosen


def _cache(setting: Setting) -> Result:
    """The same with data in the second-level cache, one thread, every set; writing is compared with plain stores."""
    payload, row = _payload(160 * 1024), isa.chosen().row
    written, little = _aligned(4 * payload.size), _aligned(4 * 32)
    where = kernels.RunLayout(32, False)
    jobs = [
        Job(WRITE, lambda: _codec.write(row, written), written.size, written=written.size),
        Job(CALL, lambda: kernels.unpack(payload[:32], where, OFFSET_1, little, 1), 0),
        *(job for job in _jobs(payload, 1, False, False, written) if job.name not in (*PROBES, "scan", "histogram")),
    ]
    calls = 3 if setting.quick else 51
    every = list(_by_sets(jobs, (WRITE,)))

    def fill() -> None:
        kernels.unpack(payload, where, OFFSET_1, written, 1)

    contenders = [
        Contender(name, _with(used, fastest(job.run, calls, fill) if job.name == CALL else fastest(job.run, calls)))
        for name, used, job in every
    ]
    for contender in contenders:
        contender.run()
    times = interleaved(contenders, setting.rounds, setting.say)
    rows, claims = [], []
    for name, used, job in every:
        if job.name == CALL:
            continue
        none = (0.0,) * setting.rounds
        call = none if job.name == WRITE else times[f"{used}: {CALL}"]
        spent = tuple(max(t - job.calls * c, 1e-9) for t, c in zip(times[name], call, strict=True))
        rows.append(Row(name, tuple(job.written / t / 1e9 for t in spent), "GB/s written"))
        if written.size <= job.written and job.name != WRITE and used != "portable":
            shares = tuple(job.written / t / (written.size / w) for t, w in zip(spent, times[WRITE], strict=True))
            claims.append(Claim(f"{name}: of the {WRITE}", shares, "x", least=None if setting.quick else IN_CACHE))
    return Result("160 KB of payload, one thread, every kernel set", tuple(rows), tuple(claims))


def _sets(setting: Setting) -> Result:
    """Every kernel set from memory, one thread: AVX2 against its probe, portable against the best."""
    payload = _payload((4 if setting.quick else 64) * MIB)
    jobs = _jobs(payload, 1, not setting.quick, False)
    every = list(_by_sets(jobs, (COPY, FILL)))
    contenders = [Contender(name, _with(used, timed(job.run)), 3) for name, used, job in every]
    for contender in contenders:
        contender.run()
    times = interleaved(contenders, setting.rounds, setting.say)
    rows = tuple(
        Row(name, tuple(payload.size / t / 1e9 for t in times[name]), "GB/s of payload") for name, _, _ in every
    )
    traffic = {job.name: job.traffic for job in jobs}
    claims = []
    for name, used, job in every:
        if used == "portable" or job.name in PROBES:
            continue
        scale = job.traffic / traffic[job.probe]
        probe = times[COPY if job.probe == COPY else f"{used}: {job.probe}"]
        values = tuple(scale * ratio for ratio in ratios(probe, times[name]))
        claims.append(Claim(f"{used}, {job.name}: traffic over the {job.probe}'s", values, "x", least=job.least))
    best = every[-1][1]
    most = None if setting.quick or best == "portable" else 4.0
    for job in jobs:
        if job.name in PROBES:
            continue
        slower = ratios(times[f"portable: {job.name}"], times[f"{best}: {job.name}"])
        claims.append(Claim(f"portable, {job.name}: times as long as {best}", slower, "x", most=most))
    return Result("64 MB of payload, one thread, every kernel set", rows, tuple(claims))


def _gguf(setting: Setting) -> Result:
    """Dequantizing the same weights: I2_S here, TQ2_0 in the `gguf` package."""
    if find_spec("gguf") is None:
        return Result("dequantize", (), (), ("gguf is not installed: pip install -e '.[gguf]'",))
    from gguf import quants
    from gguf.constants import GGMLQuantizationType

    rows, cols = (64 if setting.quick else 6912), COLS
    random = np.random.Generator(np.random.PCG64(2))
    trits = (np.frombuffer(random.bytes(rows * cols), dtype=np.uint8) % 3).astype(np.int8).reshape(rows, cols) - 1
    ours = native.pack(trits.astype(np.int8), 0.5)
    theirs = quants.quantize(trits.astype(np.float32) * np.float32(0.5), GGMLQuantizationType.TQ2_0)
    out = np.empty((rows, cols), dtype=np.float32)
    contenders = [
        Contender(NEW, timed(lambda: np.full((rows, cols), 0.5, dtype=np.float32)), 5),
        Contender(FILLED, timed(lambda: out.fill(0.5)), 5),
        Contender("native.dequantize", timed(lambda: native.dequantize(ours, (rows, cols))), 5),
        Contender("native.dequantize, out=", timed(lambda: native.dequantize(ours, (rows, cols), out=out)), 5),
        Contender("gguf.quants.dequantize", timed(lambda: quants.dequantize(theirs, GGMLQuantizationType.TQ2_0))),
    ]
    assert np.array_equal(native.dequantize(ours, (rows, cols)), quants.dequantize(theirs, GGMLQuantizationType.TQ2_0))
    times = interleaved(contenders, setting.rounds, setting.say)
    claims = []
    for name, probe in (("native.dequantize", NEW), ("native.dequantize, out=", FILLED)):
        goal = None if setting.quick else FILLING[probe]
        claims.append(Claim(f"{name}: speed of {probe}", ratios(times[probe], times[name]), "x", least=goal))
        claims.append(
            Claim(f"{name}: times as fast as gguf", ratios(times["gguf.quants.dequantize"], times[name]), "x")
        )
    return Result(
        f"{rows:,} x {cols:,} weights to float32, one thread",
        tuple(Row(n, v, "s") for n, v in times.items()),
        tuple(claims),
    )


def _blocks(setting: Setting, name: str) -> Result:
    """All operations on a tensor from and to memory, with one thread."""
    rows = 256 if setting.quick else 55296
    shape = rows, COLS
    values = np.resize(np.random.default_rng(1).integers(-1, 2, (256, COLS), dtype=np.int8), shape)
    packed = np.frombuffer(blocks_native.pack(values, 0.5, name), dtype=np.uint8).copy()
    assert packed.size == blocks_of(shape, name).nbytes
    target = np.zeros(packed.size, dtype=np.uint8)
    bytes_out = _aligned(values.size).view(np.int8).reshape(shape)
    # Float results are written into the same memory repeatedly; all at once they would take half a gigabyte.
    part = rows // 4
    floats_out = _aligned(4 * part * COLS).view(np.float32).reshape(part, COLS)
    part_packed = np.frombuffer(blocks_native.pack(values[:part], 0.5, name), dtype=np.uint8).copy()
    traffic = {
        "unpack": packed.size + values.size,
        "pack": packed.size + values.size,
        "dequantize": part_packed.size + 4 * part * COLS,
    }
    copies = {
        job: (np.ones(size // 2, dtype=np.uint8), np.zeros(size // 2, dtype=np.uint8)) for job, size in traffic.items()
    }
    row = isa.chosen().row
    contenders = [
        *(Contender(f"copy for {job}", timed(partial(np.copyto, *reversed(pair))), 3) for job, pair in copies.items()),
        Contender("read probe", timed(lambda: _codec.read(row, packed)), 3),
        Contender("unpack", timed(lambda: blocks_native.unpack(packed, shape, name, out=bytes_out)), 3),
        Contender("pack", timed(lambda: blocks_native.pack(values, 0.5, name, out=target)), 3),
        Contender(
            "dequantize", timed(lambda: blocks_native.dequantize(part_packed, (part, COLS), name, out=floats_out)), 3
        ),
        Contender("histogram", timed(lambda: blocks_native.histogram(packed, shape, name)), 3),
    ]
    times = interleaved(contenders, setting.rounds, setting.say)
    goal = None if setting.quick else 1.0
    claims = [
        Claim(f"{name}, {job}: traffic over the copy's", ratios(times[f"copy for {job}"], times[job]), "x", least=goal)
        for job in traffic
    ]
    claims.append(
        Claim(f"{name}, histogram: bytes over the read probe's", ratios(times["read probe"], times["histogram"]), "x")
    )
    sizes = {**traffic, "histogram": packed.size}
    probes = {"read probe": ("read probe", packed.size), "copy probe": ("copy for unpack", traffic["unpack"])}
    found = tuple(
        Row(name, tuple(size / t / 1e9 for t in times[ran]), "GB/s of traffic")
        for name, (ran, size) in {**probes, **{job: (job, size) for job, size in sizes.items()}}.items()
    )
    title = f"{name}: {packed.size >> 20} MB packed, one thread, kernels {isa.chosen(blocks_native.kernel_sets()).name}"
    return Result(title, found, tuple(claims))
