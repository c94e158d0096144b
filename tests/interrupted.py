"""Ctrl-C while a command writes its result, at a chosen write call instead of a random moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, signal, sys
from i2s_spec.cli import main
from i2s_spec.gguf.atomic_file import OutputFile
write, sizes = OutputFile.write, []
def interrupted(self, data):
    write(self, data)
    sizes.append(len(data))
    if len(sizes) == 2:
        assert any(name.endswith(".part") for name in os.listdir()), os.listdir()
        os.kill(os.getpid(), signal.SIGINT)
OutputFile.write = interrupted
main(sys.argv[1:])
"""


def interrupted_writing(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a verb in a folder, into which it writes, and interrupt it after its second write."""
    command = [sys.executable, "-c", PROGRAM, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=600, check=False)
