"""Reports of runs on vectors. The record is NDJSON; every other form is made of records, of one run or of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from i2s_spec.conformance.run.report.marked_up import html_report, junit_report
from i2s_spec.conformance.run.report.ndjson import ndjson
from i2s_spec.conformance.run.report.plain_text import badge, markdown_report, text_report
from i2s_spec.conformance.run.results import RunResult

#: Every form of report, made of one run or of several.
FORMS: Final[dict[str, Callable[[Sequence[RunResult]], str]]] = {
    "text": lambda runs: "".join(text_report(run) for run in runs),
    "ndjson": lambda runs: "".join(ndjson(run) for run in runs),
    "markdown": markdown_report,
    "junit": junit_report,
    "html": html_report,
    "shields": lambda runs: "".join(badge(run) for run in runs),
}
