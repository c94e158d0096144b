"""This module defines how much of the payloads of a file is read: a choice that costs nothing until it is followed."""

from collections.abc import Callable
from typing import Literal, NamedTuple

Mode = Literal["full", "sample", "none"]


class Reading(NamedTuple):
    """How much of the payloads is read, by how many threads, and who is told: bytes read so far, bytes in all.

    `full` reads everything, `sample` a bounded part of each tensor: its beginning, its end, and windows spread evenly
    between; `none` nothing at all.
    """

    mode: Mode = "full"
    threads: int = 1
    progress: Callable[[int, int], None] | None = None
