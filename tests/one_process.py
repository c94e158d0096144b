"""The command line in this process, for tests that are not about the process: starting one takes longer."""

from __future__ import annotations

import io
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

from i2s_spec.cli import main


def i2s_bytes(folder: Path, *args: str, text: str = "") -> CompletedProcess[bytes]:
    """What `i2s ARGS...` answers in a folder with this text as its input: as `subprocess.run` says it, in bytes."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")
    status: object = 0
    try:
        with chdir(folder), redirect_stdout(out), redirect_stderr(err):
            main(list(args))
    except SystemExit as stop:
        status = stop.code
    finally:
        sys.stdin = before
    out.flush()
    err.flush()
    code = status if isinstance(status, int) else int(status is not None)
    return CompletedProcess(["i2s", *args], code, out.buffer.getvalue(), err.buffer.getvalue())  # type: ignore[attr-defined]


def i2s(folder: Path, *args: str, text: str = "") -> CompletedProcess[str]:
    """The same in text."""
    done = i2s_bytes(folder, *args, text=text)
    return CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
