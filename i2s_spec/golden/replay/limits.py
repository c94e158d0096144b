"""This module says how far off a value may be that several operations were replayed for: the limit of its reach (10.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import numpy as np

from i2s_spec.errors import counted
from i2s_spec.golden.replay.tolerance import (
    FORCED,
    LIMITS,
    UNFORCED,
    Limit,
    bfloat16_limit,
    dense_limit,
    grouped_limit,
    ulps,
)
from i2s_spec.model.graph.taps import INTEGER_TAPS
from i2s_spec.model.grouped import Grouped
from i2s_spec.model.weights import Ternary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.golden.replay.code_flips import Flips
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph.graph import Node

#: How a value is checked: by its operation, by what a layer may add up to, or by what a whole model may.
Scope = Literal["op", "layer", "model"]


class GroupedSums(NamedTuple):
    """How a runtime adds up a projection whose activations have several scales.

    :param columns: that have one scale; 0 for a quarter of all
    :param offset: whether it sums codes 0 to 2 and takes the sum of activations off after that, in floats
    """

    columns: int
    offset: bool


#: By the groups of a quantizer, where there are several in a token.
GROUPS: Final[Mapping[str, GroupedSums]] = {
    "blocks-256": GroupedSums(256, False), "blocks-32": GroupedSums(32, False), "interleaved-4": GroupedSums(0, True),
}  # fmt: skip


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
    span: Scope = "op"
    flips: Flips | None = None
    rows: int | None = None


def limit_of(model: Model, bfloat16: bool, node: Node, inputs: list[Any], value: NDArray[Any]) -> tuple[str, Any]:
    """How far off an operation may be, in words and as a limit of each element.

    :param bfloat16: whether the candidate's values are bfloat16
    """
    own = LIMITS[node.op]
    if node.op == "head":
        own = dense_limit(model.weights.tensor_type(node.weight))
    elif node.op == "linear" and not _is_integer(model, node):
        own = dense_limit("F16")
    elif node.op == "linear":
        own = _of_groups(model, node) or own
    if bfloat16:
        own = bfloat16_limit(node.op, own)
    return own.words, own.of(node, inputs, value)


def _is_integer(model: Model, node: Node) -> bool:
    """Whether a projection is one of integers."""
    rule = model.numerics.quantizer_of(model.weights.tensor_type(node.weight))
    return rule.groups != "none" and isinstance(model.weights.matrix(node.weight), Ternary | Grouped)


def _of_groups(model: Model, node: Node) -> Limit | None:
    """The limit of a projection of integers where activations, or weights, have several scales; None where neither has."""
    matrix = cast(Ternary | Grouped, model.weights.matrix(node.weight))
    groups = GROUPS.get(model.numerics.quantizer_of(model.weights.tensor_type(node.weight)).groups)
    if isinstance(matrix, Ternary):
        if groups is None:
            return None
        return grouped_limit(matrix.columns, groups.columns or matrix.columns // 4, groups.offset, float(matrix.scale))
    largest = 2 * float(np.abs(matrix.scales).max())  # a weight is at most twice its scale
    columns = matrix.group if groups is None else min(matrix.group, groups.columns or matrix.columns // 4)
    return grouped_limit(matrix.columns, columns, groups is not None and groups.offset, largest)


def loosen(model: Model, bfloat16: bool, replay: Replay) -> None:
    """Limits of a reach in which other projections lie."""
    graph = model.graph
    behind = {graph[each].layer for each in replay.reach[:-1] if each in graph.by_name and graph[each].op == "linear"}
    if not behind:
        return
    replay.span = "layer" if len(behind) == 1 else "model"
    own = FORCED if replay.span == "layer" else UNFORCED
    if replay.op in INTEGER_TAPS:
        replay.limit, replay.words = np.inf, "no limit: depends on earlier values"
        return
    finite = np.abs(replay.value[np.isfinite(replay.value)])
    largest = float(finite.max()) if finite.size else 0.0
    replay.limit, replay.words = own.rtol(bfloat16) * largest, f"{own.words}, after {counted(len(behind), 'layer')}"


def relative_error(limit: Any, value: Any) -> float:
    """A limit as a share of the root mean square: what an operation after it inherits."""
    wide = value.astype(np.float64)
    finite = np.isfinite(wide)
    if not finite.any():
        return 0.0
    rms = float(np.sqrt(np.mean(np.square(wide[finite]))))
    limits = np.broadcast_to(np.asarray(limit, dtype=np.float64), value.shape)[finite]
    return float(np.sqrt(np.mean(np.square(limits[np.isfinite(limits)])))) / rms if rms else 0.0


def propagated_error(rtol: float, value: NDArray[Any]) -> NDArray[np.float64]:
    """What a share of an input does to a value after it: so much of each element and of the root mean square of all."""
    wide = np.abs(value.astype(np.float64))
    finite = wide[np.isfinite(wide)]
    rms = float(np.sqrt(np.mean(finite * finite))) if finite.size else 0.0
    return 4 * rtol * (wide + rms) + ulps(value, 1)
