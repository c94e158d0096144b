"""This module defines `lint`: one file in, one `Report` out, whatever the bytes are.

The engine never raises for a file. What stops the reader becomes a finding; the rules then run over what could be read;
a rule that meets a fault while it reads (a file that shrinks under it) leaves a finding too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext

from i2s_spec._version import __version__
from i2s_spec.codec import isa
from i2s_spec.errors import FormatError, Span, TrustedText, quote
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import Origin, Source, source_of
from i2s_spec.inspect.survey.result import Reading
from i2s_spec.light_typing import TYPE_CHECKING, Any
from i2s_spec.linter import rules
from i2s_spec.linter.analysis.subject import Subject
from i2s_spec.linter.options import Options, defaults, options_of, path_of
from i2s_spec.linter.report_data import Bug, Report, Suppressed, excerpt_of
from i2s_spec.linter.rule import Finding, finding_of
from i2s_spec.linter.selection.profile import profile_named
from i2s_spec.schema import faults
from i2s_spec.schema import limits as bounds

if TYPE_CHECKING:
    from i2s_spec.linter.reference.weights import Weights

SCHEMA_VERSION = 1


def lint(
    origin: Origin,
    options: Options | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    weights: Weights | None = None,
    **keywords: Any,
) -> Report:
    """Check one GGUF file by the rules of a profile.

    :param origin: a path, a buffer, a seekable stream or a `Source`; only regular files are opened
    :param options: which rules apply, and how the file is read
    :param progress: called now and then with the bytes of payload that were read, and those to read
    :param weights: the reference of the options, where it is open already
    :param keywords: the fields of `Options`, in place of `options`: `profile`, `select`, `ignore`, `severity`, `limits`,
        `payload`, `threads`, `runtimes`, `suppressed`, `suppressions`, `reference` (also a path alone) and `details`
    :returns: the report; a file is never a reason to raise
    :raises ValueError: for an unknown profile, prefix, severity, bound or reading, or a reference without payloads
    :raises SettingError: where I2S_ISA names kernels that cannot be used
    :raises FormatError: for a reference that cannot be read; the file itself is no reason to raise
    """
    isa.check()
    if options is None:
        options = options_of(keywords) if keywords else defaults()
    elif keywords:
        raise TypeError("options and keywords exclude each other")
    path = path_of(origin)
    with ExitStack() as stack:
        if weights is None:
            weights = stack.enter_context(open_reference(options))
        stack.enter_context(bounds.using(options.limits))
        run = _Run(options, Reading(options.reading, options.threads, progress), path, weights)
        try:
            source = source_of(origin)
        except FormatError as error:
            run.add([finding_of(error)])
            return run.report(str(path))
        try:
            run.file(source)
        finally:
            if path is not None:
                source.close()
    return run.report(str(path if path is not None else source.name))


def open_reference(options: Options) -> AbstractContextManager[Weights | None]:
    """The known weights that options name, as a context that closes them; None where they name no reference.

    :raises ValueError, FormatError, OSError: for a reference that cannot be read
    """
    if options.reference is None:
        return nullcontext()
    from i2s_spec.linter.reference.weights import Weights

    return Weights(options.reference)


class _Run:
    """One file under the rules in force: findings as they come in, bounded in number."""

    def __init__(self, options: Options, reading: Reading, path: str | None, weights: Weights | None) -> None:
        in_force = {
            code: rule if rule.severity is level else rule._replace(severity=level)
            for code, level in options.levels.items()
            if (rule := rules.REGISTRY[code])
        }
        #: Those on the header come first: payloads are read meanwhile.
        self._rules = dict(sorted(in_force.items(), key=lambda item: item[1].late))
        self._options = options
        self._reading = reading
        self._path = path
        self._most_per_rule = bounds.FINDINGS_PER_RULE
        self._reasons = options.suppressed_in(path)
        self._weights = weights
        self._counts: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}
        self._findings: list[Finding] = []
        self._bugs: list[Bug] = []
        self._size: int | None = None
        self._runtimes: tuple[Any, ...] = ()
        self._details: Any = None

    def file(self, source: Source) -> None:
        """Check what a source holds."""
        self._size = source.size
        try:
            file = File(source)
            if file.fault is not None:
                self.add([finding_of(file.fault)])
            subject = Subject(file, self._path, self._reading, self._weights)
            subject.by_document = profile_named(self._options.profile).by_document
        except FormatError as error:  # one of the very first reads failed
            self.add([finding_of(error)])
            return
        try:
            if self._begin(subject) and self._run(subject):
                self._more(subject)
                reason = source.changed()
                if reason is not None:
                    span = Span(0, source.size)
                    self.add([finding_of(FormatError(faults.CHANGED, span, reason=TrustedText(reason)))])
        finally:
            subject.end()
        self._findings = [finding._replace(excerpt=excerpt_of(source, finding.span)) for finding in self._findings]

    def _begin(self, subject: Subject) -> bool:
        """Have the payloads read while the rules on the header run; False where the file went away."""
        try:
            if any(rule.payload for rule in self._rules.values()):
                subject.begin()
        except FormatError as error:
            self.add([finding_of(error)])
            return False
        except Exception as error:
            self._bug("survey", error)
        return True

    def _run(self, subject: Subject) -> bool:
        """Run the rules; False where the file went away under them."""
        fault = subject.file.fault
        if fault is not None and fault.code == faults.TEXT_DECODED.code:  # nothing that was read was in its place
            return True
        for code, rule in self._rules.items():
            if rule.check is None:
                continue
            try:
                self.add(rule.check(subject))
            except FormatError as error:
                self.add([finding_of(error)])
                if error.code in (faults.CHANGED.code, faults.UNREADABLE.code):
                    return False
            except Exception as error:  # a rule that fails is our bug; the others still run
                self._bug(code, error)
        return True

    def _more(self, subject: Subject) -> None:
        """What was asked for beside the findings."""
        try:
            if self._options.runtimes:
                from i2s_spec.linter.runtimes.verdicts import verdicts

                self._runtimes = tuple(verdicts(subject))
            if self._options.details is not None:
                self._details = self._options.details(subject)
        except FormatError as error:
            self.add([finding_of(error)])
        except Exception as error:
            self._bug("report", error)

    def _bug(self, where: str, error: Exception) -> None:
        if os.environ.get("I2S_DEBUG"):
            raise error
        self._bugs.append(Bug(where, f"{type(error).__name__}: {quote(str(error), bare=True)}"))

    def add(self, findings: Iterable[Finding]) -> None:
        """Take findings of rules in force, with the severities of this run."""
        for finding in findings:
            rule = self._rules.get(finding.code)
            if rule is None:
                continue
            if finding.code in self._reasons:
                self._suppressed[finding.code] = self._suppressed.get(finding.code, 0) + 1
                continue
            count = self._counts[finding.code] = self._counts.get(finding.code, 0) + 1
            if count <= self._most_per_rule:
                self._findings.append(finding if finding.rule is rule else finding._replace(rule=rule))

    def report(self, path: str) -> Report:
        """What was found."""
        return Report(
            path,
            tuple(sorted(self._findings, key=lambda f: (f.span.start, f.span.stop, f.code))),
            {code: n - self._most_per_rule for code, n in self._counts.items() if n > self._most_per_rule},
            size=self._size,
            suppressed=tuple(Suppressed(code, n, self._reasons[code]) for code, n in sorted(self._suppressed.items())),
            bugs=tuple(self._bugs),
            runtimes=self._runtimes,
            details=self._details,
        )


def tool() -> dict[str, str]:
    """Which program made a report."""
    return {"name": "i2s-spec", "version": __version__}
