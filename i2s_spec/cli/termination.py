"""This module lets a verb that is told to end clean up what it was writing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: What a shell reports of a process that this signal ended.
EXIT_TERMINATED = 128 + signal.SIGTERM


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(EXIT_TERMINATED)


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Make SIGTERM, by which time limits and job runners end a program, leave through every `with` and `finally`.

    Without it the process is gone at once, and the unfinished file under its temporary name stays.
    """
    try:
        before = signal.signal(signal.SIGTERM, _end)
    except ValueError:  # not in the main thread, which alone may say what signals do
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
