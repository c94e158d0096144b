"""Golden outputs: the value of every step of a forward pass, recorded; and the comparison that finds the first wrong one.

    record(model, tokens, "golden/")
    compare("golden/", "theirs.npz", model="model.gguf").verdict

records     a model runs, a record comes out: the header, the taps, llama.cpp's own forms
candidates  another runtime's values from wherever they were dumped, under the record's names and in its shapes
replay      one value beside what its inputs give: the integers in it, how far off it may be, how far it is
diagnosis   known mistakes as changes of a model, patterns of wrong values, and which of these explains one
modes       compare, and its three modes: op-replay, layer-forced, free-running
report      the result as text, JSON, Markdown and HTML

Each folder imports only those above it in this list.
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
