"""This module lets a verb that is told to end clean up what it was writing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

#: Signals that end a program which cleans up: by time limits and job runners, and by a terminal that is closed.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)  # what a shell reports of a process that this signal ended


@contextmanager
def cleaned_up() -> Iterator[None]:
    """Make SIGTERM and SIGHUP leave through every `with` and `finally`.

    Without it the process is gone at once, and the unfinished file under its temporary name stays. A signal that the
    caller has switched off, as `nohup` does, stays off.
    """
    before: list[tuple[signal.Signals, Any]] = []
    try:
        for each in _ENDING:
            if signal.getsignal(each) is not signal.SIG_IGN:
                before.append((each, signal.signal(each, _end)))
    except ValueError:  # not in the main thread, which alone may say what signals do
        yield
        return
    try:
        yield
    finally:
        for each, handler in before:
            signal.signal(each, handler)
