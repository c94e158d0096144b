"""What annex A says of speed: the loops of an article on inference in plain C, and unpacking by AVX2.

`claims.c` is compiled when a benchmark runs, by the C compiler of the system. Times are processor times of one thread.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import thread_time
from typing import Any, Final

import numpy as np

import i2s_spec as i2s
from bench.matmul import memory_at
from bench.measure import Benchmark, Claim, Contender, Result, Row, Setting, interleaved, ratios, rows
from i2s_spec.model.reference import matmul

SOURCE: Final = Path(__file__).with_suffix(".c")

#: Options of the compiler, and those of the loops for AVX2.
OPTIONS: Final = ("-O2", "-O3 -march=native")
AVX2: Final = "-O3 -mavx2"

#: What the name of a series has that looks trits up and multiplies.
TABLE: Final = ", table"

#: What a matrix may hold. Two have the same trits in each row, in another order.
ALL_ZEROS, IN_ORDER, AT_RANDOM, NO_ZEROS, ONES = (
    "all zeros", "half zeros, in order", "half zeros, at random", "-1 and +1, at random", "all +1"
)  # fmt: skip

#: The dialect of the article.
ARTICLE: Final = "sequential-lsb/zero-first"

#: Rounds of a table; in each the shortest of so many runs counts, of at least so many seconds.
ROUNDS, RUNS, LEAST = 7, 3, 0.004

C_TYPES: Final[dict[str, tuple[Any, ...]]] = {
    **dict.fromkeys(("product", "product_by_table"), (*[ctypes.c_void_p] * 3, ctypes.c_int, ctypes.c_int)),
    "quantize": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int),
    "cycles": (),
    "unpack_shuffled": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_int),
    "unpack_blocks": (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_int),
}


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [Benchmark("zeros", _zeros), Benchmark("quantizing", _quantizing), Benchmark("unpacking", _unpacking)]


def compiler() -> str | None:
    """The system's C compiler; None if there is none."""
    return next(filter(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang")), None)


# --- benchmarks ------------------------------------------------------------------------------------------------------


def _zeros(setting: Setting) -> Result:
    """The article's loop, and the kernel of this package, on matrices with more and fewer zeros."""
    shape = (64, 256) if setting.quick else (2560, 2560)
    matrices = _matrices(shape)
    codes = np.random.default_rng(2).integers(-127, 128, (1, shape[1])).astype(np.int8)
    contenders = []
    for options in OPTIONS:
        if (library := _compiled(setting, options)) is not None:
            contenders += [
                _loop(function, f"{options}{how}: {name}", trits, codes)
                for function, how in ((library.product, ""), (library.product_by_table, TABLE))
                for name, trits in matrices.items()
            ]
    compiled = bool(contenders)
    for name, trits in matrices.items():
        payload = np.frombuffer(i2s.pack(trits, 1.0), np.uint8)[: trits.size // 4]
        dot = partial(matmul.dot, payload, *shape, codes, out=np.empty((1, shape[0]), np.int32), threads=1)
        contenders.append(Contender(f"i2s_spec: {name}", _least(partial(_repeated, dot))))
    times = _rounds(contenders, setting)
    claims = []
    for series in dict.fromkeys(name.partition(":")[0] for name in times):
        compared = {f"with {other}": f"{series}: {other}" for other in (ALL_ZEROS, IN_ORDER, NO_ZEROS, ONES)}
        compared["with a table"] = f"{series}{TABLE}: {AT_RANDOM}"
        for words, name in compared.items():
            if name in times:
                slower = ratios(times[f"{series}: {AT_RANDOM}"], times[name])
                claims.append(Claim(f"{series}: time with {AT_RANDOM}, in times {words}", slower, "x"))
    title = (
        f"one token by a matrix of {shape[0]:,} x {shape[1]:,}: the article's loop with branches, one that looks trits up "
        "and multiplies, and our kernel"
    )
    return Result(title, rows(times), tuple(claims), _notes(compiled))


def _quantizing(setting: Setting) -> Result:
    """The share that the codes of a token have in the time of a square product."""
    title = "one token by square matrices with half zeros at random, by the article's loops"
    if (library := _compiled(setting, OPTIONS[-1])) is None:
        return Result(title, (), (), _notes(False))
    contenders = []
    sizes = (128, 256) if setting.quick else (128, 256, 512, 1024, 4096)
    for size in sizes:
        x = np.random.default_rng(3).standard_normal(size, np.float32)
        codes = np.empty((1, size), np.int8)
        contenders.append(_contender(f"codes: {size:,}", library.quantize, codes, x, size))
        contenders.append(_loop(library.product, f"product: {size:,}", _matrices((size, size))[AT_RANDOM], codes))
    times = _rounds(contenders, setting)
    claims = []
    for size in sizes:
        pairs = zip(times[f"codes: {size:,}"], times[f"product: {size:,}"], strict=True)
        share = tuple(100 * codes / (codes + product) for codes, product in pairs)
        claims.append(Claim(f"{size:,} x {size:,}: share of quantizing", share, "%"))
    return Result(f"{title}, {OPTIONS[-1]}", rows(times), tuple(claims), _notes(True))


def _unpacking(setting: Setting) -> Result:
    """Weights that AVX2 unpacks in a cycle in the first cache, with and without stores to it."""
    title = "trits of one byte each, unpacked by AVX2 in the first cache"
    if not any(each.name == "avx2" and each.available for each in matmul.kernel_sets()):
        return Result(title, (), (), ("this processor has no AVX2",))
    if (library := _compiled(setting, AVX2)) is None:
        return Result(title, (), (), _notes(False))
    trits = _matrices((4, 1024))[AT_RANDOM].ravel()
    contenders = [_contender("cycle", library.cycles)]
    for name, function, dialect in (
        ("the article's order, by shuffles", library.unpack_shuffled, ARTICLE),
        ("I2_S, by shifts", library.unpack_blocks, "canonical"),
    ):
        packed, unpacked = _payload(trits, dialect), memory_at(trits.size, 64, False).view(np.int8)
        function(unpacked.ctypes, packed.ctypes, packed.size, 1, 1)
        if not np.array_equal(unpacked, trits):
            raise AssertionError(f"{name}: other trits than were packed")
        for keep, how in (0, "in registers"), (1, "stored"):
            contenders.append(_contender(f"{name}: {how}", function, unpacked, packed, packed.size, keep))
    times = _rounds(contenders, setting)
    cycles = times.pop("cycle")
    found = tuple(
        Row(name, tuple(trits.size * cycle / t for cycle, t in zip(cycles, values, strict=True)), "weights a cycle")
        for name, values in times.items()
    )
    note = "a cycle is a third of a multiplication of 64 bits that waits for the one before it, in the same round"
    return Result(title, found, (), (*_notes(True), note))


# --- jobs ------------------------------------------------------------------------------------------------------------


def _matrices(shape: tuple[int, int]) -> dict[str, Any]:
    """Trits by name, int8."""
    random = np.random.default_rng(1)
    signs = random.choice(np.array([-1, 1], np.int8), shape)
    halves = np.where(np.arange(shape[1]) < shape[1] // 2, np.int8(0), signs)
    return {
        ALL_ZEROS: np.zeros(shape, np.int8),
        IN_ORDER: np.sort(halves, axis=1),
        AT_RANDOM: random.permuted(halves, axis=1),
        NO_ZEROS: signs,
        ONES: np.ones(shape, np.int8),
    }


def _payload(trits: Any, dialect: str) -> Any:
    return np.frombuffer(i2s.pack(trits, 1.0, dialect), np.uint8)[: trits.size // 4].copy()


def _loop(function: Callable[..., object], name: str, trits: Any, codes: Any) -> Contender:
    """A loop over the article's bytes; its sums are compared with those of NumPy first."""
    sums, packed = np.empty(len(trits), np.int32), _payload(trits, ARTICLE)
    contender = _contender(name, function, sums, packed, codes, *trits.shape)
    if not np.array_equal(sums, trits.astype(np.int32) @ codes[0].astype(np.int32)):
        raise AssertionError(f"{name}: other sums than those of NumPy")
    return contender


def _contender(name: str, function: Callable[..., object], *arguments: Any) -> Contender:
    """A function of `claims.c`, whose last argument is how often it does its work; the seconds are for once."""
    given = [each.ctypes if isinstance(each, np.ndarray) else each for each in arguments]
    return Contender(name, _least(lambda times: function(*given, times)))


def _repeated(job: Callable[[], object], times: int) -> None:
    for _ in range(times):
        job()


def _least(run: Callable[[int], object]) -> Callable[[], float]:
    """Seconds for once: the least of some runs, each of so many repetitions that it can be measured."""

    def seconds(times: int) -> float:
        start = thread_time()
        run(times)
        return thread_time() - start

    times = 1
    while seconds(times) < LEAST:
        times *= 2
    return lambda: min(seconds(times) for _ in range(RUNS)) / times


def _rounds(contenders: list[Contender], setting: Setting) -> dict[str, tuple[float, ...]]:
    return interleaved(contenders, 1 if setting.quick else max(setting.rounds, ROUNDS), setting.say)


def _compiled(setting: Setting, options: str) -> ctypes.CDLL | None:
    """`claims.c` as a library; None without a compiler that knows the options."""
    if (program := compiler()) is None:
        return None
    library = setting.folder / f"claims{options.replace(' ', '')}.so"
    command = [program, "-std=gnu99", *options.split(), "-shared", "-fPIC", str(SOURCE), "-o", str(library), "-lm"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    loaded = ctypes.CDLL(str(library))
    for name, types in C_TYPES.items():
        if (function := getattr(loaded, name, None)) is not None:
            function.argtypes, function.restype = (*types, ctypes.c_long), None
    return loaded


def _notes(compiled: bool) -> tuple[str, ...]:
    if not compiled:
        return ("the article's loops: no C compiler (cc, gcc or clang)",)
    version = subprocess.run([compiler() or "cc", "--version"], capture_output=True, encoding="utf-8", check=False)
    return (f"compiled by {version.stdout.partition(chr(10))[0]}; processor time of one thread",)
