"""Reports of runs on vectors: the record is NDJSON; every other form is made of records, of one run or of several.

`FORMS` lists them: text for a terminal, Markdown, the JSON of a badge, JUnit's XML, and an HTML page. `read_ndjson`
reads a record again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from dataclasses import fields as fields_of
from html import escape
from pathlib import Path
from typing import Any, Final

from i2s_spec._version import __version__
from i2s_spec.conformance.protocol import Implementation
from i2s_spec.conformance.protocol_terms import PROTOCOL
from i2s_spec.conformance.score import FAILURES, CaseResult, RunResult, Status, by_op
from i2s_spec.draw.text import xml_text
from i2s_spec.errors import SettingError, counted, quote
from i2s_spec.gguf.source import read_regular

# --- plain text ------------------------------------------------------------------------------------------------------

#: Columns of a table, with their heads.
_COLUMNS: Final = (Status.PASS, Status.FAIL, Status.ERRORED, Status.SKIPPED, Status.NOTED, Status.NOT_RUN)


#: How many failures with the same explanation are reported together.
_SEVERAL: Final = 2


def title(run: RunResult) -> str:
    """Return the name and version of what was run."""
    return quote(f"{run.implementation.name} {run.implementation.version}".strip(), limit=200, bare=True)


def failures(run: RunResult) -> list[CaseResult]:
    """Return the results that make the run fail."""
    return [each for each in run.results if each.status in FAILURES and each.id not in run.known]


def text_report(run: RunResult) -> str:
    """Return a run for people: one line for each failure, a table by op, and a summary sentence."""
    return "\n".join(_lines(run)) + "\n"


def _lines(run: RunResult) -> Iterator[str]:
    for each in failures(run):
        if each.status is not Status.NOT_RUN:
            yield f"{each.id} {each.op}: {quote(each.text, limit=600, bare=True)}"
    for sentence in run.unexpected:
        yield f"known failures: {quote(sentence, limit=600, bare=True)}"
    if run.given_up:
        yield quote(run.given_up, limit=600, bare=True)
    heads = [status.value for status in _COLUMNS if run.counts[status.value]]
    yield f"{'':<12}" + "".join(f"{head:>9}" for head in heads)
    for op, counts in by_op(run.results).items():
        yield f"{op:<12}" + "".join(f"{counts[head]:>9,}" for head in heads)
    yield summary(run)


def summary(run: RunResult) -> str:
    """Return a run in one sentence."""
    counts = run.counts
    asked = len(run.results) - counts[Status.SKIPPED.value] - counts[Status.NOTED.value]
    known = f"; {counted(len(run.known), 'failure is', 'failures are')} known" if run.known else ""
    right, stated = run.phases
    phases = f"; {right:,} of {counted(stated, 'refusal')} name the right phase" if stated else ""
    mistakes = f"; {same}" if (same := common_mistake(run)) else ""
    passed = f"{title(run)}: {counts['pass']:,} of {counted(asked, 'vector')} passed"
    return f"{passed}{known}{phases}{mistakes}; suite {run.suite_version}"


def common_mistake(run: RunResult) -> str:
    """Return the known mistake that explains most of the failures, in a few words; empty where none explains two."""
    failed = [each for each in failures(run) if each.status is Status.FAIL]
    (mistake, count), *_ = Counter(each.mistake for each in failed if each.mistake).most_common(1) or [("", 0)]
    if count < _SEVERAL:
        return ""
    return (
        f"one mistake explains {count:,} of {counted(len(failed), 'failure')}: {quote(mistake, limit=200, bare=True)}"
    )


def markdown_report(runs: Sequence[RunResult]) -> str:
    """Write a run as Markdown: a table of all, and the failures of each."""
    heads = ["implementation", *(status.value for status in _COLUMNS), "suite", "date"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * len(_COLUMNS) + "|---|---|"]
    for run in runs:
        cells = [
            _cell(title(run)),
            *(str(run.counts[status.value]) for status in _COLUMNS),
            run.suite_version,
            run.date,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    for run in runs:
        failed = failures(run)
        if failed or run.unexpected or run.given_up:
            lines += ["", f"### {_cell(title(run))}", ""]
            lines += [f"{_cell(mistake[0].upper() + mistake[1:])}.", ""] if (mistake := common_mistake(run)) else []
            lines += [
                f"- `{each.id}` {each.op}: {_cell(each.text)}" for each in failed if each.status is not Status.NOT_RUN
            ]
            lines += [f"- {_cell(sentence)}" for sentence in (*run.unexpected, run.given_up) if sentence]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """Write text on one line, escaped for Markdown."""
    plain = quote(text, limit=600, bare=True)
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>|#" else char for char in plain)


def badge(run: RunResult) -> str:
    """Return the JSON that an endpoint badge reads."""
    counts = run.counts
    asked = len(run.results) - counts[Status.SKIPPED.value] - counts[Status.NOTED.value]
    colour = "brightgreen" if run.ok and counts["pass"] == asked else "yellow" if run.ok else "red"
    message = f"{counts['pass']} of {asked}" if asked else "not run"
    return json.dumps({"schemaVersion": 1, "label": "I2_S vectors", "message": message, "color": colour}) + "\n"


# --- markup ----------------------------------------------------------------------------------------------------------
# The HTML page is a matrix of vectors and implementations.

_STYLE: Final = """body{font:15px/1.4 system-ui,sans-serif;margin:2em;max-width:none}table{border-collapse:collapse}
th,td{border:1px solid #8884;padding:.2em .5em;text-align:left;vertical-align:top}
thead th{position:sticky;top:0;background:Canvas}
.pass{background:#2a82}.fail,.errored{background:#d333}.skipped,.noted{color:GrayText}.notrun{color:GrayText}
details{max-width:32em}:root{color-scheme:light dark}"""


def junit_report(runs: Sequence[RunResult]) -> str:
    """Return a test suite for each run, a test for each vector."""
    suites = "".join(_suite(run) for run in runs)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="i2s conform">\n{suites}</testsuites>\n'


def _suite(run: RunResult) -> str:
    cases = [_testcase(run, each) for each in run.results]
    cases += [
        f'    <testcase classname="known failures" name="{xml_text(each[:80])}">'
        f'<failure message="{xml_text(each)}"/></testcase>\n'
        for each in run.unexpected
    ]
    failed = sum("<failure" in each for each in cases)
    errors, skipped = sum("<error" in each for each in cases), sum("<skipped" in each for each in cases)
    counts = f'tests="{len(cases)}" failures="{failed}" errors="{errors}" skipped="{skipped}"'
    return f'  <testsuite name="{xml_text(title(run))}" {counts}>\n{"".join(cases)}  </testsuite>\n'


def _testcase(run: RunResult, each: CaseResult) -> str:
    text = xml_text(each.text)
    inner = ""
    if each.id in run.known:
        inner = f'<skipped message="known failure: {text}"/>'
    elif each.status is Status.FAIL:
        inner = f'<failure message="{text}" type="{xml_text(each.fault or each.op)}"/>'
    elif each.status in (Status.ERRORED, Status.NOT_RUN):
        inner = f'<error message="{text}"/>'
    elif each.status is Status.SKIPPED:
        inner = f'<skipped message="{text}"/>'
    return f'    <testcase classname="{xml_text(each.op)}" name="{xml_text(each.id)}">{inner}</testcase>\n'


def html_report(runs: Sequence[RunResult]) -> str:
    """Write vectors as rows, implementations as columns; a cell says how the vector ended, and opens to say why."""
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


# --- ndjson ----------------------------------------------------------------------------------------------------------
# A run is header, results and footer, a line of JSON each. A record holds no path and no time of day, so that two runs
# of the same programs give the same bytes.

SCHEMA_VERSION: Final = 1
_LARGEST: Final = 64 << 20


def ndjson(run: RunResult) -> str:
    """Return the record of a run."""
    return "".join(json.dumps(line, ensure_ascii=True, allow_nan=False) + "\n" for line in _records(run))


def _records(run: RunResult) -> Iterator[dict[str, Any]]:
    about = {key: value for key, value in asdict(run.implementation).items() if value not in ("", None)}
    yield {
        "record": "header",
        "schema_version": SCHEMA_VERSION,
        "protocol": PROTOCOL,
        "suite_version": run.suite_version,
        "tool": {"name": "i2s-spec", "version": __version__},
        "date": run.date,
        "implementation": about,
    }
    for result in run.results:
        line = {key: value for key, value in asdict(result).items() if value not in ("", None, ())}
        line["status"] = result.status.value
        if (
            result.status not in FAILURES
        ):  # the manifest describes every vector; here only those that failed are described
            line = {key: value for key, value in line.items() if key not in ("flags", "clause")}
        if result.id in run.known:
            line["known"] = True
        yield {"record": "result", **line}
    yield {
        "record": "footer",
        "counts": {status.value: run.counts[status.value] for status in Status},
        "phases": list(run.phases),
        "unexpected": run.unexpected,
        "given_up": run.given_up,
        "ok": run.ok,
    }


def _visible(value: Any) -> str:
    """Return a text that reports print as it is, with every invisible character escaped."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in _checked_text(value)
    )


def _checked_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{quote(str(value), limit=80)} is not a text")
    return value


def _require(values: Mapping[str, Any], kind: type) -> None:
    """Refuse values of the wrong type for the fields of a class with a TypeError; its constructor refuses extra and
    missing fields."""
    for field in fields_of(kind):
        value = values.get(field.name)
        if field.name not in values:
            continue
        if field.type == "str":
            _checked_text(value)
        elif str(field.type).startswith("tuple") and value is not None:
            for each in value:
                _checked_text(each)
        elif str(field.type) in ("int | None", "bool | None") and not (value is None or isinstance(value, int)):
            raise TypeError(f"{field.name} is {quote(str(value), limit=80)}")


def read_ndjson(path: str | Path) -> RunResult:
    """Return a run from its record.

    :raises SettingError: for a file that is not a complete record
    """
    name = quote(str(path), limit=4096, bare=True)
    try:
        text = read_regular(path, _LARGEST).decode("utf-8")
        header, *rest = [json.loads(line) for line in text.split("\n") if line.strip()]
        if header["record"] != "header" or header["schema_version"] != SCHEMA_VERSION or rest[-1]["record"] != "footer":
            raise ValueError("header or footer is missing, or of another version")
        about = dict(header["implementation"])
        for key in ("ops", "features", "dialects"):
            if about.get(key) is not None:
                about[key] = tuple(about[key])
        if about.get("by_op") is not None:
            about["by_op"] = {_checked_text(op): tuple(map(_checked_text, each)) for op, each in about["by_op"].items()}
        _require(about, Implementation)
        run = RunResult(Implementation(**about), _visible(header["suite_version"]), _visible(header["date"]))
        for line in rest[:-1]:
            fields = {key: value for key, value in line.items() if key not in ("record", "known")}
            fields["status"] = Status(fields["status"])
            for key in ("features", "flags"):
                fields[key] = tuple(fields.get(key, ()))
            _require(fields, CaseResult)
            run.results.append(CaseResult(**fields))
            if line.get("known"):
                run.known.add(line["id"])
        run.given_up, run.unexpected = (
            _checked_text(rest[-1]["given_up"]),
            [_checked_text(each) for each in rest[-1]["unexpected"]],
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise SettingError(f"{name} is not the record of a run: {quote(str(error), bare=True)}") from None
    return run


# --- forms -----------------------------------------------------------------------------------------------------------

#: Every form of report, made of one run or of several.
FORMS: Final[dict[str, Callable[[Sequence[RunResult]], str]]] = {
    "text": lambda runs: "".join(text_report(run) for run in runs),
    "ndjson": lambda runs: "".join(ndjson(run) for run in runs),
    "markdown": markdown_report,
    "junit": junit_report,
    "html": html_report,
    "shields": lambda runs: "".join(badge(run) for run in runs),
}
