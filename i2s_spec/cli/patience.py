"""This module shows a progress bar only for what takes long: short runs stay quiet, and need not import one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from time import monotonic

from i2s_spec.cli.progress import progress_bar

#: A bar is shown for what takes longer, in seconds.
PATIENCE = 0.5


class Bar:
    """A progress bar that comes when reading takes long, and goes for every report that is printed."""

    def __init__(self) -> None:
        self._began = monotonic()
        self._shown = ExitStack()
        self._advance: Callable[[int, int], object] | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._advance is None:
            if monotonic() - self._began < PATIENCE:
                return
            self._advance = self._shown.enter_context(progress_bar("reading")) or (lambda done, total: None)
        self._advance(done, total)

    def hide(self) -> None:
        """Take the bar away; the next file may bring it back."""
        self._shown.close()
        self._began, self._advance = monotonic(), None
