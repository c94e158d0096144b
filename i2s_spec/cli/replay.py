"""Run a command line in this process and keep what it prints, for pages of rules, examples of the site, and tests.

`ran` runs arguments; `replay` runs a typed line as on a page, where what somebody has set for themselves makes no
difference: no colors, no `I2S_` variables, one width; `same_output` compares two texts of what was printed.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from subprocess import CompletedProcess

#: Columns of the output on pages.
_WIDTH = "100"

#: What every new rule or layout changes in the output of commands that are not about it, and what stands for it: how many
#: rules there are, which layouts there are or random weights may have, and the score of the one next to the right one.
_DECLARED = (
    (re.compile(r"\b[\d,]+ rules checked(?: and [\d,]+ left out)?"), "N rules checked"),
    (re.compile(r"(?<=possible: )interleave-128, .*|(?<=there are )interleave-128, .*"), "LAYOUTS"),
    (re.compile(r'(?<="hypotheses": )\[\{"name": "interleave-128".*\](?=, "would_tell")'), "LAYOUTS"),
    (re.compile(r"[\d,]+ (?=in the next best layout)"), "N "),
    (re.compile(r"(?<=score of the best layout leads by )[\d,]+"), "N"),
)


def ran(arguments: Sequence[str], folder: Path, typed: str = "") -> CompletedProcess[bytes]:
    """Run `i2s` with these arguments in a folder.

    :param typed: the text of standard input
    """
    from i2s_spec.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(typed.encode()), encoding="utf-8")
    status: object = 0
    try:
        with chdir(folder), redirect_stdout(out), redirect_stderr(err):
            main(list(arguments))
    except SystemExit as stop:
        status = stop.code
    finally:
        sys.stdin = before
    code = status if isinstance(status, int) else int(status is not None)
    return CompletedProcess(["i2s", *arguments], code, _written(out), _written(err))


def replay(command: str, folder: Path) -> str:
    """Return what a command line prints in a folder: stdout, then stderr, then the exit code if it is not 0.

    :param command: `i2s` and its arguments; perhaps `echo` with a line of input and a bar in front of it
    :raises ValueError: for a command of anything else
    """
    head, bar, rest = command.partition(" | ")
    program, *arguments = shlex.split(rest if bar else head)
    if program != "i2s" or (bar and not head.startswith("echo ")):
        raise ValueError(f"a transcript runs i2s, not {command}")
    typed = " ".join(shlex.split(head)[1:]) + "\n" if bar else ""
    with _plain():
        done = ran(arguments, folder, typed)
    lines = (done.stdout + done.stderr).decode().splitlines() + [f"[exit {done.returncode}]"] * (done.returncode != 0)
    return "\n".join([f"$ {command}", *(line.rstrip() for line in lines)]) + "\n"


def same_output(shown: str, printed: str) -> bool:
    """Whether what a page shows is what was printed, but for what every new rule or layout changes."""
    return without_counts(shown) == without_counts(printed)


def without_counts(text: str) -> str:
    """Return a text in which letters stand for what every new rule or layout changes.

    >>> without_counts("864 bytes, 1,223 rules checked")
    '864 bytes, N rules checked'
    """
    for changing, letters in _DECLARED:
        text = changing.sub(letters, text)
    return text


def _written(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    data: bytes = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return data


@contextmanager
def _plain() -> Iterator[None]:
    """Provide an environment in which nothing is set that this program asks for."""
    before = dict(os.environ)
    for name in [name for name in before if name.startswith("I2S_") or name == "FORCE_COLOR"]:
        del os.environ[name]
    os.environ.update(NO_COLOR="1", COLUMNS=_WIDTH)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
