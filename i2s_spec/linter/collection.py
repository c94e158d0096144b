"""This module collects the findings of one run as a `Report`: those of active rules, bounded in number."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from i2s_spec.errors import quote
from i2s_spec.linter.report_data import Bug, Report, Suppressed
from i2s_spec.linter.rule import Finding, Severity
from i2s_spec.schema import limits as bounds


class Collection:
    """Collects findings.

    :param levels: the severity of each active rule in this run, by code
    :param reasons: codes whose findings are counted and not listed, each with the reason
    """

    def __init__(self, levels: Mapping[str, Severity], reasons: Mapping[str, str]) -> None:
        self.levels = levels
        self.findings: list[Finding] = []
        self.bugs: list[Bug] = []
        self._reasons = reasons
        self._most_per_rule = bounds.FINDINGS_PER_RULE
        self._counts: dict[str, int] = {}
        self._suppressed: dict[str, int] = {}

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings of active rules, with the severities of this run."""
        for finding in findings:
            level = self.levels.get(finding.code)
            if level is None:
                continue
            if finding.code in self._reasons:
                self._suppressed[finding.code] = self._suppressed.get(finding.code, 0) + 1
                continue
            count = self._counts[finding.code] = self._counts.get(finding.code, 0) + 1
            if count <= self._most_per_rule:
                made = finding.rule
                if made.severity is not level:
                    finding = finding._replace(rule=made._replace(severity=level))  # noqa: PLW2901
                self.findings.append(finding)

    def bug(self, where: str, error: Exception) -> None:
        """Add an internal error.

        :raises Exception: the same exception, if I2S_DEBUG is set
        """
        if os.environ.get("I2S_DEBUG"):
            raise error
        self.bugs.append(Bug(where, f"{type(error).__name__}: {quote(str(error), bare=True)}"))

    def report(self, path: str, **more: Any) -> Report:
        """The report.

        :param more: further fields of `Report`
        """
        return Report(
            path,
            tuple(sorted(self.findings, key=lambda f: (f.span.start, f.span.stop, f.code))),
            {code: n - self._most_per_rule for code, n in self._counts.items() if n > self._most_per_rule},
            suppressed=tuple(Suppressed(code, n, self._reasons[code]) for code, n in sorted(self._suppressed.items())),
            bugs=tuple(self.bugs),
            **more,
        )
