"""Whole passes of profile `fast` through a model of the full size, against memory and processor.

A generated token needs every byte of the weights once: the limit is the speed of reading memory, and the probe reads the
head in place, which is more than half of the weights. A prompt needs every weight once for each token: the limit is the
widest vector multiplication, repeated on registers. Both probes run in every round. Processors with AMX multiply tiles,
eight times as many numbers at once; they have the same limit, because the rest of a prompt's work is not products.

`I2S_BENCH_MODEL` names a file that `i2s new --shape 2b4t` made before.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from functools import partial
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from bench import processes
from bench.matmul import TILES
from bench.measure import Benchmark, Claim, Contender, Result, Row, Setting, interleaved, ratios
from i2s_spec.model import _matmul
from i2s_spec.model.load import load_model
from i2s_spec.model.reference import matmul

#: Lengths of prompts, and their goals: shares of the bound.
PROMPTS = {128: 0.6, 512: 0.75}
#: Tokens generated in a turn.
STEPS = 4
#: Tokens of context before those, in the benchmark of a long context.
LONG = 4000
#: Seconds for all rounds of single tokens, and of one length of prompts; at least three rounds run.
DECODE_SECONDS, PROMPT_SECONDS = 40.0, 15.0

READ, MULTIPLY = "reading probe", "multiplication probe"


def benchmarks() -> list[Benchmark]:
    """The benchmarks in this order."""
    return [Benchmark("decode", _decode), Benchmark("prompt", _prompt), Benchmark("start", _start)]


def _path(setting: Setting) -> Path:
    """A model of full size, or a small one in quick runs."""
    if given := processes.given_model(setting.quick):
        return given
    path = setting.folder / "model.gguf"
    arguments = ["new", str(path), *(() if setting.quick else ("--shape", "2b4t"))]
    setting.say("i2s new")
    if status := processes.command(arguments, setting.folder / "bytecode").status:
        raise RuntimeError(f"i2s new failed with status {status}")
    return path


def _models(setting: Setting) -> dict[int, Any]:
    """The model with one thread and with two; both share the weights in memory."""
    one = load_model(_path(setting), "fast", threads=1)
    return {1: one, 2: replace(one, threads=2)}


def _ternary(model: Any) -> list[Any]:
    return [model.file.tensors[node.weight] for node in model.graph if node.op == "linear"]


def _head(model: Any) -> Any:
    """The bytes of the head."""
    table: Any = np.ascontiguousarray(model.weights.matrix("token_embd.weight"))
    return table.reshape(-1).view(np.uint8)


def _reading(model: Any, nbytes: int) -> float:
    """Seconds for reading this many bytes at the speed at which the head is read."""
    head = _head(model)
    start = perf_counter()
    _matmul.probe_reading(head, 1, model.threads)
    return (perf_counter() - start) * nbytes / head.size


def _behind(model: Any, before: int) -> Any:
    """A cache with this many arbitrary tokens, and room for more."""
    cache = model.new_cache(min(before + STEPS, model.context_length))
    some = np.random.Generator(np.random.PCG64(1)).standard_normal(1 << 20).astype(np.float32)
    for part, widths in zip(("keys", "values"), cache.widths, strict=True):
        for layer, width in enumerate(widths):
            heads = model.hyperparameters.at(layer).heads_kv
            cache.write(part, layer, np.resize(some, (before, heads, width // heads)))
    cache.commit([1] * before)
    return cache


def _generating(model: Any, cache: Any) -> float:
    """Seconds for one token."""
    used = cache.used
    start = perf_counter()
    for token in range(STEPS):
        model.forward([token], cache=cache, logits="last")
    seconds = (perf_counter() - start) / STEPS
    cache.cut(used)
    return seconds


def _decode(setting: Setting) -> Result:
    """Tokens one by one."""
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
    rows = tuple(Row(name, tuple(1 / t for t in values), "tok/s") for name, values in times.items())
    notes = (
        f"a token reads {weights / 1e6:,.0f} MB of weights, and {cache_bytes:,} bytes for each token before it",
        "on a quiet machine of this kind bitnet.cpp did 17 tok/s with one thread and 27 with two, ik_llama.cpp 13 and 23",
    )
    return Result("one token after the other, profile fast", rows, tuple(claims), notes)


def _reaching(model: Any, tokens: int) -> float:
    """Seconds for a prompt, including the logits of its last token."""
    cache = model.new_cache(tokens)
    start = perf_counter()
    model.forward(list(range(tokens)), cache=cache, logits="last")
    return perf_counter() - start


def _multiplying(products: int, threads: int) -> float:
    """Seconds for this many multiplications at the peak of vector instructions."""
    row = next(each.row for each in reversed(matmul.kernel_sets()) if each.available and each.name != TILES)
    rounds = 1 << 22
    start = perf_counter()
    done = _matmul.probe_multiplications(row, rounds, threads)
    return (perf_counter() - start) * products / done


def _prompt(setting: Setting) -> Result:
    """Prompts."""
    rows: list[Row] = []
    claims: list[Claim] = []
    models = _models(setting)
    for threads, model in models.items():
        products = sum(prod(each.shape) for each in _ternary(model))
        for tokens in (32,) if setting.quick else PROMPTS:
            name, probe = f"{tokens} tokens, {threads} threads", f"{MULTIPLY}, {tokens} tokens, {threads} threads"
            contenders = [
                Contender(probe, partial(_multiplying, products * tokens, threads)),
                Contender(name, partial(_reaching, model, tokens)),
            ]
            contenders[1].run()
            times = interleaved(contenders, _rounds(setting, 7), setting.say, PROMPT_SECONDS)
            rows += [Row(each, tuple(tokens / t for t in values), "tok/s") for each, values in times.items()]
            least = None if setting.quick else PROMPTS[tokens]
            claims.append(Claim(f"{name}: share of the bound", ratios(times[probe], times[name]), "x", least=least))
    notes = ("on a quiet machine of this kind, 128 tokens with two threads: bitnet.cpp 84 tok/s, ik_llama.cpp 101",)
    return Result("prompts, profile fast", tuple(rows), tuple(claims), notes)


def _start(setting: Setting) -> Result:
    """A fresh process: time until the model is loaded, and to the first token; its memory."""
    path = _path(setting)
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
    found = []
    for number in range(_rounds(setting, 5)):
        setting.say(f"round {number + 1}")
        found.append(json.loads(processes.module("bench.model", os.fspath(path))))
    load, first, peak = (tuple(float(each[name]) for each in found) for name in ("load", "first", "peak"))
    rows = (
        Row("load_model", load, "s"),
        Row("first token of a prompt of 4, after that", first, "s"),
        Row("peak memory of the process, generating 32 tokens", peak, "B"),
    )
    size = path.stat().st_size
    goals = (None, None) if setting.quick else (0.15, float(500 << 20))
    claims = (
        Claim("first token after load_model", first, "s", most=goals[0]),
        Claim("peak memory beyond the size of the file", tuple(each - size for each in peak), "B", most=goals[1]),
    )
    return Result("a fresh process, profile fast, as many threads as processors", rows, claims, ("the file is cached",))


def _rounds(setting: Setting, least: int) -> int:
    return 1 if setting.quick else max(least, setting.rounds)


def _main(path: str) -> None:
    """The child process: load, generate, and print times and memory."""
    start = perf_counter()
    model = load_model(path, "fast")
    loaded = perf_counter()
    cache = model.new_cache(64)
    model.forward([1, 2, 3, 4], cache=cache, logits="last")
    first = perf_counter()
    for token in range(32):
        model.forward([token], cache=cache, logits="last")
    print(json.dumps({"load": loaded - start, "first": first - loaded, "peak": processes.peak()}))


if __name__ == "__main__":
    _main(sys.argv[1])
