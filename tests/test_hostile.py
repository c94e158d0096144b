"""Hostile files: each is checked with a bounded amount of work, and 64 MiB above the imports.

The goal is 2 s of a processor of 2024. Processor time is measured in units of a fixed piece of work (`pace`), so a
slower or busier machine gives the same result.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from examples import share

from i2s_spec.testing.malformed import malformed

#: Time limit of a lint run: the goal of 2 s on a processor on which a unit takes 8 ms.
MOST_UNITS = 250
#: Processor seconds after which a process counts as hanging and is killed, on any machine.
HANGS = 60
#: Size in bytes from which a file is linted in a process of its own.
LARGE = 1 << 20

#: Lints files one after another and reports the peak memory above that after the imports. The peak is reset before each
#: file if the kernel permits; otherwise the value can only be too high. A large file is linted in a fork that has only
#: the imports, so that memory the allocator keeps from other files does not count.
JUDGE = f"""
import json, os, resource, sys, time
import numpy  # some rules load it for the first file that asks for it, which is not the memory of that file
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rules import all_rules
from i2s_spec.testing.sample import Model
from pace import unit
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
def reset():
    try:
        open("/proc/self/clear_refs", "w").write("5")
    except OSError:
        pass
all_rules()  # likewise the rules
sound = Model("bitnet-b1.58").built()
lint(sound)
reset()
before = peak()
for line in sys.stdin:
    path = line.rstrip("\\n")
    fork = os.path.exists(path) and os.path.getsize(path) >= {LARGE}
    if fork and (child := os.fork()):
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status < 0:
            os.kill(os.getpid(), -status)
        elif status:
            sys.exit(status)
        continue
    if fork:
        lint(sound)  # a fork has no pages of libraries before it needs them
        reset()
        before = peak()
    reset()
    start = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(start) + {HANGS}, resource.RLIM_INFINITY))
    report = lint(path)
    used, memory = time.process_time() - start, peak() - before
    units = used / max(unit(), unit()) if used > 0.2 else 0
    print(json.dumps([path, report.ok, units, memory]), flush=True)
    if fork:
        os._exit(0)
"""

#: For each file: whether it is sound, units of processor time, KiB; or how the process ended.
Verdict = tuple[bool, float, int] | str


def judged(paths: list[Path], program: str = JUDGE) -> dict[str, Verdict]:
    """The verdicts on files; if a checking process ends early, its file has none, and another process continues after it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path[1:]])}
    verdicts: dict[str, Verdict] = {}
    left = paths
    while left:
        run = subprocess.run(
            [sys.executable, "-c", program], input="".join(f"{path}\n" for path in left),
            capture_output=True, encoding="utf-8", check=False, env=environment,
        )  # fmt: skip
        rows = [json.loads(line) for line in run.stdout.splitlines()]
        verdicts |= {Path(path).name: (ok, units, memory) for path, ok, units, memory in rows}
        if len(rows) == len(left):
            break
        verdicts[left[len(rows)].name] = f"the judge ended with {run.returncode}: {run.stderr[-2000:]}"
        left = left[len(rows) + 1 :]
    return verdicts


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Verdict]:
    """The verdicts on the files that tests of this run ask for."""
    folder = tmp_path_factory.mktemp("hostile")
    asked = {item.callspec.params.get("name") for item in request.session.items if hasattr(item, "callspec")}
    cases = [case for case in malformed() if case.name in asked]
    for case in cases:
        (folder / case.name).write_bytes(case.data)
    return judged(sorted((folder / case.name for case in cases), key=lambda path: -path.stat().st_size))


@pytest.mark.requirement("R12.2-1", "R12.2-4")
@pytest.mark.parametrize(
    "name",
    [
        *share(case.name for case in malformed() if case.large),
        *share(case.name for case in malformed() if not case.large),
    ],
)
def test_verdict_is_bounded(name: str, verdicts: dict[str, Verdict], tmp_path: Path) -> None:
    verdict = verdicts[name]
    for again in range(2):  # a file that is too slow is so every time; one slowed by other processes is not
        if isinstance(verdict, str) or verdict[1] < MOST_UNITS:
            break
        path = tmp_path / f"{again}"
        path.write_bytes(next(case.data for case in malformed() if case.name == name))
        (verdict,) = judged([path]).values()
    assert not isinstance(verdict, str), verdict
    _, units, memory = verdict
    assert units < MOST_UNITS
    assert memory < 64 * 1024, f"{memory} KiB above the import"


def test_a_file_that_kills_its_checker_affects_no_other(tmp_path: Path) -> None:
    """One file kills the checking process, one makes it fail, the last one makes it hang; the others get their verdicts.
    The same holds for large files, which are checked in forks."""
    files = [tmp_path / name for name in ("a", "kills", "b", "fails", "fails too", "c", "hangs")]
    program = JUDGE.replace(str(HANGS), "1").replace(
        "report = lint(path)",
        "what = path.rpartition('/')[2].partition(' ')[0]\n"
        "    if what == 'kills': import os; os.kill(os.getpid(), 9)\n"
        "    if what == 'fails': raise KeyError(what)\n"
        "    while what == 'hangs': pass\n"
        "    report = lint(b'')",
    )
    for path in files[-4:]:
        path.touch()
        os.truncate(path, LARGE)
    found = judged(files, program)
    assert list(found) == [path.name for path in files]
    ended = {name: verdict for name, verdict in found.items() if isinstance(verdict, str)}
    assert list(ended) == ["kills", "fails", "fails too", "hangs"]
    assert ended["kills"].startswith("the judge ended with -9: ")
    assert "KeyError: 'fails'" in ended["fails"]
    assert ended["hangs"].startswith("the judge ended with -24: ")  # SIGXCPU
