"""The protocol `i2s-cp/1`: its messages, the cases that are asked, and the process of an adapter that answers.

`start` and `run_case` send what a run asks, and `answer_of` reads what an answer may be. Fields that are not listed are
ignored by both sides. An answer of another form is an `AdapterFault` that names it. `read_cases` reads a folder of
vectors, an `AdapterProcess` exchanges lines with the adapter, and `main` is an adapter itself, around one function of a
shared library.
"""

from __future__ import annotations

import base64
import binascii
import ctypes
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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from i2s_spec.conformance.protocol_terms import OPERATIONS, PHASES
from i2s_spec.errors import SettingError, quote
from i2s_spec.fuzzing.bounded_process import BACKTRACE_BYTES, WRITTEN_BYTES, Bounds, cause, set_limits
from i2s_spec.gguf.source import read_regular

VERSION: Final = 1

_DIGEST: Final = re.compile(r"(?:sha256:)?([0-9a-fA-F]{64})")


@dataclass(frozen=True)
class Implementation:
    """What an adapter says about its implementation; texts are limited in length and shown escaped.

    :param features: what it supports, whatever the operation; `by_op` where it says so for each one
    """

    name: str
    version: str = ""
    language: str = ""
    source: str = ""
    homepage: str = ""
    issues: str = ""
    ops: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None
    by_op: Mapping[str, tuple[str, ...]] | None = None
    dialects: tuple[str, ...] | None = None
    most_bytes: int | None = None

    def lacks(self, case: VectorCase) -> list[str]:
        """Return the features of a case that it does not claim for the operation; empty where it claims none at all."""
        claimed = self.by_op.get(case.op, ()) if self.by_op is not None else self.features
        return [] if claimed is None else [each for each in case.features if each not in claimed]


@dataclass(frozen=True)
class Answer:
    """One answer. `kind` is `result`, `rejected`, `skipped` or `errored`.

    :param digest: SHA-256 in hexadecimal, :param data: the bytes, if they came inline
    :param json: an answer in JSON, :param verdict: of the op `verdict`
    :param fields: the whole message
    """

    kind: str
    digest: str = ""
    data: bytes | None = None
    json: Any = None
    verdict: str = ""
    phase: str = ""
    message: str = ""
    issue_url: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)


def start(process: AdapterProcess) -> Implementation:
    """Begin the conversation.

    :raises AdapterFault: where the answer is not that of an adapter of version 1
    """
    answer = process.ask({"cmd": "start", "version": VERSION})
    if answer.get("version") != VERSION:
        shown = quote(str(answer.get("version")), limit=40)
        raise AdapterFault("protocol", f"the answer to `start` has the version {shown}; this is version {VERSION}")
    about = answer.get("implementation")
    if not isinstance(about, dict) or not isinstance(about.get("name"), str) or not about["name"]:
        raise AdapterFault("protocol", 'the answer to `start` lacks "implementation": {"name": ...}')
    ops = answer.get("ops", about.get("ops"))
    if not _are_texts(ops) or not ops:
        raise AdapterFault("protocol", 'the answer to `start` lacks "ops": [...], what the adapter can be asked for')
    if not OPERATIONS.keys() & set(ops):
        raise AdapterFault("protocol", f"no op in the answer to `start` is known; there are {', '.join(OPERATIONS)}")
    features, dialects, by_op = answer.get("features"), answer.get("dialects"), None
    if isinstance(features, dict) and all(map(_are_texts, features.values())):
        by_op = {quote(op, limit=40, bare=True): tuple(each) for op, each in features.items()}
        features = sorted({each for listed in by_op.values() for each in listed})
    for name, value in (("features", features), ("dialects", dialects)):
        if value is not None and not _are_texts(value):
            more = ", nor an object of such lists by operation" if name == "features" else ""
            raise AdapterFault("protocol", f'"{name}" in the answer to `start` is not a list of texts{more}')
    limits = answer.get("limits")
    most = limits.get("max_bytes") if isinstance(limits, dict) else None
    texts = {
        key: str(about.get(key) or "")[:200] for key in ("name", "version", "language", "source", "homepage", "issues")
    }
    return Implementation(
        **texts,
        ops=tuple(ops),
        features=tuple(features) if features is not None else None,
        by_op=by_op,
        dialects=tuple(dialects) if dialects is not None else None,
        most_bytes=most if isinstance(most, int) else None,
    )


def dialect(process: AdapterProcess, name: str) -> bool:
    """Whether the adapter reads a layout."""
    return process.ask({"cmd": "dialect", "dialect": name}).get("ok") is True


def run_case(process: AdapterProcess, seq: int, case: VectorCase, want: str, output: Path) -> Answer:
    """Ask for one case.

    :param want: `digest` or `bytes`, :param output: where the adapter writes bytes
    """
    message: dict[str, Any] = {
        "cmd": "run",
        "seq": seq,
        "case": case.id,
        "op": case.op,
        "input": {"path": str(case.path)},
    }
    if case.second is not None:
        message["second"] = {"path": str(case.second)}
    message |= {"args": case.args, "want": want, "output": {"path": str(output)}}
    answer = answer_of(process.ask(message), seq, want, output)
    return replace(
        answer, message=answer.message.replace(f"{case.path.parent}/", "")
    )  # a record does not contain folders of the machine


def answer_of(message: Mapping[str, Any], seq: int, want: str, output: Path) -> Answer:
    """Return the meaning of a line.

    :raises AdapterFault: for a line that is not a valid answer
    """
    if message.get("seq") != seq or isinstance(message.get("seq"), bool):
        shown = quote(str(message.get("seq")), limit=40)
        raise AdapterFault("protocol", f"the answer has the seq {shown}; {seq} was asked for")
    text = str(message.get("message") or "")[:400]
    phase = str(message.get("phase") or "")
    if message.get("skipped"):
        return Answer("skipped", message=text, issue_url=str(message.get("issue_url") or "")[:400], fields=message)
    if message.get("errored"):
        context = message.get("context")
        text = text or str(context.get("message") or "" if isinstance(context, dict) else context or "")[:400]
        return Answer("errored", message=text, fields=message)
    if phase and phase not in PHASES:
        raise AdapterFault(
            "protocol", f"the answer has the phase {quote(phase, limit=40)}; there are {', '.join(PHASES)}"
        )
    verdict = message.get("verdict")
    if verdict is not None and verdict not in ("valid", "invalid"):
        raise AdapterFault(
            "protocol", f"the answer has the verdict {quote(str(verdict), limit=40)}; it is valid or invalid"
        )
    if message.get("rejected") or verdict == "invalid":
        return Answer("rejected", verdict=verdict or "", phase=phase, message=text, fields=message)
    if verdict == "valid":
        return Answer("result", verdict=verdict, message=text, fields=message)
    data = None
    if "base64" in message:
        try:
            data = base64.b64decode(message["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise AdapterFault("protocol", '"base64" in the answer is not base64') from None
    elif (want == "bytes" or message.get("output") is True) and output.is_file():  # for languages without SHA-256
        data = output.read_bytes()
    json = message.get("json")
    if data is None and message.get("output") is True:
        raise AdapterFault("protocol", 'the answer says "output": true, and no file is there')
    if data is None and json is None and want == "bytes":
        raise AdapterFault("protocol", 'the answer to "want": "bytes" has no "base64", and no file is at "output"')
    digest = _digest(message, data is None and "json" not in message)
    return Answer("result", json=json, data=data, digest="" if data is not None else digest, fields=message)


def _digest(message: Mapping[str, Any], needed: bool) -> str:
    value = message.get("digest")
    if value is None and needed:
        forms = "digest, json, verdict, rejected, skipped, errored"
        raise AdapterFault("protocol", f"the answer says nothing: it needs one of {forms}")
    found = _DIGEST.fullmatch(value) if isinstance(value, str) else None
    if found is None and value is not None:
        raise AdapterFault(
            "protocol", f"{quote(str(value), limit=80)} is not a digest: sha256: and 64 hexadecimal digits"
        )
    return found[1].lower() if found is not None else ""


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) and len(each) <= 100 for each in value)


# --- cases -----------------------------------------------------------------------------------------------------------
# The folder is as `i2s vectors export` writes it. It is read-only for adapters, and every path in its manifest is
# checked: one that leads outside is refused.

#: Name of the list of vectors in their folder.
MANIFEST: Final = "manifest.json"
#: Largest manifest and largest file of a vector that are read, in bytes.
_LARGEST: Final = 256 << 20


@dataclass(frozen=True)
class VectorCase:
    """One vector: the question for an adapter, and what its answer is compared with.

    :param id: never reused, :param op: the operation, :param verdict: `valid`, `invalid`, `either` or `survive`
    :param phase: the phase by which a reader has to refuse it, if it has to
    :param compare: the class of comparison and its bounds: `{"class": "ulp", "ulp": 1}`
    :param args: type, shape (columns first), layout, rule
    :param path: the input, :param second: the second input of an op that has two
    :param digest: SHA-256 of the expected bytes in hexadecimal, :param answer: where these bytes are
    :param json: the expected answer where it is JSON
    :param twin: of invalid input, the sound case that it is a change of: a refusal counts only beside it
    """

    id: str
    op: str
    path: Path
    verdict: str = "valid"
    phase: str = ""
    clause: str = ""
    requirement: str = ""
    rule: str = ""
    comment: str = ""
    features: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    compare: dict[str, Any] = field(default_factory=lambda: {"class": "exact"})
    args: dict[str, Any] = field(default_factory=dict)
    second: Path | None = None
    digest: str = ""
    answer: Path | None = None
    json: Any = None
    twin: VectorCase | None = None

    @property
    def method(self) -> str:
        """The class of comparison."""
        return str(self.compare.get("class", "exact"))


@dataclass(frozen=True)
class CaseFolder:
    """A folder of vectors: its version and its cases, in the order of the manifest."""

    folder: Path
    version: str
    cases: tuple[VectorCase, ...]

    def chosen(self, only: Iterable[str] = (), skip: Iterable[str] = ()) -> tuple[VectorCase, ...]:
        """Return the cases that match a pattern of `only`, if there is one, and none of `skip`.

        A pattern with `*` is compared with the id, the op, features and flags.
        """
        only, skip = tuple(only), tuple(skip)
        return tuple(
            case for case in self.cases if (not only or _matches(case, only)) and not (skip and _matches(case, skip))
        )


def _matches(case: VectorCase, patterns: tuple[str, ...]) -> bool:
    words = (case.id, case.op, *case.features, *case.flags)
    return any(fnmatchcase(word, pattern) for word in words for pattern in patterns)


def read_cases(folder: str | Path, check: bool = True) -> CaseFolder:
    """Return the vectors of a folder.

    :param check: whether the SHA-256 of each input is compared with the manifest's
    :raises SettingError: where the folder has no manifest or a damaged one, or where bytes do not match the manifest
    """
    root = Path(folder).resolve()
    try:
        manifest = json.loads(read_regular(root / MANIFEST, _LARGEST).decode("utf-8"))
        entries = manifest["vectors"]
        known = {str(entry["id"]): _case(root, entry, check) for entry in entries}
        cases = tuple(
            replace(known[entry["id"]], twin=known[entry["twin"]]) if entry.get("twin") else known[entry["id"]]
            for entry in entries
        )
        version = str(manifest["suite_version"])
    except FileNotFoundError as error:
        name = quote(str(error.filename), limit=4096, bare=True)
        raise SettingError(f"{name}: no such file; `i2s vectors export DIR` writes a folder of vectors") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SettingError(f"{MANIFEST} is damaged: {type(error).__name__}: {quote(str(error), bare=True)}") from None
    if len(known) != len(cases):
        raise SettingError(f"{MANIFEST} is damaged: an id occurs twice")
    return CaseFolder(root, version, cases)


def _case(root: Path, entry: dict[str, Any], check: bool) -> VectorCase:
    expected = entry.get("expected") or {}
    digest = str(expected.get("digest", "")).removeprefix("sha256:")
    second = entry.get("second") or {}
    return VectorCase(
        id=str(entry["id"]),
        op=str(entry["op"]),
        path=_file(root, entry["input"], check),
        verdict=str(entry.get("verdict", "valid")),
        phase=str(entry.get("phase") or ""),
        clause=str(entry.get("clause") or ""),
        requirement=str(entry.get("requirement") or ""),
        rule=str(entry.get("rule") or ""),
        comment=str(entry.get("comment") or ""),
        features=tuple(entry.get("features") or ()),
        flags=tuple(entry.get("flags") or ()),
        compare=dict(entry.get("compare") or {"class": "exact"}),
        args=dict(entry.get("args") or {}),
        second=_file(root, second, check) if second else None,
        digest=digest,
        answer=_inside(root, expected["path"]) if expected.get("path") else None,
        json=expected.get("json"),
    )


def _file(root: Path, entry: dict[str, Any], check: bool) -> Path:
    path = _inside(root, entry["path"])
    wanted = str(entry.get("sha256") or "").removeprefix("sha256:") if check else ""
    if wanted and sha256(read_regular(path, _LARGEST)).hexdigest() != wanted:
        raise ValueError(f"{entry['path']} has another SHA-256 than the manifest says")
    return path


def _inside(root: Path, name: str) -> Path:
    path = (root / name).resolve()
    if not path.is_relative_to(root):
        raise ValueError(f"{name} leads out of the folder")
    return path


# --- adapter process -------------------------------------------------------------------------------------------------
# An adapter is a child process that exchanges lines of JSON under bounds. There are limits for the time of each answer,
# the memory and number of processes of the whole process group, the length of a line and the size of any file. Whatever
# goes wrong is an `AdapterFault`: one sentence that says what to repair. The group is killed by its id before the run
# waits for the process, so nothing that the adapter started is left running unless it has left the group.

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
        """Return the fault of an adapter that has not answered in time; this tests whether it only keeps its output
        in a buffer."""
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
        """Return the fault of an adapter whose output or input has ended."""
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
        self._stderr.seek(max(0, size - BACKTRACE_BYTES))
        text = self._stderr.read().decode("utf-8", "backslashreplace").replace(str(Path.home()), "~")
        return quote(cause(text), limit=200, bare=True)


def _usage(session: int) -> _Usage:
    """Count resident bytes and processes of a session; nothing where the system does not tell."""
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
    """Return resident bytes with shared pages counted once; the number of `usage` where the system does not tell."""
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


# --- library adapter -------------------------------------------------------------------------------------------------
# An adapter around one function of a shared library: LIBRARY SYMBOL TYPE SIGNATURE.
#
# `i2s conform run --ctypes` runs it as a child process, so that a function that crashes ends only this process. A
# signature is `void(u8*,f32*,i64)`: the bytes of a tensor, room for its weights (`f32*`) or trits (`i8*`), and one
# integer for the number of elements, or two for rows and columns. A function that returns `int` rejects with a value
# other than 0.

#: The bytes after the buffer for an answer, which show whether a function writes beyond it.
_GUARD: Final = b"\xa5" * 64
_INTEGERS: Final = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64,
                    "int": ctypes.c_int, "size_t": ctypes.c_size_t}  # fmt: skip
_OUTPUTS: Final = {"f32*": ("dequant", 4), "i8*": ("decode", 1)}


class Signature(NamedTuple):
    """Parameters of a function by their kinds, and whether it returns a status."""

    parameters: tuple[str, ...]
    status: bool

    @property
    def output(self) -> str:
        """The kind of the buffer for the answer."""
        return next(each for each in self.parameters if each in _OUTPUTS)

    @property
    def op(self) -> str:
        """The operation that the function does."""
        return _OUTPUTS[self.output][0]


def parse_signature(text: str) -> Signature:
    """Return a signature from its text.

    >>> parse_signature("void(u8*, f32*, i64)").op
    'dequant'

    :raises ValueError: for a signature that no decoder has
    """
    found = re.fullmatch(r"\s*(void|int)\s*\(([^()]*)\)\s*", text)
    parameters = tuple(part.strip().replace(" ", "") for part in found[2].split(",")) if found else ()
    kinds = [each for each in parameters if each not in _INTEGERS]
    if (
        found is None
        or kinds[:1] != ["u8*"]
        or len(kinds) != 2
        or kinds[1] not in _OUTPUTS
        or not 1 <= len(parameters) - 2 <= 2
    ):
        raise ValueError(
            f"the signature {text!r} is not that of a decoder; write void(u8*,f32*,i64): void or int, the bytes u8*, the "
            f"answer f32* or i8*, and one integer for the elements or two for rows and columns ({', '.join(_INTEGERS)})"
        )
    return Signature(parameters, found[1] == "int")


def main() -> None:
    """Answer until the input ends."""
    library, symbol, type_, text = sys.argv[1:5]
    signature = parse_signature(text)
    function = getattr(ctypes.CDLL(library), symbol)
    function.restype = ctypes.c_int if signature.status else None
    for line in sys.stdin:
        message = json.loads(line)
        if message["cmd"] == "stop":
            return
        if message["cmd"] == "start":
            about = {"name": f"{Path(library).name}:{symbol}", "language": "c"}
            answer: dict[str, Any] = {"version": 1, "implementation": about, "ops": [signature.op]}
            answer["features"] = _features(type_.lower(), signature.status)
        elif message["cmd"] == "dialect":
            answer = {"ok": True}
        else:
            answer = {"seq": message["seq"], **_answer(function, signature, type_, message)}
        print(json.dumps(answer), flush=True)


def _features(type_: str, status: bool) -> list[str]:
    """Return what a function of this form can be asked: it takes no layout, and it can refuse only if it returns a
    status."""
    found = [f"type.{type_}", "subnormals", "codes.plus-two"]
    if type_ == "i2_s":
        found += ["layout.x86-128", "tail.replicated-8"]
    return [*found, "strict.codes"] if status else found


def _answer(function: Any, signature: Signature, type_: str, message: dict[str, Any]) -> dict[str, Any]:
    args = message["args"]
    if str(args.get("type", "i2_s")).lower() != type_.lower():
        return {"skipped": True, "message": f"the function decodes {type_}"}
    cols, *more = [int(n) for n in args["shape"]]
    rows = 1
    for n in more:
        rows *= n
    data = Path(message["input"]["path"]).read_bytes()
    size = rows * cols * _OUTPUTS[signature.output][1]
    room = ctypes.create_string_buffer(bytes(size) + _GUARD, size + len(_GUARD))
    integers = iter([rows, cols] if len(signature.parameters) == 4 else [rows * cols])
    given = {"u8*": ctypes.create_string_buffer(data, len(data)), signature.output: room}
    status = function(
        *(given[each] if each in given else _INTEGERS[each](next(integers)) for each in signature.parameters)
    )
    if room.raw[size:] != _GUARD:
        return {"errored": True, "message": "the function wrote beyond the end of the answer"}
    if signature.status and status:
        return {"rejected": True, "message": f"the function returns {status}"}
    answer = room.raw[:size]
    if message["want"] == "bytes":
        Path(message["output"]["path"]).write_bytes(answer)
    return {"digest": f"sha256:{sha256(answer).hexdigest()}"}


if __name__ == "__main__":
    main()
