"""A check that every harness makes: no input makes a command end with the exit code of a bug in this package.

Harnesses call functions; this module passes their inputs through the command line too, in this process, with captured
streams and in a separate folder. Commands take longer than functions, so only a share of the inputs is used, chosen by
their bytes: small for a replay, so that the tests stay quick, and larger for a search.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import shutil
import sys
import tempfile
from functools import cache
from itertools import count
from pathlib import Path
from zlib import crc32

from i2s_spec.cli import main
from i2s_spec.errors import EXIT_BUG, EXIT_FINDINGS, EXIT_INPUT, EXIT_USAGE

#: The permitted exit codes of a verb for any input.
ANSWERS = (0, EXIT_FINDINGS, EXIT_USAGE, EXIT_INPUT)

_CALLS = count(1)

#: One in so many inputs runs through the verbs: in a replay, and in a search.
EVERY, EVERY_FOUND = 16, 4


def require_answers(data: bytes, *lines: str, **files: bytes) -> None:
    """Run verbs on files, one after another: none may exit with the code of a bug in this package.

    :param data: the input of the harness, which decides whether it is used
    :param lines: the words of each call, separated by spaces
    :param files: the initial files of the folder, by names in which `__` stands for a dot
    """
    if crc32(data) % EVERY:
        return
    folder = emptied()
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    for line in lines:
        answered(line.split(" "), folder)


def answered(words: list[str], folder: Path, stdin: bytes = b"") -> tuple[int, str, str]:
    """Run the command line in this process with captured streams: its exit code, and its output to both."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True) for _ in range(2))
    saved = sys.stdout, sys.stderr, sys.stdin, os.getcwd()
    sys.stdout, sys.stderr, sys.stdin = out, err, io.TextIOWrapper(io.BytesIO(stdin))
    os.chdir(folder)
    status = 0
    try:
        main(words)
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 0
    finally:
        sys.stdout, sys.stderr, sys.stdin = saved[:3]
        os.chdir(saved[3])
        gc.unfreeze()  # `main` expects the process to end, and freezes garbage here
        if next(_CALLS) % 256 == 0:
            gc.collect()  # unfrozen objects count as old and are seldom collected: a search had 2 GB of them
    printed, complained = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err))
    assert status != EXIT_BUG, f"{words} ended as a bug of this package: {complained}"
    assert status in ANSWERS, (words, status, complained)
    assert "Traceback" not in complained, complained
    return status, printed, complained


def emptied() -> Path:
    """An empty folder for the files of one input."""
    folder = _folder()
    for path in folder.iterdir():
        path.unlink() if path.is_file() or path.is_symlink() else shutil.rmtree(path)
    return folder


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="i2s-verbs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
