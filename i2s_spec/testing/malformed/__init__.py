"""Files with one fault each: for every rule of the linter, a broken copy.

Each takes the sound file of `sample`, breaks one thing, and names the code that a linter must give and the path of the
field where. Other projects can use them as negative cases: `for case in malformed(): my_reader(case.data)`.

    >>> case = next(case for case in malformed() if case.name == "tail-missing")
    >>> case.code
    'I104'

case         the list, and how to add to it
container    what the file is, header, keys
container_tensors  table, placement, extents, amounts
payload      codes and constant regions
block_groups payloads with a scale for each group
layout       matrices that are laid out otherwise than canonical
scale        the tail
metadata     keys and values of the architectures
inventory    tensors that fit their architecture
tokenizer    the vocabulary
rotation     keys of a folded rotation
template     chat templates and other text that somebody may run or print

Files that nothing but another file of the same model gives away come in pairs (`reference.compared`).
"""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.testing.malformed import (
    block_groups,
    container,
    container_tensors,
    inventory,
    layout,
    metadata,
    payload,
    rotation,
    scale,
    template,
    tokenizer,
)
from i2s_spec.testing.malformed.case import CASES, Case

__all__ = [
    "Case", "block_groups", "container", "container_tensors", "inventory", "layout", "malformed", "metadata", "payload",
    "rotation", "scale", "template", "tokenizer",
]  # fmt: skip


def malformed() -> Iterator[Case]:
    """Every case; the bytes of a file are made when its `data` is first asked for."""
    return iter(CASES)
