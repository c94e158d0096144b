"""This module tells and draws what became of the trits of a model: lines for a person, plain data, and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final

from i2s_spec.draw.heat_map import HeatCell, heat_map
from i2s_spec.draw.made_by import made_by
from i2s_spec.draw.table import Column, table
from i2s_spec.draw.terminal import plain
from i2s_spec.draw.text import json_string, visible
from i2s_spec.errors import counted
from i2s_spec.inspect.compare.lineage import TensorLineage, Total, by_layer, total

#: Layers and kinds of tensors that a page draws, and characters of a kind.
LAYERS: Final = 512
KINDS: Final = 12
NAME: Final = 14

_STYLE: Final = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:66rem;margin:2rem auto;padding:0 1rem;"
    "background:#fff;color:#1b2128}"
    "svg{display:block;width:100%;min-width:34rem;font:12px ui-monospace,monospace;fill:#1b2128}"
    ".scroll{overflow-x:auto}.heat{fill:#e65100}.side{fill:#57616e}td,th{padding:.1rem .8rem .1rem 0;text-align:right}"
    "pre{font-size:.85rem}.differences{white-space:pre-wrap;overflow-wrap:anywhere}"
    ".differences span{display:block;padding-left:2ch;text-indent:-2ch}"
    "footer{margin-top:2rem;color:#57616e;font-size:.85rem;overflow-wrap:anywhere}"
    "@media (prefers-color-scheme:dark){body{background:#10151b;color:#e5e9ee}svg{fill:#e5e9ee}.side{fill:#a0abb8}"
    "footer{color:#a0abb8}}@media print{.scroll{overflow:visible}svg{min-width:0}}"
)


def percent(share: float) -> str:
    """A share in percent, with more places where it is small; 0.0 only for none.

    >>> percent(0), percent(0.1234), percent(0.00012), percent(1e-9)
    ('0.0 %', '12.3 %', '0.012 %', 'under 0.001 %')
    """
    if share == 0 or share >= 0.001:
        return f"{100 * share:.1f} %"
    return f"{100 * share:.3f} %" if share >= 0.00001 else "under 0.001 %"


def sentence(found: Total) -> str:
    """How many trits changed, in a few words."""
    return f"{found.changed:,} of {counted(found.trits, 'trit')} changed, {percent(found.share)}"


def lineage_lines(tensors: Sequence[TensorLineage]) -> Iterator[str]:
    """A table of layers, the sums, and what they mean."""
    whole = total(tensors)
    if not tensors:
        yield "no tensor is ternary in both files"
        return
    rows = []
    for layer, inside in by_layer(tensors):
        each = total(inside)
        most = max(inside, key=lambda one: one.changed / one.trits if one.trits else 0)
        rows.append(
            [
                "other" if layer is None else str(layer),
                f"{each.trits:,}",
                f"{each.changed:,}",
                percent(each.share),
                f"{visible(most.place[1], NAME, bare=True)} {percent(total([most]).share)}" if each.changed else "",
                f"{each.zero_a:,}",
                f"{each.zero_b:,}",
                f"{each.zero_both:,}",
            ]
        )
    names = ("layer", "trits", "changed", "share", "most in", "zero rows A", "B", "both")
    yield from (plain(line) for line in table([Column(name, name != "most in") for name in names], rows))
    yield f"{sentence(whole)}, in {sum(each.changed > 0 for each in tensors):,} of {counted(whole.tensors, 'tensor')}"
    if whole.changed == 0:
        yield "no trit changed: if B is meant to be a fine-tune of A, it was lost"
    yield from family_lines(whole)


def family_lines(whole: Total, a: str = "A", b: str = "B") -> Iterator[str]:
    """How many all-zero rows of A are all zero in B, and how many would be by chance; nothing where A has none.

    :param a: what the files are called, and `b`
    """
    if whole.zero_a:
        share = percent(whole.zero_both / whole.zero_a)
        chance = whole.zero_a * whole.zero_b / whole.rows
        yield (
            f"{whole.zero_both:,} of the {counted(whole.zero_a, 'all-zero row')} of {a} are all "
            f"zero in {b} ({share}; chance alone "
            f"gives about {chance:,.0f})"
        )


def lineage_data(tensors: Sequence[TensorLineage]) -> dict[str, Any]:
    """Everything as plain data, as diff.schema.json describes it."""
    return {
        **_sums(total(tensors)),
        "layers": [{"layer": layer, **_sums(total(inside))} for layer, inside in by_layer(tensors)],
        "tensors": [{"name": json_string(each.name), **_sums(total([each]))} for each in tensors],
    }


def _sums(found: Total) -> dict[str, Any]:
    return {
        "trits": found.trits,
        "changed": found.changed,
        "share": found.share,
        "rows": found.rows,
        "zero_rows": {"a": found.zero_a, "b": found.zero_b, "both": found.zero_both},
    }


def lineage_page(tensors: Sequence[TensorLineage], lines: Sequence[str], a: str, b: str, command: str = "") -> str:
    """The changed trits by layer and kind of tensor as one HTML page that needs nothing else.

    The table is as wide as it is; what differs is wrapped, however narrow the page.

    :param lines: what differs in words
    :param a: what the files are called, and `b`
    :param command: that asked for the page, as it was typed
    """
    drawn = picture(tensors)
    heading = f"{visible(a, bare=True)} → {visible(b, bare=True)}"
    shares = escape("\n".join(lineage_lines(tensors)))
    words = "".join(f"<span>{escape(line)}</span>" for line in lines)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>i2s diff</title><style>{_STYLE}</style></head>\n<body><h1>Changed trits</h1><p>{escape(heading)}</p>\n"
        f'<div class="scroll">{drawn}</div>\n<div class="scroll"><pre>{shares}</pre></div>\n'
        f'<pre class="differences">{words}</pre>\n<footer>{made_by(command)}</footer></body></html>\n'
    )


def picture(tensors: Sequence[TensorLineage]) -> str:
    """The share of changed trits by layer and kind of tensor, SVG; empty where no layer has ternary tensors."""
    shares: dict[int, dict[str, Total]] = {}
    for each in tensors:
        layer, kind = each.place
        if layer is not None:
            shares.setdefault(layer, {})[kind] = total([each])
    kinds = list(dict.fromkeys(kind for layer in shares.values() for kind in layer))[:KINDS]
    layers = sorted(shares)[:LAYERS]
    if not layers:
        return ""
    cells = [[_cell(layer, kind, shares[layer].get(kind)) for kind in kinds] for layer in layers]
    whole = total(tensors)
    return heat_map(
        [f"layer {layer}" for layer in layers], [visible(kind, NAME, bare=True) for kind in kinds], cells,
        "Changed trits by layer and tensor", f"{sentence(whole)}.", across="tensor", down="layer", deepest=10_000.0,
    )  # fmt: skip


def _cell(layer: int, kind: str, found: Total | None) -> HeatCell:
    if found is None:
        return HeatCell(0.0, "")
    return HeatCell(
        10_000 * found.share, percent(found.share), says=f"blk.{layer}.{visible(kind, bare=True)}: {sentence(found)}"
    )
