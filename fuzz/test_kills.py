"""Commands that write are killed at random moments: nothing is lost, and after the next run no other file is left.

    python fuzz/test_kills.py 10000
    python fuzz/test_kills.py barriers 500

kills this many runs and prints the results; with `barriers` not at random moments, but each at a step of writing: half of
a write is done, or a file is about to be synced, named, moved or removed. A kill is SIGKILL, which this package cannot
handle. After each kill the result is missing, or complete: the old one or the new one; the inputs are unchanged. From
time to time the command then runs to its end: its result is the new one, and no other file is in the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from i2s_spec.cli import main

#: Calls of verbs that write TARGET; those with --force replace an existing one.
CALLS = (
    "new TARGET --force --seed 5",
    "convert m.gguf TARGET --to Q2_0",
    "convert m.gguf TARGET --to interleave-64 --force",
    "convert m.gguf TARGET --endian big --force",
    "fix odd.gguf -o TARGET --unsafe --force",
    "sanitize m.gguf -o TARGET --force",
    "decode m.gguf blk.0.attn_q.weight TARGET --force",
    "encode w.npy TARGET --scale 0.5 --force",
    "encode w.npy TARGET --scale 0.5 --into m.gguf --tensor blk.0.attn_q.weight",
    "golden record m.gguf --tokens 1,2 -o TARGET --force",
    "golden record m.gguf --tokens 1,2 -o TARGET",
    "golden compare g g -o TARGET --force --format html",
    "diff m.gguf n.gguf --lineage --format html -o TARGET --force",
    "lint m.gguf --report html=TARGET --force",
    "schema --format json -o TARGET --force",
    "export m.gguf -o TARGET",
    "import ck -o TARGET --force -q",
    "import ck -o TARGET --receipt-in-file --force -q",
    "quantize f.gguf -o TARGET -q",
    "perplexity m.gguf --tokens 1,5,9,20,33,64,100,200 -c 4 --kl-divergence-base TARGET --overwrite",
)

#: Calls that are killed at barriers, and the one that checks many files on a cluster.
AT_BARRIERS = (
    "import ck -o TARGET --force -q",
    "import ck -o TARGET -q",
    "import ck -o TARGET --receipt-in-file --force -q",
    "export m.gguf -o TARGET -q",
    "quantize f.gguf -o TARGET --force -q",
    "quantize f.gguf -o TARGET -q",
)
ON_A_CLUSTER = "lint --engine dask models --results results.jsonl --jobs 2 -q -o report"

#: One kill in so many is followed by a complete run.
ENDED = 4


class State(NamedTuple):
    """The content under a name: nothing, or the digest of a file or folder."""

    digest: str | None


def state(path: Path) -> State:
    if not path.exists():
        return State(None)
    digest = hashlib.sha256()
    for each in sorted(path.rglob("*")) if path.is_dir() else [path]:
        digest.update(each.name.encode() + b"\0" + each.read_bytes())
    return State(digest.hexdigest())


class Steps:
    """The steps of writing in its folder of one process: they are counted, and one of them is a barrier.

    :param barrier: the number of the step at which the process waits to be killed; 0 for none
    """

    _NAMES = ("write", "fsync", "ftruncate", "link", "replace", "rename", "mkdir", "unlink", "rmdir")

    def __init__(self, barrier: int = 0) -> None:
        self.barrier, self.count = barrier, 0
        self._from, self._to = os.pipe()
        self._write = os.write

    def begin(self) -> None:
        """Count from here on, in this process."""
        os.close(self._from)
        self._folder = os.getcwd() + os.sep
        for name in self._NAMES:
            setattr(os, name, self._step(getattr(os, name)))

    def _step(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def step(*given: Any, **options: Any) -> Any:
            if not self._is_inside(given[0]):
                return function(*given, **options)
            self.count += 1
            if self.count == self.barrier:
                if function is self._write:
                    self._write(given[0], memoryview(given[1])[: len(given[1]) // 2])
                self.say()
                time.sleep(3600)
            return function(*given, **options)

        return step

    def _is_inside(self, place: Any) -> bool:
        """Whether a path or an open file is in the folder; of open files Linux says it."""
        if isinstance(place, int):
            try:
                return os.readlink(f"/proc/self/fd/{place}").startswith(self._folder)
            except OSError:
                return True
        return os.path.abspath(os.fsdecode(place)).startswith(self._folder)

    def say(self) -> None:
        """Say how many steps were made: at the barrier, and at the end."""
        self._write(self._to, b"%d" % self.count)

    def heard(self) -> int:
        """Wait for that, in the process that began the other one; 0 where it ended without a word."""
        os.close(self._to)
        with os.fdopen(self._from, "rb") as stream:
            return int(stream.read(20) or 0) if not self.barrier else int(os.read(stream.fileno(), 20) or 0)


def begun(words: list[str], folder: Path, steps: Steps | None = None) -> int:
    """A running verb in a folder: a fork of this process, with everything imported."""
    process = os.fork()
    if process:
        return process
    try:
        os.chdir(folder)
        if steps is not None:
            steps.begin()
        os.environ["SOURCE_DATE_EPOCH"] = "0"  # pages contain the time, which would change between runs
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        main(words)
    except SystemExit as end:
        if steps is not None:
            steps.say()
        os._exit(end.code if isinstance(end.code, int) else 0)
    finally:
        os._exit(99)


def finished(words: list[str], folder: Path) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(begun(words, folder), 0)[1])


def warm(folder: Path) -> None:
    """Run every call here once, so that forks of this process import nothing."""
    sys.stdout.flush()
    saved, null = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_RDWR)
    here = Path.cwd()
    try:
        os.chdir(folder)
        for number in (1, 2):
            os.dup2(null, number)
        for line in CALLS:
            with suppress(SystemExit):
                main(line.replace("TARGET", f"warm{CALLS.index(line)}").split())
    finally:
        os.chdir(here)
        for number, was in zip((1, 2), saved, strict=True):
            os.dup2(was, number)
            os.close(was)
        os.close(null)


def furnish(folder: Path) -> None:
    """Write the inputs."""
    for line in ("new m.gguf --layers 1", "new n.gguf --layers 1 --seed 1", "new odd.gguf --layers 1",
                 "new f.gguf --layers 1 --type F16", "golden record m.gguf --tokens 1,2 -o g",
                 "export m.gguf -o ck"):  # fmt: skip
        assert finished(line.split(), folder) == 0, line
    np.save(folder / "w.npy", np.resize(np.array([-1, 0, 1], np.int8), (128, 128)))


class Campaign:
    """Kills in one folder."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.chance = folder, Random(seed)
        furnish(folder)
        warm(folder)
        for path in folder.glob("warm*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.inputs = {path: state(path) for path in folder.iterdir()}
        self.target = folder / "TARGET"
        self.old = b"what was there before"
        self.seen: Counter[str] = Counter()

    def rounds(self, line: str, kills: int) -> None:
        """Kill one call this often; runs that ended first do not count, but there are at most three times as many
        attempts."""
        words = line.split()
        force = "--force" in words or "--overwrite" in words or "--report" in words
        self.reset(line, force)
        lasts = self.timed(words, line)
        new = state(self.target)
        assert new.digest is not None, line
        before = self.reset(line, force)
        killed = 0
        for tries in count(1):
            process = self.start(words)
            self.moment(process, lasts)
            os.kill(process, signal.SIGKILL)
            ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            killed += ended == -signal.SIGKILL
            self.seen["killed" if ended == -signal.SIGKILL else "ended first"] += 1
            now = state(self.target)
            assert now in (before, new) or now.digest is None, f"{line}: the result is neither old nor new"
            assert now.digest is not None or not force or self.brought_back(words, before, new), f"{line}: it is lost"
            self.seen["new" if now == new else "old"] += 1
            left = self.leftovers()
            self.seen["left behind"] += bool(left)
            assert {path: state(path) for path in self.inputs} == self.inputs, f"{line}: an input changed"
            last = killed == kills or tries == 3 * kills
            if last or tries % ENDED == 0:
                if not force and now == new:
                    self.reset(line, force)
                lasts = self.timed(words, line)
                assert state(self.target) == new, line
                assert self.leftovers() == [], f"{line}: {self.leftovers()} after the next run"
                before = self.reset(line, force)
            elif not force and now == new:
                self.reset(line, force)
            if last:
                break

    def timed(self, words: list[str], line: str) -> float:
        """Run a call to its end and return the seconds, which depend on the load of the machine."""
        began = time.monotonic()
        assert finished(words, self.folder) in (0, 1), line
        return time.monotonic() - began

    def start(self, words: list[str]) -> int:
        return begun(words, self.folder)

    def moment(self, process: int, lasts: float) -> None:
        """Wait for a random time."""
        time.sleep(self.chance.uniform(0, 1.1 * lasts))

    def brought_back(self, words: list[str], before: State, new: State) -> bool:
        """Whether the next run restores a result that was unnamed at the moment of the kill."""
        return finished(words, self.folder) in (0, 1) and state(self.target) == new

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir() if path not in self.inputs and path != self.target)

    def reset(self, line: str, force: bool) -> State:
        """Reset the result before a run: another one of its kind if it will be replaced, else nothing."""
        if self.target.is_dir():
            for path in self.target.iterdir():
                path.unlink()
            self.target.rmdir()
        self.target.unlink(missing_ok=True)
        if force and line.startswith("golden record"):
            assert finished(["golden", "record", "m.gguf", "--tokens", "3", "-o", "TARGET"], self.folder) == 0
        elif force:
            self.target.write_bytes(self.old)
        return state(self.target)


class AtBarriers(Campaign):
    """Kills at steps of writing."""

    def timed(self, words: list[str], line: str) -> float:
        steps = Steps()
        process = begun(words, self.folder, steps)
        self.steps = steps.heard()
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) in (0, 1), line
        assert self.steps, line
        return self.steps

    def start(self, words: list[str]) -> int:
        self.halt = Steps(self.chance.randint(1, self.steps))
        return begun(words, self.folder, self.halt)

    def moment(self, process: int, lasts: float) -> None:
        self.halt.heard()

    def on_a_cluster(self, kills: int, files: int = 30) -> None:
        """Kill a run over many files, which goes on each time: no result is lost, none is there twice."""
        models = self.folder / "models"
        models.mkdir()
        for number in range(files):
            (models / f"{number}.gguf").write_bytes((self.folder / "m.gguf").read_bytes() + bytes(number))
        results, table = self.folder / "results.jsonl", self.folder / "results.parquet"
        words, before = ON_A_CLUSTER.split(), list[str]()
        for number in range(kills):
            # The first steps are those of the cluster; later ones write results, the table and the report.
            steps = Steps(self.chance.randint(1, 2 * max(4, files - len(before))))
            process = begun(words, self.folder, steps)
            reached = steps.heard()
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            ended = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            self.seen["killed" if ended == -signal.SIGKILL and reached else "ended first"] += 1
            after = urls_of(results)
            assert after[: len(before)] == before, "a result is lost"
            assert len(set(after)) == len(after), "a result is there twice"
            before = after
            if len(before) == files and (number % 3 == 2 or ended >= 0):  # all is there: begin anew
                assert finished(words, self.folder) in (0, 1)
                assert sorted(urls_of(results)) == sorted(set(before))
                assert table.read_bytes()[-4:] == b"PAR1"
                assert not [path for path in self.folder.iterdir() if path.name.startswith(".")]
                results.unlink()
                before = []
        assert finished(words, self.folder) in (0, 1)
        assert len(urls_of(results)) == files == len(set(urls_of(results)))


def urls_of(results: Path) -> list[str]:
    """The addresses of the complete records."""
    if not results.exists():
        return []
    return [json.loads(line)["url"] for line in results.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def at_barriers(folder: Path, kills: int, seed: int = 0, on_a_cluster: int = 0) -> Counter[str]:
    """Kill this many runs at barriers, and some of a run on a cluster."""
    made = AtBarriers(folder, seed)
    for i, line in enumerate(AT_BARRIERS):
        made.rounds(line, kills // len(AT_BARRIERS) + (i < kills % len(AT_BARRIERS)))
    if on_a_cluster:
        made.on_a_cluster(on_a_cluster)
    return made.seen


def campaign(folder: Path, kills: int, seed: int = 0) -> Counter[str]:
    """Kill this many runs, spread over all calls."""
    made = Campaign(folder, seed)
    for i, line in enumerate(CALLS):
        made.rounds(line, kills // len(CALLS) + (i < kills % len(CALLS)))
    return made.seen


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be copied here")
def test_killed_commands_lose_nothing(tmp_path: Path) -> None:
    seen = campaign(tmp_path, 5 * len(CALLS))
    assert seen["killed"] > 0  # if a call was timed while slow, most later runs may end before their kill


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be copied here")
def test_commands_that_are_killed_while_they_write_lose_nothing(tmp_path: Path) -> None:
    seen = at_barriers(tmp_path, 2 * len(AT_BARRIERS))
    assert seen["killed"] >= len(AT_BARRIERS)


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be copied here")
def test_a_run_on_a_cluster_that_is_killed_while_it_writes_loses_nothing(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    seen = at_barriers(tmp_path, 0, on_a_cluster=6)
    assert seen["killed"] > 0


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be copied here")
def test_the_campaign_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from i2s_spec.gguf import atomic_file

    ours, to_its_end = os.getpid(), False

    def stuck(fd: int) -> None:
        """Block the disk for runs that will be killed, while their output has no name yet."""
        while not to_its_end and os.getpid() != ours:
            signal.pause()

    def unhindered(words: list[str], folder: Path) -> int:
        nonlocal to_its_end
        to_its_end = True
        try:
            return os.waitstatus_to_exitcode(os.waitpid(begun(words, folder), 0)[1])
        finally:
            to_its_end = False

    def written(self: Campaign, process: int, lasts: float) -> None:
        """Wait until something is written, or the verb has ended without writing."""
        while not self.leftovers() and os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            time.sleep(0.001)

    monkeypatch.setattr(os, "fsync", stuck)
    monkeypatch.setattr(atomic_file, "remove_leftovers", lambda folder, base: 0)
    monkeypatch.setattr(sys.modules[__name__], "CALLS", ("convert m.gguf TARGET --to interleave-64 --force",))
    monkeypatch.setattr(sys.modules[__name__], "finished", unhindered)
    monkeypatch.setattr(Campaign, "moment", written)
    with pytest.raises(AssertionError, match="after the next run"):
        campaign(tmp_path, ENDED)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="i2s-kills-") as place:
        given = sys.argv[1:]
        barriers = given[:1] == ["barriers"] and bool(given.pop(0))
        wanted, chosen = int(given[0]), int(given[1]) if len(given) > 1 else int(time.time())
        begin = time.monotonic()
        if barriers:
            total = at_barriers(Path(place), wanted - wanted // 5, chosen, on_a_cluster=wanted // 5)
        else:
            total = campaign(Path(place), wanted, chosen)
        print(f"seed {chosen}, {time.monotonic() - begin:.0f} s: {dict(total)}")
