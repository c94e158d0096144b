"""This module runs a graph on sequences with caches: the whole graph, a part of it, or one operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.model.graph.graph import TOKENS, Graph, Node
from i2s_spec.model.graph.ops import PER_SEQUENCE_OPS, unlisted
from i2s_spec.model.reference import executor
from i2s_spec.model.reference.run import Run, recording_tap, sequences_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.cache import Cache
    from i2s_spec.model.reference.embedding_table import EmbeddingTable
    from i2s_spec.model.reference.operations import Operations
    from i2s_spec.model.weights import ModelWeights


@dataclass(frozen=True)
class GraphRunner:
    """A graph with everything that its operations need.

    :param substitutes: other operations for some values, by name
    :param tables: embedding tables and heads that have been read
    """

    graph: Graph
    weights: ModelWeights
    operations: Operations
    substitutes: Mapping[str, Operations]
    tables: dict[str, EmbeddingTable] = field(default_factory=dict)

    def whole(
        self,
        ids: list[NDArray[np.int64]],
        caches: Sequence[Cache],
        taps: frozenset[str],
        rows: NDArray[np.int64] | None = None,
    ) -> tuple[list[Any], dict[str, Any]]:
        """The result of the graph for each sequence, and the taps; the tokens are added to the caches.

        :param ids: the token ids of each sequence
        :param rows: the rows for which logits are needed; None for all
        """
        found: dict[str, Any] = {}
        run = self._run([len(part) for part in ids], caches, taps, found, rows)
        given = {TOKENS: np.concatenate(ids)}
        values = None if taps or self.substitutes else self.operations.whole(self.graph, given, run)
        if values is None:
            values = executor.execute(self.graph, given, run, self.operations, self.substitutes)
        (value,) = values.values()
        for part, cache in zip(ids, caches, strict=True):
            cache.commit(part.tolist())
        if isinstance(value, list) or len(ids) == 1:
            return value if isinstance(value, list) else [value], found
        return np.split(value, np.cumsum([len(part) for part in ids])[:-1]), found

    def part(
        self, part: Graph, given: Mapping[str, Any], cache: Cache, taps: frozenset[str], past: int = 0
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The results of a part of the graph for one sequence, and the taps.

        :param given: all inputs of the part, by name
        :param past: position of the first row
        """
        (first, *_) = given.values()
        found: dict[str, Any] = {}
        run = self._run([len(first)], [cache], taps, found, past=past)
        return executor.execute(part, given, run, self.operations, self.substitutes), found

    def node(self, node: Node, inputs: list[Any], cache: Cache, past: int = 0) -> dict[str, Any]:
        """The value of one operation for one sequence, and the integers inside BitLinear, by name.

        :param inputs: each in the shape of its tap
        """
        per_sequence = [name in self.graph.by_name and self.graph[name].op in PER_SEQUENCE_OPS for name in node.inputs]
        values = [[value] if listed else value for value, listed in zip(inputs, per_sequence, strict=True)]
        tokens = values[0][0].shape[1] if node.op in ("soft_max", "weighted_values") else len(values[0])
        found: dict[str, Any] = {}
        run = self._run([tokens], [cache], None, found, past=past)
        value = executor.evaluate(node, values, run, self.operations)
        return {node.name: unlisted(value, node.op), **found}

    def _run(
        self,
        counts: list[int],
        caches: Sequence[Cache],
        taps: frozenset[str] | None,
        found: dict[str, Any],
        rows: NDArray[np.int64] | None = None,
        past: int | None = None,
    ) -> Run:
        sequences = sequences_of(counts, caches, past)
        return Run(self.weights, sequences, recording_tap(found, taps), rows, self.graph.layers, tables=self.tables)
