"""This module defines the report as GitHub's workflow commands: each finding becomes an annotation of the run.

    ::error file=models/a.gguf,title=I104 tail-missing::0x1a40..0x1a44: the file ends ...

In a message `%`, carriage return and line feed are written as `%25`, `%0D`, `%0A`; in a property also `:` and `,`.
Every line begins with our own text, so that text from a file is never taken for a command.
"""

from __future__ import annotations

from i2s_spec.errors import counted
from i2s_spec.linter.report import Format
from i2s_spec.linter.report.reading_words import reading_words
from i2s_spec.linter.report.runtime_table import table_of
from i2s_spec.linter.report_data import FileReport, Totals, without_dot

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


class GitHub(Format):
    """One line for each finding, and one for the run."""

    def _file(self, file_report: FileReport) -> str:
        path = without_dot(file_report["path"])
        text = ""
        for finding in file_report["findings"]:
            span = finding["span"]
            at = f" ({span['path']})" if span["path"] else ""
            words = f"0x{span['start']:x}..0x{span['stop']:x}{at}: {finding['message']}"
            title = f"{finding['code']} {finding['slug']}"
            text += _command(_COMMANDS[finding["severity"]], path, title, words)
        for code, count in file_report["summary"]["elided"].items():
            text += _command("notice", path, code, f"{counted(count, 'more finding')} of {code}")
        for bug in file_report["bugs"]:
            text += _command("error", path, "internal error of i2s-spec", f"{bug['where']}: {bug['message']}")
        for words in reading_words(file_report):
            text += _command("notice", path, "what was read", words)
        rows = table_of(file_report)
        if rows:
            text += _command("notice", path, "runtimes", "\n".join(": ".join(filter(None, row)) for row in rows[1:]))
        if not self._quiet:
            for suppressed in file_report["excused"]:
                words = (
                    f"{counted(suppressed['findings'], 'finding')} of {suppressed['code']} "
                    f"suppressed: {suppressed['reason']}"
                )
                text += _command("notice", path, "excused", words)
            if "skipped" in file_report:
                text += _command("notice", path, "skipped", file_report["skipped"])
        return text

    def end(self, totals: Totals) -> str:
        remarks = "".join(_message(f"i2s: configuration: {remark}") + "\n" for remark in totals.remarks)
        if self._quiet:
            return remarks
        counts = [(totals[name], name) for name in ("ok", "unreadable", "errors", "warnings", "notes")]
        words = ", ".join(counted(count, name.removesuffix("s"), name) for count, name in counts)
        return remarks + f"i2s: {counted(totals['files'], 'file')}: {words}\n"


def _command(name: str, path: str, title: str, words: str) -> str:
    return f"::{name} file={_property(path)},title={_property(title)}::{_message(words)}\n"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
