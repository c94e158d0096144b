"""This module keeps an adapter running as a child process and exchanges lines of JSON with it, under bounds.

There are limits for the time of each answer, the memory and number of processes of the whole process group, the length
of a line and the size of any file. Whatever goes wrong is an `AdapterFault`: one sentence that says what to repair. The
group is killed by its id before the run waits for the process, so nothing that the adapter started is left running
unless it has left the group.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from i2s_spec.errors import quote
from i2s_spec.fuzzing.child import OUTPUT_BYTES, WRITTEN_BYTES, Bounds, set_limits

#: Longest line of an answer, in bytes.
LINE_BYTES: Final = 16 << 20
#: Most processes that an adapter may have at a time.
PROCESSES: Final = 64
#: How often memory and processes are counted, in seconds.
_LOOK: Final = 0.05
#: How long to wait for output after the input of a silent adapter is closed, and after an adapter was asked to stop.
_LAST_WORDS: Final = 1.0
#: Processor time of the whole run of one process, in seconds; wall time bounds each answer.
_PROCESSOR: Final = 3600
_ONE_LINE: Final = "write one line for each request"


class AdapterFault(Exception):
    """One sentence that says what an adapter did wrong.

    :param kind: `start`, `crash`, `timeout`, `memory`, `processes`, `output` or `protocol`
    """

    def __init__(self, kind: str, sentence: str) -> None:
        super().__init__(sentence)
        self.kind = kind


def require_program(words: Sequence[str]) -> None:
    """Check that there is a program to start, before anything is written for it.

    :param words: the program and its arguments
    :raises AdapterFault: where there is no such program
    """
    if not words or shutil.which(words[0]) is None:
        named = quote(words[0]) if words else "without a name"
        raise AdapterFault("start", f"there is no program {named} that can be run")


class _Usage(NamedTuple):
    memory: int
    processes: tuple[int, ...]


class AdapterProcess:
    """A running adapter; `ask` sends one message and returns the one line that answers it.

    :param words: the program and its arguments
    :param bounds: seconds for one answer, and resident bytes of the whole group
    :raises AdapterFault: where there is no such program
    """

    def __init__(self, words: Sequence[str], bounds: Bounds, folder: Path | None = None) -> None:
        require_program(words)
        self._bounds = bounds
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the process
        try:
            self._process = subprocess.Popen(
                list(words),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                cwd=folder,
                start_new_session=True,  # the group's id is the process's
            )
        except OSError as error:
            self._stderr.close()
            raise AdapterFault("start", f"{quote(words[0])} could not be started: {error.strerror}") from None
        except BaseException:
            self._stderr.close()
            raise
        set_limits(self._process.pid, bounds, _PROCESSOR)
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: PT018
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._buffer = bytearray()
        self._answers = 0
        self._open = True

    def __enter__(self) -> AdapterProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and read its answer.

        :raises AdapterFault: for everything but a line with a JSON object in time; the process has then been ended
        """
        try:
            return self._asked(message)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Ask the process to end, and end it if it does not within a second."""
        if not self._open:
            return
        with suppress(OSError, AdapterFault):
            self._send(b'{"cmd":"stop"}\n', time.monotonic() + _LAST_WORDS)
            self._close_input()
            deadline = time.monotonic() + _LAST_WORDS
            while time.monotonic() < deadline and not self._has_ended():
                self._receive(0.01)
                self._buffer.clear()
        self.kill()

    def kill(self) -> None:
        """Kill the whole group and wait for the process; may be called again."""
        if not self._open:
            return
        self._open = False
        self._reap()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()

    def _asked(self, message: dict[str, Any]) -> dict[str, Any]:
        self._receive(0)
        if self._buffer:
            raise AdapterFault("protocol", f"the adapter wrote {self._shown()} before it was asked: {_ONE_LINE}")
        deadline = time.monotonic() + self._bounds.seconds
        self._send(json.dumps(message, separators=(",", ":")).encode() + b"\n", deadline)
        looked = 0.0
        while (end := self._buffer.find(b"\n")) < 0:
            now = time.monotonic()
            if len(self._buffer) > LINE_BYTES:
                raise AdapterFault("output", f"the adapter wrote {LINE_BYTES >> 20} MiB without an end of line")
            if now >= deadline:
                raise self._silent(message)
            if now - looked > _LOOK:
                looked = now
                self._check_usage()
            if not self._receive(min(_LOOK, deadline - now)):
                raise self._ended()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._answers += 1
        if self._buffer:
            raise AdapterFault("protocol", f"the adapter wrote {self._shown()} after its answer: {_ONE_LINE}")
        return self._parsed(line)

    def _parsed(self, line: bytes) -> dict[str, Any]:
        shown = quote(line[:120].decode("utf-8", "backslashreplace"), limit=120)
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError) as error:
            why = getattr(error, "msg", None) or type(error).__name__
            raise AdapterFault(
                "protocol", f"line {self._answers} of the answers is not JSON ({why}): {shown}"
            ) from None
        if not isinstance(answer, dict):
            raise AdapterFault("protocol", f"line {self._answers} of the answers is JSON, but not an object: {shown}")
        return answer

    def _send(self, data: bytes, deadline: float) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[os.write(self._in, rest) :]
            except BlockingIOError:
                self._check_usage()
                if time.monotonic() >= deadline:
                    raise AdapterFault(
                        "timeout", f"the adapter did not read its input for {self._bounds.seconds:g} s"
                    ) from None
                poll = select.poll()
                poll.register(self._in, select.POLLOUT)
                poll.poll(1000 * _LOOK)
            except BrokenPipeError:
                raise self._ended() from None

    def _receive(self, patience: float) -> bool:
        """Wait for output and read it; False where the output has ended."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        if not poll.poll(1000 * patience):
            return True
        try:
            data = os.read(self._out, 1 << 20)
        except BlockingIOError:
            return True
        self._buffer += data
        return bool(data)

    def _silent(self, message: dict[str, Any]) -> AdapterFault:
        """The fault of an adapter that has not answered in time; this tests whether it only keeps its output in a
        buffer."""
        asked = f"`{message.get('cmd')}`"
        if self._buffer:
            return AdapterFault("timeout", f"the answer to {asked} has no end of line: {self._shown()}")
        self._close_input()
        deadline = time.monotonic() + _LAST_WORDS
        while time.monotonic() < deadline and not self._buffer:
            if not self._receive(0.05):
                break
        if self._buffer:
            return AdapterFault(
                "timeout",
                f"the answer to {asked} came only after the input was closed: flush the output after each line",
            )
        return AdapterFault("timeout", f"the adapter did not answer {asked} within {self._bounds.seconds:g} s")

    def _ended(self) -> AdapterFault:
        """The fault of an adapter whose output or input has ended."""
        deadline = time.monotonic() + _LAST_WORDS
        while not self._has_ended() and time.monotonic() < deadline:
            time.sleep(0.01)
        alive = not self._has_ended()
        status = self._reap()
        if status == -signal.SIGXFSZ or os.fstat(self._stderr.fileno()).st_size >= WRITTEN_BYTES:
            most = WRITTEN_BYTES >> 20
            return AdapterFault("output", f"the adapter wrote more than {most} MiB to a file or to its error output")
        words = self._last_words()
        tail = f"; its error output ends: {words}" if words else ""
        when = "before it answered `start`" if not self._answers else "instead of an answer"
        kind = "start" if not self._answers else "crash"
        if alive:
            return AdapterFault(kind, f"the adapter closed its output {when}{tail}")
        if status < 0:
            with suppress(ValueError):
                return AdapterFault(kind, f"the adapter was ended by {signal.Signals(-status).name} {when}{tail}")
            return AdapterFault(kind, f"the adapter was ended by signal {-status} {when}{tail}")
        return AdapterFault(kind, f"the adapter ended with status {status} {when}{tail}")

    def _check_usage(self) -> None:
        usage = _usage(self._process.pid)
        if len(usage.processes) > PROCESSES:
            raise AdapterFault("processes", f"the adapter started more than {PROCESSES} processes")
        if usage.memory > self._bounds.memory and (used := _shared_out(usage)) > self._bounds.memory:
            allowed = self._bounds.memory >> 20
            raise AdapterFault("memory", f"the adapter uses {used >> 20:,} MiB of memory; {allowed:,} MiB are allowed")

    def _shown(self) -> str:
        return quote(bytes(self._buffer[:80]).decode("utf-8", "backslashreplace"), limit=80)

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def _has_ended(self) -> bool:
        if self._process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _reap(self) -> int:
        if self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):  # a group whose last process has ended
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        return int(self._process.returncode)

    def _last_words(self) -> str:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - OUTPUT_BYTES))
        text = self._stderr.read().decode("utf-8", "backslashreplace").replace(str(Path.home()), "~")
        lines = [line.strip() for line in text.splitlines()]
        return quote(next((line for line in reversed(lines) if line), ""), limit=200, bare=True) if any(lines) else ""


def _usage(session: int) -> _Usage:
    """Resident bytes and processes of a session; empty where the system does not tell."""
    memory, processes = 0, []
    page = os.sysconf("SC_PAGE_SIZE")
    try:
        entries = os.listdir("/proc")
    except OSError:
        return _Usage(0, ())
    for name in entries:
        if not name.isdigit():
            continue
        with suppress(OSError, IndexError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            if int(fields[3]) == session:
                processes.append(int(name))
                memory += int(fields[21]) * page
    return _Usage(memory, tuple(processes))


def _shared_out(usage: _Usage) -> int:
    """Resident bytes with shared pages counted once; the number of `usage` where the system does not tell."""
    if len(usage.processes) == 1:
        return usage.memory
    total = 0
    for pid in usage.processes:
        with suppress(ProcessLookupError, FileNotFoundError):
            try:
                with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                    total += next((int(line.split()[1]) << 10 for line in file if line.startswith("Pss:")), 0)
            except PermissionError:
                return usage.memory
    return total
