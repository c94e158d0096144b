"""This module makes the page of a census: one self-contained HTML file, with light and dark colors.

It has no script, and a Content-Security-Policy blocks all scripts. Every text of the records is escaped.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Final

from i2s_spec._version import __version__
from i2s_spec.draw.bar_rows import BarRow, bar_rows
from i2s_spec.draw.plot import Share, strip
from i2s_spec.draw.text import size_words, visible
from i2s_spec.errors import counted
from i2s_spec.linter.census.census_counts import (
    CODES_BY_PRODUCER,
    MEANINGS,
    OTHERS,
    VERDICTS,
    Census,
    by_count,
    ordered,
)

#: Most rows of a plot; the JSON form has all of them.
ROWS: Final = 40

#: The class of each verdict and severity.
_STYLES: Final = {"error": "errors", "warning": "warnings", "note": "notes"}

#: The class of each verdict of a runtime.
_ANSWERS: Final = {"yes": "ok", "no": "errors"}


def census_page(census: Census, source: str) -> str:
    """The page.

    :param source: the name of the results, which the page shows
    """
    return "".join(_pieces(census, source))


def _pieces(census: Census, source: str) -> Iterator[str]:
    style = _style()
    policy = f"default-src 'none'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    yield (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">\n'
        f"<title>Census of {counted(census.files, 'file')}</title>\n<style>{style}</style></head>\n"
        f"<body><header><p>i2s census of <code>{escape(visible(source, 4096, bare=True))}</code></p>"
        f"<h1>{counted(census.files, 'file')}</h1></header>\n<main>\n"
    )
    yield _totals(census)
    yield _section(
        "Findings by code", _codes(census), "Files in which a rule has findings, by the severity of the rule."
    )
    kinds = {
        "producer": "Files by the program that wrote their metadata, as <code>i2s identify</code> reports it.",
        "layout": "Files with I2_S tensors by their layout, if weights or other evidence show it.",
        "architecture": "Files by general.architecture.",
    }
    for kind, about in kinds.items():
        names = ordered(census.by[kind])
        yield _section(f"Files by {kind}", _by_verdict(names, kind), about)
    yield _section(
        "Findings by producer",
        _matrix(census),
        "How many files of each producer have findings of the most frequent rules.",
    )
    yield _section("Files by runtime", _runtimes(census), _about_runtimes(census))
    yield f"</main>\n<footer><p>i2s-spec {escape(__version__)}</p></footer></body></html>\n"


def _totals(census: Census) -> str:
    shares = [
        Share(census.verdicts[verdict], verdict, f"{MEANINGS[verdict]}: {census.verdicts[verdict]:,}")
        for verdict in VERDICTS
    ]
    legend = "".join(
        f'<li><span class="key {verdict}"></span>{escape(MEANINGS[verdict])}: {census.verdicts[verdict]:,}'
        f" ({census.verdicts[verdict] / max(1, census.files):.1%})</li>"
        for verdict in VERDICTS
    )
    facts = [
        ("bytes of files", size_words(census.bytes)),
        ("findings", f"{census.findings:,}"),
        ("copies of another file", f"{census.copies:,}"),
        ("seconds of work", f"{census.seconds:,.0f}"),
        ("sets of rules and options", f"{len(census.rules):,}"),
    ]
    listed = "".join(f"<div><dt>{name}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    mixed = ""
    if len(census.rules) > 1:
        mixed = (
            '<p class="remark">The results come from several sets of rules, so counts of codes are not comparable.</p>'
        )
    return (
        f'{strip(shares, "Verdicts on all files", 900, 22)}<ul class="legend">{legend}</ul><dl>{listed}</dl>{mixed}\n'
    )


def _section(heading: str, body: str, about: str) -> str:
    return f"<section><h2>{escape(heading)}</h2><p>{about}</p>{body}</section>\n" if body else ""


def _codes(census: Census) -> str:
    rows = []
    for code, count in by_count(census.code_files)[:ROWS]:
        slug, severity = census.about.get(code, ("", ""))
        style = _STYLES.get(severity, "notes")
        says = (
            f"{code} {slug}: {severity}, {counted(census.code_findings[code], 'finding')} in {counted(count, 'file')}"
        )
        rows.append(BarRow(f"{code} {slug}", (Share(count, style, says),), f"{count:,}"))
    if not rows:
        return "<p>There are no findings.</p>"
    return bar_rows(rows, "Files by code of finding", _more(len(census.code_files)))


def _by_verdict(names: Sequence[tuple[str, Counter[str]]], kind: str) -> str:
    rows = []
    for name, counts in names[:ROWS]:
        shares = [
            Share(counts[verdict], verdict, f"{MEANINGS[verdict]}: {counts[verdict]:,}")
            for verdict in VERDICTS
            if counts[verdict]
        ]
        rows.append(BarRow(name, shares, f"{counts.total():,}"))
    return bar_rows(rows, f"Files by {kind} and verdict", _more(len(names))) if rows else ""


def _matrix(census: Census) -> str:
    producers = [(name, counts) for name, counts in ordered(census.codes_by_producer) if name != OTHERS][:ROWS]
    codes = [code for code, _ in by_count(census.code_files)[:CODES_BY_PRODUCER]]
    if not producers:
        return ""
    head = "".join(f'<th scope="col">{escape(code)}</th>' for code in codes)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{counts[code]:,}</td>" if counts[code] else "<td></td>" for code in codes)
        + "</tr>"
        for name, counts in producers
    )
    head = f'<thead><tr><th scope="col">producer</th>{head}</tr></thead>'
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'


def _runtimes(census: Census) -> str:
    if not census.loads:
        return ""
    drawings = []
    for verb, by_runtime in (("load", census.loads), ("compute", census.computes)):
        rows = [
            BarRow(name, tuple(_answers(counts, verb)), _words(counts)) for name, counts in sorted(by_runtime.items())
        ]
        drawings.append(f"<h3>Files that they {verb}</h3>" + bar_rows(rows[:ROWS], f"Files that runtimes {verb}", ""))
    return "".join(drawings)


def _answers(counts: Mapping[str, int], verb: str) -> Iterable[Share]:
    for answer, count in sorted(
        counts.items(), key=lambda item: ("yes", "no").index(item[0]) if item[0] in _ANSWERS else 2
    ):
        yield Share(count, _ANSWERS.get(answer, "notes"), f"{verb}: {answer}: {counted(count, 'file')}")


def _words(counts: Mapping[str, int]) -> str:
    return f"{counts.get('yes', 0):,} of {sum(counts.values()):,}"


def _about_runtimes(census: Census) -> str:
    most = max((counts.total() for counts in census.loads.values()), default=0)
    return f"What <code>--runtimes</code> says of {counted(most, 'file')}: yes, no, or not tried."


def _more(count: int) -> str:
    return f"The {ROWS} most frequent of {count:,}." if count > ROWS else ""


@lru_cache(maxsize=1)
def _style() -> str:
    return files("i2s_spec.linter.census").joinpath("census.css").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
