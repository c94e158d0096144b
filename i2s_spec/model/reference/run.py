"""The context of operations: the weights, the sequences with their caches, and the tap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.model.reference.embedding_table import EmbeddingTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from i2s_spec.model.cache import Cache
    from i2s_spec.model.weights import ModelWeights

#: Called with the name of every value, and with a function that returns the value.
Tap = Callable[[str, Callable[[], Any]], None]


@dataclass(frozen=True)
class SequenceRows:
    """The rows of a run that belong to one sequence, and the tokens before them.

    :param past: the number of tokens in the cache, which is the position of the first row
    """

    start: int
    stop: int
    past: int
    cache: Cache


@dataclass
class Run:
    """One pass through a graph, or a part of one.

    :param rows: the rows for which logits are needed; None for all
    :param layers: the number of layers of the whole graph
    :param tap: called with every value
    :param screened: whether logits may be a `ScreenedLogits`, where a profile has them
    """

    weights: ModelWeights
    sequences: list[SequenceRows]
    tap: Tap
    rows: NDArray[np.int64] | None = None
    layers: int = 0
    #: The codes of the value that was quantized last, and angles by their parameters.
    quantized: dict[Any, Any] = field(default_factory=dict)
    angles: dict[Any, Any] = field(default_factory=dict)
    tables: dict[str, EmbeddingTable] = field(default_factory=dict)
    screened: bool = False

    @property
    def positions(self) -> NDArray[np.int64]:
        """The position of every row."""
        parts = [np.arange(each.past, each.past + each.stop - each.start) for each in self.sequences]
        return np.concatenate(parts)

    def table(self, name: str) -> EmbeddingTable:
        """Return an embedding table or head."""
        if name not in self.tables:
            self.tables[name] = EmbeddingTable(self.weights, name)
        return self.tables[name]


def sequences_of(counts: Iterable[int], caches: Iterable[Cache], past: int | None = None) -> list[SequenceRows]:
    """Return the sequences of a run, one after the other.

    :param counts: the number of tokens of each sequence
    :param past: position of the first token of each; by default the number of tokens in its cache
    """
    counts = list(counts)
    return [
        SequenceRows(stop - count, stop, cache.used if past is None else past, cache)
        for count, stop, cache in zip(counts, accumulate(counts), caches, strict=True)
    ]


def recording_tap(found: dict[str, Any], names: frozenset[str] | None) -> Tap:
    """Return a tap that copies values into a dictionary.

    :param names: the names of the values to copy; None for all
    """

    def tap(name: str, make: Callable[[], Any]) -> None:
        if names is None or name in names:
            value = make()
            found[name] = [each.copy() for each in value] if isinstance(value, list) else value.copy()

    return tap
