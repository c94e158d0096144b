"""The reports for code hosts: Markdown, and the workflow commands of GitHub.

`Markdown` is for the summary of a workflow run, a comment, or a page. Text from a file is inert: it cannot form a tag,
link, image, table cell, mention or reference. `GitHub` makes each finding an annotation of the run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from i2s_spec.errors import counted
from i2s_spec.linter.report import Format
from i2s_spec.linter.report.text import markdown_table, proof, reading_words, table_of
from i2s_spec.linter.report_data import (
    FileReport,
    Totals,
    elided_words,
    ok_of_totals,
    ok_words,
    suppressed_words,
    without_dot,
)
from i2s_spec.linter.rule import Severity

#: How many findings of a file are shown with their bytes.
DUMPED = 5

_MARKS = {"error": "❌", "warning": "⚠️", "note": "ℹ️"}


class Markdown(Format):
    """A section for each file that has findings, and a table of counts."""

    def begin(self) -> str:
        return "# i2s lint\n"

    def _file(self, file_report: FileReport) -> str:
        if self._quiet and not file_report["findings"] and not file_report["bugs"]:
            return ""
        return "\n" + "\n".join(self._lines(file_report)) + "\n"

    def _lines(self, file_report: FileReport) -> Iterator[str]:
        yield f"## {code_span(file_report['path'])}: {self._verdict(file_report)}"
        findings = file_report["findings"]
        if findings:
            yield from ("", "| severity | code | bytes | field | finding |", "|---|---|---|---|---|")
        for finding in findings:
            span = finding["span"]
            field = code_span(span["path"]) if span["path"] else ""
            yield (
                f"| {_MARKS[finding['severity']]} {finding['severity']} | `{finding['code']}` {finding['slug']} "
                f"| `0x{span['start']:x}..0x{span['stop']:x}` | {field} | {inert(finding['message'])} |"
            )
        remarks = list(self._remarks(file_report))
        if remarks:
            yield from ("", *(f"- {remark}" for remark in remarks))
        table = list(markdown_table(file_report, inert))
        if table:
            yield from ("", *table)
        shown = [(finding, lines) for finding in findings if (lines := list(proof(finding, file_report["size"])))][
            :DUMPED
        ]
        if shown:
            yield from ("", "<details><summary>The bytes</summary>", "")
            for finding, lines in shown:
                yield from (
                    f"`{finding['code']}` {finding['slug']}",
                    "",
                    *(f"    {line.partition('  |')[0]}" for line in lines),
                    "",
                )
            yield "</details>"

    def end(self, totals: Totals) -> str:
        names = ["files", "ok", "unreadable", *(f"{level.value}s" for level in Severity), "excused", "skipped"]
        counts = " | ".join(f"{totals[name]:,}" for name in names)
        remarks = "".join(f"\n- configuration: {inert(remark)}\n" for remark in totals.remarks)
        return remarks + f"\n| {' | '.join(names)} |\n{'|---' * len(names)}|\n| {counts} |\n"

    def _verdict(self, file_report: FileReport) -> str:
        if "skipped" in file_report:
            return "skipped"
        if file_report["bugs"]:
            return "not checked to the end"
        return ok_words(file_report) if file_report["ok"] else "not ok"

    def _remarks(self, file_report: FileReport) -> Iterator[str]:
        if "skipped" in file_report:
            yield inert(file_report["skipped"])
        yield from map(inert, reading_words(file_report))
        yield from (words for _, words in elided_words(file_report, code_span))
        for bug in file_report["bugs"]:
            yield inert(f"internal error in {bug['where']}: {bug['message']}; this is a bug in i2s-spec")
        yield from suppressed_words(file_report, code_span, inert)


def inert(text: str) -> str:
    """Write text as Markdown that shows exactly this text, in a table cell or outside."""
    text = " ".join(text.split("\n"))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_{}\[\]|~!])", r"\\\1", text)
    text = re.sub(
        r"([@#])(?=[\w-])", r"\1<!-- -->", text
    )  # hosts find mentions and references in the text as it is shown
    text = text.replace("://", "\\://")
    return re.sub(r"www\.", r"www\\.", text, flags=re.IGNORECASE)


def code_span(text: str) -> str:
    """Write text as a code span, fenced by more backticks than it holds in a row; `|` is escaped for table cells."""
    text = " ".join(text.split("\n"))
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    room = " " if "`" in text else ""
    return f"{fence}{room}{text}{room}{fence}".replace("|", "\\|")


# --- GitHub's workflow commands --------------------------------------------------------------------------------------
#     ::error file=models/a.gguf,title=I104 tail-missing::0x1a40..0x1a44: the file ends ...
#
# In a message `%`, carriage return and line feed are written as `%25`, `%0D`, `%0A`; in a property also `:` and `,`.
# Every line begins with our own text, so that text from a file is never taken for a command.

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
        for code, words in elided_words(file_report):
            text += _command("notice", path, code, words)
        for bug in file_report["bugs"]:
            text += _command("error", path, "internal error of i2s-spec", f"{bug['where']}: {bug['message']}")
        for words in reading_words(file_report):
            text += _command("notice", path, "what was read", words)
        rows = table_of(file_report)
        if rows:
            text += _command("notice", path, "runtimes", "\n".join(": ".join(filter(None, row)) for row in rows[1:]))
        if not self._quiet:
            for words in suppressed_words(file_report):
                text += _command("notice", path, "excused", words)
            if "skipped" in file_report:
                text += _command("notice", path, "skipped", file_report["skipped"])
        return text

    def end(self, totals: Totals) -> str:
        remarks = "".join(_message(f"i2s: configuration: {remark}") + "\n" for remark in totals.remarks)
        if self._quiet:
            return remarks
        counts = [(totals[name], name) for name in ("unreadable", "errors", "warnings", "notes")]
        words = ", ".join(counted(count, name.removesuffix("s"), name) for count, name in counts)
        return remarks + f"i2s: {counted(totals['files'], 'file')}: {ok_of_totals(totals)}, {words}\n"


def _command(name: str, path: str, title: str, words: str) -> str:
    return f"::{name} file={_property(path)},title={_property(title)}::{_message(words)}\n"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
