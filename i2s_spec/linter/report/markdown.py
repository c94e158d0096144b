"""This module defines the report in Markdown, for the summary of a workflow run, a comment, or a page.

Text that came from a file is inert in it: no tag, link, image, table cell, mention or reference can be made of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from i2s_spec.linter.report import Format
from i2s_spec.linter.report.proof import proof
from i2s_spec.linter.report.runtime_table import markdown_table
from i2s_spec.linter.rule import Severity
from i2s_spec.linter.totals import Judged, Totals

#: Findings of a file whose bytes are shown.
DUMPED = 5

_MARKS = {"error": "❌", "warning": "⚠️", "note": "ℹ️"}


class Markdown(Format):
    """A section for each file that has findings, and a table of counts."""

    def begin(self) -> str:
        return "# i2s lint\n"

    def _file(self, judged: Judged) -> str:
        if self._quiet and not judged["findings"] and not judged["bugs"]:
            return ""
        return "\n" + "\n".join(self._lines(judged)) + "\n"

    def _lines(self, judged: Judged) -> Iterator[str]:
        yield f"## {code_span(judged['path'])}: {self._verdict(judged)}"
        findings = judged["findings"]
        if findings:
            yield from ("", "| severity | code | bytes | field | finding |", "|---|---|---|---|---|")
        for finding in findings:
            span = finding["span"]
            field = code_span(span["path"]) if span["path"] else ""
            yield (
                f"| {_MARKS[finding['severity']]} {finding['severity']} | `{finding['code']}` {finding['slug']} "
                f"| `0x{span['start']:x}..0x{span['stop']:x}` | {field} | {inert(finding['message'])} |"
            )
        remarks = list(self._remarks(judged))
        if remarks:
            yield from ("", *(f"- {remark}" for remark in remarks))
        table = list(markdown_table(judged, inert))
        if table:
            yield from ("", *table)
        shown = [(finding, lines) for finding in findings if (lines := list(proof(finding, judged["size"])))][:DUMPED]
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
        return f"\n| {' | '.join(names)} |\n{'|---' * len(names)}|\n| {counts} |\n"

    def _verdict(self, judged: Judged) -> str:
        if "skipped" in judged:
            return "skipped"
        if judged["bugs"]:
            return "not judged to the end"
        return "ok" if judged["ok"] else "not ok"

    def _remarks(self, judged: Judged) -> Iterator[str]:
        if "skipped" in judged:
            yield inert(judged["skipped"])
        for code, count in judged["summary"]["elided"].items():
            yield f"{count:,} more findings of `{code}`"
        for bug in judged["bugs"]:
            yield inert(f"internal error in {bug['where']}: {bug['message']}; this is a bug in i2s-spec")
        for excused in judged["excused"]:
            yield f"{excused['findings']:,} findings of `{excused['code']}` excused: {inert(excused['reason'])}"


def inert(text: str) -> str:
    """Text as Markdown that shows it and nothing else, in a table cell or outside."""
    text = " ".join(text.split("\n"))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*_{}\[\]|~!])", r"\\\1", text)
    text = re.sub(r"([@#])(?=[\w-])", r"\1<!-- -->", text)  # mentions and references are made of the text that is shown
    text = text.replace("://", "\\://")
    return re.sub(r"www\.", r"www\\.", text, flags=re.IGNORECASE)


def code_span(text: str) -> str:
    """Text in a code span, fenced by more backticks than it holds in a row; a bar stays inside its table cell."""
    text = " ".join(text.split("\n"))
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=0) + 1)
    room = " " if "`" in text else ""
    return f"{fence}{room}{text}{room}{fence}".replace("|", "\\|")
