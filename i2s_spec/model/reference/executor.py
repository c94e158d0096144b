"""This module walks a graph: one operation after the other; each value is passed to the tap of the run.

`execute` runs a graph or a part of one from given values; `evaluate` runs one node. A value is released after its last use.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.model.graph.ops import unlisted

if TYPE_CHECKING:
    from i2s_spec.model.graph.graph import Graph, Node
    from i2s_spec.model.reference.operations import Operations
    from i2s_spec.model.reference.run import Run


def evaluate(node: Node, inputs: list[Any], run: Run, operations: Operations) -> Any:
    """The value of one node for given inputs; infinities and NaN are valid values."""
    with np.errstate(all="ignore"):
        return getattr(operations, node.op)(run, node, *inputs)


def execute(
    graph: Graph,
    given: Mapping[str, Any],
    run: Run,
    operations: Operations,
    substitutes: Mapping[str, Operations] | None = None,
) -> dict[str, Any]:
    """The results of a graph.

    :param given: the inputs of the graph, by name
    :param substitutes: operations of another profile for some nodes, by name of the node
    """
    values = dict(given)
    for at, node in enumerate(graph.nodes):
        chosen = (substitutes or {}).get(node.name, operations)
        value = evaluate(node, [values[name] for name in node.inputs], run, chosen)
        values[node.name] = value
        run.tap(node.name, partial(unlisted, value, node.op))
        for name in (*node.inputs, node.name):
            if graph.last_use[name] == at and name not in graph.results:
                values.pop(name, None)
    return {name: values[name] for name in graph.results}
