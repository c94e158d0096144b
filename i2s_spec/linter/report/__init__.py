"""Report formats: how reports are written for a person or a program.

    text            each finding with its bytes, or one line for each; parts that other formats use
    markdown        Markdown, and GitHub's workflow commands
    structured      JSON, a badge, JUnit's XML
    sarif           SARIF
    html            one page, with html_pictures: the map of a file, its tensors, its weights

A format is a class that writes reports one by one: `begin`, `file` for each report in turn, and `end`. Only JUnit keeps
the reports until the end, because its first element holds counts. `FORMATS` lists each format under the name that
`--format` takes; it is imported when it is used. Reports are plain data (`Report.as_dict`), so they may come from
another process. Control characters and bidirectional marks in text from a file are escaped already; a format escapes
what its own syntax requires.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

from i2s_spec.linter.report_data import FileReport, Report, Totals
from i2s_spec.linter.rule import Severity


class Format(ABC):
    """How reports are written; the pieces are printed one after another.

    A format that needs more than the findings sets `details` to a function that is called with the `LintContext` while the
    file is open. It may run in another process, so it must be a module-level function that returns plain data. The
    result is in `details` of the report.

    :param colour: whether the output is a terminal with colors
    :param quiet: leave out what is not a finding, where the format has such lines
    :param fail_on: the lowest severity that fails the run; None for never
    """

    details: ClassVar[Callable[[Any], Any] | None] = None

    #: Whether it is text for a terminal, so that stderr does not repeat which configuration files changed the report.
    plain_text: ClassVar[bool] = False

    #: Columns of the terminal that shows the report; None for a file or a pipe, where lines are never cut.
    columns: int | None = None

    def __init__(self, colour: bool = False, quiet: bool = False, fail_on: Severity | None = Severity.ERROR) -> None:
        self._colour = colour
        self._quiet = quiet
        self._fail_on = fail_on
        #: The command that asked for the report, as it was typed; empty if there was none.
        self.command = ""
        #: The name of the profile whose rules were asked; empty where it is not known.
        self.profile = ""

    def begin(self) -> str:
        """Return the text before the first report."""
        return ""

    def file(self, report: Report | FileReport) -> str:
        """Write one report, without the details that other formats of the run asked for."""
        file_report = report.as_dict() if isinstance(report, Report) else report
        if "details" in file_report:
            file_report = self._with_own_details(file_report)
        return self._file(file_report)

    def _with_own_details(self, file_report: FileReport) -> FileReport:
        """Return a report without the details that were gathered for other formats."""
        gather, details = type(self).details, file_report["details"]
        if isinstance(details, EachDetails):
            details = None if gather is None else details.get(_name(gather))
        elif gather is not None:
            return file_report
        else:
            details = None
        others = {name: value for name, value in file_report.items() if name != "details"}
        return others if details is None else {**others, "details": details}

    @abstractmethod
    def _file(self, file_report: FileReport) -> str:
        """Write one report, which is plain data."""

    def end(self, totals: Totals) -> str:
        """Return the text after the last report."""
        return ""


class EachDetails(dict[str, Any]):
    """The details of one file for several formats, by the names of their functions."""


def details_of(forms: Iterable[type[Format]]) -> Callable[[Any], Any] | None:
    """Return the `details` functions of the formats of one run, as one function that can be sent to another process."""
    gather = tuple(dict.fromkeys(form.details for form in forms if form.details is not None))
    if len(gather) < 2:
        return gather[0] if gather else None
    return partial(_each, gather)


def _each(gather: tuple[Callable[[Any], Any], ...], subject: Any) -> EachDetails:
    return EachDetails({_name(function): function(subject) for function in gather})


def _name(function: Callable[[Any], Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


#: Name of each format, and the module and class that make it.
FORMATS = {
    "text": ("i2s_spec.linter.report.text", "Text"),
    "concise": ("i2s_spec.linter.report.text", "Concise"),
    "statistics": ("i2s_spec.linter.report.text", "Statistics"),
    "json": ("i2s_spec.linter.report.structured", "Json"),
    "jsonl": ("i2s_spec.linter.report.structured", "JsonLines"),
    "sarif": ("i2s_spec.linter.report.sarif", "Sarif"),
    "junit": ("i2s_spec.linter.report.structured", "JUnit"),
    "github": ("i2s_spec.linter.report.markdown", "GitHub"),
    "markdown": ("i2s_spec.linter.report.markdown", "Markdown"),
    "shields": ("i2s_spec.linter.report.structured", "Shields"),
    "html": ("i2s_spec.linter.report.html", "Html"),
}


def kind(name: str) -> type[Format]:
    """Return the class of the format of that name.

    :raises KeyError: for an unknown name
    """
    module, attribute = FORMATS[name]
    found: type[Format] = getattr(import_module(module), attribute)
    return found


def make(name: str, colour: bool = False, quiet: bool = False, fail_on: Severity | None = Severity.ERROR) -> Format:
    """Return the format of that name.

    :raises KeyError: for an unknown name
    """
    return kind(name)(colour, quiet, fail_on)
