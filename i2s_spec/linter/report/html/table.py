"""This module writes the basic parts of the HTML page: escaped text, tables, lists of facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from i2s_spec.errors import counted


def code(text: str) -> str:
    """Text as code; right-to-left text in it does not affect its surroundings."""
    return f"<code>{escape(text)}</code>"


def span_words(start: int, stop: int) -> str:
    """A range of bytes in the form that `i2s dump` accepts."""
    return f"0x{start:x}..0x{stop:x}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], style: str = "", caption: str = "") -> str:
    """A table whose cells are markup already, in a box that scrolls if the window is narrow.

    :param head: titles of the columns, as text; titles of numeric columns begin with `#`
    """
    numbers = [title.startswith("#") for title in head]
    titles = "".join(_title(title) for title in head)
    marks = [' class="n"' if is_number else "" for is_number in numbers]
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{cell}</td>" for mark, cell in zip(marks, row, strict=True)) + "</tr>\n"
        for row in rows
    )
    return framed(titles, body, style, caption)


def framed(titles: str, body: str, style: str = "", caption: str = "") -> str:
    """A table whose head and body are markup already."""
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table class="{style}">{named}<thead><tr>{titles}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def _title(title: str) -> str:
    mark = ' class="n"' if title.startswith("#") else ""
    return f'<th scope="col"{mark}>{escape(title.removeprefix("#"))}</th>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and their values; both are text."""
    inside = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(words)}</dd></div>" for name, words in pairs)
    return f'<dl class="facts">{inside}</dl>\n' if inside else ""


def count_by_kind(counts: Any, nouns: Iterable[str]) -> str:
    """The counts that are not 0, in words: `2 errors, 1 note`."""
    return ", ".join(counted(counts[f"{noun}s"], noun) for noun in nouns if counts[f"{noun}s"])
