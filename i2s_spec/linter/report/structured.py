"""This module defines the reports for programs: one JSON document, or one JSON object a line.

Their shape is versioned by `schema_version` and described in `lint.schema.json` of the package. Keys are in a fixed order,
there are no timestamps, and everything from a file is escaped, so equal inputs give equal bytes.
"""

from __future__ import annotations

import json
from typing import Any

from i2s_spec._version import tool
from i2s_spec.linter.report import Format
from i2s_spec.linter.report_data import FileReport, Totals
from i2s_spec.linter.rule import Severity

SCHEMA_VERSION = 1


class Json(Format):
    """One document: `{schema_version, tool, files, summary}`."""

    _first = True

    def begin(self) -> str:
        head = {"schema_version": SCHEMA_VERSION, "tool": tool(), **({"profile": self.profile} if self.profile else {})}
        return _dumps(head)[:-2] + ',\n  "files": ['

    def _file(self, file_report: FileReport) -> str:
        comma, self._first = "" if self._first else ",", False
        return comma + "\n" + _indented(_dumps(file_report), 4)

    def end(self, totals: Totals) -> str:
        close = "]" if self._first else "\n  ]"
        return f'{close},\n  "summary": {_indented(_dumps(totals.as_dict()), 2).lstrip()}\n}}\n'


class Shields(Format):
    """The JSON for a badge of shields.io: how many files passed, and whether only samples were read."""

    def __init__(self, colour: bool = False, quiet: bool = False, fail_on: Severity | None = Severity.ERROR) -> None:
        super().__init__(colour, quiet, fail_on)
        self._sampled = False

    def _file(self, file_report: FileReport) -> str:
        self._sampled |= "sampled" in file_report
        return ""

    def end(self, totals: Totals) -> str:
        files = totals["files"] - totals["skipped"]
        passed = totals.exit_code == 0
        good = "sampled, no error in what was read" if self._sampled else "ok"
        words = f"{totals['ok']:,} of {files:,} {good}" if files else "no file"
        colour = "brightgreen" if passed and files else "lightgrey" if passed else "red"
        return _line({"schemaVersion": 1, "label": "i2s lint", "message": words, "color": colour})


class JsonLines(Format):
    """One line for each file as it is checked, of type `file`, and a last one of type `summary`."""

    def _file(self, file_report: FileReport) -> str:
        return _line({"schema_version": SCHEMA_VERSION, "type": "file", **file_report})

    def end(self, totals: Totals) -> str:
        profile = {"profile": self.profile} if self.profile else {}
        return _line(
            {"schema_version": SCHEMA_VERSION, "type": "summary", "tool": tool(), **profile, **totals.as_dict()}
        )


def _dumps(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())
