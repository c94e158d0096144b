"""This module defines the report as one self-contained HTML page: no network, no other file, no framework.

It shows the verdict, findings with their bytes, a map of the file to scale, every tensor with its codes and scale, and
the verdicts of runtimes. A small script sorts, filters and magnifies; without it, everything can still be read. Text of
a file is always escaped, and a Content-Security-Policy blocks all other scripts and styles and every request.

A run over many files makes one page: each file is a line with its verdict that can be opened. Once the page is long
(`PAGE_BYTES`), further files have only their findings.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from html import escape
from importlib.resources import files

from i2s_spec.draw.made_by import made_by
from i2s_spec.draw.palette import report_style
from i2s_spec.errors import counted, plural
from i2s_spec.linter.explain import facts, find
from i2s_spec.linter.report import Format
from i2s_spec.linter.report.html.details import gather
from i2s_spec.linter.report.html.file import file_part, head, used_codes
from i2s_spec.linter.report.html.table import table
from i2s_spec.linter.report_data import FileReport, Totals
from i2s_spec.linter.rule import Severity

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
            + f"</main>\n<footer>{made_by(self.command)}</footer>\n"
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
    """The text of `i2s explain` for each rule that the page mentions."""
    made = ""
    for number in codes:
        rule = find(number)
        pairs = [*rule.sections.items(), ("Says", plural(rule.fault.message)), *facts(rule)]
        inside = "".join(f"<dt>{escape(name)}</dt><dd>{escape(words)}</dd>" for name, words in pairs)
        made += (
            f"<details><summary><b>{number}</b> {escape(rule.slug)}: {escape(rule.title)}</summary>"
            f'<dl id="rule-{number}" class="rule">{inside}</dl></details>\n'
        )
    return f'<section id="rules"><h2>What the codes mean</h2>\n{made}</section>\n' if made else ""


@lru_cache(maxsize=4)
def _asset(name: str) -> str:
    """A style sheet or a script of the page, unchanged."""
    return files("i2s_spec.linter.report").joinpath(name).read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    """The source by which a Content-Security-Policy knows an inline script or style."""
    return "sha256-" + b64encode(sha256(text.encode("utf-8")).digest()).decode("ascii")
