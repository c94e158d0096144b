"""This module writes runs as JUnit's XML, and as an HTML page with a matrix of vectors and implementations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Final

from i2s_spec.conformance.run.report.plain_text import summary, title
from i2s_spec.conformance.run.results import CaseResult, RunResult, Status

#: Characters that XML 1.0 cannot hold in any form.
_FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_STYLE: Final = """body{font:15px/1.4 system-ui,sans-serif;margin:2em;max-width:none}table{border-collapse:collapse}
th,td{border:1px solid #8884;padding:.2em .5em;text-align:left;vertical-align:top}
thead th{position:sticky;top:0;background:Canvas}
.pass{background:#2a82}.fail,.errored{background:#d333}.skipped,.noted{color:GrayText}.notrun{color:GrayText}
details{max-width:32em}:root{color-scheme:light dark}"""


def junit_report(runs: Sequence[RunResult]) -> str:
    """A test suite for each run, a test for each vector."""
    suites = "".join(_suite(run) for run in runs)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="i2s conform">\n{suites}</testsuites>\n'


def _suite(run: RunResult) -> str:
    cases = [_testcase(run, each) for each in run.results]
    cases += [
        f'    <testcase classname="known failures" name="{_text(each[:80])}"><failure message="{_text(each)}"/></testcase>\n'
        for each in run.unexpected
    ]
    failed = sum("<failure" in each for each in cases)
    errors, skipped = sum("<error" in each for each in cases), sum("<skipped" in each for each in cases)
    counts = f'tests="{len(cases)}" failures="{failed}" errors="{errors}" skipped="{skipped}"'
    return f'  <testsuite name="{_text(title(run))}" {counts}>\n{"".join(cases)}  </testsuite>\n'


def _testcase(run: RunResult, each: CaseResult) -> str:
    text = _text(each.text)
    inner = ""
    if each.id in run.known:
        inner = f'<skipped message="known failure: {text}"/>'
    elif each.status is Status.FAIL:
        inner = f'<failure message="{text}" type="{_text(each.fault or each.op)}"/>'
    elif each.status in (Status.ERRORED, Status.NOT_RUN):
        inner = f'<error message="{text}"/>'
    elif each.status is Status.SKIPPED:
        inner = f'<skipped message="{text}"/>'
    return f'    <testcase classname="{_text(each.op)}" name="{_text(each.id)}">{inner}</testcase>\n'


def html_report(runs: Sequence[RunResult]) -> str:
    """Vectors as rows, implementations as columns; a cell says how the vector ended, and opens to say why."""
    found = [{each.id: each for each in run.results} for run in runs]
    first = {each.id: each for run in runs for each in run.results}
    heads = "".join(f"<th>{escape(title(run))}<br><small>{escape(run.date)}</small></th>" for run in runs)
    rows = "".join(
        f"<tr><th>{escape(id_)}</th><td>{escape(about.op)}</td><td>{escape(', '.join(about.features))}</td>"
        + "".join(_td(results.get(id_)) for results in found)
        + "</tr>\n"
        for id_, about in sorted(first.items())
    )
    summaries = "".join(f"<li>{escape(summary(run))}</li>" for run in runs)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Vectors and implementations</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{_STYLE}</style></head>\n<body><h1>Vectors and implementations</h1><ul>{summaries}</ul>"
        f"<p>An empty cell was not run.</p>"
        f"<table><thead><tr><th>vector</th><th>op</th><th>features</th>{heads}</tr></thead>\n"
        f"<tbody>{rows}</tbody></table></body></html>\n"
    )


def _td(result: CaseResult | None) -> str:
    if result is None or result.status is Status.NOT_RUN:
        return '<td class="notrun"></td>'
    word = result.status.value
    if not result.text:
        return f'<td class="{word}">{word}</td>'
    return f'<td class="{word}"><details><summary>{word}</summary>{escape(result.text)}</details></td>'


def _text(text: str) -> str:
    """Text for an element or an attribute, in ASCII."""
    return escape(_FORBIDDEN.sub("\ufffd", text)).encode("ascii", "xmlcharrefreplace").decode("ascii")
