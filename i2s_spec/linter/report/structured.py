"""This module defines the reports for programs: one JSON document, or one JSON object a line.

Their shape is versioned by `schema_version` and described in `lint.schema.json` of the package. Keys are in a fixed order,
there are no timestamps, and everything from a file is escaped, so equal inputs give equal bytes.
"""

from __future__ import annotations

import json
from typing import Any

from i2s_spec.linter.engine import SCHEMA_VERSION, Report, summary, tool


class Json:
    """One document: `{schema_version, tool, files, summary}`."""

    def __init__(self, colour: bool = False, quiet: bool = False) -> None:
        self._first = True

    def begin(self) -> str:
        head = {"schema_version": SCHEMA_VERSION, "tool": tool()}
        return _dumps(head)[:-2] + ',\n  "files": ['

    def file(self, report: Report) -> str:
        comma, self._first = "" if self._first else ",", False
        return comma + "\n" + _indented(_dumps(report.as_dict()), 4)

    def end(self, reports: list[Report]) -> str:
        close = "]" if self._first else "\n  ]"
        return f'{close},\n  "summary": {_indented(_dumps(summary(reports)), 2).lstrip()}\n}}\n'


class JsonLines:
    """One line for each file as it is judged, of type `file`, and a last one of type `summary`."""

    def __init__(self, colour: bool = False, quiet: bool = False) -> None:
        pass

    def begin(self) -> str:
        return ""

    def file(self, report: Report) -> str:
        return _line({"schema_version": SCHEMA_VERSION, "type": "file", **report.as_dict()})

    def end(self, reports: list[Report]) -> str:
        return _line({"schema_version": SCHEMA_VERSION, "type": "summary", "tool": tool(), **summary(reports)})


def _dumps(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=True, allow_nan=False)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())
