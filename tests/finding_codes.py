"""The codes of a report's findings, without those that are noted about every model that is made here (`NOTED`)."""

from __future__ import annotations

from typing import Any

from i2s_spec.linter.engine import Report, lint
from i2s_spec.testing.sample import NOTED


def codes(report: Report | dict[str, Any]) -> set[str]:
    """The codes of a report, or of one as data."""
    if isinstance(report, dict):
        return {finding["code"] for finding in report["findings"]} - NOTED
    return {finding.code for finding in report.findings} - NOTED


def codes_of(data: Any, **options: Any) -> set[str]:
    """The codes that `lint` gives a file."""
    return codes(lint(data, **options))
