"""This package beside other runtimes, each in a process that keeps its model loaded; they take turns.

ik_llama.cpp and llama.cpp are those of packages that `python tests/peers install` gets; each has the model in a type that
it computes. `I2S_BENCH_BITNETCPP` names a folder in which bitnet.cpp was built: its own llama-bench is run on the file with
I2_S.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from peers.programs import PROGRAM

from bench import processes
from bench.measure import Claim, Result, Row, Setting, ratios

#: The folder of a build of bitnet.cpp.
BITNETCPP: Final = "I2S_BENCH_BITNETCPP"

#: Tokens of a prompt, and tokens after it.
PROMPT, STEPS = 64, 8
#: Threads of each table.
THREADS: Final = (1, 2)
#: Processes that only use a processor, beside the runtimes of the busy machine.
SPINNING: Final = 2

OURS: Final = "i2s-spec, I2_S"
_SCRIPT: Final = Path(__file__).parents[1] / "peers" / "children" / "timed_runtime.py"

#: The shape of 2B-4T under the name that llama.cpp knows, and a small one.
_LARGE = ("--layers", "30", "--embd", "2560", "--ff", "6912", "--heads", "20", "--heads-kv", "5",
          "--vocab", "128256", "--context", "4096")  # fmt: skip
_SMALL = ("--layers", "1", "--embd", "512", "--ff", "512", "--heads", "4", "--heads-kv", "2", "--context", "512")


class Runtime(NamedTuple):
    """A runtime: the words of its process, and the file it reads."""

    name: str
    command: tuple[str, ...]
    file: Path


class Spent(NamedTuple):
    """Seconds, and processor seconds of a program (NaN where they are not known)."""

    seconds: float
    processor: float


class Loaded:
    """A process that keeps a model loaded and times what it is asked for."""

    def __init__(self, runtime: Runtime, threads: int, context: int) -> None:
        path = os.pathsep.join([str(processes.ROOT), str(processes.TESTS)])
        waiting = {"OMP_WAIT_POLICY": "passive", "PYTHONPATH": path}  # those that have no turn must not use a processor
        words = [*runtime.command, str(runtime.file), str(threads), str(context)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            encoding="utf-8", env={**os.environ, **waiting},
        )  # fmt: skip
        self._answer()

    def spent(self, what: str, tokens: int) -> Spent:
        """Return the time of a prompt, or of single tokens after it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {tokens}\n")
        self._process.stdin.flush()
        found = self._answer()
        return Spent(found["seconds"], found["processor"])

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args} ended with status {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        self._process.communicate()


def tool(folder: str) -> str:
    """Return the path of llama-bench in a folder in which bitnet.cpp was built."""
    return str(Path(folder) / "build" / "bin" / "llama-bench")


class LlamaBench:
    """llama-bench of a folder in which bitnet.cpp was built: each turn is a process, which says what it measured."""

    def __init__(self, folder: str, file: Path, threads: int) -> None:
        self._words = [tool(folder), "-m", str(file), "-t", str(threads), "-o", "json", "-r", "1"]

    def spent(self, what: str, tokens: int) -> Spent:
        """Return the time of a prompt, or of single tokens."""
        kind = ["-p", str(tokens), "-n", "0"] if what == "prompt" else ["-p", "0", "-n", str(tokens)]
        done = subprocess.run([*self._words, *kind], capture_output=True, encoding="utf-8", check=True)
        (found,) = json.loads(done.stdout[done.stdout.index("[") :])
        return Spent(tokens / float(found["avg_ts"]), float("nan"))

    def close(self) -> None:
        """Do nothing, as nothing runs between turns."""


def missing() -> list[str]:
    """Return what cannot be run here, in words."""
    words = [reason for name in ("ik-llama-cpp-python", "xllamacpp") if (reason := PROGRAM[name].missing()) is not None]
    if not os.environ.get(BITNETCPP):
        words.append(f"bitnet.cpp is not compared: {BITNETCPP} names no folder with a build of it")
    return words


def runtimes(setting: Setting, ours: Path) -> list[Runtime]:
    """Return the runtimes that can be run, each with its file; ours is the first."""
    script, own = str(_SCRIPT), str(sys.executable)
    found = [Runtime(OURS, (own, script, "i2s-spec", "-"), ours)]
    ik, llama = PROGRAM["ik-llama-cpp-python"], PROGRAM["xllamacpp"]
    if ik.missing() is None:
        python = ik.command()[0]
        shape = _SMALL if setting.quick else ("--shape", "2b4t")
        file = _made(setting, "iq2_bn", *shape, "--type", "IQ2_BN")
        found.append(Runtime("ik_llama.cpp, IQ2_BN", (python, script, "ik_llama.cpp", "-"), file))
    if llama.missing() is None:
        (library,) = llama.folder.glob("lib/python*/site-packages/xllamacpp/xllamacpp*.so")
        shape = _SMALL if setting.quick else _LARGE
        file = _made(setting, "tq2_0", "--arch", "bitnet", *shape, "--type", "TQ2_0")
        found.append(Runtime("llama.cpp, TQ2_0", (own, script, "llama.cpp", str(library)), file))
    return found


def _made(setting: Setting, name: str, *options: str) -> Path:
    path = setting.folder / f"{name}.gguf"
    setting.say(f"i2s new {path.name}")
    if status := processes.command(["new", str(path), *options], setting.folder / "bytecode").status:
        raise RuntimeError(f"i2s new failed with status {status}")
    return path


@contextmanager
def _spinning(count: int) -> Iterator[None]:
    """Let processes use a processor each meanwhile."""
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def measured(setting: Setting, ours: Path, rounds: int) -> Result:
    """Measure prompts and single tokens of all runtimes with each number of threads, and tokens on a busy machine."""
    every = runtimes(setting, ours)
    prompt, steps = (16, 2) if setting.quick else (PROMPT, STEPS)
    rows: list[Row] = []
    claims: list[Claim] = []
    for threads in THREADS:
        held: dict[str, Any] = {each.name: Loaded(each, threads, 512) for each in every}
        if folder := os.environ.get(BITNETCPP):
            held["bitnet.cpp, I2_S"] = LlamaBench(folder, ours, threads)
        words = f"{threads} thread{'s' * (threads > 1)}"
        try:
            for what, tokens in (("prompt", prompt), ("decode", steps)):
                name = f"prompt of {tokens}" if what == "prompt" else f"{tokens} tokens, one by one"
                _compare(setting, held, (what, tokens, prompt), f"{name}, {words}", rounds, (rows, claims))
            if threads > 1:
                with _spinning(SPINNING):
                    name = f"{steps} tokens, one by one, {words}, busy machine"
                    _compare(setting, held, ("decode", steps, prompt), name, rounds, (rows, claims))
        finally:
            for each in held.values():
                each.close()
    notes = (
        *missing(),
        f"busy machine: {SPINNING} processes that only use a processor run beside",
        "weights are random; each runtime has a type that it computes, of the same sizes",
        "ours computes greedy tokens, by a head that is not read whole; its copy is made before",
    )
    return Result("beside other runtimes, profile fast", tuple(rows), tuple(claims), notes)


def _compare(
    setting: Setting,
    held: dict[str, Any],
    job: tuple[str, int, int],
    name: str,
    rounds: int,
    into: tuple[list[Row], list[Claim]],
) -> None:
    """Give each runtime its turn in every round, every second one in reverse; add rows and claims."""
    what, tokens, prompt = job
    found: dict[str, list[Spent]] = {each: [] for each in held}
    for number in range(-1, rounds):  # the first is not counted
        for each in held if number % 2 == 0 else reversed(held):
            setting.say(f"round {number + 1} of {rounds}: {each}, {name}")
            if what == "decode" and isinstance(held[each], Loaded):
                held[each].spent("prompt", min(8, prompt))
            spent = held[each].spent(what, tokens)
            if number >= 0:
                found[each].append(spent)
    rows, claims = into
    for each, times in found.items():
        rows.append(Row(f"{each}: {name}", tuple(tokens / spent.seconds for spent in times), "tok/s"))
        if each == OURS:
            continue
        least = None if setting.quick else 1.0
        wall, used = (
            ratios(theirs, ours)
            for theirs, ours in zip(zip(*times, strict=True), zip(*found[OURS], strict=True), strict=True)
        )
        claims.append(Claim(f"{name}: ours against {each}", wall, "x", least=least))
        if not math.isnan(used[0]):
            claims.append(Claim(f"{name}: ours against {each}, processor seconds", used, "x", least=least))
