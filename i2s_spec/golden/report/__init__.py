"""Comparisons as reports: text for people, JSON for programs, Markdown for comments, a page of HTML with a plot.

Whatever comes from a record or a dump is escaped here, as everywhere at the edge.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import SettingError, quote

if TYPE_CHECKING:
    from i2s_spec.golden.replay.result import Comparison

#: The module of each format.
FORMATS: Final = {"text": "text", "json": "structured", "markdown": "markdown", "html": "page"}


def report(result: Comparison, form: str = "text", command: str = "") -> Iterator[str]:
    """The lines of a report, with their ends.

    :param form: `text`, `json`, `markdown` or `html`
    :param command: that asked for it, as it was typed; the page names it
    :raises SettingError: for another form
    """
    if form not in FORMATS:
        raise SettingError(f"there is no format {quote(form)}; there are {', '.join(FORMATS)}")
    module = import_module(f"i2s_spec.golden.report.{FORMATS[form]}")
    lines: Iterator[str] = module.lines(result, command) if form == "html" else module.lines(result)
    return lines
