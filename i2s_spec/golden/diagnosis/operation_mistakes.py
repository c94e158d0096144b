"""This module computes operations other than projections as runtimes with known mistakes do (clause 10.5).

A numeric profile names the class, as it names `Operations`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.model.arithmetic import reductions
from i2s_spec.model.reference.operations import Operations

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.graph.graph import Node
    from i2s_spec.model.reference.run import Run

    Floats = NDArray[np.float32]


class HeadsInTurn(Operations):
    """Query head h meets key head h mod G, not h // (H / G)."""

    def _turn(self, values: NDArray[Any], heads: int) -> NDArray[Any]:
        return values[:, np.arange(heads) % values.shape[1]]

    def scores(self, run: Run, node: Node, q: Floats, keys: list[NDArray[Any]]) -> list[Floats]:
        return super().scores(run, node, q, [self._turn(each, node.settings["heads"]) for each in keys])

    def weighted_values(self, run: Run, node: Node, p: list[Floats], values: list[NDArray[Any]]) -> Floats:
        return super().weighted_values(
            run, node, p, [self._turn(v, len(each)) for each, v in zip(p, values, strict=True)]
        )


class FirstHead(HeadsInTurn):
    """Every query head meets the first key head."""

    def _turn(self, values: NDArray[Any], heads: int) -> NDArray[Any]:
        return values[:, np.zeros(heads, dtype=np.int64)]


class OneMoreGain(Operations):
    """Gains plus one, where the file has one in them already."""

    def norm_weight(self, run: Run, node: Node, x: Floats) -> Floats:
        return x * (run.weights.vector(node.weight) + np.float32(1))


class OneLessGain(Operations):
    """Gains without the one that the converter put in."""

    def norm_weight(self, run: Run, node: Node, x: Floats) -> Floats:
        return x * (run.weights.vector(node.weight) - np.float32(1))


class NoResidual(Operations):
    """Sums without what went past the block."""

    def add(self, run: Run, node: Node, a: Floats, b: Floats) -> Floats:
        return b.copy()


class NoGain(Operations):
    """Norms without gains."""

    def norm_weight(self, run: Run, node: Node, x: Floats) -> Floats:
        return x.copy()


class Centred(Operations):
    """The mean taken off first, as LayerNorm does."""

    def norm(self, run: Run, node: Node, x: Floats) -> Floats:
        mean = (reductions.sums(x) / x.shape[-1]).astype(np.float32)
        return super().norm(run, node, x - mean[..., None])


class FromOne(Operations):
    """Positions that begin with 1."""

    def rope(self, run: Run, node: Node, x: Floats) -> Floats:
        later = [replace(each, past=each.past + 1) for each in run.sequences]
        return super().rope(replace(run, sequences=later, angles={}), node, x)
