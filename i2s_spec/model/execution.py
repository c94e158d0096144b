"""This module walks a graph: one operation after the other, every value past one place where it can be looked at.

`execute` runs a graph or a part of one from given values; `evaluate` runs one node. A value is forgotten after its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.model.embedding import Table
from i2s_spec.model.operations import LISTED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.cache import Cache
    from i2s_spec.model.graph import Graph, Node
    from i2s_spec.model.operations import Operations
    from i2s_spec.model.weights import Weights

#: Takes the name of a value, and what makes it if it is wanted.
Tap = Callable[[str, Callable[[], Any]], None]


@dataclass(frozen=True)
class Sequence:
    """The rows of a run that belong to one sequence, and the tokens before them.

    :param past: tokens in the cache, which is the position of the first row
    """

    start: int
    stop: int
    past: int
    cache: Cache


@dataclass
class Run:
    """What operations need besides their inputs.

    :param rows: which rows logits are wanted of; None for all
    :param tap: is told of every value
    """

    weights: Weights
    sequences: list[Sequence]
    tap: Tap
    rows: NDArray[np.int64] | None = None
    #: Codes of the value that was quantised last, and angles by how they are made.
    quantised: dict[Any, Any] = field(default_factory=dict)
    angles: dict[Any, Any] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    @property
    def positions(self) -> NDArray[np.int64]:
        """The position of every row."""
        parts = [np.arange(each.past, each.past + each.stop - each.start) for each in self.sequences]
        return np.concatenate(parts)

    def table(self, name: str) -> Table:
        """An embedding table or head."""
        if name not in self.tables:
            self.tables[name] = Table(self.weights, name)
        return self.tables[name]


def evaluate(node: Node, inputs: list[Any], run: Run, operations: Operations) -> Any:
    """The value of one node for given inputs; infinities and NaN are values like others."""
    with np.errstate(all="ignore"):
        return getattr(operations, node.op)(run, node, *inputs)


def execute(
    graph: Graph,
    given: Mapping[str, Any],
    run: Run,
    operations: Operations,
    others: Mapping[str, Operations] | None = None,
) -> dict[str, Any]:
    """The results of a graph.

    :param given: the values that the graph takes from outside, by name
    :param others: operations of another profile for some nodes, by name: a deviation in one place
    """
    values = dict(given)
    for at, node in enumerate(graph.nodes):
        chosen = (others or {}).get(node.name, operations)
        value = evaluate(node, [values[name] for name in node.inputs], run, chosen)
        values[node.name] = value
        run.tap(node.name, lambda value=value, op=node.op: alone(value, op))  # type: ignore[misc]
        for name in (*node.inputs, node.name):
            if graph.last_use[name] == at and name not in graph.results:
                values.pop(name, None)
    return {name: values[name] for name in graph.results}


def alone(value: Any, op: str) -> Any:
    """The value as the only sequence of a run has it; lists of several stay."""
    return value[0] if op in LISTED and len(value) == 1 else value
