"""This module is the report as one page of HTML: no script, nothing from elsewhere, light and dark as the reader has it."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Final

from i2s_spec.draw.made_by import made_by
from i2s_spec.draw.palette import report_style
from i2s_spec.golden.replay.result import Comparison
from i2s_spec.golden.report.heat import taps_heat
from i2s_spec.golden.report.plot import layers_plot, taps_plot
from i2s_spec.golden.report.words import TITLES, about, diagnosis_words, first_wrong, others, rows, title

_STYLE: Final = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --dim: #667; --line: #d5d9df; --good: #1a7f37;
  --bad: #b3261e; --warn: #8a6100; --mark: #0b62c4; }
@media (prefers-color-scheme: dark) { :root { --back: #14171b; --text: #e3e6ea; --dim: #98a0aa; --line: #343a42;
  --good: #56c271; --bad: #ff7b72; --warn: #e0b040; --mark: #6cb2ff; } }
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 78rem; padding: 0 1rem; }
h1 { font-size: 1.25rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
.ok { color: var(--good); } .wrong, .behind { color: var(--bad); } .flips, .shape { color: var(--warn); }
.missing, .extra, .skipped, dt { color: var(--dim); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:nth-child(n+3):nth-child(-n+9) { text-align: right; font-variant-numeric: tabular-nums; }
td:last-child { white-space: normal; min-width: 16rem; color: var(--dim); }
@media (max-width: 40rem) { th:first-child, td:first-child { position: sticky; left: 0; background: var(--back);
  white-space: normal; min-width: 9rem; max-width: 42vw; overflow-wrap: break-word; } }
svg.drift { width: 100%; min-width: 46rem; height: auto; max-width: 62rem; } svg.heat-map { height: auto; }
svg text { fill: var(--dim); font: 11px system-ui, sans-serif; }
svg .grid { stroke: var(--line); } svg .line { fill: none; stroke: var(--mark); stroke-width: 1.5; }
svg .dot { fill: var(--mark); } svg .dot.wrong, svg .dot.behind { fill: var(--bad); } svg .dot.flips { fill: var(--warn); }
svg .bound { stroke: var(--bad); stroke-dasharray: 5 4; }
svg .hot { fill: var(--heat); } svg .frame { fill: none; stroke: var(--text); stroke-width: 2; }
ul.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; margin: .3rem 0;
  color: var(--dim); font-size: .85rem; }
ul.legend i { display: inline-block; width: 1.4em; height: .6em; margin-right: .4em; border-radius: 2px;
  background: var(--mark); }
ul.legend i.limit { height: 0; background: none; border-top: 2px dashed var(--bad); vertical-align: .3em; }
ul.legend i.wrong { background: var(--bad); } ul.legend i.flips { background: var(--warn); }
footer { margin-top: 2rem; color: var(--dim); font-size: .85rem; overflow-wrap: anywhere; }
@media print { .wide { overflow: visible; } svg.drift { min-width: 0; } figure, tr { break-inside: avoid; } }
"""


_LEGEND: Final = (
    '<ul class="legend"><li><i></i>relative L2 distance from the record</li><li><i class="wrong"></i>wrong</li>'
    '<li><i class="flips"></i>flipped codes, explained</li><li><i class="limit"></i>beyond this a result fails</li></ul>\n'
)


def lines(result: Comparison, command: str = "") -> Iterator[str]:
    """The page; everything that is not ours is escaped.

    :param command: that asked for it, as it was typed
    """
    verdict = html.escape(title(result))
    yield f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{verdict}</title>\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    yield f"<style>{report_style()}{_STYLE}</style>\n</head>\n<body>\n"
    yield f'<h1 class="{"ok" if result.ok else "wrong"}">{verdict}</h1>\n<dl>\n'
    for what, words in about(result):
        yield f"<dt>{html.escape(what)}</dt><dd>{html.escape(words)}</dd>\n"
    yield from (f"<dt>note</dt><dd>{html.escape(note)}</dd>\n" for note in result.notes)
    yield "</dl>\n"
    wrong = list(first_wrong(result))
    if wrong or result.diagnoses:
        yield "<h2>The first wrong tap</h2>\n<ul>\n"
        yield from (f"<li>{html.escape(line)}</li>\n" for line in wrong)
        yield from (f"<li><b>explained</b> {html.escape(diagnosis_words(each))}</li>\n" for each in result.diagnoses)
        yield "</ul>\n"
    more = list(others(result))
    if more:
        yield "<h2>Wrong on their own inputs</h2>\n<ul>\n"
        yield from (f"<li>{html.escape(line)}</li>\n" for line in more)
        yield "</ul>\n"
    for heading, legend, plot in (
        ("Drift by layer and tap", "", taps_heat(result)),
        ("Drift of the layers from the record", _LEGEND, layers_plot(result)),
        ("Drift of every tap, in the order of computation", _LEGEND, taps_plot(result)),
    ):
        if plot:
            yield f'<h2>{heading}</h2>\n{legend}<div class="wide">{plot}</div>\n'
    shown = list(rows(result))
    if shown:
        yield '<h2>Taps</h2>\n<div class="wide"><table>\n<thead><tr>'
        yield "".join(f"<th>{html.escape(name)}</th>" for name in TITLES) + "</tr></thead>\n<tbody>\n"
        for row in shown:
            cells = [f"<td>{html.escape(cell)}</td>" for cell in row.cells]
            cells[1] = f'<td class="{row.status}">{html.escape(row.cells[1])}</td>'
            yield f"<tr>{''.join(cells)}</tr>\n"
        yield "</tbody></table></div>\n"
    yield f"<footer>{made_by(command)}</footer>\n</body>\n</html>\n"
