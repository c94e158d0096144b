"""Report formats: what a set of verdicts looks like to a person or a program.

A format is a class that makes text of reports as they come: `begin`, `file` for each of them in turn, and `end`; none
holds the reports of a run. It is listed in `FORMATS` under the name that `--format` takes, and imported when it is used.
Reports are plain data (`Report.as_dict`), so that they may come from another process. Text in them that came from a file
has no control characters and no bidirectional marks any more; what else its own syntax needs, a format escapes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module

from i2s_spec.light_typing import Any, ClassVar
from i2s_spec.linter.report_data import FileReport, Report, Totals
from i2s_spec.linter.rule import Severity


class Format(ABC):
    """How reports are written; the pieces are printed one after another.

    A format that wants to know more of a file than its findings names in `details` a function that is called with the
    `Subject` while the file is open. It may run in another process: it must be a function of a module, and give plain
    data. They are `details` of the report.

    :param colour: whether the output is a terminal that shows colours
    :param quiet: leave out what is not a finding, where the format has such lines
    :param fail_on: the severity from which on a finding fails the run; None for never
    """

    details: ClassVar[Callable[[Any], Any] | None] = None

    def __init__(self, colour: bool = False, quiet: bool = False, fail_on: Severity | None = Severity.ERROR) -> None:
        self._colour = colour
        self._quiet = quiet
        self._fail_on = fail_on

    def begin(self) -> str:
        """What comes before the first report."""
        return ""

    def file(self, report: Report | FileReport) -> str:
        """One report; what another format of the run wanted to know of the file is not for this one."""
        file_report = report.as_dict() if isinstance(report, Report) else report
        if type(self).details is None and "details" in file_report:
            file_report = {name: value for name, value in file_report.items() if name != "details"}
        return self._file(file_report)

    @abstractmethod
    def _file(self, file_report: FileReport) -> str:
        """One report, as plain data."""

    def end(self, totals: Totals) -> str:
        """What follows the last report."""
        return ""


#: Name of each format, and the module and class that make it.
FORMATS = {
    "text": ("i2s_spec.linter.report.text", "Text"),
    "concise": ("i2s_spec.linter.report.text", "Concise"),
    "json": ("i2s_spec.linter.report.structured", "Json"),
    "jsonl": ("i2s_spec.linter.report.structured", "JsonLines"),
    "sarif": ("i2s_spec.linter.report.sarif", "Sarif"),
    "junit": ("i2s_spec.linter.report.junit", "JUnit"),
    "github": ("i2s_spec.linter.report.github", "GitHub"),
    "markdown": ("i2s_spec.linter.report.markdown", "Markdown"),
    "html": ("i2s_spec.linter.report.html.page", "Html"),
}


def kind(name: str) -> type[Format]:
    """The class of the format of that name.

    :raises KeyError: for an unknown name
    """
    module, attribute = FORMATS[name]
    found: type[Format] = getattr(import_module(module), attribute)
    return found


def make(name: str, colour: bool = False, quiet: bool = False, fail_on: Severity | None = Severity.ERROR) -> Format:
    """The format of that name.

    :raises KeyError: for an unknown name
    """
    return kind(name)(colour, quiet, fail_on)
