"""This module runs one harness in a separate process, input after input, and reports how each ended.

    python fuzz/triage_worker.py fuzz/fuzz_lint.py

Inputs come through the standard input, each as eight bytes of length and the bytes. An answer is a line of JSON: null,
or the type, the message and our own frames of the exception. On a signal it prints its current position (`triage_run`
sends the signal if an input does not end).
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import linecache
import os
import resource
import signal
import struct
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

LENGTH = struct.Struct("<Q")


def main(harness: Path, memory: int) -> None:
    """Serve until the inputs end.

    :param memory: bytes that may be allocated in addition to those of the loaded harness
    """
    # the harness may close or replace the standard streams, and its callees may write to them
    asked, answered = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w", encoding="ascii")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    faulthandler.enable(all_threads=False)
    faulthandler.register(signal.SIGUSR1, all_threads=False, chain=False)

    sys.path.insert(0, str(harness.parent))
    one_input = importlib.import_module(harness.stem).one_input
    own = Own(harness)
    _bound(memory)
    print(json.dumps("ready"), file=answered, flush=True)
    while len(head := asked.read(LENGTH.size)) == LENGTH.size:
        data = asked.read(LENGTH.unpack(head)[0])
        print(json.dumps(_outcome(one_input, data, own)), file=answered, flush=True)


class Own:
    """Identifies files of ours: the package, and the folder of the harness without the triage modules."""

    def __init__(self, harness: Path) -> None:
        import i2s_spec

        self.harness = harness
        self._package = Path(i2s_spec.__file__).resolve().parent

    def name(self, file: str) -> str | None:
        """The name of a file of ours; None for other files."""
        path = Path(file)
        if self._package in path.parents:
            return f"i2s_spec/{path.relative_to(self._package).as_posix()}"
        if path.parent == self.harness.parent and not path.name.startswith("triage"):
            return f"{path.parent.name}/{path.name}"
        return None


def _bound(memory: int) -> None:
    with open("/proc/self/statm", encoding="ascii") as pages:
        taken = int(pages.read().split()[5]) * resource.getpagesize()
    with suppress(OSError, ValueError):  # a stricter limit is set already
        resource.setrlimit(resource.RLIMIT_DATA, (taken + memory, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _outcome(one_input: Any, data: bytes, own: Own) -> dict[str, Any] | None:
    """The outcome of an input: null, or the exception.

    The linter and the command line catch their own bugs, and a harness asserts that there was none. Under I2S_DEBUG
    they re-raise them, and the frames are those of the bug.
    """
    found = _raised(one_input, data, own)
    if found is None or found["type"] != "AssertionError":
        return found
    os.environ["I2S_DEBUG"] = "1"
    try:
        inside = _raised(one_input, data, own)
    finally:
        del os.environ["I2S_DEBUG"]
    return inside if inside is not None and inside["type"] not in ("AssertionError", "FormatError") else found


def _raised(one_input: Any, data: bytes, own: Own) -> dict[str, Any] | None:
    try:
        one_input(data)
    except BaseException as raised:  # any exception is a failure
        error = raised
        if isinstance(raised, AssertionError) and raised.__context__ is not None and not raised.__suppress_context__:
            error = raised.__context__  # an assertion about an exception: the place is that of the exception
        frames = [
            [name, frame.name, linecache.getline(frame.filename, frame.lineno or 0).strip()[:160]]
            for frame in traceback.extract_tb(error.__traceback__)
            if (name := own.name(frame.filename)) is not None
        ]
        return {"type": type(error).__name__, "message": str(error)[:2000], "frames": frames}
    return None


if __name__ == "__main__":
    os.environ.pop("I2S_DEBUG", None)
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 2 << 30)
