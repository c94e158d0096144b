"""This module judges many files: each gets its report, whatever becomes of the others, in the order they were named."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from itertools import chain, islice
from typing import Any

from i2s_spec.linter.check import DEFAULTS, Options, check, failed, unreadable, validate
from i2s_spec.linter.inputs import Input, inputs
from i2s_spec.schema import faults

#: Path and report of one file after another; to be closed by whoever does not want them all.
Judgements = Generator[tuple[str, dict[str, Any]], None, None]


def check_all(
    names: Iterable[str],
    options: Options = DEFAULTS,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Judgements:
    """Judge the files that names stand for (see `i2s_spec.linter.inputs`), each as `check` does.

    :param jobs: how many processes judge; one file, or one job, is judged in this process
    :param progress: called while payloads are read, where this process reads them
    :returns: path and report of each file, as they are ready, in order; memory does not grow with their number
    :raises ValueError: for options that cannot be followed
    """
    validate(options)
    files = inputs(names)
    first = list(islice(files, 2))
    if jobs == 1 or len(first) < 2:
        return ((file.path, judged(file, options, progress)) for file in chain(first, files))
    return _by_pool(chain(first, files), options, jobs)


def _by_pool(files: Iterable[Input], options: Options, jobs: int) -> Judgements:
    from i2s_spec.linter.pool import Died, in_order

    for file, report in in_order(partial(judged, options=options), files, jobs):
        yield file.path, failed(file.path, str(report)) if isinstance(report, Died) else report


def judged(file: Input, options: Options, progress: Callable[[int, int], None] | None = None) -> dict[str, Any]:
    """The report on one input, also where nothing can be read from it."""
    if file.problem:
        return unreadable(file.path, faults.UNREADABLE, reason=file.problem)
    return check(file.path, options, progress=progress)
