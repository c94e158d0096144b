"""Golden outputs: the value of every step of a forward pass, and the comparison that finds the first wrong one.

    record(model, tokens, "golden/")
    compare("golden/", "theirs.npz", model="model.gguf").verdict

Each line imports only what is below it:

    report             text, JSON, Markdown, HTML; the heat map and the plots of drift
      report_text      what all reports say, in words
    comparison         compare: checks what is compared, and runs one of three modes
      free_running     the record's values beside the candidate's as they stand; elements from what is shown of inputs
      layer_forced     every layer computed from what the candidate has at its entry
      op_replay        every operation computed from the candidate's own inputs
    fitting            the numerics that a dump agrees with for the longest; what it is held against
    diagnosis/         which known mistake or pattern explains a wrong value
    shown              what a dump shows of a value, and whether it agrees to the last digit
    candidate          the two sides: Record, whose digests are checked, and Candidate in its shapes
      tap_names        the names that the same value has in different programs
      dumps            taps from wherever another runtime wrote them
    replay             Replayer: one value computed again
    result             what a comparison gives: Comparison, TapResult, Diagnosis; the verdict in a sentence
      tolerance        how far off a value may be, by operation, layer and model
      code_flips       integer sums explained by codes at a rounding boundary
      metrics          how far off a value is
    recording          record: a model runs, a record comes out
      llama_cpp        the text of eval-callback and the file of --kl-divergence-base
      store            records on disk; taps, digests, statistics
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
