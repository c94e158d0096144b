"""This module writes the tensors of a file: plots of all codes and scales, and a table with a row for each tensor.

Each name opens the tensor's details: its histogram of codes, its scale among those of its kind, its tail.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from statistics import median
from typing import Any

from i2s_spec.draw.layer_lines import LayerValue, Line, layer_lines
from i2s_spec.draw.plot import Point, Share, bars, columns, points, strip
from i2s_spec.draw.text import float32_words
from i2s_spec.errors import counted
from i2s_spec.linter.report.html.table import framed, table
from i2s_spec.linter.report.html.weights import CODES

#: The colors of kinds of tensors in the plot of scales.
GROUPS = 8

_TENSOR = re.compile(r"(?:data|tensor_infos)\[(\d+)\]")


def tensors(name: str, details: dict[str, Any], findings: Sequence[Mapping[str, Any]]) -> str:
    """The tensors of one file, from what `gather` gave; `name` begins the ids of its elements."""
    rows = details["tensors"]
    if not rows:
        return ""
    left = details["tensors_left"]
    more = f'<p class="hint">{counted(left, "more tensor")} after these are not listed.</p>' if left else ""
    return (
        f'<section id="{name}-tensors"><h3>Tensors</h3>\n{_totals(details["totals"])}'
        f"{_plots(name, rows, details['reading'])}{_filters(rows)}{_table(name, rows, findings)}{more}</section>\n"
    )


def _totals(totals: Sequence[Sequence[Any]]) -> str:
    cells = [
        [escape(kind), f"{tensors:,}", f"{elements:,}", _number(size), "" if bits is None else f"{bits:.3f}"]
        for kind, tensors, elements, size, bits in totals
    ]
    return table(["type", "#tensors", "#elements", "#bytes", "#bits per element"], cells, "totals")


def _number(size: int | None) -> str:
    return "?" if size is None else f"{size:,}"


def _plots(name: str, rows: Sequence[dict[str, Any]], reading: str) -> str:
    seen = sorted((row for row in rows if row.get("counts") and any(row["counts"])), key=_by_layer)
    scaled = [row for row in rows if row["scale"] is not None]
    made = ""
    if seen:
        stacks = [(_shares(row["counts"]), f"{row['name']}\n{_percentages(row['counts'])}") for row in seen]
        legend = "".join(f'<li><i class="c{i}"></i>{code}</li>' for i, code in enumerate(CODES))
        part = ", of a sample of each" if reading == "sample" else ""
        more = f"{counted(len(seen), 'I2_S tensor')} by layer, each a column of its codes{part}."
        first, last = (row["name"] if row["layer"] is None else f"layer {row['layer']}" for row in (seen[0], seen[-1]))
        made += (
            f'<figure data-rows="{" ".join(str(row["row"]) for row in seen)}"><figcaption>Codes of the I2_S tensors'
            f'{part}<ul class="legend">{legend}</ul></figcaption>'
            f"{columns(stacks, 'Codes', more, ends=(first, last))}</figure>\n"
        )
    if scaled:
        made += _scales(scaled)
    if not seen and any(row["type"] == "I2_S" for row in rows):
        made += '<p class="hint">The payloads were not read: there is no histogram of codes.</p>\n'
    return made


def _by_layer(row: Mapping[str, Any]) -> tuple[float, int]:
    """Tensors in the order of their layers; tensors without a layer come last."""
    return (math.inf if row["layer"] is None else row["layer"], row["row"])


def _scales(scaled: Sequence[dict[str, Any]]) -> str:
    """The scales: a line for each kind of tensor over the layers, or points for tensors without a layer."""
    kinds = [kind for kind, _ in Counter(row["group"] for row in scaled).most_common(GROUPS - 1)]
    style = {kind: f"g{place}" for place, kind in enumerate(kinds)}
    other = [] if len(style) == len({row["group"] for row in scaled}) else [("other", f"g{GROUPS - 1}")]
    legend = "".join(f'<li><i class="{at}"></i>{escape(kind)}</li>' for kind, at in [*style.items(), *other])
    if any(row["value"] is None or row["value"] <= 0 for row in scaled):
        legend += '<li class="bad">✕ not a positive number</li>'
    layered = [row for row in scaled if row["layer"] is not None]
    loose = [row for row in scaled if row["layer"] is None]
    drawn = ""
    if layered:
        lines = [Line(style.get(kind, f"g{GROUPS - 1}"), values) for kind, values in _by_kind(layered).items()]
        more = f"The scales of {counted(len(layered), 'I2_S tensor')} by layer, a line for each kind, on a logarithmic axis."
        drawn += layer_lines(lines, "Scales by layer", more, "scale")
    if loose:
        marks = [
            Point(_value(row), style.get(row["group"], f"g{GROUPS - 1}"), _scale_words(row), row["row"])
            for row in loose
        ]
        more = f"The scales of {counted(len(loose), 'I2_S tensor')} in the order of the table, on a logarithmic axis."
        drawn += points(marks, "Scales", more)
    return (
        f'<figure><figcaption>Scales of the I2_S tensors<ul class="legend">{legend}</ul></figcaption>{drawn}</figure>\n'
    )


def _by_kind(rows: Sequence[dict[str, Any]]) -> dict[str, list[LayerValue]]:
    """The scales of each kind of tensor, by ascending layer."""
    found: dict[str, list[LayerValue]] = {}
    for row in sorted(rows, key=_by_layer):
        found.setdefault(row["group"], []).append(LayerValue(row["layer"], _value(row), _scale_words(row), row["row"]))
    return found


def _value(row: Mapping[str, Any]) -> float:
    return math.nan if row["value"] is None else float(row["value"])


def _scale_words(row: Mapping[str, Any]) -> str:
    return f"{row['name']}\nscale {row['scale']}"


def _shares(counts: Sequence[int]) -> list[Share]:
    return [Share(found, f"c{code}", CODES[code]) for code, found in enumerate(counts) if found or code < 3]


def _percentages(counts: Sequence[int]) -> str:
    whole = max(1, sum(counts))
    words = [f"{CODES[code]}: {found / whole:.1%}" for code, found in enumerate(counts[:3])]
    return ", ".join([*words, *([f"code 3: {counts[3]:,}"] if counts[3] else [])])


def _filters(rows: Sequence[dict[str, Any]]) -> str:
    kinds = sorted({row["type"] for row in rows})
    options = "".join(f"<option>{escape(kind)}</option>" for kind in kinds)
    return (
        '<div class="tools js filters">'
        '<label>filter <input type="search" data-do="name" placeholder="part of a name"></label>'
        f'<label>type <select data-do="type"><option value="">all</option>{options}</select></label>'
        '<label><input type="checkbox" data-do="found"> with findings</label>'
        '<output aria-live="polite"></output></div>\n'
    )


def _table(name: str, rows: Sequence[dict[str, Any]], findings: Sequence[Mapping[str, Any]]) -> str:
    found: dict[int, list[int]] = {}
    for place, finding in enumerate(findings):
        if match := _TENSOR.match(finding["span"]["path"]):
            found.setdefault(int(match[1]), []).append(place)
    siblings: dict[str, list[float]] = {}
    for row in rows:
        if row["value"] is not None:
            siblings.setdefault(row["group"], []).append(row["value"])
    titles = [
        ("#", "n", ""), ("name", "", ""), ("type", "", ""), ("rows × cols", "n", ""), ("begins at", "n", ""),
        ("bytes", "n", ""), ("codes", "", "shares of −1, 0 and +1; sorted by zeros"), ("scale", "n", ""),
        ("tail", "", ""), ("findings", "n", ""),
    ]  # fmt: skip
    head = "".join(
        f'<th scope="col"{_maybe("class", style)}{_maybe("title", says)}>{title}</th>' for title, style, says in titles
    )
    body = "".join(_row(name, row, found.get(row["row"], []), siblings) for row in rows)
    return framed(head, body, "tensors sortable")


def _maybe(attribute: str, value: object) -> str:
    """An attribute; nothing if its value is empty."""
    return "" if value is None or value == "" else f' {attribute}="{escape(str(value))}"'


def _row(name: str, row: dict[str, Any], found: list[int], siblings: Mapping[str, list[float]]) -> str:
    counts, start = row.get("counts"), row["start"]
    link = f'<a href="#{name}-x{found[0]}">{len(found):,}</a>' if found else ""
    problem = f' <span class="bad">{row["problem"]}</span>' if row["problem"] else ""
    cells = [
        ("n", row["row"], f"{row['row']}"),
        ("name", None, f"<details><summary>{escape(row['name'])}</summary>{_more(row, siblings)}</details>"),
        ("", None, escape(row["type"])),
        ("n", row["elements"], escape(" × ".join(map(str, row["shape"])) or "scalar")),
        ("n", -1 if start is None else start, "" if start is None else f"0x{start:x}"),
        ("n", -1 if row["bytes"] is None else row["bytes"], _number(row["bytes"]) + problem),
        ("codes", _zeros(counts), _codes(counts)),
        ("n", _sortable(row), "" if row["scale"] is None else row["scale"]),
        ("", None, escape(row.get("tail", ""))),
        ("n", len(found), link),
    ]
    inside = "".join(
        f"<td{_maybe('class', style)}{_maybe('data-v', value)}>{shown}</td>" for style, value, shown in cells
    )
    return f'<tr id="{name}-t{row["row"]}">{inside}</tr>\n'


def _sortable(row: dict[str, Any]) -> float | str:
    """The sort key of a scale: values that are not finite come first, tensors without a scale last."""
    return "none" if row["scale"] is None else -math.inf if row["value"] is None else row["value"]


def _zeros(counts: Sequence[int] | None) -> float | str:
    return round(counts[1] / max(1, sum(counts)), 5) if counts else "none"


def _codes(counts: Sequence[int] | None) -> str:
    if not counts or not any(counts):
        return ""
    whole = sum(counts)
    shown = " ".join(f"{found / whole:.0%}" for found in counts[:3])
    unused = f' <b class="bad">{counts[3]:,} × 3</b>' if counts[3] else ""
    return f"{strip(_shares(counts), _percentages(counts))}<small>{shown}</small>{unused}"


def _more(row: dict[str, Any], siblings: Mapping[str, list[float]]) -> str:
    """Details of a tensor that its row does not show."""
    drawn = bars(_shares(row["counts"]), "Codes") if row.get("counts") and any(row["counts"]) else ""
    words = "".join(f"<dt>{escape(name)}</dt><dd>{escape(stated)}</dd>" for name, stated in _words(row, siblings))
    return f'<div class="more">{drawn}<dl>{words}</dl></div>'


def _words(row: dict[str, Any], siblings: Mapping[str, list[float]]) -> Iterator[tuple[str, str]]:
    yield "elements", f"{row['elements']:,}"
    if row.get("counts"):
        part = "" if row["complete"] else ", of a part of it"
        yield "codes", ", ".join(f"{CODES[i]}: {n:,}" for i, n in enumerate(row["counts"])) + part
    if row["value"] is not None:
        others = siblings[row["group"]]
        yield "scale", row["scale"]
        if len(others) > 1:
            low, middle, high = (float32_words(value) for value in (min(others), median(others), max(others)))
            yield f"scales of {len(others):,} × {row['group']}", f"{low} to {high}, median {middle}"
    if row.get("bytes_of_tail"):
        yield "tail", row["bytes_of_tail"]
    if row.get("run"):
        at, length, value = row["run"]
        yield "longest run", f"{counted(length, 'byte')} of 0x{value:02x}, from byte {at:,} on"
    if row.get("odd"):
        yield "not finite", counted(row["odd"], "value")
