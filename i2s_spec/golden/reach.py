"""This module says how far off a value may be that several operations were replayed for: the limit of its reach (10.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from i2s_spec.golden.tolerance import FORCED, LIMITS, UNFORCED, brain_limit, dense_limit, ulps
from i2s_spec.model.taps import INTEGER_TAPS
from i2s_spec.model.weights import Ternary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.golden.sums import Flips
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Node

#: How a value is judged: by its operation, by what a layer may add up to, or by what a whole model may.
Span = Literal["op", "layer", "model"]


@dataclass
class Replay:
    """One value of a candidate beside what its own inputs give.

    :param reach: the operations that were replayed together, the first one first
    :param value: what they give; tokens whose flipped codes are explained have what the flipped codes give
    :param limit: how far off each element may be
    :param words: the same in words
    :param span: what the limit is one of
    :param flips: of projections and codes
    :param rows: how many of the last rows its inputs let one know; None for all
    """

    name: str
    op: str
    reach: tuple[str, ...]
    value: NDArray[Any]
    limit: NDArray[np.float64] | float
    words: str
    span: Span = "op"
    flips: Flips | None = None
    rows: int | None = None


def limit_of(model: Model, brain: bool, node: Node, inputs: list[Any], value: NDArray[Any]) -> tuple[str, Any]:
    """How far off an operation may be, in words and as a limit of each element.

    :param brain: whether the candidate's values are bfloat16
    """
    own = LIMITS[node.op]
    if node.op == "head":
        own = dense_limit(model.weights.tensor_type(node.weight))
    elif node.op == "linear" and not _is_integer(model, node):
        own = dense_limit("F16")
    if brain:
        own = brain_limit(node.op, own)
    return own.words, own.of(node, inputs, value)


def _is_integer(model: Model, node: Node) -> bool:
    """Whether a projection is one of integers."""
    return model.profile.quantiser.groups != "none" and isinstance(model.weights.matrix(node.weight), Ternary)


def widen(model: Model, brain: bool, replay: Replay) -> None:
    """Limits of a reach in which other projections lie."""
    graph = model.graph
    behind = {graph[each].layer for each in replay.reach[:-1] if each in graph.by_name and graph[each].op == "linear"}
    if not behind:
        return
    replay.span = "layer" if len(behind) == 1 else "model"
    own = FORCED if replay.span == "layer" else UNFORCED
    if replay.op in INTEGER_TAPS:
        replay.limit, replay.words = np.inf, "follows what is before it"
        return
    finite = np.abs(replay.value[np.isfinite(replay.value)])
    largest = float(finite.max()) if finite.size else 0.0
    replay.limit, replay.words = own.share(brain) * largest, f"{own.words}, behind {len(behind)} layer(s)"


def share_of(limit: Any, value: Any) -> float:
    """A limit as a share of the root mean square: what an operation behind it inherits."""
    wide = value.astype(np.float64)
    finite = np.isfinite(wide)
    if not finite.any():
        return 0.0
    rms = float(np.sqrt(np.mean(np.square(wide[finite]))))
    limits = np.broadcast_to(np.asarray(limit, dtype=np.float64), value.shape)[finite]
    return float(np.sqrt(np.mean(np.square(limits[np.isfinite(limits)])))) / rms if rms else 0.0


def spread(share: float, value: NDArray[Any]) -> NDArray[np.float64]:
    """What a share of an input does to a value behind it: so much of each element and of the root mean square of all."""
    wide = np.abs(value.astype(np.float64))
    finite = wide[np.isfinite(wide)]
    rms = float(np.sqrt(np.mean(finite * finite))) if finite.size else 0.0
    return 4 * share * (wide + rms) + ulps(value, 1)
