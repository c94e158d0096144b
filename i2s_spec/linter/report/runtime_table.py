"""This module draws the table of runtimes in a report, one row for each runtime, as text or Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator

from i2s_spec.linter.report_data import FileReport

#: Fewest columns for the reasons beside the other cells, and for a paragraph.
NARROWEST = 40


def table_of(report: FileReport) -> list[list[str]]:
    """The rows of the table, the first with the names of the columns; no rows if runtimes were not requested."""
    if not report.get("runtimes"):
        return []
    from i2s_spec.linter.runtimes.verdicts import table

    return table(report["runtimes"])


def text_table(report: FileReport, available: int | None = None) -> Iterator[str]:
    """The table as lines of text with aligned columns; on a narrow terminal, one paragraph for each runtime.

    :param available: columns of the terminal; None if lines may have any length
    """
    rows = table_of(report)
    if not rows:
        return
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    before = 2 + sum(width + 2 for width in widths[:-1])
    if available is not None and available < before + NARROWEST:
        yield from _paragraphs(rows[1:], max(available, NARROWEST))
        return
    for row in rows:
        first = "  " + "".join(f"{cell:<{width}}  " for cell, width in zip(row[:-1], widths[:-1], strict=True))
        if available is None:
            yield (first + row[-1]).rstrip()
        else:
            yield from textwrap.wrap(row[-1], available, initial_indent=first, subsequent_indent=" " * before) or [
                first
            ]


def _paragraphs(rows: list[list[str]], available: int) -> Iterator[str]:
    for title, loads, computes, why in rows:
        words = f"loads: {loads}" + (f", computes: {computes}" if computes != "-" else "")
        yield from textwrap.wrap(f"{title}: {words}", available, initial_indent="  ", subsequent_indent="    ")
        yield from textwrap.wrap(why, available, initial_indent="      ", subsequent_indent="      ")


def markdown_table(report: FileReport, escaped: Callable[[str], str]) -> Iterator[str]:
    """The table as lines of Markdown."""
    for number, row in enumerate(table_of(report)):
        yield "| " + " | ".join(escaped(cell) for cell in row) + " |"
        if number == 0:
            yield "|---" * len(row) + "|"
