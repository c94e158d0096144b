"""Files with one fault each: for every rule of the linter, a broken copy.

Each takes the sound file of `sample`, breaks one thing, and names the code that a linter must give and the path of the
field where. Other projects can use them as negative cases: `for case in malformed(): my_reader(case.data)`.

    >>> case = next(case for case in malformed() if case.name == "tail-missing")
    >>> case.code
    'I104'

case         the list, and how to add to it
container    what the file is, header, keys, table, placement, extents, amounts
payload      codes and constant regions
scale        the tail
metadata     keys and values of the architectures
inventory    tensors that fit their architecture
tokenizer    the vocabulary
template     chat templates and other text that somebody may run or print

Files that nothing but another file of the same model gives away come in pairs (`reference.compared`).
"""

from __future__ import annotations

from collections.abc import Iterator

from i2s_spec.testing.malformed import container, inventory, metadata, payload, scale, template, tokenizer
from i2s_spec.testing.malformed.case import CASES, Case

__all__ = [
    "Case", "container", "inventory", "malformed", "metadata", "payload", "scale", "template", "tokenizer",
]  # fmt: skip


def malformed() -> Iterator[Case]:
    """Every case; the bytes are made when the case is reached."""
    for name, code, path, also, make in CASES:
        yield Case(name, code, path, make(), frozenset(also))
