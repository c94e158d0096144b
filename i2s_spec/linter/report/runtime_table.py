"""This module draws the table of runtimes that a report may carry: one row for each, in text or Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from i2s_spec.linter.report_data import FileReport


def table_of(report: FileReport) -> list[list[str]]:
    """The rows of the table, the first with the names of the columns; no rows where nobody asked for runtimes."""
    if not report.get("runtimes"):
        return []
    from i2s_spec.linter.runtimes.verdicts import table

    return table(report["runtimes"])


def text_table(report: FileReport) -> Iterator[str]:
    """The table as lines of text, its columns aligned."""
    rows = table_of(report)
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def markdown_table(report: FileReport, escaped: Callable[[str], str]) -> Iterator[str]:
    """The table as lines of Markdown."""
    for number, row in enumerate(table_of(report)):
        yield "| " + " | ".join(escaped(cell) for cell in row) + " |"
        if number == 0:
            yield "|---" * len(row) + "|"
