"""The codes of a report's findings."""

from __future__ import annotations

from typing import Any

from i2s_spec.linter.engine import Report, lint


def codes(report: Report | dict[str, Any]) -> set[str]:
    """The codes of a report, or of one as data."""
    if isinstance(report, dict):
        return {finding["code"] for finding in report["findings"]}
    return {finding.code for finding in report.findings}


def codes_of(data: Any, **options: Any) -> set[str]:
    """The codes that `lint` gives a file."""
    return codes(lint(data, **options))
