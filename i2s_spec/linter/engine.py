"""This module defines `lint`: one file in, one `Report` out, whatever the bytes are.

The engine never raises for a file. What stops the reader becomes a finding; the rules then run over what could be read;
a rule that meets a fault while it reads (a file that shrinks under it) leaves a finding too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

from i2s_spec import __version__
from i2s_spec.errors import FormatError, Span, Words, quote
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import Origin, source_of
from i2s_spec.linter import rules
from i2s_spec.linter.rule import Finding, Severity, finding_of
from i2s_spec.linter.subject import Subject
from i2s_spec.schema import faults

SCHEMA_VERSION = 1

#: Which rules a profile applies; more come with the runtimes.
PROFILES = ("default",)

#: Findings of one rule that a report keeps; the rest are counted.
KEPT_PER_RULE = 100


class Report(NamedTuple):
    """The verdict on one file: its findings in the order of the bytes, at most `KEPT_PER_RULE` of each rule.

    `elided` counts the findings that were left out, by code.
    """

    path: str
    findings: tuple[Finding, ...]
    elided: dict[str, int]

    @property
    def ok(self) -> bool:
        """No error was found."""
        return self.count(Severity.ERROR) == 0

    @property
    def readable(self) -> bool:
        """Whether the input could be read and is a GGUF file."""
        return not any(finding.code in faults.NO_INPUT for finding in self.findings)

    def count(self, severity: Severity) -> int:
        """How many findings have this severity, with those that were left out."""
        kept = sum(finding.severity is severity for finding in self.findings)
        left_out = sum(n for code, n in self.elided.items() if rules.REGISTRY[code].severity is severity)
        return kept + left_out

    def exit_code(self, fail_on: Severity | None = Severity.ERROR) -> int:
        """3 where there was nothing to judge, 1 where a finding is at or above `fail_on`, else 0."""
        if not self.readable:
            return 3
        if fail_on is None:
            return 0
        return int(any(self.count(severity) for severity in Severity if severity.rank >= fail_on.rank))

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, in the form that `lint --format json` gives for each file."""
        return {
            "path": quote(self.path, limit=4096, bare=True),
            "ok": self.ok,
            "findings": [finding_dict(finding) for finding in self.findings],
            "summary": {
                "readable": self.readable,
                **{f"{severity.value}s": self.count(severity) for severity in Severity},
                "elided": dict(sorted(self.elided.items())),
            },
        }


def finding_dict(finding: Finding) -> dict[str, Any]:
    """A finding as plain data; text and bytes from the file are escaped."""
    return {
        "code": finding.code,
        "slug": finding.rule.slug,
        "severity": finding.severity.value,
        "message": finding.message,
        "span": {"start": finding.span.start, "stop": finding.span.stop, "path": quote(finding.span.path, bare=True)},
        "got": _plain(finding.got),
        "want": _plain(finding.want),
        "clause": finding.rule.clause,
        "fix": finding.rule.fix.value,
    }


def _plain(value: Any) -> Any:
    """A value of a finding as JSON can hold it."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)  # JSON has no NaN and no infinities
    if isinstance(value, str | bytes):
        return quote(value, bare=True)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)


def lint(origin: Origin, *, profile: str = "default") -> Report:
    """Judge one GGUF file by every rule of a profile.

    :param origin: a path, a buffer, a seekable stream or a `Source`; only regular files are opened
    :param profile: which rules apply; `default` takes the strictest loader that knows type 36
    :returns: the report; a file is never a reason to raise
    :raises ValueError: for an unknown profile
    """
    if profile not in PROFILES:
        raise ValueError(f"unknown profile {profile!r}; there are: {', '.join(PROFILES)}")
    path = os.fspath(origin) if isinstance(origin, str | os.PathLike) else None
    collected = _Collected()
    try:
        source = source_of(origin)
    except FormatError as error:
        collected.add([finding_of(error)])
        return collected.report(str(path))
    name = path if path is not None else source.name
    try:
        _judge(source, path, collected)
    finally:
        if path is not None:
            source.close()
    return collected.report(str(name))


def _judge(source: Any, path: str | None, collected: _Collected) -> None:
    try:
        file = File(source)
    except FormatError as error:  # the very first read failed
        collected.add([finding_of(error)])
        return
    if file.fault is not None:
        collected.add([finding_of(file.fault)])
    subject = Subject(file, path)
    for rule in rules.REGISTRY.values():
        if rule.check is None:
            continue
        try:
            collected.add(rule.check(subject))
        except FormatError as error:
            collected.add([finding_of(error)])
            if error.code in (faults.CHANGED.code, faults.UNREADABLE.code):
                return
    reason = source.changed()
    if reason is not None:
        collected.add([finding_of(FormatError(faults.CHANGED, Span(0, source.size), reason=Words(reason)))])


class _Collected:
    """Findings as they come in, bounded in number."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.counts: dict[str, int] = {}

    def add(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            count = self.counts[finding.code] = self.counts.get(finding.code, 0) + 1
            if count <= KEPT_PER_RULE:
                self.findings.append(finding)

    def report(self, path: str) -> Report:
        findings = tuple(sorted(self.findings, key=lambda f: (f.span.start, f.span.stop, f.code)))
        elided = {code: n - KEPT_PER_RULE for code, n in self.counts.items() if n > KEPT_PER_RULE}
        return Report(path, findings, elided)


def tool() -> dict[str, str]:
    """Which program made a report."""
    return {"name": "i2s-spec", "version": __version__}


def summary(reports: Iterable[Report]) -> dict[str, int]:
    """Totals over several reports."""
    reports = list(reports)
    return {
        "files": len(reports),
        "ok": sum(report.ok for report in reports),
        "unreadable": sum(not report.readable for report in reports),
        **{f"{severity.value}s": sum(report.count(severity) for report in reports) for severity in Severity},
    }
