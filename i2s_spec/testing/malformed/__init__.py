"""Files with one fault each: for every rule of the linter, a broken copy.

Each takes the sound file of `sample`, breaks one thing, and names the code that a linter must report and the path of
the broken field. Other projects can use them as negative cases: `for case in malformed(): my_reader(case.data)`.

    >>> case = next(case for case in malformed() if case.name == "tail-missing")
    >>> case.code
    'I104'

case         the list of cases, each with the sound file that it was made from
container    other formats, header, keys
container_tensors  table, placement, extents, large files
payload      codes and constant regions
block_groups payloads with a scale for each group
layout       matrices in a layout other than the canonical one
scale        the tail
metadata     keys and values of the architectures
inventory    tensors that do not fit their architecture
tokenizer    the vocabulary
rotation     keys of a folded rotation
template     chat templates and other text that programs may run or print

situations   commands that meet the rules that no file breaks

Faults that only another file of the same model shows come as pairs of files (`reference.compared`).
"""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.testing.malformed import container, metadata, payload, tokenizer
from i2s_spec.testing.malformed import container as container_tensors
from i2s_spec.testing.malformed import metadata as inventory
from i2s_spec.testing.malformed import metadata as rotation
from i2s_spec.testing.malformed import payload as block_groups
from i2s_spec.testing.malformed import payload as layout
from i2s_spec.testing.malformed import payload as scale
from i2s_spec.testing.malformed import tokenizer as template
from i2s_spec.testing.malformed.case import CASES, Case

__all__ = [
    "Case", "block_groups", "container", "container_tensors", "inventory", "layout", "malformed", "metadata", "payload",
    "rotation", "scale", "template", "tokenizer",
]  # fmt: skip


def malformed() -> Iterator[Case]:
    """Every case; the bytes of a file are made when its `data` is first asked for."""
    return iter(CASES)
