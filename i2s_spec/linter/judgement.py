"""This module defines the verdict on a file: a `Report`, and the same as plain data.

Plain data are what leaves the process: every text from the file is escaped in them.
"""

import os
from typing import Any, NamedTuple

from i2s_spec.errors import quote
from i2s_spec.linter.rule import Finding, Severity
from i2s_spec.schema import faults


class Excused(NamedTuple):
    """Findings of one rule that somebody gave a reason not to list."""

    code: str
    findings: int
    reason: str


class Bug(NamedTuple):
    """Something of ours that failed on a file: the code of the rule, or the part of the program, and the exception."""

    where: str
    message: str


class Report(NamedTuple):
    """The verdict on one file: its findings in the order of the bytes, at most `FINDINGS_PER_RULE` of each rule.

    `elided` counts the findings that were left out, by code. `size` is that of the file in bytes, None where it could not
    be opened. `runtimes` says what runtimes make of the file, and `details` is what a report format wants to know beyond
    the findings; both are there only if they were asked for.
    """

    path: str
    findings: tuple[Finding, ...]
    elided: dict[str, int]
    size: int | None = None
    excused: tuple[Excused, ...] = ()
    bugs: tuple[Bug, ...] = ()
    runtimes: tuple[Any, ...] = ()
    details: Any = None

    @property
    def ok(self) -> bool:
        """No error was found, and nothing of ours failed."""
        return self.count(Severity.ERROR) == 0 and not self.bugs

    @property
    def readable(self) -> bool:
        """Whether the input could be read and is a GGUF file."""
        return not any(finding.code in faults.NO_INPUT for finding in self.findings)

    def count(self, severity: Severity) -> int:
        """How many findings have this severity, with those that were left out."""
        level = {finding.code: finding.severity for finding in self.findings}
        kept = sum(finding.severity is severity for finding in self.findings)
        return kept + sum(n for code, n in self.elided.items() if level[code] is severity)

    def exit_code(self, fail_on: Severity | None = Severity.ERROR) -> int:
        """4 where something of ours failed, 3 where there was nothing to judge, 1 where a finding is at or above
        `fail_on`, else 0."""
        if self.bugs:
            return 4
        if not self.readable:
            return 3
        if fail_on is None:
            return 0
        return int(any(self.count(severity) for severity in Severity if severity.rank >= fail_on.rank))

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, in the form that `lint --format json` gives for each file."""
        more: dict[str, Any] = {}
        if self.runtimes:
            more["runtimes"] = [verdict.as_dict() for verdict in self.runtimes]
        if self.details is not None:
            more["details"] = self.details
        return {
            "path": quote(self.path, limit=4096, bare=True),
            "uri": uri_of(self.path),
            "size": self.size,
            "ok": self.ok,
            "findings": [finding_dict(finding) for finding in self.findings],
            "excused": [excused._asdict() for excused in self.excused],
            "bugs": [bug._asdict() for bug in self.bugs],
            **more,
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
        "bytes": {"start": excerpt.start, "hex": excerpt.data.hex()} if (excerpt := finding.excerpt) else None,
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


def uri_of(path: str) -> str:
    """A path as a URI reference (RFC 3986) that loses nothing: bytes that are no plain characters become `%NN`."""
    if path.startswith("/"):
        return "file://" + _percent(path)
    return _percent(path)


def _percent(path: str) -> str:
    return "".join(
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or byte in b"-._~/") else f"%{byte:02X}"
        for byte in os.fsencode(path)
    )
