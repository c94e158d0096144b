"""Injected faults, in the environment of a pass: if one of them is not detected, a run proves nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from extensions import compile_library
from passes import environment

HERE = Path(__file__).resolve().parent

#: Functions of canary.c, and the words that a report must contain; the first is sound.
FAULTS: Final = {
    "sound": "",
    "reads_beyond": "ERROR: AddressSanitizer",
    "writes_before": "heap-buffer-overflow",
    "reads_freed": "heap-use-after-free",
    "reads_beyond_stack": "stack-buffer-overflow",
    "shifts_too_far": "shift exponent",
    "adds_too_much": "signed integer overflow",
    "loads_misaligned": "misaligned address",
    "casts_too_much": "outside the range of representable values",
}

#: Seven bytes of a larger buffer, as a kernel gets its part of a file: without `tight`, four more bytes can be read.
_CALL = """
import ctypes, sys
import numpy as np
from tight import tight
part = tight(np.ones(64, dtype=np.uint8)[20:27])
function = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])
function.argtypes = [ctypes.c_void_p, ctypes.c_int64]
print(function(part.ctypes.data, part.size))
"""


def unnoticed(project: Path, folder: Path) -> list[str]:
    """The faults that were not detected, each with what happened instead; none if the environment works.

    :raises BuildError: if the faults cannot be compiled
    """
    library = compile_library(HERE / "canary.c", folder)
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda name: list(_tried(name, library, project)), FAULTS)
        return [line for lines in found for line in lines]


def _tried(name: str, library: Path, project: Path) -> Iterator[str]:
    words = [sys.executable, "-c", _CALL, str(library), name]
    done = subprocess.run(
        words, env=environment(project), capture_output=True, text=True, errors="replace", check=False
    )
    if (done.returncode == 0) != (FAULTS[name] == "") or FAULTS[name] not in done.stderr:
        yield f"{name}: status {done.returncode}: {done.stderr or 'no report'}"
