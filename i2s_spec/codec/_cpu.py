"""What is known of the processor where nothing is compiled: nothing. The twin of `pyx/_cpu.pyx`.

Python imports this module, and others that are named like an extension, only where the extension is missing: in an
installation without a C compiler. Each has the functions of its extension, computed in NumPy or plain Python as the
definitions say, and one set of kernels, `portable`.
"""

from __future__ import annotations

import os
from threading import Lock
from typing import Final

_POSITION: Final = Lock()


def features() -> dict[str, bool]:
    """Return every relevant feature, and whether this processor has it."""
    return {}


def hidden() -> list[str]:
    """Return the features that the processor has but that are hidden."""
    return []


def kernel_names() -> list[tuple[str, bool]]:
    """Return the names of sets of kernels, slowest first, and whether this processor can run any set of that name."""
    return [("portable", True)]


def asked() -> str:
    """Return the value of I2S_ISA, empty where it has none."""
    return os.environ.get("I2S_ISA", "")


def compiler() -> str:
    """Return the C compiler that built the extensions; empty where none did."""
    return ""


def read_at(descriptor: int, at: int, size: int) -> bytearray:
    """Return the bytes of a file from a place on, for the other modules; fewer where it ends or cannot be read."""
    data = bytearray()
    try:
        while len(data) < size and (part := _pread(descriptor, size - len(data), at + len(data))):
            data += part
    except OSError:
        pass
    return data


def _pread(descriptor: int, size: int, at: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, at)
    with _POSITION:  # Windows has one position for all threads
        os.lseek(descriptor, at, os.SEEK_SET)
        return os.read(descriptor, size)
