"""The report as one self-contained HTML page: no network, no other file, no framework.

It shows the verdict, findings with their bytes, a map of the file to scale, every tensor with its codes and scale, and
the verdicts of runtimes. A small script sorts, filters and magnifies; without it, everything can still be read. Text of
a file is always escaped, and a Content-Security-Policy blocks all other scripts and styles and every request.

A run over many files makes one page: each file is a line with its verdict that can be opened. Once the page is long
(`PAGE_BYTES`), further files have only their findings.

`gather` collects what the page needs while a file is open, `Html` is the page, and `file_part` is what it says of one
file. The map, the tensors and the weights are drawn in `html_pictures`.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.draw.svg import report_style
from i2s_spec.draw.text import exact_size_words, float32_words, report_footer, visible
from i2s_spec.errors import counted, plural
from i2s_spec.linter.explain import facts as rule_facts
from i2s_spec.linter.explain import find
from i2s_spec.linter.report import Format
from i2s_spec.linter.report.html_pictures import (
    RECORDS,
    code,
    facts,
    file_map,
    regions,
    span_words,
    table,
    tensors,
    weights,
)
from i2s_spec.linter.report.text import proof, reading_words
from i2s_spec.linter.report_data import (
    FileReport,
    Totals,
    elided_words,
    ok_words,
    repair_option,
    severity_words,
    suppressed_words,
)
from i2s_spec.linter.rule import Severity

if TYPE_CHECKING:
    from i2s_spec.inspect.survey import Survey
    from i2s_spec.layout_inference.evidence import LayoutEvidence
    from i2s_spec.linter.analysis.context import LintContext


# --- what is gathered from a file ------------------------------------------------------------------------------------
# What the page shows of a file besides its findings is gathered while the file is open. The result is plain data of
# bounded size; every text from the file is one printable line.

#: Characters of a key, a name or a value that the page shows.
NAME: Final = 64

_BLOCK: Final = re.compile(r"^blk\.(\d{1,4})\.", re.ASCII)


def gather(subject: LintContext) -> dict[str, Any]:
    """Gather what the page needs of one file.

    :returns: facts, totals, the first keys and tensors (with their contents), the regions of the map, and the verdicts
    of runtimes
    :raises FormatError: if the file can no longer be read
    """
    from i2s_spec.inspect.show import members
    from i2s_spec.linter.runtimes.verdicts import verdicts

    file = subject.file
    about = members(file, 6, (RECORDS, 0))
    survey = subject.survey
    known = {} if survey is None else {survey.row(place): place for place in range(len(survey))}
    others = {} if survey is None else {other.row: other for other in _first(survey)}
    tensors = [_tensor(tensor, survey, known, others) for tensor in about["tensors"]]
    keys = [_key(key) for key in about["keys"]]
    runtimes = [verdict.as_dict() for verdict in verdicts(subject)] if about["header"]["version"] is not None else []
    return {
        "facts": list(_facts(about, subject)),
        "totals": _type_totals(about["totals"]),
        "keys": keys,
        "keys_left": file.index.keys - len(keys),
        "tensors": tensors,
        "tensors_left": file.index.tensors - len(tensors),
        "regions": [list(region) for region in regions(file)],
        "reading": subject.reading.mode,
        "alignment": None if survey is None else _alignment(subject),
        "runtimes": runtimes,
    }


def _alignment(subject: LintContext) -> dict[str, Any] | None:
    """Return the channels of the file's weights under each layout, as plain data."""
    from i2s_spec.linter.analysis.layout import weight_layout

    found = weight_layout(subject)
    return None if found is None else alignment_of(found)


def alignment_of(found: LayoutEvidence) -> dict[str, Any] | None:
    """Return `channel_alignment` as plain data, with the layout that the weights show; None for a file without such
    channels."""
    from i2s_spec.layout_inference.channel_alignment import channel_alignment

    aligned = channel_alignment(found)
    if aligned is None:
        return None
    decided = found.decided
    return {
        "tensor": aligned.tensor,
        "partner": aligned.partner,
        "channels": aligned.channels,
        "decided": None if decided is None else decided.name,
        "answer": "mixed" if found.mixed else "undecided" if decided is None else "decided",
        "layouts": [
            {"layout": each.layout, "correlation": round(each.correlation, 4), "points": [list(p) for p in each.points]}
            for each in aligned.layouts
        ],
    }


def _first(survey: Survey) -> Iterator[Any]:
    return (survey.others[place] for place in range(min(len(survey.others), RECORDS)))


def _facts(about: dict[str, Any], subject: LintContext) -> Iterator[tuple[str, str]]:
    header, size = about["header"], about["size"]
    yield "size", exact_size_words(size)
    if header["version"] is None:
        return
    order = f", {header['byte_order']}-endian" if header["byte_order"] else ""
    yield "container", f"GGUF version {header['version']}{order}"
    if subject.architecture:
        yield "architecture", visible(subject.architecture, NAME, bare=True)
    counts = f"{counted(header['key_count'], 'key-value')}, {counted(header['tensor_count'], 'tensor')}"
    if header["header_bytes"] is None:
        yield "header", f"{counts} promised"
    else:
        yield "header", f"{counts} in {exact_size_words(header['header_bytes'])}"
    if header["data_start"] is not None:
        source = "general.alignment" if header["alignment_declared"] else "the default"
        yield "data", f"from 0x{header['data_start']:x}, aligned to {header['alignment']:,} ({source})"
    yield "parameters", f"{about['totals']['elements']:,}"


def _type_totals(totals: dict[str, Any]) -> list[list[Any]]:
    rows = [(total["type"] or f"type {total['type_number']}", total) for total in totals["by_type"][:40]]
    return [
        [name, total["tensors"], total["elements"], total["bytes"], total["bits_per_element"]]
        for name, total in (*rows, ("all", totals))
    ]


def _key(key: dict[str, Any]) -> dict[str, Any]:
    from i2s_spec.inspect.show_text import value_words

    return {
        "key": _shown(key["key"]),
        "type": key["type"],
        "value": value_words(key),
        "start": key["start"],
        "stop": key["stop"],
    }


def _tensor(
    tensor: dict[str, Any], survey: Survey | None, known: dict[int, int], others: dict[int, Any]
) -> dict[str, Any]:
    name, scale = _shown(tensor["name"]), tensor["scale"]
    made: dict[str, Any] = {
        "row": tensor["index"],
        "name": name,
        "group": _BLOCK.sub("", name).removesuffix(".weight"),
        "layer": int(found[1]) if (found := _BLOCK.match(name)) else None,
        "type": tensor["type"] or f"type {tensor['type_number']}",
        "shape": tensor["shape"],
        "elements": tensor["elements"],
        "start": tensor["start"],
        "bytes": tensor["bytes"],
        "problem": None if tensor["problem"] is None else tensor["problem"]["code"],
        "scale": None if scale is None else float32_words(scale),
        "value": scale if scale is not None and math.isfinite(scale) else None,
    }
    if survey is not None and tensor["index"] in known:
        seen = survey[known[tensor["index"]]]
        made |= {"counts": list(seen.counts), "complete": seen.complete, "tail": seen.tail_class}
        made |= {"bytes_of_tail": seen.tail.hex(" "), "run": _run(seen.longest_run)}
    elif tensor["index"] in others:
        other = others[tensor["index"]]
        made |= {"complete": other.complete, "run": _run(other.longest_run), "odd": other.non_finite}
    return made


def _run(run: Any) -> list[int] | None:
    """Return the longest run of one byte: where in the tensor it begins, how long it is, and the byte."""
    return None if run is None else list(run)


def _shown(text: Any) -> str:
    """Return text as `describe` gives it, as one printable line."""
    return visible(bytes.fromhex(text["hex"]) if isinstance(text, dict) else text, NAME, bare=True)


# --- the page --------------------------------------------------------------------------------------------------------

#: Once a page has so many characters, maps and tables of further files are left out.
PAGE_BYTES = 12 << 20

#: The page's icon: three blocks, for -1, 0 and +1.
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 3 3'%3E%3Cpath fill='%233b7dd8' "
    "d='M0 0h1v3H0z'/%3E%3Cpath fill='%239aa5b4' d='M1 0h1v3H1z'/%3E%3Cpath fill='%23e0882f' d='M2 0h1v3H2z'/%3E%3C/svg%3E"
)


class Html(Format):
    """One page; a single file is shown open, several are lines that can be opened."""

    details = staticmethod(gather)  # type: ignore[assignment]  # a function of a module, found on the class

    _seen = 0
    _length = 0
    _held: tuple[str, str] | None = None

    def begin(self) -> str:
        self._codes: set[str] = set()
        style, script = report_style() + _asset("page.css"), _asset("page.js")
        policy = (
            f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
            "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
        )
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\n'
            f'<title>i2s lint</title><link rel="icon" href="{_ICON}">\n<style>{style}</style></head>\n'
            '<body><header><a class="skip" href="#main">to the report</a><h1>i2s lint</h1></header>\n<main id="main">\n'
        )

    def _file(self, file_report: FileReport) -> str:
        if self._quiet and not file_report["findings"] and not file_report["bugs"]:
            return ""
        self._seen += 1
        self._codes |= used_codes(file_report)
        part = head(file_report), file_part(file_report, f"f{self._seen}", self._length < PAGE_BYTES)
        self._length += len(part[1])
        if self._seen == 1:  # it is not known yet whether it is the only file
            self._held = part
            return ""
        return self._let_go() + _folded(*part)

    def _let_go(self) -> str:
        held, self._held = self._held, None
        return _folded(*held) if held is not None else ""

    def end(self, totals: Totals) -> str:
        only = ""
        if self._held is not None:
            first, inside = self._held
            only = f'<section class="file" id="f1"><h2>{first}</h2>\n{inside}</section>\n'
        return (
            only
            + (_totals(totals) if totals["files"] != 1 or not only else "")
            + "".join(f'<p class="configuration">Configuration: {escape(remark)}.</p>\n' for remark in totals.remarks)
            + _explanations(sorted(self._codes))
            + f"</main>\n<footer>{report_footer(self.command)}</footer>\n"
            + f"<script>{_asset('page.js')}</script></body></html>\n"
        )


def _folded(first: str, inside: str) -> str:
    return f'<details class="file"><summary><h2>{first}</h2></summary>\n{inside}</details>\n'


def _totals(totals: Totals) -> str:
    names = ["files", "ok", "unreadable", *(f"{level.value}s" for level in Severity), "excused", "baseline", "skipped"]
    cells = [f"{totals[name]:,}" for name in names]
    inside = table([f"#{name}" for name in names], [cells], "totals")
    return f'<section id="totals"><h2>{counted(totals["files"], "file")}</h2>\n{inside}</section>\n'


def _explanations(codes: Iterable[str]) -> str:
    """Return the text of `i2s explain` for each rule that the page mentions."""
    made = ""
    for number in codes:
        rule = find(number)
        pairs = [*rule.sections.items(), ("Says", plural(rule.fault.message)), *rule_facts(rule)]
        inside = "".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in pairs)
        made += (
            f"<details><summary><b>{number}</b> {escape(rule.slug)}: {escape(rule.title)}</summary>"
            f'<dl id="rule-{number}" class="rule">{inside}</dl></details>\n'
        )
    return f'<section id="rules"><h2>What the codes mean</h2>\n{made}</section>\n' if made else ""


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    """Return a style sheet or a script of the page, unchanged."""
    return files("i2s_spec.linter.report").joinpath(name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    """Return the source by which a Content-Security-Policy knows an inline script or style."""
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")


# --- one file on the page --------------------------------------------------------------------------------------------
# Verdict, facts, findings, map, weights, tensors, runtimes. All text in a report is escaped for a terminal already; here
# it is also escaped for HTML.

#: Most findings of a file that are listed; the rest are counted.
LISTED = 1000

#: How many findings of one rule are shown open; the others follow in one folded block.
UNFOLDED = 1

#: Signs that accompany words; they are never shown alone.
SIGNS = {"error": "✕", "warning": "▲", "note": "●", "ok": "✓"}

#: An issue of a project on GitHub, as sources name it.
_ISSUE = re.compile(r"([\w.-]+/[\w.-]+)#(\d+)")

_MOODS = {
    "yes": "ok", "correctly": "ok", "expected": "ok", "no": "error", "crash": "error", "wrongly": "error",
    "with option": "warning", "vocabulary only": "plain", "not compared": "plain",
    "depends on the machine": "warning", "not tried": "plain", "-": "plain",
}  # fmt: skip


def verdict(file_report: FileReport) -> tuple[str, str]:
    """Return the class of a verdict (`ok`, `warning`, `error`), and the verdict in words."""
    counts = severity_words(file_report["summary"])
    if "skipped" in file_report:
        return "plain", "skipped"
    if file_report["bugs"]:
        return "error", "not checked to the end" + (f" ({counts})" if counts else "")
    if not file_report["ok"]:
        return "error", counts
    mood = "warning" if file_report["summary"]["warnings"] else "ok"
    return mood, ok_words(file_report) + (f", with {counts}" if counts else "")


def file_part(file_report: FileReport, name: str, whole: bool = True) -> str:
    """Return the part of the page on one file.

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
    """Return the verdict on one file, in a line."""
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
    """Return the findings of one rule: the first ones open, the others folded."""
    first, left = "".join(made[:UNFOLDED]), made[UNFOLDED:]
    if not left:
        return first
    return f'{first}<details class="others"><summary>{counted(len(left), "more finding")} of {number}</summary>\n' + (
        "".join(left) + "</details>\n"
    )


def _summed(findings: Sequence[Mapping[str, Any]]) -> str:
    """Count the findings of each rule, if some rule has several."""
    counts = Counter((finding["severity"], finding["code"], finding["slug"]) for finding in findings)
    if len(findings) == len(counts):
        return ""
    ranks = {severity.value: -severity.rank for severity in Severity}
    rows = sorted(counts.items(), key=lambda item: (ranks[item[0][0]], -item[1]))
    items = "".join(
        f'<li><span class="badge {severity}">{number:,} ×</span> {_rule_link(code)} {escape(slug)}</li>'
        for (severity, code, slug), number in rows
    )
    return f'<ul class="summed">{items}</ul>\n'


def _finding(finding: Mapping[str, Any], file_report: FileReport, name: str) -> str:
    span, severity, number = finding["span"], finding["severity"], finding["code"]
    where = [code(span_words(span["start"], span["stop"]))] if span["stop"] else []
    where += [code(span["path"])] if span["path"] else []
    where += [f"clause {escape(finding['clause'])}"]
    option = repair_option(finding["code"], finding["fix"])
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
    """Return a value of a finding, as plain data holds it, in words."""
    if isinstance(value, list):
        return "(" + ", ".join(map(_stated, value)) + ")"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _rule_link(number: str) -> str:
    """Return a code as a link to what it means."""
    return f'<a href="#rule-{number}">{number}</a>'


def _remarks(file_report: FileReport) -> Iterator[str]:
    """Yield remarks beside the listed findings."""
    left = len(file_report["findings"]) - LISTED
    if left > 0:
        yield f"{counted(left, 'more finding')}; this page lists the first {LISTED:,}"
    yield from map(escape, reading_words(file_report))
    yield from (f"{words}, counted and not listed" for _, words in elided_words(file_report, _rule_link))
    for bug in file_report["bugs"]:
        yield f"internal error in {code(bug['where'])}: {escape(bug['message'])}; this is a bug in i2s-spec"
    yield from suppressed_words(file_report, _rule_link, escape)
    if known := file_report["summary"].get("baseline", 0):
        yield f"{counted(known, 'finding')} left out: the baseline holds {'it' if known == 1 else 'them'}"


def _runtimes(runtimes: list[dict[str, Any]], name: str) -> str:
    rows = [
        [
            escape(each["title"]),
            _mood(each["loads"]),
            _mood(each["computes"]),
            "<br>".join(escape(f"{device}: {what}") for device, what in each["devices"].items()),
            "".join(f"<p>{escape(why['text'])}{_source(why['source'])}</p>" for why in each["reasons"]),
        ]
        for each in runtimes
    ]
    if not rows:
        return ""
    hint = '<p class="hint">Whether each runtime loads and computes this file, with the source of that statement.</p>\n'
    inside = table(["runtime", "loads", "computes", "devices", "why"], rows, "runtimes")
    return f'<section id="{name}-runtimes"><h3>Runtimes</h3>\n{hint}{inside}</section>\n'


def _mood(words: str) -> str:
    mood = _MOODS.get(words, "plain")
    return "–" if words == "-" else f'<span class="badge {mood}">{_sign(mood)}{escape(words)}</span>'


def _source(source: str) -> str:
    """Return a source in brackets, with a link where it is an issue; sources come from this package. Empty for none."""
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
    """Return the rules that the page mentions for a file."""
    codes = {finding["code"] for finding in file_report["findings"][:LISTED]}
    return codes | set(file_report["summary"]["elided"]) | {suppressed["code"] for suppressed in file_report["excused"]}
