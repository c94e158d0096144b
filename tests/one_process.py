"""The command line in this process, for tests that are not about the process: starting one takes longer."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

from i2s_spec.cli.replay import ran


def i2s_bytes(folder: Path, *args: str, text: str = "") -> CompletedProcess[bytes]:
    """What `i2s ARGS...` answers in a folder with this text as its input: as `subprocess.run` says it, in bytes."""
    return ran(args, folder, text)


def i2s(folder: Path, *args: str, text: str = "") -> CompletedProcess[str]:
    """The same in text."""
    done = i2s_bytes(folder, *args, text=text)
    return CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
