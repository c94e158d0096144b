"""A head that is not read whole: tokens with it and with the whole head in turn, from the same model.

Every token is computed twice, once by each of two generations that share the weights; ratios are of such pairs, by user time
of the process, as other programs disturb the clock more.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Literal

from bench.measure import Claim, Result, Row, Setting, ratios
from i2s_spec.model.load import load_model
from i2s_spec.model.text.generate import Generation

#: The goals by the number of threads, and most of a token that copies rows.
GOALS, MOST = {1: 1.40, 2: 1.33}, 1.25
#: Most tokens until all rows are copied, and tokens after that.
COPYING, TOKENS = 400, 48


def _next(tokens: Any) -> tuple[float, float]:
    start, spent = perf_counter(), process_time()
    next(tokens)
    return perf_counter() - start, process_time() - spent


def _pairs(
    model: Any, setting: Setting, threads: int
) -> tuple[int, list[tuple[tuple[float, float], tuple[float, float]]]]:
    """Return how many tokens copied rows, and the times of all tokens, whole and screened."""
    heads: tuple[Literal["whole"], Literal["screened"]] = ("whole", "screened")
    whole, screened = (Generation(model, [1, 2, 3], limit=COPYING + 2 * TOKENS, head=head) for head in heads)
    streams = iter(whole), iter(screened)
    for each in streams:
        next(each)
    found, copying = [], 0
    most = 8 if setting.quick else COPYING + TOKENS
    while len(found) < most and len(found) < copying + TOKENS:
        one, other = (_next(each) for each in streams)
        found.append((one, other))
        setting.say(f"{threads} threads: {len(found)} tokens")
        if screened.screened is None or not screened.screened.complete:
            copying = len(found)
    if whole.tokens != screened.tokens:
        raise RuntimeError("the tokens differ")
    return min(copying, len(found) - 1), found


def measured(setting: Setting, path: Path) -> Result:
    """Measure greedy tokens of the model in a file."""
    rows, claims, notes = [], [], []
    model = load_model(path, "fast", threads=1)
    for threads, goal in GOALS.items():
        copying, pairs = _pairs(replace(model, threads=threads), setting, threads)
        after = pairs[copying:]
        for kind, at in (("wall", 0), ("user", 1)):
            whole, some = (tuple(pair[which][at] for pair in after) for which in (0, 1))
            usual = sorted(whole)[len(whole) // 2]
            for name, values in (("whole", whole), ("screened", some)):
                rows.append(Row(f"{name}, {threads} threads, {kind}", tuple(1 / each for each in values), "tok/s"))
            least = None if setting.quick or kind == "wall" else goal
            text = f"{threads} threads, {kind}: a token with the whole head against one without"
            claims.append(Claim(text, ratios(whole, some), "x", least=least))
            if copying:
                slowest = tuple(pair[1][at] / usual for pair in pairs[:copying])
                least_of = None if setting.quick or kind == "wall" else MOST
                claims.append(Claim(f"{threads} threads, {kind}: tokens that copy rows", slowest, "x", most=least_of))
        notes.append(f"{threads} threads: {copying} tokens until all rows were copied; the tokens were the same")
    return Result("a head that is not read whole, profile fast", tuple(rows), tuple(claims), tuple(notes))
