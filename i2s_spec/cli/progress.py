"""This module shows how far long work is: a bar on stderr while it is a terminal, and nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import monotonic

#: A bar is shown for what takes longer, in seconds.
PATIENCE = 0.5

#: Called with (bytes done, bytes to do).
Progress = Callable[[int, int], object]


@contextmanager
def progress_bar(what: str, quiet: bool = False) -> Iterator[Progress | None]:
    """A bar that goes away when the work is done; None where nobody would see it.

    :param what: the word before the bar, such as `converting`
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


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
