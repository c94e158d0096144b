"""The pictures and tables of the HTML page: the map of a file, its tensors, its weights.

`file_map` draws the whole file to scale, a magnifier that a script fills, and a list of all `regions`. The script reads
the list; without the script, the list still shows every region, however small. `tensors` plots codes and scales over
all tensors, with a table of them; `weights` plots channels and layers. Escaped text, tables and lists of facts are at
the end.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from statistics import median
from typing import Any, Final, NamedTuple

from i2s_spec.draw.chart import (
    Layer,
    Line,
    PlacedValue,
    Segment,
    Share,
    bars,
    columns,
    decades,
    layer_plot,
    rank_plot,
    series,
    strip,
    wrapped,
)
from i2s_spec.draw.text import float32_words, size_words
from i2s_spec.errors import counted
from i2s_spec.gguf.header import KeyValue, TensorInfo
from i2s_spec.gguf.reader import File
from i2s_spec.inspect.dump_walk import extent
from i2s_spec.schema.faults import HEADER_BYTES
from i2s_spec.schema.types import TAIL_BYTES, padded

#: Fewest and most lines of a map.
LINES = 3, 24


def file_map(name: str, details: dict[str, Any], size: int, findings: Sequence[Mapping[str, Any]]) -> str:
    """Return the map of one file, from what `gather` gave; `name` begins the ids of its elements."""
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
    """Return a region in words; names from the file in it are escaped already."""
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
    """Return the part that a script fills: a strip that shows part of the file, and details of the selected region."""
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


# --- regions of the map ----------------------------------------------------------------------------------------------
# Every byte of a file is in exactly one, in the order of the file. The map is drawn from the index alone; no byte of the
# file is read for it. If a table is too long for a page, its remaining records are one region.

#: Gives a record of a table by its number.
Record = Callable[[int], KeyValue | TensorInfo]

#: How many key-values, tensor infos and tensors have a region of their own.
RECORDS: Final = 1000

#: The kinds of regions, in words.
KINDS: Final = {
    "header": "header",
    "key": "key-value",
    "info": "tensor info",
    "padding": "padding",
    "payload": "payload",
    "tail": "tail",
    "elements": "elements",
    "gap": "gap",
    "trailing": "trailing bytes",
    "rest": "not shown one by one",
    "broken": "before the fault",
    "fault": "fault",
    "unexamined": "not examined",
}


class FileRegion(NamedTuple):
    """A range of bytes of one kind; `number` is the number of the key or tensor, or how many of them it covers."""

    start: int
    stop: int
    kind: str
    number: int | None = None


def regions(file: File, records: int = RECORDS) -> Iterator[FileRegion]:
    """Yield the regions of a file, which may be damaged."""
    index, size = file.index, file.size
    if file.version is None:
        yield from _unindexed(file, 0)
        return
    tables: tuple[tuple[str, int, Record], ...] = (
        ("key", index.keys, index.key),
        ("info", index.tensors, index.tensor),
    )
    firsts = [record(0).start for _, count, record in tables if count]
    cursor = min(firsts[0] if firsts else HEADER_BYTES, size)
    if not firsts and file.fault is not None:
        cursor = min(cursor, file.fault.span.start)
    if cursor:
        yield FileRegion(0, cursor, "header")
    for kind, count, record in tables:
        yield from _table_regions(kind, count, record, records)
        cursor = record(count - 1).stop if count else cursor
    if file.infos_end is None or file.data_start is None:
        yield from _unindexed(file, cursor)
        return
    start = min(max(file.data_start, file.infos_end), size)
    if start > cursor:
        yield FileRegion(cursor, start, "padding")
    yield from _data(file, start, records)


def _table_regions(kind: str, count: int, record: Record, records: int) -> Iterator[FileRegion]:
    for i in range(min(count, records)):
        found = record(i)
        yield FileRegion(found.start, found.stop, kind, i)
    if count > records:
        yield FileRegion(record(records).start, record(count - 1).stop, "rest", count - records)


def _unindexed(file: File, cursor: int) -> Iterator[FileRegion]:
    """Yield the bytes after the last record that could be indexed: the broken record up to its fault, the fault, and
    the rest.
    """
    if file.fault is not None:
        start = min(max(file.fault.span.start, cursor), file.size)
        stop = min(max(file.fault.span.stop, start), file.size)
        if start > cursor:
            yield FileRegion(cursor, start, "broken")
        yield FileRegion(start, stop, "fault")
        cursor = stop
    if cursor < file.size:
        yield FileRegion(cursor, file.size, "unexamined")


def _data(file: File, cursor: int, records: int) -> Iterator[FileRegion]:
    """Yield the data section: each byte belongs to the tensor that starts first."""
    size, alignment, count = file.size, file.alignment or 1, file.index.tensors
    in_order = sorted(range(count), key=lambda i: file.index.tensor(i).offset)
    previous: int | None = None
    for place, i in enumerate(in_order):
        if place == records:
            if cursor < size:
                yield FileRegion(cursor, size, "rest", count - records)
            return
        tensor = file.tensors.by_index(i)
        start, stop = (min(at, size) for at in extent(file, tensor))
        yield from _between(cursor, start, alignment, previous)
        cursor = max(cursor, start)
        has_tail = tensor.type is not None and tensor.type.tail_bytes > 0
        split = max(cursor, extent(file, tensor)[1] - TAIL_BYTES) if has_tail else stop
        split = min(split, stop)
        if split > cursor:
            yield FileRegion(cursor, split, "payload" if has_tail else "elements", i)
        if has_tail and stop > max(split, cursor):
            yield FileRegion(max(split, cursor), stop, "tail", i)
        cursor, previous = max(cursor, stop), i
    yield from _between(cursor, size, alignment, previous, "trailing")


def _between(start: int, stop: int, alignment: int, previous: int | None, kind: str = "gap") -> Iterator[FileRegion]:
    """Yield bytes that no tensor claims: padding up to the next multiple of the alignment, then a gap."""
    if stop <= start:
        return
    split = min(stop, padded(start, alignment)) if previous is not None else start
    if split > start:
        yield FileRegion(start, split, "padding", previous)
    if stop > split:
        yield FileRegion(split, stop, kind)


# --- tensors ---------------------------------------------------------------------------------------------------------
# Plots of all codes and scales, and a table with a row for each tensor. Each name opens the tensor's details: its
# histogram of codes, its scale among those of its kind, its tail.

#: The colors of kinds of tensors in the plot of scales.
GROUPS = 8

_TENSOR = re.compile(r"(?:data|tensor_infos)\[(\d+)\]")


def tensors(name: str, details: dict[str, Any], findings: Sequence[Mapping[str, Any]]) -> str:
    """Return the tensors of one file, from what `gather` gave; `name` begins the ids of its elements."""
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
    """Return a key that sorts tensors by their layers; tensors without a layer come last."""
    return (math.inf if row["layer"] is None else row["layer"], row["row"])


def _scales(scaled: Sequence[dict[str, Any]]) -> str:
    """Return the scales: a line for each kind of tensor over the layers, or points for tensors without a layer."""
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
        drawn += series(lines, "Scales by layer", more, "scale", "layer")
    if loose:
        marks = [
            Line(
                style.get(row["group"], f"g{GROUPS - 1}"),
                [PlacedValue(place, _value(row), _scale_words(row), row["row"])],
            )
            for place, row in enumerate(loose)
        ]
        more = f"The scales of {counted(len(loose), 'I2_S tensor')} in the order of the table, on a logarithmic axis."
        drawn += series(marks, "Scales", more, height=190)
    return (
        f'<figure><figcaption>Scales of the I2_S tensors<ul class="legend">{legend}</ul></figcaption>{drawn}</figure>\n'
    )


def _by_kind(rows: Sequence[dict[str, Any]]) -> dict[str, list[PlacedValue]]:
    """Return the scales of each kind of tensor, by ascending layer."""
    found: dict[str, list[PlacedValue]] = {}
    for row in sorted(rows, key=_by_layer):
        found.setdefault(row["group"], []).append(PlacedValue(row["layer"], _value(row), _scale_words(row), row["row"]))
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
    """Return an attribute; nothing if its value is empty."""
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
    """Return the sort key of a scale: values that are not finite come first, tensors without a scale last."""
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
    """Return details of a tensor that its row does not show."""
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


# --- weights ---------------------------------------------------------------------------------------------------------
# Channels under each layout, codes and scales by layer.

#: The codes by their trits (clause 5.1).
CODES: Final = ("−1", "0", "+1", "code 3")

#: Most plots over layers that are drawn, and most layers in one of them.
MOST_KINDS: Final = 16
LAYERS: Final = 512


def weights(name: str, details: dict[str, Any]) -> str:
    """Return the weights of one file, from what `gather` gave; `name` begins the ids of its elements."""
    made = _aligned(details["alignment"]) + _layer_section(details["tensors"])
    return f'<section id="{name}-weights"><h3>Weights</h3>\n{made}</section>\n' if made else ""


def _aligned(alignment: dict[str, Any] | None) -> str:
    if alignment is None:
        return ""
    decided, partner, tensor = alignment["decided"], alignment["partner"], alignment["tensor"]
    answer = {
        "decided": f"The weights are laid out as {decided}",
        "mixed": "The tensors of this file have different layouts",
        "undecided": "The weights do not show their layout",
    }[alignment["answer"]]
    words = (
        f"{answer}. Each point is a channel: its rank by {partner}, and by the share of weights that are not 0 in the "
        f"columns of {tensor}; the number is the correlation of these ranks. In the right layout, trained weights line up; "
        "random ones never do."
    )
    return (
        f'<figure class="facets"><figcaption>Channels under each layout</figcaption>\n<p class="hint">{escape(words)}</p>\n'
        f"{rank_plots(alignment)}</figure>\n"
    )


def rank_plots(alignment: dict[str, Any]) -> str:
    """Return the plots of `channel_alignment` as plain data, one for each layout, each with its name below it."""
    made = ""
    for each in alignment["layouts"]:
        right = each["layout"] == alignment["decided"]
        says = f"read as {each['layout']}: rank correlation {each['correlation']:+.2f}"
        plot = rank_plot(each["points"], "right" if right else "other", says)
        label = f"<b>{escape(each['layout'])}</b> ✓" if right else escape(each["layout"])
        made += f'<div class="facet-part">{plot}<p>{label}<br>{each["correlation"]:+.2f}</p></div>\n'
    return f'<div class="facet-row">\n{made}</div>\n'


def _layer_section(rows: Sequence[dict[str, Any]]) -> str:
    plots = layer_plots(rows)
    if not plots:
        return ""
    legend = "".join(f'<li><i class="c{i}"></i>{code}</li>' for i, code in enumerate(CODES))
    return (
        f'<figure class="facets"><figcaption>Codes and scales by layer<ul class="legend">{legend}</ul></figcaption>\n'
        '<p class="hint">Above the shares of the codes, below the scales, on one logarithmic axis for all.</p>\n'
        f"{plots}</figure>\n"
    )


def layer_plots(rows: Sequence[dict[str, Any]]) -> str:
    """Return a plot for each kind of tensor that more than one layer has; empty if there is none.

    :param rows: tensors as `gather` gives them, with `layer`, `group`, `counts` and `value`
    """
    kinds: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        if row["layer"] is not None and row.get("counts") and any(row["counts"]):
            kinds.setdefault(row["group"], {}).setdefault(row["layer"], row)
    chosen = {kind: found for kind, found in list(kinds.items())[:MOST_KINDS] if len(found) > 1}
    low, high = decades(row["value"] for found in chosen.values() for row in found.values())
    made = "".join(_kind(kind, found, low, high) for kind, found in chosen.items())
    return f'<div class="facet-row wide">\n{made}</div>\n' if made else ""


def _kind(kind: str, found: dict[int, dict[str, Any]], low: float, high: float) -> str:
    layers = [_layer(layer, found[layer]) for layer in sorted(found)[:LAYERS]]
    more = f"{counted(len(layers), 'layer')}; columns are shares of the codes, the line below is the scale."
    plot = layer_plot(layers, low, high, kind, more)
    return f'<div class="facet-part"><p>{escape(kind)}</p>{plot}</div>\n'


def _layer(layer: int, row: dict[str, Any]) -> Layer:
    counts = row["counts"]
    whole = max(1, sum(counts))
    shares = [Share(count, f"c{code}") for code, count in enumerate(counts)]
    codes = ", ".join(f"{CODES[code]}: {count / whole:.1%}" for code, count in enumerate(counts) if count or code < 3)
    return Layer(layer, shares, row["value"], f"{row['name']}\n{codes}\nscale {row['scale']}", row["row"])


# --- text, tables, lists of facts ------------------------------------------------------------------------------------


def code(text: str) -> str:
    """Return text as code; right-to-left text in it does not affect its surroundings."""
    return f"<code>{escape(text)}</code>"


def span_words(start: int, stop: int) -> str:
    """Return a range of bytes in the form that `i2s dump` accepts."""
    return f"0x{start:x}..0x{stop:x}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], style: str = "", caption: str = "") -> str:
    """Return a table whose cells are markup already, in a box that scrolls if the window is narrow.

    :param head: titles of the columns, as text; titles of numeric columns begin with `#`
    """
    numbers = [title.startswith("#") for title in head]
    titles = "".join(_title(title) for title in head)
    marks = [' class="n"' if is_number else "" for is_number in numbers]
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{cell}</td>" for mark, cell in zip(marks, row, strict=True)) + "</tr>\n"
        for row in rows
    )
    return framed(titles, body, style, caption)


def framed(titles: str, body: str, style: str = "", caption: str = "") -> str:
    """Return a table whose head and body are markup already."""
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table class="{style}">{named}<thead><tr>{titles}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def _title(title: str) -> str:
    mark = ' class="n"' if title.startswith("#") else ""
    return f'<th scope="col"{mark}>{escape(title.removeprefix("#"))}</th>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Return names and their values as a list; both are text."""
    inside = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(words)}</dd></div>" for name, words in pairs)
    return f'<dl class="facts">{inside}</dl>\n' if inside else ""
