"""Whole passes of profile `fast` through a model of the full size, against memory and processor, and other runtimes.

A generated token needs every byte of the weights once: the limit is the speed of reading memory, and the probe reads the
head in place, which is more than half of the weights, in the way that is fastest here. A prompt needs every weight once for
each token: the limit is the widest vector multiplication, repeated on registers. Both probes run in every round. Processors
with AMX multiply tiles, eight times as many numbers at once; they have the same limit, because the rest of a prompt's work
is not products.

`I2S_BENCH_MODEL` names a file that `i2s new --shape 2b4t` made before.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from bench import processes, runtimes, screened
from bench.matmul import TILES, reading_run
from bench.measure import Benchmark, Claim, Contender, Result, Row, Setting, interleaved, ratios
from i2s_spec.gguf.source import huge_pages
from i2s_spec.model import _matmul
from i2s_spec.model.load import load_model
from i2s_spec.model.reference import matmul
from i2s_spec.model.screened_head import ScreenedLogits
from i2s_spec.model.text.sampling import Sampler, Sampling

#: Lengths of prompts, and their goals: shares of the bound.
PROMPTS = {128: 0.6, 512: 0.75}
#: Tokens generated in a turn.
STEPS = 4
#: Sequences of a batch.
BATCH = 8
#: Tokens of context before those, in the benchmark of a long context.
LONG = 4000
#: Seconds for all rounds of single tokens, and of one length of prompts; at least three rounds run.
DECODE_SECONDS, PROMPT_SECONDS = 40.0, 15.0

READ, MULTIPLY, HEAD = "reading probe", "multiplication probe", "multiplication probe of the head"


def benchmarks() -> list[Benchmark]:
    """Return the benchmarks in this order."""
    return [
        Benchmark("decode", _decode),
        Benchmark("batch", _batch),
        Benchmark("prompt", _prompt),
        Benchmark("start", _start),
        Benchmark("head", lambda setting: screened.measured(setting, _path(setting))),
        Benchmark("runtimes", lambda setting: runtimes.measured(setting, _path(setting), _rounds(setting, 3))),
    ]


def _path(setting: Setting) -> Path:
    """Return the file of a model of full size, or of a small one in quick runs."""
    if given := processes.given_model(setting.quick):
        return given
    path = setting.folder / "model.gguf"
    arguments = ["new", str(path), *(() if setting.quick else ("--shape", "2b4t"))]
    setting.say("i2s new")
    if status := processes.command(arguments, setting.folder / "bytecode").status:
        raise RuntimeError(f"i2s new failed with status {status}")
    return path


def _models(setting: Setting) -> dict[int, Any]:
    """Load the model with one thread and with two; both share the weights in memory."""
    one = load_model(_path(setting), "fast", threads=1)
    return {1: one, 2: replace(one, threads=2)}


def _ternary(model: Any) -> list[Any]:
    return [model.file.tensors[node.weight] for node in model.graph if node.op == "linear"]


def _head(model: Any) -> Any:
    """Return the bytes of the head."""
    table: Any = np.ascontiguousarray(model.weights.matrix("token_embd.weight"))
    return table.reshape(-1).view(np.uint8)


def _reading(model: Any, nbytes: int) -> float:
    """Return seconds for reading this many bytes at the speed at which the head is read."""
    head = _head(model)
    return reading_run(head, model.threads)() * nbytes / head.size


def _behind(model: Any, before: int) -> Any:
    """Return a cache with this many arbitrary tokens, and room for more."""
    cache = model.new_cache(min(before + STEPS, model.context_length))
    some = np.random.Generator(np.random.PCG64(1)).standard_normal(1 << 20).astype(np.float32)
    for part, widths in zip(("keys", "values"), cache.widths, strict=True):
        for layer, width in enumerate(widths):
            heads = model.hyperparameters.at(layer).heads_kv
            cache.write(part, layer, np.resize(some, (before, heads, width // heads)))
    cache.commit([1] * before)
    return cache


def _generating(model: Any, cache: Any) -> float:
    """Return seconds for one token."""
    used = cache.used
    start = perf_counter()
    for token in range(STEPS):
        model.forward([token], cache=cache, logits="last")
    seconds = (perf_counter() - start) / STEPS
    cache.cut(used)
    return seconds


def _decode(setting: Setting) -> Result:
    """Measure tokens one by one."""
    contenders: list[Contender] = []
    models = _models(setting)
    claims: list[Claim] = []
    weights = sum(prod(each.shape) // 4 for each in _ternary(models[1])) + _head(models[1]).size
    long = min(LONG, models[1].context_length - STEPS)
    h = models[1].hyperparameters
    cache_bytes = 2 * sum(h.at(i).heads_kv * (h.at(i).head_dim + h.at(i).value_dim) for i in range(h.layers))
    for threads, model in models.items():
        contenders += [
            Contender(f"{READ}, {threads} threads", partial(_reading, model, weights)),
            Contender(f"decode, {threads} threads", partial(_generating, model, _behind(model, 16))),
            Contender(
                f"decode behind {long:,} tokens, {threads} threads", partial(_generating, model, _behind(model, long))
            ),
        ]
    for contender in contenders:
        contender.run()
    times = interleaved(contenders, _rounds(setting, 15), setting.say, DECODE_SECONDS)
    for threads in models:
        probe, decode = times[f"{READ}, {threads} threads"], times[f"decode, {threads} threads"]
        least = None if setting.quick else 0.85
        claims.append(Claim(f"decode, {threads} threads: share of the bound", ratios(probe, decode), "x", least=least))
        behind = times[f"decode behind {long:,} tokens, {threads} threads"]
        more = tuple(t * (weights + long * cache_bytes) / weights for t in probe)
        text = f"decode behind {long:,} tokens, {threads} threads: share of the bound with keys and values"
        least = None if setting.quick else 0.85
        claims.append(Claim(text, ratios(more, behind), "x", least=least))
    claims += _gains(times, READ, "decode", 1.6, setting)
    rows = tuple(Row(name, tuple(1 / t for t in values), "tok/s") for name, values in times.items())
    notes = (
        f"a token reads {weights / 1e6:,.0f} MB of weights, and {cache_bytes:,} bytes for each token before it",
        "on a quiet machine of this kind bitnet.cpp did 17 tok/s with one thread and 27 with two, ik_llama.cpp 13 and 23",
    )
    return Result("one token after the other, profile fast", rows, tuple(claims), notes)


def _gains(times: dict[str, tuple[float, ...]], probe: str, name: str, most: float, setting: Setting) -> list[Claim]:
    """Claim what a second thread gains, and the gain as a share of the probe's, up to a factor that is enough."""
    theirs, ours = (ratios(times[f"{each}, 1 threads"], times[f"{each}, 2 threads"]) for each in (probe, name))
    bound = tuple(min(most, each) for each in theirs)
    least = None if setting.quick else 1.0
    return [
        Claim(f"{name}: two threads against one", ours, "x"),
        Claim(f"{probe}: two threads against one", theirs, "x"),
        Claim(f"{name}: the gain of two threads, against the probe's or {most}", ratios(ours, bound), "x", least=least),
    ]


def _batch(setting: Setting) -> Result:
    """Measure a token of each of several sequences at once, against a token of one; the head is copied before."""
    contenders: list[Contender] = []
    models, claims = _models(setting), []
    numbers, halves = sum(prod(each.shape) for each in _ternary(models[1])), _head(models[1]).size // 2
    copied = [_copied(model) for model in models.values()]
    weights = numbers // 4 + halves * (1 if all(copied) else 2)
    for threads, model in models.items():
        contenders += [
            Contender(f"{READ}, {threads} threads", partial(_reading, model, weights)),
            Contender(f"{MULTIPLY}, {threads} threads", partial(_multiplying, BATCH * numbers, threads, BATCH)),
            Contender(f"{HEAD}, {threads} threads", partial(_multiplying, 2 * BATCH * halves, threads)),
            Contender(f"one sequence, {threads} threads", partial(_stepping, model, [_behind(model, 16)])),
            Contender(
                f"{BATCH} sequences, {threads} threads",
                partial(_stepping, model, [_behind(model, 16) for _ in range(BATCH)]),
            ),
        ]
    for contender in contenders:
        contender.run()
    times = interleaved(contenders, _rounds(setting, 9), setting.say, DECODE_SECONDS)
    rows = []
    for threads in models:
        one, many = times[f"one sequence, {threads} threads"], times[f"{BATCH} sequences, {threads} threads"]
        probes = (times[f"{each}, {threads} threads"] for each in (READ, MULTIPLY, HEAD))
        bound = tuple(max(read, codes + floats) for read, codes, floats in zip(*probes, strict=True))
        gain = tuple(BATCH * each for each in ratios(one, many))
        text = f"{BATCH} sequences, {threads} threads: tokens per second against one sequence"
        claims.append(Claim(text, gain, "x", least=None if setting.quick else 4.0))
        text = f"{BATCH} sequences, {threads} threads: the most that the probes allow, against one sequence"
        claims.append(Claim(text, tuple(BATCH * each for each in ratios(one, bound)), "x"))
        text = f"{BATCH} sequences, {threads} threads: share of that"
        claims.append(Claim(text, ratios(bound, many), "x"))
        for name, count in (
            (READ, 1), (MULTIPLY, BATCH), (HEAD, BATCH), ("one sequence", 1), (f"{BATCH} sequences", BATCH),
        ):  # fmt: skip
            values = times[f"{name}, {threads} threads"]
            rows.append(Row(f"{name}, {threads} threads", tuple(count / t for t in values), "tok/s"))
    notes = (
        "a step reads the weights and the copy of the head once for all sequences; each has its own keys and values",
        "multiplications are those of packed weights, with masks, and two for each number of the head: states have 16 bits",
    )
    return Result("several sequences at once, profile fast", tuple(rows), tuple(claims), notes)


def _copied(model: Any) -> bool:
    """Read tokens until the head is copied; return whether it is, as small ones are not."""
    cache = model.new_cache(1)
    while isinstance(logits := model.forward([1], cache=cache, logits="screened").logits, ScreenedLogits):
        logits.largest(1)
        cache.cut(0)
        if logits.head.complete:
            return True
    return False


def _stepping(model: Any, caches: list[Any]) -> float:
    """Return seconds for one token of each sequence, chosen too."""
    used, sampler = caches[0].used, Sampler(Sampling())
    start = perf_counter()
    for token in range(STEPS):
        if len(caches) == 1:
            results = [model.forward([token], cache=caches[0], logits="screened")]
        else:
            results = model.forward_batch([[token]] * len(caches), caches, logits="screened")
        for logits in (each.logits for each in results):
            sampler(logits if isinstance(logits, ScreenedLogits) else logits[-1])
    seconds = (perf_counter() - start) / STEPS
    for cache in caches:
        cache.cut(used)
    return seconds


def _reaching(model: Any, tokens: int) -> float:
    """Return seconds for a prompt, including the logits of its last token."""
    cache = model.new_cache(tokens)
    start = perf_counter()
    model.forward(list(range(tokens)), cache=cache, logits="last")
    return perf_counter() - start


def _multiplying(products: int, threads: int, tokens: int = 0) -> float:
    """Return seconds for this many multiplications at the peak of vector instructions.

    :param tokens: those that share what is masked of packed weights; 0 leaves out the masks
    """
    row = next(each.row for each in reversed(matmul.kernel_sets()) if each.available and each.name != TILES)
    rounds = (1 << 22) // (tokens or 1)
    start = perf_counter()
    done = _matmul.probe_multiplications(row, rounds, threads, tokens)
    return (perf_counter() - start) * products / done


def _prompt(setting: Setting) -> Result:
    """Measure prompts."""
    rows: list[Row] = []
    claims: list[Claim] = []
    models = _models(setting)
    products = sum(prod(each.shape) for each in _ternary(models[1]))
    for tokens in (32,) if setting.quick else PROMPTS:
        contenders = []
        for threads, model in models.items():
            probe = partial(_multiplying, products * tokens, threads)
            contenders.append(Contender(f"{MULTIPLY}, {tokens} tokens, {threads} threads", probe))
            contenders.append(Contender(f"{tokens} tokens, {threads} threads", partial(_reaching, model, tokens)))
            contenders[-1].run()
        times = interleaved(contenders, _rounds(setting, 7), setting.say, 2 * PROMPT_SECONDS)
        rows += [Row(each, tuple(tokens / t for t in values), "tok/s") for each, values in times.items()]
        least = None if setting.quick else PROMPTS[tokens]
        for threads in models:
            name = f"{tokens} tokens, {threads} threads"
            share = ratios(times[f"{MULTIPLY}, {name}"], times[name])
            claims.append(Claim(f"{name}: share of the bound", share, "x", least=least))
        claims += _gains(times, f"{MULTIPLY}, {tokens} tokens", f"{tokens} tokens", 1.85, setting)
    notes = ("on a quiet machine of this kind, 128 tokens with two threads: bitnet.cpp 84 tok/s, ik_llama.cpp 101",)
    return Result("prompts, profile fast", tuple(rows), tuple(claims), notes)


def _start(setting: Setting) -> Result:
    """Measure a fresh process: time until the model is loaded, and to the first token; its memory. And whole commands that
    generate one token, of a file that is read and of one that is mapped, beside a plain read of it into new memory."""
    path = _path(setting)
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
    found: dict[str, list[dict[str, float]]] = {}
    theirs = os.environ.get(runtimes.BITNETCPP) and not setting.quick
    jobs: list[tuple[str, Callable[[], str]]] = [
        (way, partial(processes.module, "bench.model", way, os.fspath(path)))
        for way in ("load", "plain", "read", "mapped", *(["theirs"] if theirs else []))
    ]
    for number in range(_rounds(setting, 5)):
        setting.say(f"round {number + 1}")
        for way, job in jobs if number % 2 == 0 else reversed(jobs):
            found.setdefault(way, []).append(json.loads(job()))

    def of(way: str, name: str) -> tuple[float, ...]:
        return tuple(float(each[name]) for each in found[way])

    rows: tuple[Row, ...] = (
        Row("load_model", of("load", "load"), "s"),
        Row("first token of a prompt of 4, after that", of("load", "first"), "s"),
        Row("peak memory of the process, generating 32 tokens", of("load", "peak"), "B"),
        Row("read probe: the file into new huge pages, system time", of("plain", "system"), "s"),
        Row("i2s run -n 1, system time", of("read", "system"), "s"),
        Row("i2s run -n 1 --trusted, system time", of("mapped", "system"), "s"),
        Row("i2s run -n 1", of("read", "wall"), "s"),
        Row("i2s run -n 1 --trusted", of("mapped", "wall"), "s"),
    )
    size = path.stat().st_size
    goals = (None,) * 5 if setting.quick else (0.15, float(60 << 20), 0.3, 0.2, 1.6)
    share = ratios(of("read", "system"), of("plain", "system"))
    claims: tuple[Claim, ...] = (
        Claim("first token after load_model", of("load", "first"), "s", most=goals[0]),
        Claim(
            "peak memory beyond the size of the file",
            tuple(each - size for each in of("load", "peak")),
            "B",
            most=goals[1],
        ),
        Claim("i2s run -n 1, system time", of("read", "system"), "s", most=goals[2]),
        Claim("i2s run -n 1 --trusted, system time", of("mapped", "system"), "s", most=goals[3]),
        Claim("i2s run -n 1, system time against that of the read probe", share, "x", most=goals[4]),
    )
    notes = (
        "the file is cached",
        "a system that has few pages ready takes longer to give new ones: the read probe shows it",
        "bitnet.cpp: its llama-bench -p 3 -n 0 -r 1, which maps the file and runs the prompt twice, once to warm up",
    )
    if theirs:
        rows += (Row("bitnet.cpp, a prompt of 3", of("theirs", "wall"), "s"),)
        claims += tuple(
            Claim(
                f"{name} against bitnet.cpp's prompt of 3", ratios(of(way, "wall"), of("theirs", "wall")), "x", most=0.6
            )
            for name, way in (("i2s run -n 1", "read"), ("i2s run -n 1 --trusted", "mapped"))
        )
    return Result("a fresh process, profile fast, as many threads as processors", rows, claims, notes)


def _rounds(setting: Setting, least: int) -> int:
    return 1 if setting.quick else max(least, setting.rounds)


def _load(path: str) -> dict[str, float]:
    """Load, and generate."""
    start = perf_counter()
    model = load_model(path, "fast")
    loaded = perf_counter()
    cache = model.new_cache(64)
    model.forward([1, 2, 3, 4], cache=cache, logits="last")
    first = perf_counter()
    for token in range(32):
        model.forward([token], cache=cache, logits="last")
    return {"load": loaded - start, "first": first - loaded, "peak": processes.peak()}


def _plain(path: str) -> dict[str, float]:
    """Read a file into new memory, and nothing else."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_stime, perf_counter()
    with open(path, "rb", buffering=0) as file, memoryview(huge_pages(os.fstat(file.fileno()).st_size)) as memory:
        done = 0
        while count := file.readinto(memory[done : done + (8 << 20)]):
            done += count
    return {"system": resource.getrusage(resource.RUSAGE_SELF).ru_stime - before, "wall": perf_counter() - start}


def _spawned(*words: str) -> dict[str, float]:
    """Run a whole command, and discard its output."""
    start, null = perf_counter(), (os.devnull, os.O_WRONLY, 0)
    actions = [(os.POSIX_SPAWN_OPEN, 1, *null), (os.POSIX_SPAWN_OPEN, 2, *null)]
    pid = os.posix_spawn(words[0], words, os.environ, file_actions=actions)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{words[0]} ended with status {status}")
    return {"system": usage.ru_stime, "wall": perf_counter() - start}


def _command(*words: str) -> dict[str, float]:
    """Run a command of ours that generates one token."""
    return _spawned(sys.executable, "-m", "i2s_spec", "run", *words, "--tokens", "1,2,3", "-n", "1", "--ids", "-q")


def _theirs(path: str) -> dict[str, float]:
    """Run a prompt by bitnet.cpp, with as many threads."""
    tool, threads = runtimes.tool(os.environ[runtimes.BITNETCPP]), len(os.sched_getaffinity(0))
    return _spawned(tool, "-m", path, "-t", str(threads), "-p", "3", "-n", "0", "-r", "1")


def _main(way: str, path: str) -> None:
    """Do one thing in a child process, and print times and memory."""
    jobs: dict[str, Callable[[], dict[str, float]]] = {
        "load": partial(_load, path),
        "plain": partial(_plain, path),
        "read": partial(_command, path),
        "mapped": partial(_command, path, "--trusted"),
        "theirs": partial(_theirs, path),
    }
    print(json.dumps(jobs[way]()))


if __name__ == "__main__":
    _main(*sys.argv[1:])
