"""Hostile files: every one gets its verdict within 2 s of processor time and 64 MiB above the import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from i2s_spec.testing.malformed import malformed

#: Judges files one after another in a process that may use 2 s of processor time for each, and says how far its memory
#: rose above the import. The peak is reset before each file where the kernel lets us; it can only be read too high.
JUDGE = """
import json, resource, signal, sys, time
from i2s_spec.linter.engine import lint
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
def reset():
    try:
        open("/proc/self/clear_refs", "w").write("5")
    except OSError:
        pass
lint(b"")
reset()
before = peak()
for line in sys.stdin:
    path = line.rstrip("\\n")
    reset()
    start = time.process_time()
    spent = int(start) + 3
    resource.setrlimit(resource.RLIMIT_CPU, (spent, resource.RLIM_INFINITY))
    report = lint(path)
    used = time.process_time() - start
    print(json.dumps([path, report.ok, used, peak() - before]), flush=True)
"""


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bool, float, int]]:
    folder = tmp_path_factory.mktemp("hostile")
    names = []
    for case in malformed():
        (folder / case.name).write_bytes(case.data)
        names.append(case.name)
    paths = "".join(f"{folder / name}\n" for name in names)
    run = subprocess.run([sys.executable, "-c", JUDGE], input=paths, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return {Path(path).name: (ok, used, memory) for path, ok, used, memory in rows}


@pytest.mark.parametrize("name", [case.name for case in malformed()])
def test_verdict_is_bounded(name: str, verdicts: dict[str, tuple[bool, float, int]]) -> None:
    _, used, memory = verdicts[name]
    assert used < 2.0
    assert memory < 64 * 1024, f"{memory} KiB above the import"
