"""This module compares a wrong value with the same operation with weights, keys or values of another place (10.5).

What it finds is no mistake of a table: there are as many of them as a model has places. They are tried where nothing else
explains a value exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import quote
from i2s_spec.schema.mistakes import Mistake

if TYPE_CHECKING:
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph.graph import Node

#: Most places that are tried for one value, the nearest layers first.
MOST_PLACES: Final = 64


def other_places(model: Model, reach: Iterable[str]) -> Iterator[tuple[Mistake, Model]]:
    """Each exchange that can be behind a value, with the model that has it.

    :param reach: names of the operations that are replayed together
    """
    nodes = [model.graph[name] for name in reach if name in model.graph.by_name]
    linear = [node for node in nodes if node.op == "linear"]
    if len(nodes) == len(linear) == 1:
        yield from _other_weights(model, linear[0])
    for node in nodes:
        if node.op in ("scores", "weighted_values"):
            yield from _other_cache(model, node)


def _other_weights(model: Model, node: Node) -> Iterator[tuple[Mistake, Model]]:
    """The projection with each other matrix of its shape, those of its own kind first."""
    shape = model.file.tensors[node.weight].shape
    kind = node.weight.rpartition("blk.")[2].partition(".")[2]
    others = [
        each for each in model.graph
        if each.op == "linear" and each.weight != node.weight and model.file.tensors[each.weight].shape == shape
    ]  # fmt: skip
    others.sort(key=lambda each: (not each.weight.endswith(f".{kind}"), abs((each.layer or 0) - (node.layer or 0))))
    for each in others[:MOST_PLACES]:
        theirs, own = (quote(name, bare=True) for name in (each.weight, node.weight))
        says = f"the weights of {theirs} were used; those of {own} are right"
        changed = model.replace(graph=model.graph.replaced(node.name, weights=each.weights))
        yield Mistake("weights-of-another", says), changed


def _other_cache(model: Model, node: Node) -> Iterator[tuple[Mistake, Model]]:
    """The attention with the keys, or the values, that another layer stored."""
    what = "keys" if node.op == "scores" else "values"
    at = next((i for i, name in enumerate(node.inputs) if model.graph[name].op == "store_kv"), None)
    if at is None or node.layer is None:
        return
    own = model.graph[node.inputs[at]]
    word = own.name.partition("-")[0]
    layers = [each for each in model.graph if each.op == "store_kv" and each.name.partition("-")[0] == word]
    before = [each for each in layers if each.layer is not None and each.layer < node.layer]
    for each in before[: -MOST_PLACES - 1 : -1]:
        inputs = (*node.inputs[:at], each.name, *node.inputs[at + 1 :])
        says = f"the {what} of layer {each.layer} were used; those of layer {node.layer} are right"
        changed = model.replace(graph=model.graph.replaced(node.name, inputs=inputs))
        yield Mistake(f"{what}-of-another-layer", says), changed
