"""The reports for programs: JSON in one document or one object a line, a badge of shields.io, and JUnit's XML.

The shape of the JSON is versioned by `schema_version` and described in `lint.schema.json` of the package. Keys are in a
fixed order, there are no timestamps, and everything from a file is escaped, so equal inputs give equal bytes. Integers
beyond 2^53 are there as text too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from i2s_spec._version import tool
from i2s_spec.draw.text import with_exact, xml_text
from i2s_spec.linter.report import Format
from i2s_spec.linter.report.text import proof, reading_words, text_table
from i2s_spec.linter.report_data import FileReport, Totals, elided_words, suppressed_words
from i2s_spec.linter.rule import Severity
from i2s_spec.schema.faults import NO_INPUT

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
        good = "sampled, no error in what was read" if self._sampled else "no error in what was checked"
        good = good if self._sampled or totals["in part"] else "ok"
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
    return json.dumps(with_exact(value), indent=2, ensure_ascii=True, allow_nan=False)


def _line(value: Any) -> str:
    return json.dumps(with_exact(value), ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"


def _indented(text: str, by: int) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())


# --- JUnit -----------------------------------------------------------------------------------------------------------
# Continuous integration servers show this XML as tests. A file is a suite. Each finding in it is a test case: `failure`
# if the finding is at or above `--fail-on`, passed with output if it is below, `error` if the input could not be read or
# i2s-spec itself failed. A file without findings has one test case, which passed. The document is ASCII, whatever the
# encoding of the stream.


class JUnit(Format):
    """One document with a suite for each file.

    Its first element counts all test cases, so the suites are kept as text until the last one is known.
    """

    def __init__(self, colour: bool = False, quiet: bool = False, fail_on: Severity | None = Severity.ERROR) -> None:
        super().__init__(colour, quiet, fail_on)
        self._suites: list[str] = []
        self._totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)

    def _file(self, file_report: FileReport) -> str:
        cases = list(self._cases(file_report))
        counts = {kind: sum(found == kind for found, _ in cases) for kind in ("failure", "error", "skipped")}
        attributes = {
            "name": file_report["path"],
            "tests": len(cases),
            "failures": counts["failure"],
            "errors": counts["error"],
            "skipped": counts["skipped"],
        }
        for name in self._totals:
            self._totals[name] += int(attributes[name])
        out = _element("system-out", {}, "\n".join(self._remarks(file_report)))
        suite = f"  <testsuite{_attributes(attributes)}>\n{''.join(text for _, text in cases)}{out}  </testsuite>\n"
        self._suites.append(suite)
        return ""

    def end(self, totals: Totals) -> str:
        root = _attributes({"name": "i2s lint", **self._totals})
        suites, self._suites = "".join(self._suites), []
        return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites{root}>\n{suites}</testsuites>\n'

    def _cases(self, file_report: FileReport) -> Iterator[tuple[str, str]]:
        """Yield the outcome of each test case, and its element."""
        path = file_report["path"]
        for bug in file_report["bugs"]:
            words = f"internal error in {bug['where']}: {bug['message']}"
            yield "error", _case(path, "i2s-spec", _element("error", {"message": words, "type": "bug"}, words))
        if "skipped" in file_report:
            yield "skipped", _case(path, "lint", _element("skipped", {"message": file_report["skipped"]}, ""))
        elif not file_report["findings"] and not file_report["bugs"]:
            yield "passed", _case(path, "lint", "")
        for finding in file_report["findings"]:
            what = self._became(finding)
            span = finding["span"]
            words = f"0x{span['start']:x}..0x{span['stop']:x}: {finding['severity']}: {finding['message']}"
            body = "\n".join([words, *proof(finding, file_report["size"])])
            attributes = {"message": finding["message"], "type": finding["severity"]}
            inner = _element("system-out", {}, body) if what == "passed" else _element(what, attributes, body)
            name = f"{finding['code']} {finding['slug']}" + (f" at {span['path']}" if span["path"] else "")
            yield what, _case(path, name, inner)

    def _became(self, finding: Mapping[str, Any]) -> str:
        if finding["code"] in NO_INPUT:
            return "error"
        severity = Severity(finding["severity"])
        return "failure" if self._fail_on is not None and severity.rank >= self._fail_on.rank else "passed"

    def _remarks(self, file_report: FileReport) -> Iterator[str]:
        yield from reading_words(file_report)
        yield from (words for _, words in elided_words(file_report))
        yield from suppressed_words(file_report)
        yield from text_table(file_report)


def _case(path: str, name: str, inner: str) -> str:
    return f"    <testcase{_attributes({'classname': path, 'name': name})}>\n{inner}    </testcase>\n"


def _element(name: str, attributes: Mapping[str, Any], text: str) -> str:
    if not text and not attributes:
        return ""
    return f"      <{name}{_attributes(attributes)}>{xml_text(text)}</{name}>\n"


def _attributes(values: Mapping[str, Any]) -> str:
    return "".join(f' {name}="{xml_text(str(value))}"' for name, value in values.items())
