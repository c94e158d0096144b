"""This module runs a command line in this process and keeps what it prints, as the transcripts of the rule pages show it.

What somebody has set for themselves makes no difference there: no colors, no `I2S_` variables, and another folder.
"""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path


def replay(command: str, folder: Path) -> str:
    """What a command line prints in a folder: stdout, then stderr, then the exit code if it is not 0.

    :param command: `i2s` and its arguments; perhaps `echo` with a line of input and a bar in front of it
    :raises ValueError: for a command of anything else
    """
    from i2s_spec.cli import main

    head, bar, rest = command.partition(" | ")
    program, *arguments = shlex.split(rest if bar else head)
    if program != "i2s" or (bar and not head.startswith("echo ")):
        raise ValueError(f"a transcript runs i2s, not {command}")
    out, err, status = io.StringIO(), io.StringIO(), 0
    typed = " ".join(shlex.split(head)[1:]) + "\n" if bar else ""
    with chdir(folder), _plain(), _typed(typed), redirect_stdout(out), redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    lines = (out.getvalue() + err.getvalue()).splitlines() + ([f"[exit {status}]"] if status else [])
    return "\n".join([f"$ {command}", *(line.rstrip() for line in lines)]) + "\n"


@contextmanager
def _plain() -> Iterator[None]:
    """An environment in which nothing is set that this program asks for."""
    before = dict(os.environ)
    for name in [name for name in before if name.startswith("I2S_")]:
        del os.environ[name]
    os.environ["NO_COLOR"] = "1"
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _typed(text: str) -> Iterator[None]:
    """Standard input that holds a text."""
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(text.encode("utf-8")), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before
