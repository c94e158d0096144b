"""This module writes the part of the HTML page that is about one file: verdict, facts, findings, map, weights, tensors,
runtimes.

All text in a report is escaped for a terminal already; here it is also escaped for HTML.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from i2s_spec.errors import counted
from i2s_spec.linter.next_step import repair_option
from i2s_spec.linter.report.html.map import file_map
from i2s_spec.linter.report.html.table import code, count_by_kind, facts, span_words, table
from i2s_spec.linter.report.html.tensors import tensors
from i2s_spec.linter.report.html.weights import weights
from i2s_spec.linter.report.proof import proof
from i2s_spec.linter.report.reading_words import reading_words
from i2s_spec.linter.report_data import FileReport, ok_words
from i2s_spec.linter.rule import REGISTRY, Severity

#: Most findings of a file that are listed; the rest are counted.
LISTED = 1000

#: How many findings of one rule are shown open; the others follow in one folded block.
UNFOLDED = 1

#: Signs that accompany words; they are never shown alone.
SIGNS = {"error": "✕", "warning": "▲", "note": "●", "ok": "✓"}

#: An issue of a project on GitHub, as sources name it.
_ISSUE = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")

_MOODS = {
    "yes": "ok", "correctly": "ok", "no": "error", "crash": "error", "wrongly": "error", "with option": "warning",
    "vocabulary only": "plain",
    "depends on the machine": "warning", "not tried": "plain", "-": "plain",
}  # fmt: skip


def verdict(file_report: FileReport) -> tuple[str, str]:
    """The class of a verdict (`ok`, `warning`, `error`), and the verdict in words."""
    counts = count_by_kind(file_report["summary"], [severity.value for severity in Severity])
    if "skipped" in file_report:
        return "plain", "skipped"
    if file_report["bugs"]:
        return "error", "not checked to the end" + (f" ({counts})" if counts else "")
    if not file_report["ok"]:
        return "error", counts
    mood = "warning" if file_report["summary"]["warnings"] else "ok"
    return mood, ok_words(file_report) + (f", with {counts}" if counts else "")


def file_part(file_report: FileReport, name: str, whole: bool = True) -> str:
    """One file.

    :param name: the prefix of the ids of its elements
    :param whole: with the map and the tensors
    """
    details: dict[str, Any] = file_report.get("details") or {}
    runtimes = file_report.get("runtimes") or (details.get("runtimes") if whole else None) or []
    listed = file_report["findings"][:LISTED]
    parts = [
        ("findings", "Findings", _findings(file_report, name)),
        ("map", "Map", file_map(name, details, file_report["size"] or 0, listed) if details and whole else ""),
        ("weights", "Weights", weights(name, details) if details and whole else ""),
        ("tensors", "Tensors", tensors(name, details, listed) if details and whole else ""),
        ("runtimes", "Runtimes", _runtimes(runtimes, name)),
        ("keys", "Key-values", _keys(details, name) if details and whole else ""),
    ]
    links = "".join(f'<li><a href="#{name}-{part}">{title}</a></li>' for part, title, made in parts if made)
    left = "" if whole else '<p class="hint">The page is long: the map and tensors of this file are left out.</p>\n'
    return (
        facts(tuple(fact) for fact in details.get("facts", ()))
        + f'<nav aria-label="Parts"><ul>{links}</ul></nav>\n'
        + left
        + "".join(made for _, _, made in parts)
    )


def head(file_report: FileReport) -> str:
    """The verdict on one file, in a line."""
    mood, words = verdict(file_report)
    return f'<span class="badge {mood}">{_sign(mood)}{escape(words)}</span> {code(file_report["path"])}'


def _sign(mood: str) -> str:
    return f'<span aria-hidden="true">{SIGNS[mood]}</span> ' if mood in SIGNS else ""


def _findings(file_report: FileReport, name: str) -> str:
    findings = file_report["findings"]
    groups: dict[str, list[str]] = {}
    ranks = {severity.value: -severity.rank for severity in Severity}
    for i, finding in sorted(enumerate(findings[:LISTED]), key=lambda item: ranks[item[1]["severity"]]):
        made = _finding(finding, file_report, f"{name}-x{i}")
        groups.setdefault(finding["code"], []).append(made)
    shown = _summed(findings[:LISTED]) + "".join(_grouped(number, made) for number, made in groups.items())
    remarks = "".join(f"<li>{remark}</li>" for remark in _remarks(file_report))
    kinds = [severity.value for severity in Severity if any(f["severity"] == severity.value for f in findings)]
    boxes = "".join(f'<label><input type="checkbox" checked data-do="{kind}"> {kind}s</label>' for kind in kinds)
    tools = f'<div class="tools js severities">{boxes}</div>\n' if len(kinds) > 1 else ""
    nothing = "" if findings or remarks else '<p class="hint">No rule found anything.</p>\n'
    if "skipped" in file_report:
        nothing = f'<p class="hint">Not checked: {escape(file_report["skipped"])}</p>\n'
    return (
        f'<section id="{name}-findings"><h3>Findings</h3>\n{nothing}{tools}{shown}'
        + (f'<ul class="remarks">{remarks}</ul>\n' if remarks else "")
        + "</section>\n"
    )


def _grouped(number: str, made: list[str]) -> str:
    """The findings of one rule: the first ones open, the others folded."""
    first, left = "".join(made[:UNFOLDED]), made[UNFOLDED:]
    if not left:
        return first
    return f'{first}<details class="others"><summary>{counted(len(left), "more finding")} of {number}</summary>\n' + (
        "".join(left) + "</details>\n"
    )


def _summed(findings: Sequence[Mapping[str, Any]]) -> str:
    """How many findings each rule has, if some rule has several."""
    counts = Counter((finding["severity"], finding["code"], finding["slug"]) for finding in findings)
    if len(findings) == len(counts):
        return ""
    ranks = {severity.value: -severity.rank for severity in Severity}
    rows = sorted(counts.items(), key=lambda item: (ranks[item[0][0]], -item[1]))
    items = "".join(
        f'<li><span class="badge {severity}">{number:,} ×</span> <a href="#rule-{code}">{code}</a> {escape(slug)}</li>'
        for (severity, code, slug), number in rows
    )
    return f'<ul class="summed">{items}</ul>\n'


def _finding(finding: Mapping[str, Any], file_report: FileReport, name: str) -> str:
    span, severity, number = finding["span"], finding["severity"], finding["code"]
    where = [code(span_words(span["start"], span["stop"]))] if span["stop"] else []
    where += [code(span["path"])] if span["path"] else []
    where += [f"clause {escape(finding['clause'])}"]
    option = repair_option(REGISTRY[finding["code"]])
    where += [f"i2s fix {option} repairs it" if option else "i2s fix repairs it"] if option is not None else []
    button = ""
    if span["stop"]:
        place = f'data-start="{span["start"]}" data-stop="{span["stop"]}"'
        button = f' <button type="button" class="js" {place}>show on the map</button>'
    lines = [
        escape(line) if "|" in line or "more bytes" in line else f"<b>{escape(line)}</b>"
        for line in proof(finding, file_report["size"])
    ]
    values = [
        (which, value) for which in ("got", "want") if (value := finding[which]) is not None and value not in ("", [])
    ]
    stated = "".join(f"<dt>{which}</dt><dd>{code(_stated(value))}</dd>" for which, value in values)
    return (
        f'<article class="finding {severity}" id="{name}"><h4><span class="badge {severity}">{_sign(severity)}{severity}'
        f'</span> <a href="#rule-{number}">{number} {escape(finding["slug"])}</a></h4>\n'
        f"<p>{escape(finding['message'])}</p>\n"
        + (f'<dl class="values">{stated}</dl>' if stated else "")
        + f'<p class="where">{" · ".join(where)}{button}</p>\n'
        + ("<pre>" + "\n".join(lines) + "</pre>" if lines else "")
        + "</article>\n"
    )


def _stated(value: Any) -> str:
    """A value of a finding, as plain data holds it, in words."""
    if isinstance(value, list):
        return "(" + ", ".join(map(_stated, value)) + ")"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _remarks(file_report: FileReport) -> Iterator[str]:
    """Remarks beside the listed findings."""
    left = len(file_report["findings"]) - LISTED
    if left > 0:
        yield f"{counted(left, 'more finding')}; this page lists the first {LISTED:,}"
    yield from map(escape, reading_words(file_report))
    for number, elided in file_report["summary"]["elided"].items():
        yield f'{counted(elided, "more finding")} of <a href="#rule-{number}">{number}</a>, counted and not listed'
    for bug in file_report["bugs"]:
        yield f"internal error in {code(bug['where'])}: {escape(bug['message'])}; this is a bug in i2s-spec"
    for suppressed in file_report["excused"]:
        number = suppressed["code"]
        yield (
            f'{counted(suppressed["findings"], "finding")} of <a href="#rule-{number}">{number}</a> suppressed: '
            f"{escape(suppressed['reason'])}"
        )
    if known := file_report["summary"].get("baseline", 0):
        yield f"{counted(known, 'finding')} left out: the baseline holds {'it' if known == 1 else 'them'}"


def _runtimes(runtimes: list[dict[str, Any]], name: str) -> str:
    rows = [
        [
            escape(each["title"]),
            _mood(each["loads"]),
            _mood(each["computes"]),
            "".join(f"<p>{escape(why['text'])}{_source(why['source'])}</p>" for why in each["reasons"]),
        ]
        for each in runtimes
    ]
    if not rows:
        return ""
    hint = '<p class="hint">Whether each runtime loads and computes this file, with the source of that statement.</p>\n'
    inside = table(["runtime", "loads", "computes", "why"], rows, "runtimes")
    return f'<section id="{name}-runtimes"><h3>Runtimes</h3>\n{hint}{inside}</section>\n'


def _mood(words: str) -> str:
    mood = _MOODS.get(words, "plain")
    return "–" if words == "-" else f'<span class="badge {mood}">{_sign(mood)}{escape(words)}</span>'


def _source(source: str) -> str:
    """A source in brackets, with a link where it is an issue; sources come from this package. Empty for none."""
    if not source:
        return ""
    linked = _ISSUE.sub(r'<a rel="noreferrer" href="https://github.com/\1/issues/\2">\g<0></a>', escape(source))
    return f" ({linked})"


def _keys(details: dict[str, Any], name: str) -> str:
    rows = [
        [code(key["key"]), escape(key["type"]), escape(key["value"]), span_words(key["start"], key["stop"])]
        for key in details["keys"]
    ]
    if not rows:
        return ""
    left = details["keys_left"]
    more = f'<p class="hint">{counted(left, "more key-value")} after these are not listed.</p>' if left else ""
    inside = table(["key", "type", "value", "bytes"], rows, "keys")
    return f'<section id="{name}-keys"><h3>Key-values</h3>\n{inside}{more}</section>\n'


def used_codes(file_report: FileReport) -> set[str]:
    """The rules that the page mentions for a file."""
    codes = {finding["code"] for finding in file_report["findings"][:LISTED]}
    return codes | set(file_report["summary"]["elided"]) | {suppressed["code"] for suppressed in file_report["excused"]}
