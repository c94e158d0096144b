"""This module defines how much of the payloads of a file is read; what is seen there is in `result`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

Mode = Literal["full", "sample", "none"]

#: Windows that a sample takes of a tensor.
WINDOWS: Final = 16


class Reading(NamedTuple):
    """How much of the payloads is read, and by how many threads; `progress` is called with (bytes read, bytes in all).

    `full` reads everything, `sample` a bounded part of each tensor: its beginning, its end, and windows spread evenly
    between, so many in all; `none` nothing at all.
    """

    mode: Mode = "full"
    threads: int = 1
    progress: Callable[[int, int], None] | None = None
    windows: int = WINDOWS
