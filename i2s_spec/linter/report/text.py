"""This module defines the report for people: a line for each finding, then the verdict.

    model.gguf:0x1a40..0x1a44: error: I104 tail-missing: the file ends 0 bytes behind the payload of ...

The place is a byte range of the file, so that it can be given to `i2s dump`.
"""

from __future__ import annotations

import click

from i2s_spec.errors import quote
from i2s_spec.linter.engine import Report
from i2s_spec.linter.rule import Finding, Severity

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}


class Text:
    """Plain lines; colours only on a terminal. With `quiet`, files without findings are not mentioned."""

    def __init__(self, colour: bool = False, quiet: bool = False) -> None:
        self._colour = colour
        self._quiet = quiet

    def begin(self) -> str:
        return ""

    def file(self, report: Report) -> str:
        path = quote(report.path, limit=4096, bare=True)
        lines = [self._finding(path, finding) for finding in report.findings]
        for code, count in sorted(report.elided.items()):
            lines.append(f"{path}: {count:,} more findings of {code}")
        if lines or not self._quiet:
            lines.append(f"{path}: {self._verdict(report)}")
        return "".join(line + "\n" for line in lines)

    def end(self, reports: list[Report]) -> str:
        if len(reports) < 2 or self._quiet:
            return ""
        ok = sum(report.ok for report in reports)
        return f"{len(reports):,} files: {ok:,} ok, {len(reports) - ok:,} not\n"

    def _finding(self, path: str, finding: Finding) -> str:
        span = finding.span
        place = f"{path}:0x{span.start:x}..0x{span.stop:x}:" if span.stop else f"{path}:"
        severity = self._styled(finding.severity.value + ":", fg=_COLOURS[finding.severity], bold=True)
        name = self._styled(f"{finding.code} {finding.rule.slug}:", bold=True)
        return f"{place} {severity} {name} {finding.message}"

    def _verdict(self, report: Report) -> str:
        counts = ", ".join(
            f"{count:,} {severity.value}{'s' if count != 1 else ''}"
            for severity in Severity
            if (count := report.count(severity))
        )
        if report.ok:
            return self._styled("ok", fg="green", bold=True) + (f" ({counts})" if counts else "")
        return self._styled(counts, fg="red", bold=True)

    def _styled(self, text: str, fg: str | None = None, bold: bool = False) -> str:
        return click.style(text, fg=fg, bold=bold) if self._colour else text
