"""This module says which parts of a file were read."""

from __future__ import annotations

from i2s_spec.errors import counted
from i2s_spec.linter.report_data import FileReport


def reading_words(report: FileReport) -> list[str]:
    """Which parts of a file were read, as sentences; empty for a local file that was read whole."""
    words = []
    if "sampled" in report:
        skipped, partly = ", ".join(report["not_evaluated"]), len(report["evaluated_in_part"])
        part = "at most a part of each tensor was read; "
        if "scales" in report:
            part = (
                f"{report['scales']['read']:,} of {counted(report['scales']['of'], 'scale')} and "
                f"the codes before them were read, "
                "since the server gives one range at a time; --remote-limit sample=N allows more requests; "
            )
        clauses = [f"not evaluated: {skipped}" if skipped else "every rule was evaluated"]
        if partly:
            clauses.append(f"{counted(partly, 'rule')} on payloads saw only the sample")
        elif not skipped:
            clauses.append("no tensor is larger than its sample")
        words.append(f"sampled: {part}{'; '.join(clauses)}")
    if "remote" in report:
        remote = report["remote"]
        version = f"version {remote['version']}" if remote["version"] else "the server gives no version"
        words.append(
            f"from a server: {counted(remote['requests'], 'request')}, {counted(remote['bytes'], 'byte')}; {version}"
        )
    return words
