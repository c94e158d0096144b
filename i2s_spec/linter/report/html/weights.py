"""This module draws the weights of a file: channels under each layout, codes and scales by layer."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, Final

from i2s_spec.draw.plot import Share, decades
from i2s_spec.draw.small_plots import Layer, layer_plot, rank_plot
from i2s_spec.errors import counted

#: The codes by their trits (clause 5.1).
CODES: Final = ("−1", "0", "+1", "code 3")

#: Most plots over layers that are drawn, and most layers in one of them.
KINDS: Final = 16
LAYERS: Final = 512


def weights(name: str, details: dict[str, Any]) -> str:
    """The weights of one file, from what `gather` gave; `name` begins the ids of its elements."""
    made = _aligned(details["alignment"]) + _by_layer(details["tensors"])
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
    """The plots of `channel_alignment` as plain data, one for each layout, each with its name below it."""
    made = ""
    for each in alignment["layouts"]:
        right = each["layout"] == alignment["decided"]
        says = f"read as {each['layout']}: rank correlation {each['correlation']:+.2f}"
        plot = rank_plot(each["points"], "right" if right else "other", says)
        label = f"<b>{escape(each['layout'])}</b> ✓" if right else escape(each["layout"])
        made += f'<div class="facet-part">{plot}<p>{label}<br>{each["correlation"]:+.2f}</p></div>\n'
    return f'<div class="facet-row">\n{made}</div>\n'


def _by_layer(rows: Sequence[dict[str, Any]]) -> str:
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
    """A plot for each kind of tensor that more than one layer has; empty if there is none.

    :param rows: tensors as `gather` gives them, with `layer`, `group`, `counts` and `value`
    """
    kinds: dict[str, dict[int, dict[str, Any]]] = {}
    for row in rows:
        if row["layer"] is not None and row.get("counts") and any(row["counts"]):
            kinds.setdefault(row["group"], {}).setdefault(row["layer"], row)
    chosen = {kind: found for kind, found in list(kinds.items())[:KINDS] if len(found) > 1}
    values = [row["value"] for found in chosen.values() for row in found.values() if (row["value"] or 0) > 0]
    low, high = decades(min(values, default=1.0), max(values, default=1.0))
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
