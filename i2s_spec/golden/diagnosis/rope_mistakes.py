"""This module changes how a model rotates heads.

Each function gives what takes a model and gives the changed one, or None where the change makes no difference to it; or is
that itself. `mistakes` says what each of them is known as.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from i2s_spec.golden.diagnosis.graph_mistakes import mapped

if TYPE_CHECKING:
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph.graph import Node


def half_rotated(model: Model) -> Model | None:
    """The first half of each head rotated."""

    def change(node: Node) -> Node:
        return node.replace(dims=node.settings["dims"] // 4 * 2) if node.op == "rope" else node

    return model.replace(graph=mapped(model.graph, change))


def positions_scaled(factor: float) -> Callable[[Model], Model | None]:
    """Positions multiplied by a factor."""

    def apply(model: Model) -> Model | None:
        return model.replace(
            graph=mapped(
                model.graph,
                lambda node: node.replace(scale=node.settings["scale"] * factor) if node.op == "rope" else node,
            )
        )

    return apply
