"""Run a command on one file under bounds of time, memory and output, and find how it ended.

The command runs in a session of its own. Whatever happens, its whole process group is killed by its id before the
process itself is waited for, so that the id cannot belong to anyone else; nothing that it started stays behind.
`own_words` finds the message of a program among the lines of a debugger:

    >>> own_words("ggml.c:12: GGML_ASSERT(n > 0) failed\\n[New LWP 12]\\nptrace: not permitted.\\nNo stack.\\n")
    'ggml.c:12: GGML_ASSERT(n > 0) failed\\n'
"""

from __future__ import annotations

import os
import re
import resource
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple

from i2s_spec.errors import quote

#: How often the memory of a running command is looked at, in seconds.
_LOOK: Final = 0.02
#: As much of what a command says last is kept, in bytes.
OUTPUT_BYTES: Final = 4096
#: As much of it is looked at: a debugger's backtrace may stand behind the program's own words.
BACKTRACE_BYTES: Final = 1 << 16
#: Most that a command may write to one file, its own output among them.
WRITTEN_BYTES: Final = 64 << 20

#: As much more than its bound may be asked for, in bytes.
_ASKED: Final = 4 << 30

#: What stands for the file's name in a command.
PLACE: Final = "{}"


@dataclass(frozen=True)
class Bounds:
    """What a command may use for one file.

    :param seconds: of wall time; of processor time, one more
    :param memory: resident bytes. The system refuses only what is far beyond: what is asked for and never touched costs
        nothing, and a decoder that copes with a refusal has not blown up
    """

    seconds: float = 10.0
    memory: int = 512 << 20


class Outcome(NamedTuple):
    """How a run ended: an exit status or a signal, and which bound was broken, if one was.

    `memory` is the largest resident set in bytes, as far as the system counts it; `stderr_tail` the end of what the command
    wrote to its error output.
    """

    status: int | None
    signal: int | None
    hung: bool
    out_of_memory: bool
    seconds: float
    memory: int
    stderr_tail: str

    @property
    def name(self) -> str:
        """The signal's name, or the status in words."""
        if self.signal is not None:
            try:
                return signal.Signals(self.signal).name
            except ValueError:
                return f"signal {self.signal}"
        return f"status {self.status}"


class Command:
    """A decoder: a program with arguments, and how it gets its file.

    :param words: the program and its arguments; `{}` stands for the file's name, which comes last where it is nowhere
    :param stdin: the file comes through the standard input instead
    :raises ValueError: where there is no such program
    """

    def __init__(self, words: Sequence[str], stdin: bool = False) -> None:
        if not words:
            raise ValueError("there is no command; it stands after `--`")
        if shutil.which(words[0]) is None:
            raise ValueError(f"there is no program {quote(words[0])} that can be run")
        self.words = tuple(words)
        self.stdin = stdin

    def on(self, path: str) -> list[str]:
        """Return the words of a run on one file."""
        if self.stdin:
            return list(self.words)
        if not any(PLACE in word for word in self.words):
            return [*self.words, path]
        return [word.replace(PLACE, path) for word in self.words]


class Child:
    """A run that has begun; `outcome` waits for its end and is to be asked once.

    :param path: the file, which stays where it is until the run has ended
    :param stdout: where the command's output goes; nowhere without
    """

    def __init__(self, command: Command, path: Path, bounds: Bounds, stdout: IO[bytes] | None = None) -> None:
        self._bounds = bounds
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # it lives as long as the run
        given = path.open("rb") if command.stdin else None
        self._began = time.monotonic()
        try:
            self._process = subprocess.Popen(
                command.on(str(path)),
                stdin=given if given is not None else subprocess.DEVNULL,
                stdout=subprocess.DEVNULL if stdout is None else stdout,
                stderr=self._stderr,
                start_new_session=True,  # the group's id is the process's
            )
        except BaseException:
            self._stderr.close()
            raise
        finally:
            if given is not None:
                given.close()
        set_limits(self._process.pid, bounds, int(bounds.seconds) + 2)

    def outcome(self) -> Outcome:
        """Wait for the end, or bring it about."""
        hung = out_of_memory = False
        largest = 0
        deadline = self._began + self._bounds.seconds
        try:
            while not self._ended(min(_LOOK, max(0.0, deadline - time.monotonic()))):
                largest = max(largest, _resident(self._process.pid))
                out_of_memory = largest > self._bounds.memory
                hung = time.monotonic() >= deadline
                if hung or out_of_memory:
                    break
        except BaseException:
            self.end()
            raise
        raw, usage = self._reap()
        seconds = time.monotonic() - self._began
        code = os.waitstatus_to_exitcode(raw)
        counted = usage.ru_maxrss * 1024
        if counted > _peak_of_ours():  # a process that is forked off begins with what its parent has
            largest = max(largest, counted)
        out_of_memory = out_of_memory or largest > self._bounds.memory
        ours = hung or (out_of_memory and code == -signal.SIGKILL)
        return Outcome(
            status=code if code >= 0 else None,
            signal=-code if code < 0 and not ours else None,
            hung=(hung and not out_of_memory) or (code == -signal.SIGXCPU),
            out_of_memory=out_of_memory,
            seconds=seconds,
            memory=largest,
            stderr_tail=self._last_words(),
        )

    def _ended(self, patience: float) -> bool:
        """Whether the process has ended, after waiting for it for a moment; it is not reaped."""
        try:
            handle = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            time.sleep(min(patience, 0.005))
        else:
            try:
                poll = select.poll()  # takes descriptors of any number, as select() does not
                poll.register(handle, select.POLLIN)
                poll.poll(1000 * patience)
            finally:
                os.close(handle)
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def end(self) -> None:
        """Bring the run to its end at once, and say nothing of it."""
        if self._process.returncode is None:
            self._reap()
        self._stderr.close()

    def _reap(self) -> tuple[int, resource.struct_rusage]:
        """Kill the whole group, then wait for the process: its status in the system's form, and what it used."""
        with suppress(ProcessLookupError, PermissionError):  # a group whose last process has ended
            os.killpg(self._process.pid, signal.SIGKILL)
        _, raw, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(raw)
        return raw, usage

    def _last_words(self) -> str:
        with self._stderr as stderr:
            size = stderr.seek(0, os.SEEK_END)
            stderr.seek(max(0, size - BACKTRACE_BYTES))
            return own_words(stderr.read().decode("utf-8", "surrogateescape"))[-OUTPUT_BYTES:]


def run(command: Command, path: Path, bounds: Bounds, stdout: IO[bytes] | None = None) -> Outcome:
    """One run from beginning to end."""
    return Child(command, path, bounds, stdout).outcome()


def set_limits(pid: int, bounds: Bounds, processor: int) -> None:
    """Set the system's own limits on a process: they hold as well where its memory is looked at too late.

    :param processor: seconds of processor time
    """
    limits = {
        resource.RLIMIT_CPU: (processor, processor + 1),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_FSIZE: (WRITTEN_BYTES, WRITTEN_BYTES),
        # private writable memory only: runtimes reserve far more addresses than they ever use
        resource.RLIMIT_DATA: (bounds.memory + _ASKED, bounds.memory + _ASKED),
    }
    for limit, (soft, hard) in limits.items():
        with suppress(OSError, ValueError):  # it has ended already, or has a stricter limit
            resource.prlimit(pid, limit, (soft, hard))


def _resident(pid: int) -> int:
    """Return the resident set of a process now, in bytes; 0 where the system does not say."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0


def _peak_of_ours() -> int:
    """Return the largest resident set of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# --- the program's own words -----------------------------------------------------------------------------------------
# Programs that abort may attach a debugger to themselves and print its backtrace behind their own message (ggml does).
# What helps is the message: which assertion failed, what was thrown.

#: Lines that gdb or lldb print of a process that they attach to, and the lines of a backtrace.
_DEBUGGER: Final = re.compile(
    r"""\s*(?:
      \#\d+\s+(?:0x[0-9a-fA-F]+\s+in\s|\S.*\s(?:from|at)\s\S)   # a frame
    | \[(?:New|Current)\ (?:LWP|[Tt]hread)\b | \[Inferior\ \d | \[Thread\ debugging\ using | Using\ host\ libthread_db
    | (?:ptrace|gdb|lldb):\s | ptrace\(|\(gdb\)|\(lldb\)
    | Could\ not\ attach\ to\ process | No\ (?:stack|symbol\ table|threads)\b
    | The\ program\ (?:is\ not\ being\ run|has\ no\ registers)
    | 0x[0-9a-fA-F]+\ in\ \S+\ \(
    | warning:\ +(?:process\ \d+\ is\ (?:already\ traced|a\ zombie)|\d+\t|Unable\ to\ find)
    | warning:\ +.*(?:ptrace|debuginfo|source\ file)
    | (?:If|For)\ your\ uid\ matches | again\ as\ the\ root\ user | (?:Thread|process)\ \d+\ \(
    | (?:Reading|Loaded)\ symbols\ from | \d+\s+\.\./sysdeps/ | \d+\tin\ \.\./ | libggml\S*\(\S*\)\s*\[0x
    | WARNING:\ Using\ native\ backtrace | Set\ GGML_BACKTRACE_LLDB | GGML_NO_BACKTRACE | Aborted(?:\ \(core\ dumped\))?$
    ).*""",
    re.VERBOSE,
)


#: What a debugger warns of has no form of its own: beside its other lines it is taken for the debugger's.
_WARNING: Final = re.compile(r"warning:\s.*")


def own_words(text: str) -> str:
    """Leave out the lines of a debugger; all of the text stays where nothing else is left."""
    lines = [line for line in text.splitlines(keepends=True) if line.strip()]
    out = [_DEBUGGER.fullmatch(line.rstrip("\n")) is not None for line in lines]
    own = [line for line, left_out in zip(lines, out, strict=True) if not left_out]
    for order in (range(len(lines)), reversed(range(len(lines)))):
        beside = False
        for i in order:
            beside = out[i] = out[i] or (beside and _WARNING.fullmatch(lines[i].rstrip("\n")) is not None)
    rest = [line for line, left_out in zip(lines, out, strict=True) if not left_out]
    return "".join(rest or own) or text


#: Lines that say why a program ended, before a backtrace follows: of Rust, Go, and the JVM.
_CAUSE: Final = re.compile(r"panicked at|^panic: |^fatal error: |^Exception in thread ")


def cause(text: str) -> str:
    """Return the line of an error output that says why a program ended: a panic's own, else the last one.

    >>> cause("thread 'main' panicked at src/a.rs:3:5:\\nindex out of range\\nnote: run with ...")
    "thread 'main' panicked at src/a.rs:3:5: index out of range"
    """
    lines = [line.strip() for line in own_words(text).splitlines() if line.strip()]
    for i, line in enumerate(lines):
        if _CAUSE.search(line):
            return " ".join(lines[i : i + 2]) if line.endswith(":") else line
    return lines[-1] if lines else ""
