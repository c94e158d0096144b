"""This module runs inputs of a harness with limits and describes how each fails, by a signature that identifies
failures.

A harness runs in a separate process (`triage_worker`), which is reused until an input ends it: by a signal, by an exit,
or because it takes too long.
"""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from triage_worker import LENGTH, Own

HERE = Path(__file__).resolve().parent

#: Number of innermost frames of our code in a signature: the place, and two callers.
FRAMES = 3

#: Seconds for loading a harness; increased with the time limit of an input.
LOADING = 60.0

Frame = tuple[str, str, str]  # file, function, text of the line


class WorkerError(Exception):
    """A harness that cannot run at all."""


@dataclass(frozen=True)
class Failure:
    """How an input fails.

    :param kind: the type of the exception, `hang`, or how the process ended
    :param frames: frames of our code, the innermost last
    """

    kind: str
    message: str
    frames: tuple[Frame, ...]

    @property
    def place(self) -> tuple[Frame, ...]:
        """The frames that count, the innermost first."""
        if self.kind == "RecursionError":  # the frame where it stops depends on the depth at the start
            return tuple(sorted({(file, function, "") for file, function, _ in self.frames[-60:]}))
        return self.frames[: -FRAMES - 1 : -1]

    @property
    def signature(self) -> str:
        """Identifies equal failures: no line numbers, which change, and of the message only the rule.

        If a harness asserts something about a finding, the frames are equal for all rules.
        """
        parts = [f"{file}:{function}{f': {text}' if text else ''}" for file, function, text in self.place]
        rule = re.search(r"\b[A-Z]\d{3}\b", self.message) if self.kind == "AssertionError" else None
        return " < ".join((f"{self.kind} {rule[0]}" if rule else self.kind, *parts))

    @property
    def id(self) -> str:
        """The signature, shortened."""
        return sha256(self.signature.encode()).hexdigest()[:12]


class Runner:
    """Runs inputs of one harness; a context that ends its process.

    :param harness: the file with `one_input`
    :param seconds: time limit of an input
    :param memory: bytes that it may allocate
    """

    def __init__(self, harness: Path, seconds: float = 20.0, memory: int = 2 << 30) -> None:
        self.harness = harness.resolve()
        self._seconds = seconds
        self._memory = memory
        self._own = Own(self.harness)
        self._folder = tempfile.mkdtemp(prefix="i2s-triage-")
        self._log = Path(self._folder) / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def failure(self, data: bytes) -> Failure | None:
        """How an input fails; None if it does not."""
        process = self._process or self._begin()
        assert process.stdin is not None
        answer = b""
        try:
            process.stdin.write(LENGTH.pack(len(data)) + data)
            process.stdin.flush()
            answer = self._line(process, self._seconds)
        except TimeoutError:
            return self._hang(process)
        except BrokenPipeError:
            pass
        if not answer:
            return self._ended(process)
        found = json.loads(answer)
        return found and Failure(found["type"], found["message"], tuple(tuple(frame) for frame in found["frames"]))

    def _begin(self) -> subprocess.Popen[bytes]:
        words = [sys.executable, str(HERE / "triage_worker.py"), str(self.harness), str(self._memory)]
        environment = {**os.environ, "TMPDIR": self._folder}  # a killed process leaves its files there
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._process = process
        try:
            ready = self._line(process, LOADING + self._seconds)
        except TimeoutError:
            ready = b""
        if not ready:
            self._end(kill=True)
            lines = self._log.read_text("utf-8", "replace").strip().splitlines()
            raise WorkerError(f"{self.harness.name} cannot be loaded: {lines[-1] if lines else 'it does not say why'}")
        return process

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes:
        """A line of the process's output; empty if it has ended."""
        assert process.stdout is not None
        until, answer = time.monotonic() + seconds, b""
        while not answer.endswith(b"\n"):
            if not select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError
            part = os.read(process.stdout.fileno(), 1 << 16)
            if not part:
                return b""
            answer += part
        return answer

    def _hang(self, process: subprocess.Popen[bytes]) -> Failure:
        """Sample the stack a few times: the common outermost frames contain the loop."""
        stacks = []
        for _ in range(4):
            stacks.append(self._stack(self._where(process)))
            time.sleep(0.15)
        self._end(kill=True)
        common = []
        for level in zip(*stacks, strict=False):
            if len({frame[:2] for frame in level}) > 1:
                break
            common.append((*level[0][:2], ""))
        return Failure("hang", f"it has not ended after {self._seconds:g} s", tuple(common))

    def _where(self, process: subprocess.Popen[bytes]) -> str:
        """The output of `faulthandler` for a running process, to its last line: it may have to wait for a processor
        first."""
        before, until = self._log.stat().st_size, time.monotonic() + 30
        process.send_signal(signal.SIGUSR1)
        while True:
            answer = self._log.read_bytes()[before:].decode("utf-8", "replace")
            if answer.endswith((" in <module>\n", "  ...\n")) or time.monotonic() > until:
                return answer
            time.sleep(0.02)

    def _ended(self, process: subprocess.Popen[bytes]) -> Failure:
        self._end()
        status = process.returncode
        name = signal.Signals(-status).name if status < 0 else f"exit {status}"
        stack = self._stack(self._log.read_text("utf-8", "replace"))
        return Failure(name, "the process ended", tuple((file, function, "") for file, function, _ in stack))

    def _stack(self, answer: str) -> list[Frame]:
        """Frames of our code in the output of `faulthandler`, the innermost last."""
        found = re.findall(r'^  File "(.*)", line (\d+) in (.*)$', answer, re.M)
        return [(name, function, "") for file, _, function in reversed(found) if (name := self._own.name(file))]

    def _end(self, kill: bool = False) -> None:
        """End the process and its children, or note that it has ended."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()  # it ends by itself now, and cleans up
        until = time.monotonic() + (0.0 if kill else 5.0)
        ended = os.WEXITED | os.WNOHANG | os.WNOWAIT  # not waited for, so that its process id is not reused
        while time.monotonic() < until and os.waitid(os.P_PID, process.pid, ended) is None:
            time.sleep(0.01)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
