"""This module defines `check`: a path and options in, plain data out, for pools, queues and clusters of any kind.

It is pure (the file is all that it looks at), takes and gives what pickles, and never raises: where something of ours
fails, the data say so. It fits a `map` of a process pool, Ray Data or Dask as it is:

    check("model.gguf", Options(profile="security"))
"""

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from i2s_spec.errors import Fault, FormatError, Span, Words, quote
from i2s_spec.linter.engine import lint
from i2s_spec.linter.excuse import Excuse, excuse_for
from i2s_spec.linter.judgement import Bug, Report
from i2s_spec.linter.profile import READINGS, Mode, chosen, excuses, reading_of
from i2s_spec.linter.reference.declaration import Reference
from i2s_spec.linter.rule import finding_of
from i2s_spec.schema import faults
from i2s_spec.schema.limits import checked


class Options(NamedTuple):
    """How files are judged; see `i2s_spec.linter.engine.lint`. Everything in it is plain and pickles.

    `excuses` are the findings that somebody gave a reason for, by file. With `skip_lfs` a Git LFS pointer is no finding:
    the file is said to be skipped.
    """

    profile: str = "default"
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, str] = {}
    limits: Mapping[str, int] = {}
    payload: Mode | None = None
    threads: int = 1
    runtimes: bool = False
    excuses: tuple[Excuse, ...] = ()
    skip_lfs: bool = False
    reference: Reference | None = None
    details: Callable[[Any], Any] | None = None


#: Everything by default.
DEFAULTS = Options()


def check(
    path: str | os.PathLike[str],
    options: Options = DEFAULTS,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Judge one file; whatever happens, the answer is a report as plain data.

    :returns: the report in the form that `lint --format json` gives for each file (`lint.schema.json`)
    :raises ValueError: for options that cannot be followed, such as an unknown profile
    """
    name = os.fspath(path)
    if "\0" in name:
        return unreadable(name, faults.UNREADABLE, reason="no file can have NUL in its name")
    try:
        reasons = excuse_for(name, options.excuses)
        report = lint(
            name,
            profile=options.profile,
            select=options.select,
            ignore=options.ignore,
            severity=options.severity,
            excused=reasons,
            limits=options.limits,
            payload=options.payload,
            threads=options.threads,
            progress=progress,
            runtimes=options.runtimes,
            reference=options.reference,
            details=options.details,
        )
        judged = report.as_dict()
    except Exception as error:
        if os.environ.get("I2S_DEBUG"):
            raise
        validate(options)
        return failed(name, f"{type(error).__name__}: {quote(str(error), bare=True)}")
    if options.skip_lfs and any(finding["code"] == faults.LFS_POINTER.code for finding in judged["findings"]):
        return skipped(judged, "a Git LFS pointer: the model itself was not downloaded")
    return judged


def validate(options: Options) -> None:
    """Check the options of a run before its first file.

    :raises ValueError: for an unknown profile, prefix, severity, bound or reading, and a reference of no use
    :raises FormatError: for a reference that cannot be read
    """
    chosen(options.profile, options.select, options.ignore, options.severity)
    for excuse in options.excuses:
        excuses(dict.fromkeys(excuse.codes, excuse.reason))
    dict(checked(options.limits))
    if options.payload not in (None, *READINGS):
        raise ValueError(f"unknown reading {options.payload!r} of payloads; there are: {', '.join(READINGS)}")
    if options.threads < 1:
        raise ValueError(f"{options.threads} threads cannot read: at least 1 is needed")
    if options.reference is not None:
        from i2s_spec.linter.reference.weights import Weights

        if (options.payload or reading_of(options.profile)) == "none":
            raise ValueError("a reference is compared with payloads, which are not to be read")
        Weights(options.reference).close()


def failed(path: str, message: str) -> dict[str, Any]:
    """The report on a file on which something of ours failed as a whole.

    :param message: what happened, in words that need no escaping
    """
    return Report(path, (), {}, bugs=(Bug("lint", message),)).as_dict()


def unreadable(path: str, fault: Fault, **details: str) -> dict[str, Any]:
    """The report on an input that cannot be opened, with a reason of ours."""
    error = FormatError(fault, Span(0, 0), **{name: Words(words) for name, words in details.items()})
    return Report(path, (finding_of(error),), {}).as_dict()


def skipped(judged: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """The report on a file that was not judged, on request."""
    summary = {**judged["summary"], "errors": 0, "warnings": 0, "notes": 0, "elided": {}}
    return {**judged, "ok": True, "findings": [], "skipped": reason, "summary": summary}
