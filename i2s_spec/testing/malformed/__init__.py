"""Files with one fault each: for every rule of the linter, a broken copy.

Each takes the sound file of `sample`, breaks one thing, and names the code that a linter must report and the path of
the broken field. Other projects can use them as negative cases: `for case in malformed(): my_reader(case.data)`.

    >>> case = next(case for case in malformed() if case.name == "tail-missing")
    >>> case.code
    'I104'

The modules add their cases to one list when they are imported, in this order:

    case         the list of cases, each with the sound file that it was made from
    container    other formats, header, keys; tensor table, placement, extents, large files
    metadata     keys and values of the architectures; tensors that do not fit them; keys of a folded rotation
    payload      codes and constant regions, scales and tails, other layouts, types with a scale for each group
    companions   files that are no models: adapters, projectors, importance matrices, control vectors
    tokenizer    the vocabulary; chat templates and other text that programs may run or print
    situations   commands that meet the rules that no file breaks

Faults that only another file of the same model shows come as pairs of files (`situations.compared`).
"""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.testing.malformed import companions, container, metadata, payload, tokenizer
from i2s_spec.testing.malformed.case import CASES, Case

__all__ = ["Case", "companions", "container", "malformed", "metadata", "payload", "tokenizer"]


def malformed() -> Iterator[Case]:
    """Return every case; the bytes of a file are made when its `data` is first asked for."""
    return iter(CASES)
