"""This module draws the map of a file: the whole file to scale, a magnifier that a script fills, and a list of all regions.

The script reads the list. Without the script, the list still shows every region, however small.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from i2s_spec.draw.plot import Segment, wrapped
from i2s_spec.draw.text import size_words
from i2s_spec.errors import counted
from i2s_spec.linter.report.html.regions import KINDS, FileRegion
from i2s_spec.linter.report.html.table import framed, span_words

#: Fewest and most lines of a map.
LINES = 3, 24


def file_map(name: str, details: dict[str, Any], size: int, findings: Sequence[Mapping[str, Any]]) -> str:
    """The map of one file, from what `gather` gave; `name` begins the ids of its elements."""
    found = [FileRegion(*region) for region in details["regions"]]
    if not found:
        return ""
    labels = [label(region, details["keys"], details["tensors"]) for region in found]
    lines = min(max(round(len(found) ** 0.5 / 1.5), LINES[0]), LINES[1])
    per = size_words(max(1, round(size / lines)))
    drawn = wrapped(
        [
            Segment(region.start, region.stop, region.kind, f"{words}\n{_place(region)}")
            for region, words in zip(found, labels, strict=True)
        ],
        size,
        lines,
        "Map of the file",
        f"{counted(len(found), 'region')} to scale in {counted(lines, 'line')} of {per}; the list "
        f"below the map names each of them.",
        marks=[
            Segment(span["start"], span["stop"], f"mark {finding['severity']}", f"{finding['code']} {finding['slug']}")
            for finding in findings
            if (span := finding["span"])["stop"]
        ],
    )
    return (
        f'<section id="{name}-map" class="map-part"><h3>Map of the file</h3>\n'
        f'<p class="hint">To scale: the file runs through {counted(lines, "line")} of {per} each; '
        f'what is thinner than a line of'
        " the screen is drawn that wide.<span class=\"js\"> Select a region here, or step through all of them with the"
        " arrow keys in the magnifier.</span></p>\n"
        f"{_legend(found)}{drawn}\n{_magnifier(name)}"
        f"<details><summary>All {counted(len(found), 'region')}</summary>\n{_list(found, labels)}</details></section>\n"
    )  # fmt: skip


def label(region: FileRegion, keys: Sequence[dict[str, Any]], tensors: Sequence[dict[str, Any]]) -> str:
    """A region in words; names from the file in it are escaped already."""
    words, number = KINDS[region.kind], region.number
    if number is None:
        return words
    if region.kind == "rest":
        return f"{number:,} more, {words}"
    if region.kind == "key":
        return f"{words} {keys[number]['key']}" if number < len(keys) else f"{words} {number}"
    name = tensors[number]["name"] if number < len(tensors) else f"tensor {number}"
    return f"{words} {'after' if region.kind == 'padding' else 'of'} {name}"


def _place(region: FileRegion) -> str:
    length = region.stop - region.start
    more = f" ({counted(length, 'byte')})" if length >= 1024 else ""
    return f"{span_words(region.start, region.stop)}, {size_words(length)}{more}"


def _legend(found: Iterable[FileRegion]) -> str:
    kinds = {region.kind for region in found}
    marks = "".join(f'<li><i class="{kind}"></i>{escape(words)}</li>' for kind, words in KINDS.items() if kind in kinds)
    return f'<ul class="legend">{marks}</ul>\n'


def _magnifier(name: str) -> str:
    """The part that a script fills: a strip that shows part of the file, and details of the selected region."""
    buttons = "".join(
        f'<button type="button" data-do="{action}" title="{title}">{sign}</button>'
        for action, sign, title in (
            ("previous", "◀ previous", "the region before this one (left arrow)"),
            ("next", "next ▶", "the region after this one (right arrow)"),
            ("closer", "+", "look closer (+)"),
            ("wider", "−", "see more (−)"),
            ("whole", "whole file", "see all of it (0)"),
        )
    )
    return (
        f'<div class="magnifier js"><div class="tools">{buttons}'
        f'<label>find <input type="search" list="{name}-names" placeholder="name or 0x address" data-do="find"></label>'
        f'<datalist id="{name}-names"></datalist></div>\n'
        '<div class="window" tabindex="0" role="slider" aria-label="Region of the file" aria-valuemin="1"'
        ' aria-valuemax="1" aria-valuenow="1"></div><div class="ends"><span></span><span></span></div>\n'
        '<div class="chosen" aria-live="polite"></div></div>\n'
    )


def _list(found: Sequence[FileRegion], labels: Sequence[str]) -> str:
    titles = '<th scope="col">bytes</th><th scope="col" class="n">size</th><th scope="col">region</th>'
    return framed(titles, "".join(_rows(found, labels)), "regions")


def _rows(found: Sequence[FileRegion], labels: Sequence[str]) -> Iterator[str]:
    for region, words in zip(found, labels, strict=True):
        start, stop, kind, _ = region
        yield (
            f'<tr class="{kind}"><td data-v="{start}">{span_words(start, stop)}</td>'
            f'<td class="n">{stop - start:,}</td><td>{escape(words)}</td></tr>\n'
        )
