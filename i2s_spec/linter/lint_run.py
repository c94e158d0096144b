"""A run of `i2s lint` over many files: what it was asked for, and what becomes of each report.

    options and configuration -> LintRun -> each report: baseline, suppressions, totals -> what remains to be said

The caller prints.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from i2s_spec.compare import Reference
from i2s_spec.errors import EXIT_FINDINGS, FormatError, counted, quote
from i2s_spec.linter.engine import open_reference
from i2s_spec.linter.options import Config, Options, RunOptions, found
from i2s_spec.linter.report import details_of, kind
from i2s_spec.linter.report_data import FileReport, Totals
from i2s_spec.linter.selection import used
from i2s_spec.remote.policy import current
from i2s_spec.schema.dialect import parse

if TYPE_CHECKING:
    from i2s_spec.compare.header_record import HeaderRecord
    from i2s_spec.compare.known_weights import ReferenceWeights
    from i2s_spec.linter.baseline import Baseline


class WrongCallError(ValueError):
    """Options that cannot be followed; they are found before a file is opened."""


class LintRun:
    """A run over many files.

    :param given: the value of every option of `Options` and `RunOptions`
    :param asked: the names of the options that the caller asked for; for the others the configuration counts first
    :raises WrongCallError: where an option cannot be followed, such as a code that no rule has
    :raises SettingError: for a wrong configuration or baseline
    """

    def __init__(self, given: Mapping[str, Any], asked: Collection[str]) -> None:
        #: What is to be said about the configuration, before the files.
        self.remarks: list[str] = []
        config = Config() if given["no_config"] else found(explicit=given["config"])
        if config.was_found and given["profile"] == "security" and "profile" in asked:
            self.remarks += map(_not_counted, config.affecting_findings())
            config = config.without_verdict_keys()
        #: The files of the configuration.
        self.configurations = sorted({*config.places.values()})
        self.how = RunOptions(**config.settings(RunOptions, given, asked))
        #: The format on standard output or in --output, and those of the other reports.
        self.forms = [kind(name) for name in (self.how.form, *self.how.reports.values())]
        details = details_of(self.forms)
        dialect, record = _expected(self.how)
        reference = _reference(self.how, dialect)
        try:
            self.options = Options(
                **config.settings(Options, given, asked),
                suppressions=config.suppressions,
                details=details,
                record=record,
                remote=current(),
            )
        except ValueError as error:
            raise WrongCallError(str(error)) from None
        if reference is not None:
            try:
                self.options = replace(self.options, reference=reference)
            except ValueError as error:
                raise WrongCallError(f"--reference: {error}") from None
        self._baseline = _baseline(self.how, self.options)
        everywhere = self.how.engine is not None and "jobs" not in asked and "jobs" not in config.values
        #: How many processes check files.
        self.jobs = (0 if everywhere else self.how.jobs) or _processors()
        self.totals = Totals(None if self.how.write_baseline else self.how.threshold, config.affecting_findings())
        self._idle = set(self.options.suppressions)

    def weights(self) -> AbstractContextManager[ReferenceWeights | None]:
        """Return the weights of the reference, opened once for the run.

        :raises WrongCallError: where it cannot be read
        """
        try:
            return open_reference(self.options)
        except FormatError as error:
            from i2s_spec.draw.text import fault_words

            reason = fault_words(error)
        except ValueError as error:
            raise WrongCallError(f"--reference: {error}") from None
        except OSError as error:
            reason = str(error.strerror or error)
        assert self.options.reference is not None
        name = quote(str(self.options.reference.origin), 4096, bare=True)
        raise WrongCallError(f"--reference {name}: {reason}") from None

    def take(self, path: str, report: FileReport) -> FileReport:
        """Count the report on a file; give it without the findings in the baseline."""
        if self._baseline is not None:
            report = self._baseline.apply(path, report, self.how.write_baseline)
        if self._idle and report["excused"]:
            self._idle -= used(self._idle, path, report)
        self.totals.add(report)
        return report

    def stale(self) -> list[str]:
        """Return the entries of the baseline that no longer occur, which fail the run; called after the last report."""
        if self._baseline is None or self.how.write_baseline:
            return []
        gone = list(self._baseline.stale())
        if gone:
            self.totals.fail(EXIT_FINDINGS)
        return gone

    def end(self, stale: Collection[str]) -> Iterator[str]:
        """Write the baseline, if that was asked for, and yield what concerns the run as a whole, in sentences."""
        if self._baseline is not None and self.how.write_baseline:
            count = self._baseline.write()
            remark = f"{counted(count, 'entry', 'entries')} in {quote(self._baseline.path, bare=True)}"
            if left := self._baseline.unreadable:
                stay = counted(
                    left, "unreadable file is not in it, and fails", "unreadable files are not in it, and fail"
                )
                remark += f"; {stay} later runs too"
            yield remark
        for sentence in stale:
            yield f"baseline: {sentence}"
        if stale and self._baseline is not None:
            yield f"take them out with --baseline {quote(self._baseline.path, bare=True)} --write-baseline"
        for suppression in self.options.suppressions:
            if suppression in self._idle and not self.how.quiet:
                codes, files = (quote(text, bare=True) for text in (", ".join(suppression.codes), suppression.files))
                yield f"note: the suppression of {codes} in {files} covered nothing"


def _not_counted(change: tuple[str, tuple[str, ...]]) -> str:
    """Say what a configuration that was found would have changed, had the profile security not been asked for."""
    place, keys = change
    return f"{', '.join(keys)} of {place} do not count under --profile security; --config {place} makes them count"


def _expected(how: RunOptions) -> tuple[str | None, HeaderRecord | None]:
    """Return what files should be: a dialect, or a record of their header."""
    if how.expect is None:
        return None, None
    try:
        parse(how.expect)
    except ValueError:
        from i2s_spec.compare.header_record import HeaderRecord  # few runs have one

        if not os.path.lexists(how.expect):
            name = quote(how.expect, 4096, bare=True)
            raise WrongCallError(f"--expect {name}: there is no such record, and no such dialect") from None
        return None, HeaderRecord(how.expect)
    return how.expect, None


def _reference(how: RunOptions, expected: str | None) -> Reference | None:
    """Return what the files are compared with, if that was asked for."""
    if how.reference is not None:
        return Reference(how.reference, how.reference_dialect or "canonical", expected or "canonical")
    if how.reference_dialect is not None or expected is not None:
        raise WrongCallError("--reference-dialect and --expect DIALECT need --reference")
    return None


def _baseline(how: RunOptions, options: Options) -> Baseline | None:
    if how.baseline is None:
        if how.write_baseline:
            raise WrongCallError("--write-baseline needs --baseline FILE, the file to write")
        return None
    from i2s_spec.linter.baseline import Baseline  # few runs have one

    if how.write_baseline and not os.path.lexists(how.baseline):
        return Baseline(how.baseline, options.levels)
    return Baseline.read(how.baseline, options.levels)


def _processors() -> int:
    """Return how many processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1
