"""This module asks an implementation in one of two ways: by the protocol, or file by file."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from i2s_spec.conformance.run import protocol
from i2s_spec.conformance.run.adapter_process import LINE_BYTES, AdapterFault, AdapterProcess
from i2s_spec.conformance.run.cases import VectorCase
from i2s_spec.conformance.run.protocol import Answer, Implementation
from i2s_spec.errors import quote
from i2s_spec.fuzzing.child import Bounds, Command, run

#: The ops that a program without the protocol can answer.
SIMPLE_OPS: Final = ("container", "verdict")


class Asker(Protocol):
    """Something that answers cases."""

    def start(self) -> Implementation:
        """Begin, or begin again after a fault."""
        ...

    def answer(self, case: VectorCase, want: str) -> Answer:
        """The answer to a case; `want` is `digest` or `bytes`."""
        ...

    def close(self) -> None:
        """End the processes that run."""
        ...


class ProtocolAsker:
    """An adapter that speaks `i2s-cp/1`; it is started again after a fault.

    :param words: the program and its arguments
    """

    def __init__(self, words: Sequence[str], bounds: Bounds) -> None:
        self._words = tuple(words)
        self._bounds = bounds
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # from the start to `close`
        self._process: AdapterProcess | None = None
        self._seq = 0
        self._layout: tuple[str, bool] = ("", True)

    def start(self) -> Implementation:
        """Start the process and the conversation.

        :raises AdapterFault: where it cannot be started, or is no adapter
        """
        self._end()
        self._folder = self._folder or tempfile.TemporaryDirectory(prefix="i2s-conform-")
        self._process = AdapterProcess(self._words, self._bounds)
        self._layout = ("", True)
        try:
            return protocol.start(self._process)
        except BaseException:
            self._end()
            raise

    def answer(self, case: VectorCase, want: str) -> Answer:
        """Ask; the dialect is agreed on before the first case of another layout.

        :raises AdapterFault: for everything that is not an answer; the process has then been ended
        """
        process = self._process
        if process is None or self._folder is None:
            raise AdapterFault("start", "the adapter does not run any more")
        layout = str(case.args.get("layout") or "")
        try:
            if layout and layout != self._layout[0]:
                self._layout = (layout, protocol.dialect(process, layout))
            if layout and not self._layout[1]:
                return Answer("skipped", message=f"the adapter does not read the layout {layout}")
            self._seq += 1
            output = Path(self._folder.name) / "output"
            output.unlink(missing_ok=True)
            return protocol.run_case(process, self._seq, case, want, output)
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """Ask the process to stop."""
        if self._process is not None:
            self._process.stop()
        self._process = None
        if self._folder is not None:
            self._folder.cleanup()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process = None


class SimpleAsker:
    """A program that reads a GGUF file on its standard input and writes what is in it as canonical JSON.

    An exit status other than 0 means that it rejects the file.
    """

    def __init__(self, words: Sequence[str], bounds: Bounds) -> None:
        self._words = tuple(words)
        self._bounds = bounds

    def start(self) -> Implementation:
        """Check that there is such a program; nothing runs yet.

        :raises AdapterFault: where there is no such program
        """
        try:
            self._command = Command(self._words, stdin=True)
        except ValueError as error:
            raise AdapterFault("start", str(error)) from None
        return Implementation(Path(self._words[0]).name, ops=SIMPLE_OPS)

    def answer(self, case: VectorCase, want: str) -> Answer:
        """Run the program on the file.

        :raises AdapterFault: where it crashes, hangs, uses too much memory, or writes what is not JSON
        """
        with tempfile.TemporaryFile() as stdout:
            outcome = run(self._command, case.path, self._bounds, stdout)
            words = [line for line in outcome.stderr_tail.splitlines() if line.strip()]
            last = words[-1] if words else ""
            if outcome.out_of_memory:
                raise AdapterFault("memory", f"the program uses more than {self._bounds.memory >> 20:,} MiB of memory")
            if outcome.hung:
                raise AdapterFault("timeout", f"the program did not end within {self._bounds.seconds:g} s")
            if outcome.name == "SIGXFSZ":
                raise AdapterFault("output", "the program wrote output without end")
            if outcome.signal is not None:
                tail = f"; its error output ends: {quote(last, limit=200, bare=True)}" if last else ""
                raise AdapterFault("crash", f"the program was ended by {outcome.name}{tail}")
            if outcome.status:
                return Answer("rejected", verdict="invalid", message=last[:400])
            if case.op == "verdict":
                return Answer("result", verdict="valid")
            stdout.seek(0)
            data = stdout.read(LINE_BYTES + 1)
        if len(data) > LINE_BYTES:
            raise AdapterFault("output", f"the program wrote more than {LINE_BYTES >> 20} MiB for one file")
        try:
            return Answer("result", json=json.loads(data), data=None)
        except (ValueError, RecursionError) as error:
            shown = quote(data[:80].decode("utf-8", "backslashreplace"), limit=80)
            why = getattr(error, "msg", None) or type(error).__name__
            raise AdapterFault("protocol", f"the output is not JSON ({why}): {shown}") from None

    def close(self) -> None:
        """There is nothing to end."""
