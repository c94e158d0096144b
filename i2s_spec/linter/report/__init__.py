"""Report formats: what a set of verdicts looks like to a person or a program.

A format is a class with three methods that give text: `begin`, `file` for each report in turn, and `end`. It is listed in
`FORMATS` under the name that `--format` takes; formats are imported when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol

from i2s_spec.linter.engine import Report


class Format(Protocol):
    """How reports are written; the pieces are printed one after another."""

    def begin(self) -> str: ...

    def file(self, report: Report) -> str: ...

    def end(self, reports: list[Report]) -> str: ...


#: Name of each format, and the module and class that make it.
FORMATS = {
    "text": ("i2s_spec.linter.report.text", "Text"),
    "json": ("i2s_spec.linter.report.structured", "Json"),
    "jsonl": ("i2s_spec.linter.report.structured", "JsonLines"),
}


def make(name: str, colour: bool = False, quiet: bool = False) -> Format:
    """The format of that name.

    :param colour: whether the output is a terminal that shows colours
    :param quiet: leave out what is not a finding, where the format has such lines
    :raises KeyError: for an unknown name
    """
    module, attribute = FORMATS[name]
    made: Format = getattr(import_module(module), attribute)(colour, quiet)
    return made
