"""This module allocates memory for the values of a program, and frees it after the last node that needs them."""

from __future__ import annotations

from collections import defaultdict

from i2s_spec.model.fast.plan import LINE, Slot, Storage
from i2s_spec.model.graph.graph import Graph, Node


class SlotAllocator:
    """The storage of the values of a graph while a program runs.

    :param graph: the graph with the values
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        #: The slot of each value that is still needed.
        self.slots: dict[str, Slot] = {}
        #: Floats of all values of a token.
        self.width = 0
        self.free: dict[int, list[int]] = defaultdict(list)
        self.uses = self._uses()

    def _uses(self) -> dict[str, int]:
        """The last use of each value; for queries the node of the weighted values, because its step does all of
        attention."""
        uses = dict(self.graph.last_use)
        for at, node in enumerate(self.graph.nodes):
            for name in self._queries(node):
                uses[name] = max(at, uses[name])
        return uses

    def _queries(self, node: Node) -> tuple[str, ...]:
        if node.op != "weighted_values":
            return ()
        return self.graph[self.graph[node.inputs[0]].inputs[0]].inputs[:1]

    def new(self, name: str, width: int, inner: int | None = None) -> Slot:
        """A slot for the value of a node."""
        size = -(-width // LINE) * LINE
        if self.free[size]:
            at = self.free[size].pop()
        else:
            at, self.width = self.width, self.width + size
        slot = self.slots[name] = Slot(Storage(at, width), inner or width)
        return slot

    def same(self, name: str, slot: Slot) -> None:
        """Another name of a value."""
        slot.storage.users += 1
        self.slots[name] = slot

    def release(self, at: int, node: Node) -> None:
        """Free the storage of values that no later node needs."""
        for name in {node.name, *node.inputs, *self._queries(node)}:
            if name in self.slots and self.uses[name] == at and name not in self.graph.results:
                storage = self.slots.pop(name).storage
                storage.users -= 1
                if not storage.users:
                    self.free[-(-storage.width // LINE) * LINE].append(storage.at)
