"""This module shows how far long work is: a bar on stderr while it is a terminal, and nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
