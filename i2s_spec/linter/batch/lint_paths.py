"""This module checks many files: each gets its report, even if others fail, in the order of the names."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from i2s_spec.errors import FormatError
from i2s_spec.linter.batch.file_arguments import Input, inputs
from i2s_spec.linter.batch.lint_path import failed, lint_path, refused, unreadable
from i2s_spec.linter.engine import open_reference
from i2s_spec.linter.options import Options, defaults
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from i2s_spec.linter.reference.weights import ReferenceWeights

#: Path and report of one file after another; a caller that stops early must close the iterator.
Reports = Generator[tuple[str, dict[str, Any]], None, None]

#: A function that reports on a folder of safetensors as plain data; for several processes it must be picklable.
Folders = Callable[[str, Options], dict[str, Any]]


def lint_paths(
    names: Iterable[str],
    options: Options | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
    weights: ReferenceWeights | None = None,
    folders: Folders | None = None,
) -> Reports:
    """Check the files that names stand for (see `i2s_spec.linter.batch.file_arguments`), each as `lint_path` does.

    :param jobs: how many processes check files; one file, or one job, is checked in this process
    :param progress: called while payloads are read, if this process reads them
    :param weights: the reference of the options, if it is open already
    :param folders: checks folders of safetensors, such as `lint_folder` of `i2s_spec.checkpoints.findings`
    :returns: path and report of each file, in order, as soon as they are ready; memory does not grow with their number
    :raises ValueError, FormatError, OSError: for a reference that cannot be read
    """
    options = options or defaults()
    files = inputs(names)
    first = list(islice(files, 2))
    if jobs == 1 or len(first) < 2:
        return _here(chain(first, files), options, progress, weights, folders)
    return _by_pool(chain(first, files), options, jobs, folders)


def _here(
    files: Iterable[Input],
    options: Options,
    progress: Callable[[int, int], None] | None,
    weights: ReferenceWeights | None,
    folders: Folders | None,
) -> Reports:
    """Report on one file after another; the reference is opened once for all of them."""
    with ExitStack() as stack:
        if weights is None:
            weights = stack.enter_context(open_reference(options))
        for file in files:
            yield file.path, report_on(file, options, progress, weights, folders)


def _by_pool(files: Iterable[Input], options: Options, jobs: int, folders: Folders | None) -> Reports:
    from i2s_spec.linter.batch.process_pool import Died, in_order

    for file, report in in_order(partial(report_on, options=options, folders=folders), files, jobs):
        yield file.path, failed(file.path, str(report)) if isinstance(report, Died) else report


def report_on(
    file: Input,
    options: Options,
    progress: Callable[[int, int], None] | None = None,
    weights: ReferenceWeights | None = None,
    folders: Folders | None = None,
) -> dict[str, Any]:
    """The report on one input, even if nothing can be read from it."""
    if isinstance(file.problem, FormatError):
        return refused(file.path, file.problem)
    if file.problem:
        return unreadable(file.path, faults.UNREADABLE, reason=file.problem)
    if file.checkpoint:
        if folders is None:
            return unreadable(
                file.path, faults.UNREADABLE, reason="it is a folder of safetensors files, not a GGUF file"
            )
        return folders(file.path, options)
    return lint_path(file.path, options, progress=progress, weights=weights)
