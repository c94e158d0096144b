"""Comparisons as reports: text for people, JSON for programs, Markdown for comments, a page of HTML with pictures.

Whatever comes from a record or a dump is escaped here, as everywhere at the edge. `report` writes any of `FORMATS`; the
words and the first three forms are those of `report_text`. The page and its two pictures are made here: the heat map of
all taps, and the plot of drift.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from math import floor, isfinite, log10
from typing import Final, NamedTuple

from i2s_spec.draw.svg import drawing, element, number, rect, report_style, text
from i2s_spec.draw.svg import title as svg_title
from i2s_spec.draw.text import report_footer, visible
from i2s_spec.errors import SettingError, counted, quote
from i2s_spec.golden.report_text import (
    TITLES,
    about,
    diagnosis_words,
    first_wrong,
    json_lines,
    markdown_lines,
    others,
    rows,
    text_lines,
    title,
    unmatched,
)
from i2s_spec.golden.result import Comparison, TapResult, agreement_words
from i2s_spec.golden.tolerance import FAIL

#: The formats of a report.
FORMATS: Final = ("text", "json", "markdown", "html")


def report(result: Comparison, form: str = "text", command: str = "") -> Iterator[str]:
    """Return the lines of a report, with their ends.

    :param form: `text`, `json`, `markdown` or `html`
    :param command: that asked for it, as it was typed; the page names it
    :raises SettingError: for another form
    """
    if form not in FORMATS:
        raise SettingError(f"there is no format {quote(form)}; there are {', '.join(FORMATS)}")
    if form == "html":
        return page_lines(result, command)
    writers = {"text": text_lines, "json": json_lines, "markdown": markdown_lines}
    return writers[form](result)


# --- page ------------------------------------------------------------------------------------------------------------
# No script, nothing from elsewhere, light and dark as the reader has it.

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


def page_lines(result: Comparison, command: str = "") -> Iterator[str]:
    """Yield the page; everything that is not ours is escaped.

    :param command: that asked for it, as it was typed
    """
    verdict = html.escape(title(result))
    yield f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{verdict}</title>\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    yield f"<style>{report_style()}{_STYLE}</style>\n</head>\n<body>\n"
    yield f'<h1 class="{"ok" if result.ok else "wrong"}">{verdict}</h1>\n'
    if not result.ok and (words := agreement_words(result)):
        yield f"<p>{html.escape(words)}</p>\n"
    yield "<dl>\n"
    for what, words in about(result):
        yield f"<dt>{html.escape(what)}</dt><dd>{html.escape(words)}</dd>\n"
    yield from (f"<dt>note</dt><dd>{html.escape(note)}</dd>\n" for note in result.notes)
    yield "</dl>\n"
    wrong = list(first_wrong(result))
    if wrong or result.diagnoses:
        yield "<h2>The first wrong tensor</h2>\n<ul>\n"
        yield from (f"<li>{html.escape(line)}</li>\n" for line in wrong)
        yield from (f"<li><b>explained</b> {html.escape(diagnosis_words(each))}</li>\n" for each in result.diagnoses)
        yield "</ul>\n"
    more = list(others(result))
    if more:
        yield "<h2>Wrong on their own inputs</h2>\n<ul>\n"
        yield from (f"<li>{html.escape(line)}</li>\n" for line in more)
        yield "</ul>\n"
    for heading, legend, plot in (
        ("Drift by layer and tensor", "", taps_heat(result)),
        ("Drift of the layers from the record", _LEGEND, layers_plot(result)),
        ("Drift of every tensor, in the order of computation", _LEGEND, taps_plot(result)),
    ):
        if plot:
            yield f'<h2>{heading}</h2>\n{legend}<div class="wide">{plot}</div>\n'
    shown = list(rows(result))
    if shown:
        yield '<h2>Tensors</h2>\n<div class="wide"><table>\n<thead><tr>'
        yield "".join(f"<th>{html.escape(name)}</th>" for name in TITLES) + "</tr></thead>\n<tbody>\n"
        for row in shown:
            cells = [f"<td>{html.escape(cell)}</td>" for cell in row.cells]
            cells[1] = f'<td class="{row.status}">{html.escape(row.cells[1])}</td>'
            yield f"<tr>{''.join(cells)}</tr>\n"
        yield "</tbody></table></div>\n"
    names = list(unmatched(result))
    if names:
        yield "<dl>\n"
        yield from (f"<dt>{html.escape(what)}</dt><dd>{html.escape(words)}</dd>\n" for what, words in names)
        yield "</dl>\n"
    yield f"<footer>{report_footer(command)}</footer>\n</body>\n</html>\n"


# --- heat map --------------------------------------------------------------------------------------------------------
# The drift of every tap: a line for each kind of tap, a column for each layer.

#: Relative L2 distances that are drawn palest and deepest.
PALE: Final = 1e-8
DEEP: Final = 1.0

#: Layers and kinds of taps that are drawn.
LAYERS: Final = 256
KINDS: Final = 96

#: Width and height of a cell, and the room for names.
_WIDE: Final = 26.0
_HIGH: Final = 17.0
_HEAT_LEFT: Final = 150.0
_HEAT_TOP: Final = 52.0

#: Width of the legend, in a line of its own: a phone shows it without scrolling.
_HEAT_LEGEND: Final = 250.0

#: Characters of a name that there is room for.
_NAME: Final = 23

#: What is drawn with a frame, because it is wrong by itself.
_FRAMED: Final = ("wrong", "shape")


def taps_heat(result: Comparison) -> str:
    """Return the heat map; empty where no tap is in a layer, or no drift is known.

    Taps of one kind have one name without its layer: `attn_norm-3` and `attn_norm-4` stand in one line.
    """
    cells: dict[str, dict[int, TapResult]] = {}
    for tap in result.taps:
        if tap.layer is not None and tap.layer < LAYERS and (tap.drift is not None or tap.status in _FRAMED):
            cells.setdefault(_kind(tap), {})[tap.layer] = tap
    shown = dict(list(cells.items())[:KINDS])
    if not shown:
        return ""
    layers = 1 + max(layer for found in shown.values() for layer in found)
    marks = _axes(list(shown), layers)
    for line, found in enumerate(shown.values()):
        marks += [_cell(_HEAT_LEFT + _WIDE * layer, _HEAT_TOP + _HIGH * line, tap) for layer, tap in found.items()]
    worst = max((tap for found in shown.values() for tap in found.values()), key=lambda tap: _far(tap.drift))
    more = (
        f"{counted(len(shown), 'kind')} of tensors by {counted(layers, 'layer')}; the deeper a cell, "
        f"the larger the relative L2 distance from the record. The largest is that of {visible(worst.name, bare=True)}. "
        "A frame marks tensors that are wrong by themselves."
    )
    width, height = max(_HEAT_LEFT + _WIDE * layers, _HEAT_LEGEND) + 4, _HEAT_TOP + _HIGH * len(shown) + 4
    return _sized(drawing(width, height, "Drift by layer and tensor", more, *marks, style="heat-map"), width)


def _sized(svg: str, width: float) -> str:
    """Give a picture its natural size: cells are as large for two layers as for thirty."""
    return svg.replace("<svg ", f'<svg width="{number(width)}" ', 1)


def _kind(tap: TapResult) -> str:
    return tap.name.replace(f"blk.{tap.layer}.", "", 1).replace(f"-{tap.layer}", "", 1)


def _cut(kind: str) -> str:
    """Return a kind, cut so that it fits beside the cells."""
    shown = visible(kind, bare=True)
    return shown if len(shown) <= _NAME else shown[: _NAME - 1] + "…"


def _axes(kinds: list[str], layers: int) -> list[str]:
    marks = [text(0, 30, "tensor ↓", "axis"), text(_HEAT_LEFT, 30, "layer →", "axis")]
    for step in range(5):
        share = step / 4
        marks.append(element("rect", {"class": "hot", "x": 42 + 24 * step, "y": 3, "width": 22, "height": 11,
                                      "fill-opacity": _depth(share)}))  # fmt: skip
    marks.append(text(0, 12, f"{PALE:.0e}", "axis"))
    marks.append(text(166, 12, f"{DEEP:g} and more", "axis"))
    every = max(1, layers // 24)
    for layer in range(0, layers, every):
        marks.append(text(_HEAT_LEFT + _WIDE * (layer + 0.5) - 1, _HEAT_TOP - 6, str(layer), "axis", "middle"))
    for line, kind in enumerate(kinds):
        marks.append(text(0, _HEAT_TOP + _HIGH * (line + 0.5) + 4, _cut(kind), "axis"))
    return marks


def _cell(x: float, y: float, tap: TapResult) -> str:
    share = (log10(_far(tap.drift)) - log10(PALE)) / (log10(DEEP) - log10(PALE))
    far = "unknown" if tap.drift is None else f"{tap.drift:.3g}"
    says = f"{visible(tap.name, bare=True)}: {tap.status}, drift {far}"
    box: dict[str, str | float | None] = {
        "class": "hot", "x": x, "y": y, "width": _WIDE - 2, "height": _HIGH - 2, "fill-opacity": _depth(share),
    }  # fmt: skip
    frame = rect(x + 1, y + 1, _WIDE - 4, _HIGH - 4, "frame") if tap.status in _FRAMED else ""
    return element("g", {}, svg_title(says), element("rect", box), frame)


def _far(drift: float | None) -> float:
    """Return a distance as it is drawn: what is not finite, or not known, is as far as can be."""
    return DEEP if drift is None or not isfinite(drift) else min(max(drift, PALE), DEEP)


def _depth(share: float) -> float:
    return 0.06 + 0.9 * share


# --- plot ------------------------------------------------------------------------------------------------------------
# The drift of a candidate from a record, as SVG: relative L2 on a logarithmic axis.

WIDTH: Final = 800
HEIGHT: Final = 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 14, 24, 42

#: The lower end of the axis: float32 does not resolve smaller differences.
LEAST: Final = 1e-8


class DriftPoint(NamedTuple):
    """One value: what it is called, how far it is off, what became of it."""

    label: str
    far: float
    status: str


def layers_plot(result: Comparison) -> str:
    """Return the drift of what leaves each layer; empty where nothing is known of it."""
    points = [DriftPoint(f"layer {layer}", far, "ok") for layer, far, _ in result.drift]
    return _plot(points, "layer", [str(layer) for layer, _, _ in result.drift]) if points else ""


def taps_plot(result: Comparison) -> str:
    """Return the drift of every tap in the order of computation; empty where nothing is known of it."""
    points = [DriftPoint(tap.name, tap.drift, tap.status) for tap in result.taps if tap.drift is not None]
    return _plot(points, "tensor", None) if len(points) > 1 else ""


def _plot(points: Sequence[DriftPoint], what: str, ticks: Sequence[str] | None) -> str:
    far = [min(max(point.far, LEAST), 1e6) if isfinite(point.far) else 1e6 for point in points]
    low, high = floor(log10(min(far))), max(0, floor(log10(max(far))) + 1)
    low = min(low, high - 1)
    inner = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM

    def x(at: int) -> float:
        return _LEFT + inner[0] * (at + 0.5) / len(points)

    def y(value: float) -> float:
        return _TOP + inner[1] * (high - log10(value)) / (high - low)

    parts = [f'<svg class="drift" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="relative L2 by {what}">']
    for power in range(low, high + 1, max(1, (high - low) // 6)):
        at = y(10.0**power)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">1e{power}</text>')
    if 10.0**low <= FAIL.relative <= 10.0**high:
        at = y(FAIL.relative)
        parts.append(f'<line class="bound" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
    parts.append(f'<text x="{(_LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{what}</text>')
    parts.append('<text x="4" y="12">relative L2</text>')
    path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in enumerate(far))
    parts.append(f'<polyline class="line" points="{path}"/>')
    for at, (point, value) in enumerate(zip(points, far, strict=True)):
        label = html.escape(visible(point.label, bare=True))
        radius = 4 if point.status in ("wrong", "flips") else 2.5
        parts.append(f'<circle class="dot {html.escape(point.status)}" cx="{x(at):.1f}" cy="{y(value):.1f}" r="{radius}">'
                     f"<title>{label}: {point.far:.3g}</title></circle>")  # fmt: skip
    if ticks:
        step = max(1, len(ticks) // 16)
        for at in range(0, len(ticks), step):
            parts.append(
                f'<text x="{x(at):.1f}" y="{HEIGHT - 24}" text-anchor="middle">{html.escape(ticks[at])}</text>'
            )
    return "\n".join([*parts, "</svg>"])
