"""This module says which operations of a graph give one array for each sequence."""

from __future__ import annotations

from typing import Any, Final

#: Operations whose values are lists, one array for each sequence; the others give one array with the rows of all sequences.
PER_SEQUENCE_OPS: Final = frozenset({"store_kv", "scores", "soft_max", "pool"})


def unlisted(value: Any, op: str) -> Any:
    """The value of an operation in a run of one sequence without the list around it; lists of several stay."""
    return value[0] if op in PER_SEQUENCE_OPS and len(value) == 1 else value
