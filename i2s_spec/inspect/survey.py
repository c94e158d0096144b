"""This module reads the payloads of a file once, and tells what is in each I2_S tensor: codes, runs, scale, tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple


class Reading(NamedTuple):
    """How much of the payloads is read, by how many threads, and who is told: bytes read so far, bytes in all."""

    mode: Literal["full", "sample", "none"] = "full"
    threads: int = 1
    progress: Callable[[int, int], None] | None = None
