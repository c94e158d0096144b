"""This module defines `lint_path`: it takes a path and options and returns plain data, for pools, queues and clusters.

It reads only the file, its arguments and results can be pickled, and it never raises for a file: if i2s-spec itself
fails, the result says so. It can be used directly in a `map` of a process pool, Ray Data or Dask:

    lint_path("model.gguf", Options(profile="security"))
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from i2s_spec.errors import Fault, FormatError, MissingExtra, Span, TrustedText, quote
from i2s_spec.linter.engine import lint, open_reference
from i2s_spec.linter.options import Options, defaults
from i2s_spec.linter.report_data import Bug, FileReport, Report
from i2s_spec.linter.rule import finding_of
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from i2s_spec.linter.reference.weights import ReferenceWeights


def lint_path(
    path: str | os.PathLike[str],
    options: Options | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    weights: ReferenceWeights | None = None,
) -> dict[str, Any]:
    """Check one file; the result is always a report as plain data.

    :param path: a path, or an address of a server as `i2s_spec.remote.addresses` defines it
    :param weights: the reference of the options, if it is open already
    :returns: the report in the form that `lint --format json` gives for each file (`lint.schema.json`)
    :raises ValueError, FormatError, OSError: for a reference that cannot be read
    :raises MissingExtra: for an address, where the extra [remote] is not installed
    """
    options = options or defaults()
    name = os.fspath(path)
    if "\0" in name:
        return unreadable(name, faults.UNREADABLE, reason="a file name cannot contain NUL")
    with ExitStack() as stack:
        if weights is None:
            weights = stack.enter_context(open_reference(options))
        try:
            report = lint(name, options, progress=progress, weights=weights).as_dict()
        except MissingExtra:
            raise
        except Exception as error:
            if os.environ.get("I2S_DEBUG"):
                raise
            return failed(name, f"{type(error).__name__}: {quote(str(error), bare=True)}")
    if options.skip_lfs and any(finding["code"] == faults.LFS_POINTER.code for finding in report["findings"]):
        return skipped(report, "a Git LFS pointer: the model itself was not downloaded")
    return report


def failed(path: str, message: str) -> dict[str, Any]:
    """The report on a file on which i2s-spec itself failed.

    :param message: what happened, in words that need no escaping
    """
    return Report(path, (), {}, bugs=(Bug("lint", message),)).as_dict()


def unreadable(path: str, fault: Fault, **details: str) -> dict[str, Any]:
    """The report on an input that cannot be opened, with our own reason."""
    return refused(
        path, FormatError(fault, Span(0, 0), **{name: TrustedText(words) for name, words in details.items()})
    )


def refused(path: str, error: FormatError) -> dict[str, Any]:
    """The report on an input that cannot be opened."""
    return Report(path, (finding_of(error),), {}).as_dict()


def skipped(report: FileReport, reason: str) -> dict[str, Any]:
    """The report on a file that was not checked, on request."""
    summary = {**report["summary"], "errors": 0, "warnings": 0, "notes": 0, "elided": {}}
    return {**report, "ok": True, "findings": [], "skipped": reason, "summary": summary}
