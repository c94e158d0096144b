"""This module defines `lint`: one file in, one `Report` out, whatever the bytes are.

The engine never raises for a file. What stops the reader becomes a finding; the rules then run over what could be read;
a rule that meets a fault while it reads (a file that shrinks under it) leaves a finding too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from i2s_spec import __version__
from i2s_spec.errors import FormatError, Span, Words, quote
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import Origin, Source, source_of
from i2s_spec.inspect.reading import Reading
from i2s_spec.linter import rules
from i2s_spec.linter.excerpt import excerpt_of
from i2s_spec.linter.judgement import Bug, Excused, Report
from i2s_spec.linter.profile import READINGS, Choice, Mode, chosen, excuses, reading_of
from i2s_spec.linter.reference.declaration import Reference
from i2s_spec.linter.rule import Finding, Severity, finding_of
from i2s_spec.linter.subject import Subject
from i2s_spec.schema import faults
from i2s_spec.schema import limits as bounds

if TYPE_CHECKING:
    from i2s_spec.linter.reference.weights import Weights

SCHEMA_VERSION = 1


def lint(
    origin: Origin,
    *,
    profile: str = "default",
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    severity: Mapping[str, Severity | str] | None = None,
    excused: Mapping[str, str] | None = None,
    limits: Mapping[str, int] | None = None,
    payload: Mode | None = None,
    threads: int = 1,
    progress: Callable[[int, int], None] | None = None,
    runtimes: bool = False,
    reference: Reference | Origin | None = None,
    details: Callable[[Subject], Any] | None = None,
) -> Report:
    """Judge one GGUF file by the rules of a profile.

    :param origin: a path, a buffer, a seekable stream or a `Source`; only regular files are opened
    :param profile: which rules apply; `default` takes the strictest loader that knows type 36
    :param select: prefixes of codes, or slugs, that apply instead of those of the profile
    :param ignore: prefixes or slugs that do not apply
    :param severity: severities by prefix or slug, over those of the profile
    :param excused: prefixes or slugs whose findings are counted and not listed, each with the reason
    :param limits: bounds by name, over those of `i2s_spec.schema.limits`
    :param payload: how much of the weights is read: `full`, a bounded part of each tensor (`sample`), or `none`; without,
        what the profile says, which is `full` for most
    :param threads: how many threads read them
    :param progress: called now and then with the bytes of payload that were read, and those to read
    :param runtimes: whether to say which runtimes load and compute the file rightly
    :param reference: another file of the same model, whose weights are right: GGUF or safetensors, or a `Reference` that
        also says how both are meant to be packed. It decides what the file alone does not tell
    :param details: called with the file while it is open; what it gives is the report's `details`
    :returns: the report; a file is never a reason to raise
    :raises ValueError: for an unknown profile, prefix, severity, bound or reading, or a reference without payloads
    :raises FormatError: for a reference that cannot be read; the file itself is no reason to raise
    """
    if payload is None:
        payload = reading_of(profile)
    if payload not in READINGS:
        raise ValueError(f"unknown reading {payload!r} of payloads; there are: {', '.join(READINGS)}")
    if threads < 1:
        raise ValueError(f"{threads} threads cannot read: at least 1 is needed")
    if reference is not None and payload == "none":
        raise ValueError("a reference is compared with payloads, which are not to be read")
    choice = chosen(
        profile, select, ignore, severity,
        payload=payload != "none", runtimes=runtimes, reference=reference is not None,
    )  # fmt: skip
    path = os.fspath(origin) if isinstance(origin, str | os.PathLike) else None
    with ExitStack() as stack:
        weights = None
        if reference is not None:
            from i2s_spec.linter.reference.weights import Weights

            told = reference if isinstance(reference, Reference) else Reference(reference)
            weights = stack.enter_context(Weights(told))
        stack.enter_context(bounds.using(limits or {}))
        judge = _Judge(choice, Reading(payload, threads, progress), runtimes, details, excuses(excused or {}), weights)
        try:
            source = source_of(origin)
        except FormatError as error:
            judge.add([finding_of(error)])
            return judge.report(str(path))
        try:
            judge.file(source, path)
        finally:
            if path is not None:
                source.close()
    return judge.report(str(path if path is not None else source.name))


class _Judge:
    """One file under the rules of a choice: findings as they come in, bounded in number."""

    def __init__(
        self,
        choice: Choice,
        reading: Reading,
        runtimes: bool,
        details: Callable[[Subject], Any] | None,
        excused: Mapping[str, str],
        weights: Weights | None,
    ) -> None:
        in_force = {
            code: rule if rule.severity is level else rule._replace(severity=level)
            for code, level in choice.levels.items()
            if (rule := rules.REGISTRY[code])
        }
        #: Those on the header come first: payloads are read meanwhile.
        self._rules = dict(sorted(in_force.items(), key=lambda item: item[1].late))
        self._reading = reading
        self._kept_per_rule = bounds.FINDINGS_PER_RULE
        self._wants_runtimes = runtimes
        self._make_details = details
        self._excused = excused
        self._weights = weights
        self._counts: dict[str, int] = {}
        self._forgiven: dict[str, int] = {}
        self._findings: list[Finding] = []
        self._bugs: list[Bug] = []
        self._size: int | None = None
        self._runtimes: tuple[Any, ...] = ()
        self._details: Any = None

    def file(self, source: Source, path: str | None) -> None:
        """Judge what a source holds."""
        self._size = source.size
        try:
            file = File(source)
            if file.fault is not None:
                self.add([finding_of(file.fault)])
            subject = Subject(file, path, self._reading, self._weights)
        except FormatError as error:  # one of the very first reads failed
            self.add([finding_of(error)])
            return
        try:
            if self._begin(subject) and self._run(subject):
                self._more(subject)
                reason = source.changed()
                if reason is not None:
                    span = Span(0, source.size)
                    self.add([finding_of(FormatError(faults.CHANGED, span, reason=Words(reason)))])
        finally:
            subject.end()
        self._findings = [finding._replace(excerpt=excerpt_of(source, finding.span)) for finding in self._findings]
        if self._make_details is None:  # nobody else has seen the file
            file.forget()

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
        for code, rule in self._rules.items():
            if rule.check is None:
                continue
            try:
                self.add(rule.check(subject))
            except FormatError as error:
                self.add([finding_of(error)])
                if error.code in (faults.CHANGED.code, faults.UNREADABLE.code):
                    return False
            except Exception as error:  # a rule that fails is our bug; the others still judge
                self._bug(code, error)
        return True

    def _more(self, subject: Subject) -> None:
        """What was asked for beside the findings."""
        try:
            if self._wants_runtimes:
                from i2s_spec.linter.runtimes import verdicts

                self._runtimes = tuple(verdicts(subject))
            if self._make_details is not None:
                self._details = self._make_details(subject)
        except FormatError as error:
            self.add([finding_of(error)])
        except Exception as error:
            self._bug("report", error)

    def _bug(self, where: str, error: Exception) -> None:
        if os.environ.get("I2S_DEBUG"):
            raise error
        self._bugs.append(Bug(where, f"{type(error).__name__}: {quote(str(error), bare=True)}"))

    def add(self, findings: Iterable[Finding]) -> None:
        """Keep findings of rules in force, with the severities of the choice."""
        for finding in findings:
            rule = self._rules.get(finding.code)
            if rule is None:
                continue
            if finding.code in self._excused:
                self._forgiven[finding.code] = self._forgiven.get(finding.code, 0) + 1
                continue
            count = self._counts[finding.code] = self._counts.get(finding.code, 0) + 1
            if count <= self._kept_per_rule:
                self._findings.append(finding if finding.rule is rule else finding._replace(rule=rule))

    def report(self, path: str) -> Report:
        """The verdict."""
        return Report(
            path,
            tuple(sorted(self._findings, key=lambda f: (f.span.start, f.span.stop, f.code))),
            {code: n - self._kept_per_rule for code, n in self._counts.items() if n > self._kept_per_rule},
            size=self._size,
            excused=tuple(Excused(code, n, self._excused[code]) for code, n in sorted(self._forgiven.items())),
            bugs=tuple(self._bugs),
            runtimes=self._runtimes,
            details=self._details,
        )


def tool() -> dict[str, str]:
    """Which program made a report."""
    return {"name": "i2s-spec", "version": __version__}
