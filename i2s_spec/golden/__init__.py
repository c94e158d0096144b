"""Golden outputs: what every step of the forward pass gives, recorded; and the comparison that finds the first wrong one.

    record(model, tokens, "golden/")
    compare("golden/", "theirs.npz", model="model.gguf").verdict

recording, store, callback_text, divergence, ops
            a model runs, a record comes out: a header, taps, llama.cpp's own forms
tap, dumps, names, shaping, candidate
            taps from wherever they were dumped, under the record's names and in its shapes
comparison  compare
opreplay, layered, free
            its three modes
replay, reach, sums, tolerance, measures
            one value beside what its inputs give: the integers in it, how far off it may be, how far it is
mistakes, deviations, graph_deviations, wrong_operations, wrong_projections
            known mistakes as changes of a model, and what makes them
patterns, orders, places, seen, diagnosis, rerun
            what wrong values look like, and where they stand; which of all these explains one
result, grouping, report
            what came out, in words, and as text, JSON, Markdown and HTML
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from i2s_spec.golden.comparison import compare as compare
    from i2s_spec.golden.recording import record as record
    from i2s_spec.golden.result import Comparison as Comparison

_HOMES = {
    "record": "i2s_spec.golden.recording",
    "compare": "i2s_spec.golden.comparison",
    "Comparison": "i2s_spec.golden.result",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'i2s_spec.golden' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
