"""This module gives the values of a program their room, and takes it back behind the last node that needs them."""

from __future__ import annotations

from collections import defaultdict

from i2s_spec.model.graph import Graph, Node
from i2s_spec.model.plan import LINE, Room, Slot


class Lifetimes:
    """Where the values of a graph lie while a program runs.

    :param graph: whose values
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        #: Of each value that is needed still.
        self.slots: dict[str, Slot] = {}
        #: Numbers of a token's values altogether.
        self.width = 0
        self.free: dict[int, list[int]] = defaultdict(list)
        self.uses = self._uses()

    def _uses(self) -> dict[str, int]:
        """Where each value is used last: queries where values are mixed, because one step does all of it there."""
        uses = dict(self.graph.last_use)
        for at, node in enumerate(self.graph.nodes):
            for name in self._queries(node):
                uses[name] = max(at, uses[name])
        return uses

    def _queries(self, node: Node) -> tuple[str, ...]:
        if node.op != "mix":
            return ()
        return self.graph[self.graph[node.inputs[0]].inputs[0]].inputs[:1]

    def _new(self, name: str, width: int, inner: int | None = None) -> Slot:
        """Room for the value of a node."""
        room = -(-width // LINE) * LINE
        if self.free[room]:
            at = self.free[room].pop()
        else:
            at, self.width = self.width, self.width + room
        slot = self.slots[name] = Slot(Room(at, width), inner or width)
        return slot

    def _same(self, name: str, slot: Slot) -> None:
        """Another name of a value."""
        slot.room.users += 1
        self.slots[name] = slot

    def _forget(self, at: int, node: Node) -> None:
        """Give back the room of values that no node behind this one needs."""
        for name in {node.name, *node.inputs, *self._queries(node)}:
            if name in self.slots and self.uses[name] == at and name not in self.graph.results:
                room = self.slots.pop(name).room
                room.users -= 1
                if not room.users:
                    self.free[-(-room.width // LINE) * LINE].append(room.at)
