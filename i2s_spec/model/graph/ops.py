"""This module lists the operations whose value is one array for each sequence."""

from __future__ import annotations

from typing import Any, Final

#: Operations whose values are lists, one array for each sequence; the others give one array with the rows of all sequences.
PER_SEQUENCE_OPS: Final = frozenset({"store_kv", "scores", "soft_max", "pool"})


def unlisted(value: Any, op: str) -> Any:
    """The only array of the list if a run has one sequence; lists for several sequences stay lists."""
    return value[0] if op in PER_SEQUENCE_OPS and len(value) == 1 else value
