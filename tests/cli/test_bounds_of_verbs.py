"""Every command on hostile files: at most 5 s of processor time for 10 MB, and 256 MiB of memory above its imports.

Verbs that read the weights of tensors one by one may take 0.1 ms (`hash`) to 0.2 ms (`convert`) more for each tensor.
Files and bounds are a 32nd of that here; `I2S_HOSTILE_SCALE=1` uses the full size. Each call runs in a fork of a
process that has already imported everything.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import hostile_files
import pytest
from pace import unit

pytestmark = pytest.mark.thorough

SCALE: Final = float(os.environ.get("I2S_HOSTILE_SCALE", "0.03125"))
#: 5 s on a processor of 2024, where a unit takes 8 ms; plus a quarter, because other processes slow memory access more
#: than a unit; plus a constant for every call.
MOST_UNITS: Final = 1.25 * 625 * SCALE + 25
#: KiB: 256 MiB, plus the buffers of any call, which are 35 MB when two files are compared.
MOST_MEMORY: Final = 256 * 1024 * SCALE + 34 * 1024
#: Additional units that do not depend on the size of the file: a repair plan has up to 10,000 repairs of each rule (0.5
#: s); `diff` compares a differing tensor with up to 8,192 others (0.2 s, and 0.5 s on AMD's family 25 model 1); `dump`
#: shows up to a fixed number of lines.
PLANNED: Final = {"fix": 70, "diff": 55, "lint": 30, "dump": 10}
#: Additional units for each tensor, of verbs that read the weights of one after the other.
EACH: Final = {"convert": 0.025, "diff": 0.02, "fix": 0.015, "hash": 0.012, "sanitize": 0.015}
#: Processor seconds after which a verb counts as hanging and is killed, on any machine.
HANGS: Final = 60

#: Calls on untrusted files. F is the file, D has other data, S is sound, T is S with other data, O is the output.
CALLS: Final = (
    "lint F --profile security", "lint F --format sarif", "show F", "dump F", "doctor F", "identify F", "hash F",
    "hash F --lineage", "diff F F", "diff F D", "diff S F", "lint F --reference D", "convert F O --to interleave-64",
    "convert F O --to Q2_0", "convert F O --to Q2_0 --fallback F16", "convert F O --to F32", "fix F --dry-run",
    "fix F --dry-run --unsafe --scrub-tail",
    "fix F -o O --unsafe", "sanitize F -o O", "run F --prompt a", "lint F --runtimes", "verify F --receipt R",
    "export F -o O", "export F -o O --form F16", "quantize F -o O", "golden record F --tokens 1,2 -o O",
)  # fmt: skip

#: A receipt of nothing.
RECEIPT: Final = '{"schema_version": 1, "file": {}, "checkpoint": [], "choices": {}, "checks": [], "tensors": {}}'

#: Runs its arguments on the sound file first, so that all imports are done. Then it reads requests (a folder and calls)
#: and reports for each call how it ended, its processor seconds, and KiB above an idle fork.
FORKS: Final = f"""
import gc, json, os, resource, shutil, sys, time
from i2s_spec.cli import main
null = os.open(os.devnull, os.O_RDWR)
asked, kept = os.fdopen(os.dup(0)), os.dup(1)
for fd in (0, 1, 2):
    os.dup2(null, fd)
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
def called(words):
    try:
        main(words)
    except SystemExit as stop:
        return stop.code or 0
def emptied():
    shutil.rmtree("O", ignore_errors=True)
    if os.path.exists("O"):
        os.unlink("O")
for call in sys.argv[1:]:
    called([{{"F": "S", "D": "T"}}.get(word, word) for word in call.split()])
    gc.unfreeze()
    emptied()
for folder, calls in map(json.loads, asked):
    os.chdir(folder)
    rows = []
    for words in calls:
        back, front = os.pipe()
        child = os.fork()
        if child == 0:
            open("/proc/self/clear_refs", "w").write("5")
            before, start = peak(), time.process_time()
            resource.setrlimit(resource.RLIMIT_CPU, ({HANGS}, {HANGS}))
            status = called(words)
            used = time.process_time() - start
            os.write(front, json.dumps([words, status, used, peak() - before]).encode())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        os.close(front)
        row = os.read(back, 1 << 16)
        os.close(back)
        rows.append([words, -status, {HANGS}, 0] if status else json.loads(row))
        emptied()
    os.write(kept, (json.dumps(rows) + "\\n").encode())
"""


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A process that has imported what the calls need."""
    from i2s_spec.testing.sample import Draft

    folder = tmp_path_factory.mktemp("sound")
    (folder / "S").write_bytes(Draft().data)
    (folder / "T").write_bytes(hostile_files.other_data(Draft().data))
    (folder / "R").write_text(RECEIPT, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-c", FORKS, *CALLS], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path[1:])},
    ) as process:  # fmt: skip
        yield process


@pytest.mark.parametrize("name", hostile_files.FILES)
def test_every_verb_is_bounded(name: str, tmp_path: Path, forks: subprocess.Popen[str]) -> None:
    from i2s_spec.testing.sample import Draft

    data = hostile_files.FILES[name](SCALE)
    (tmp_path / "F").write_bytes(data)
    (tmp_path / "D").write_bytes(hostile_files.other_data(data))
    (tmp_path / "S").write_bytes(Draft().data)
    (tmp_path / "R").write_text(RECEIPT, encoding="utf-8")
    slow = too_slow(forks, tmp_path, [call.split() for call in CALLS])
    for _ in range(2):  # a call that is too slow is so every time; one slowed by other processes is not
        slow = slow and too_slow(forks, tmp_path, [words for words, _ in slow])
    assert not slow, "\n".join(sentence for _, sentence in slow)


def too_slow(forks: subprocess.Popen[str], folder: Path, calls: list[list[str]]) -> list[tuple[list[str], str]]:
    """The calls that took too long, each with a sentence; all of them ended well, and within their memory."""
    assert forks.stdin is not None
    assert forks.stdout is not None
    before = unit()
    print(json.dumps([str(folder), calls]), file=forks.stdin, flush=True)
    rows = json.loads(forks.stdout.readline())
    with (folder / "F").open("rb") as file:
        tensors = min(int.from_bytes(file.read(16)[8:], "little"), (folder / "F").stat().st_size // 24)
    pace = max(before, unit())
    assert len(rows) == len(calls)
    told = [
        f"{' '.join(words)}: exit code {status}, {used:.2f} s, {used / pace:.0f} units, {memory} KiB"
        for words, status, used, memory in rows
    ]
    wrong = [
        sentence
        for sentence, (_, status, _, memory) in zip(told, rows, strict=True)
        if status not in (0, 1, 2, 3) or memory > MOST_MEMORY
    ]
    assert not wrong, "\n".join(wrong)
    return [
        (words, sentence)
        for sentence, (words, _, used, _) in zip(told, rows, strict=True)
        if used / pace > MOST_UNITS + PLANNED.get(words[0], 0) + EACH.get(words[0], 0) * tensors
    ]
