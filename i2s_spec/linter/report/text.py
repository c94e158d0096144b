"""This module defines the reports for people: each finding with its bytes, or a line for each; then the verdict.

    model.gguf:0x1a40..0x1a44: error: I104 tail-missing: the file ends 0 bytes after the payload of ...
      1a40  12 34 56 78 ...

The place is a byte range of the file, so that it can be given to `i2s dump`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from i2s_spec.light_typing import Any
from i2s_spec.linter.report import Format
from i2s_spec.linter.report.proof import proof
from i2s_spec.linter.report.runtime_table import text_table
from i2s_spec.linter.report_data import FileReport, Totals
from i2s_spec.linter.rule import Severity

#: The codes that a terminal has for colours.
_SGR = {"red": 31, "green": 32, "yellow": 33, "cyan": 36}
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


class Text(Format):
    """Lines of text; colours only on a terminal. With `quiet`, files without findings are not mentioned."""

    bytes_shown = True

    def _file(self, file_report: FileReport) -> str:
        return "".join(line + "\n" for line in self._lines(file_report))

    def _lines(self, file_report: FileReport) -> Iterator[str]:
        path, silent = file_report["path"], True
        for finding in file_report["findings"]:
            yield self._finding(path, finding)
            if self.bytes_shown:
                yield from (self._dim("  " + line) for line in proof(finding, file_report["size"]))
            silent = False
        for code, count in file_report["summary"]["elided"].items():
            yield f"{path}: {count:,} more finding{_s(count)} of {code}"
        for bug in file_report["bugs"]:
            advice = "this is a bug in i2s-spec; run again with I2S_DEBUG=1 for the traceback"
            yield f"{path}: {self._styled('internal error:', 'red')} {bug['where']}: {bug['message']} ({advice})"
            silent = False
        for suppressed in () if self._quiet else file_report["excused"]:
            count = suppressed["findings"]
            yield f"{path}: {count:,} finding{_s(count)} of {suppressed['code']} suppressed: {suppressed['reason']}"
        yield from text_table(file_report)
        if not silent or not self._quiet:
            yield f"{path}: {self._verdict(file_report)}"

    def end(self, totals: Totals) -> str:
        return "".join(f"configuration: {remark}\n" for remark in totals.remarks) + self._sums(totals)

    def _sums(self, totals: Totals) -> str:
        if totals["files"] < 2 or self._quiet:
            return ""
        words = [f"{totals['ok'] - totals['skipped']:,} ok", f"{totals['files'] - totals['ok']:,} not"]
        words += [f"{totals['skipped']:,} skipped"] if totals["skipped"] else []
        counts = _counts(totals)
        return f"{totals['files']:,} files: {', '.join(words)}" + (f"; {counts}" if counts else "") + "\n"

    def _finding(self, path: str, finding: Mapping[str, Any]) -> str:
        span = finding["span"]
        place = f"{path}:0x{span['start']:x}..0x{span['stop']:x}:" if span["stop"] else f"{path}:"
        severity = self._styled(finding["severity"] + ":", _COLOURS[finding["severity"]])
        return f"{place} {severity} {self._styled(finding['code'] + ' ' + finding['slug'] + ':')} {finding['message']}"

    def _verdict(self, file_report: FileReport) -> str:
        if "skipped" in file_report:
            return f"skipped: {file_report['skipped']}"
        counts = _counts(file_report["summary"])
        if file_report["bugs"]:
            return self._styled("not checked to the end" + (f" ({counts})" if counts else ""), "red")
        if file_report["ok"]:
            return self._styled("ok", "green") + (f" ({counts})" if counts else "")
        return self._styled(counts, "red")

    def _styled(self, text: str, colour: str | None = None) -> str:
        if not self._colour:
            return text
        begin = "" if colour is None else f"\x1b[{_SGR[colour]}m"
        return f"{begin}\x1b[1m{text}\x1b[0m"

    def _dim(self, text: str) -> str:
        return f"\x1b[2m{text}\x1b[0m" if self._colour else text


class Concise(Text):
    """The same without the bytes: a line for each finding."""

    bytes_shown = False


def _counts(counts: Mapping[str, int] | Totals) -> str:
    """How many findings there are, by severity: `2 errors, 1 note`."""
    return ", ".join(f"{count:,} {severity}{_s(count)}" for severity in Severity if (count := counts[f"{severity}s"]))


def _s(count: int) -> str:
    return "" if count == 1 else "s"
