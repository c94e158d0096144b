"""This module adds up what many files came to, and gives the exit code of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from i2s_spec.linter.rule import Severity

#: A report as plain data, in the form that `lint --format json` gives for each file.
Judged = Mapping[str, Any]

#: Exit codes from the worst to the best: our bug, unreadable, findings, nothing.
WORST = (4, 3, 1, 0)


class Totals:
    """Counts over the files of a run; they take no more room for more files."""

    def __init__(self, fail_on: Severity | None = Severity.ERROR) -> None:
        self._fail_on = fail_on
        self._counts = {
            "files": 0,
            "ok": 0,
            "unreadable": 0,
            **{f"{severity.value}s": 0 for severity in Severity},
            "excused": 0,
            "baseline": 0,
            "skipped": 0,
            "bugs": 0,
        }
        self.codes: dict[str, int] = {}
        self.exit_code = 0

    def add(self, judged: Judged) -> None:
        """Count one file."""
        counts, summary = self._counts, judged["summary"]
        counts["files"] += 1
        counts["ok"] += bool(judged["ok"])
        counts["unreadable"] += not summary["readable"]
        for severity in Severity:
            counts[f"{severity.value}s"] += summary[f"{severity.value}s"]
        counts["excused"] += sum(excused["findings"] for excused in judged["excused"])
        counts["baseline"] += summary.get("baseline", 0)
        counts["skipped"] += "skipped" in judged
        counts["bugs"] += len(judged["bugs"])
        for finding in judged["findings"]:
            self.codes[finding["code"]] = self.codes.get(finding["code"], 0) + 1
        for code, elided in summary["elided"].items():
            self.codes[code] = self.codes.get(code, 0) + elided
        self.fail(exit_code(judged, self._fail_on))

    def fail(self, code: int) -> None:
        """Let an exit code count; the worst stays."""
        self.exit_code = min(self.exit_code, code, key=WORST.index)

    def __getitem__(self, name: str) -> int:
        return self._counts[name]

    def as_dict(self) -> dict[str, int]:
        """The counts by name, in a fixed order."""
        return dict(self._counts)


def exit_code(judged: Judged, fail_on: Severity | None = Severity.ERROR) -> int:
    """4 where something of ours failed on a file, 3 where there was nothing to judge, 1 where a finding is at or above
    `fail_on`, else 0; a file that was skipped counts as nothing found."""
    if judged["bugs"]:
        return 4
    if "skipped" in judged:
        return 0
    if not judged["summary"]["readable"]:
        return 3
    if fail_on is None:
        return 0
    return int(any(judged["summary"][f"{level.value}s"] for level in Severity if level.rank >= fail_on.rank))
