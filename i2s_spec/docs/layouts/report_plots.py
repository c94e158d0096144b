"""This module shows plots of the linter's HTML report on the site: channels under each layout, codes and scales by layer."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Any

from i2s_spec.docs.layouts.matrix import MODELS, PACKED
from i2s_spec.linter.engine import lint
from i2s_spec.linter.report.html.details import gather
from i2s_spec.linter.report.html.weights import layer_plots, rank_plots


@cache
def _details(name: str, layout: str) -> dict[str, Any]:
    if name not in MODELS or layout not in PACKED:
        raise ValueError(f"there is no {name!r} in {layout!r}; there are {', '.join(MODELS)}, in {', '.join(PACKED)}")
    details = lint(MODELS[name][1](layout), details=gather).details
    assert isinstance(details, dict)
    return details


def channels(what: str) -> str:
    """The channels of a model under each layout, HTML.

    :param what: a model and the layout that it is packed in: `stories interleave-64`
    :raises ValueError: for what there is not
    """
    name, _, layout = what.partition(" ")
    alignment = _details(name, layout or PACKED[0])["alignment"]
    if alignment is None:
        raise ValueError(f"{name} has no channels to compare")
    words = f"Rank by {alignment['partner']}, and by weights that are not 0 in the columns of {alignment['tensor']}."
    return f'{rank_plots(alignment)}<p class="i2s-machine">{escape(words)}</p>'


def layers(what: str) -> str:
    """The codes and scales of a model by layer, HTML.

    :raises ValueError: for a model that there is not
    """
    return layer_plots(_details(what, PACKED[0])["tensors"])
