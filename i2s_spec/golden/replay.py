"""Replay operations: compute each value of a candidate again from the candidate's own inputs (clause 10.4).

So nothing drifts: an operation that is right gives what it gives whatever happened before it. Where a candidate lacks
an input, the operation that makes it is replayed as well, back to the values that the candidate has: what is replayed
together is the *reach* of a value. A reach with other projections in it is held to wider limits, since a code that
flips in one of them changes everything after it.

The integer stage of a projection is checked as integers (`code_flips`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from i2s_spec.errors import SettingError
from i2s_spec.golden import code_flips
from i2s_spec.golden.metrics import beyond
from i2s_spec.golden.tolerance import ALLOWANCES, Replay, limit_of, loosen, propagated_error, relative_error, ulps
from i2s_spec.model.graph import INTEGER_TAPS, TOKENS
from i2s_spec.model.reference import bitlinear, linear, matmul
from i2s_spec.model.weights import Grouped, Ternary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Node


@dataclass
class Replayer:
    """Replays the values of one candidate.

    :param values: the candidate's values by the names of the graph, in its shapes; rows that are not known are NaN
    :param bfloat16: whether the candidate's values are bfloat16
    :param rows: of values of which only the last rows are known, how many
    """

    model: Model
    tokens: NDArray[np.int64]
    values: Mapping[str, NDArray[Any]]
    bfloat16: bool = False
    rows: Mapping[str, int] = field(default_factory=dict)
    #: Values of operations that the candidate does not show, with the share that they may be off by, and their reach.
    _made: dict[str, tuple[Any, float, tuple[str, ...]]] = field(default_factory=dict)
    _inner: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in self.model.graph:
            if node.op == "linear":
                prefix = node.weight.removesuffix(".weight")
                self._inner.update({f"{prefix}.{tap}": (node.name, tap) for tap in INTEGER_TAPS})

    def forget(self) -> None:
        """Drop what was made of earlier layers."""
        self._made.clear()

    def replay(self, name: str, got: NDArray[Any] | None = None) -> Replay | None:
        """Return the replay of a value; None where the candidate lacks something that no operation makes.

        :param got: the candidate's own value, unless it is among `values`
        """
        graph = self.model.graph
        got = self.values.get(name) if got is None else got
        inner = self._inner.get(name)
        if inner is None and name not in graph.by_name:
            return None
        node = graph[inner[0] if inner is not None else name]
        inputs, rtol, reach = self._inputs(node)
        if inputs is None:
            return None
        try:
            found = self.model.evaluate(node, inputs)
        except (ValueError, IndexError) as error:  # shapes that do not go together: the candidate's inputs are not ours
            if isinstance(error, SettingError):
                raise
            return None
        if inner is not None:
            replay = self._integer(name, node, inner[1], inputs, found, rtol, reach)
        else:
            replay = self._float(node, inputs, found, rtol, reach, got)
        if replay is not None:
            loosen(self.model, self.bfloat16, replay)
            replay.rows = min(filter(None, (self._known(each) for each in node.inputs)), default=None)
        return replay

    def _known(self, name: str) -> int | None:
        """How many of the last rows of a value are known, or can be made; None for all."""
        if name in self.values or name not in self.model.graph.by_name:
            return self.rows.get(name)
        return min(filter(None, (self._known(each) for each in self.model.graph[name].inputs)), default=None)

    def _float(
        self, node: Node, inputs: list[Any], found: Mapping[str, Any], rtol: float, reach: tuple[str, ...], got: Any
    ) -> Replay:
        value = found[node.name]
        words, limit = limit_of(self.model, self.bfloat16, node, inputs, value)
        if rtol:
            limit = limit + propagated_error(rtol, value)
            words = f"{words}, and what {', '.join(reach)} add"
        replay = Replay(node.name, node.op, (*reach, node.name), value, limit, words)
        matrix = self.model.weights.matrix(node.weight) if node.op == "linear" else None
        if node.op != "linear" or isinstance(matrix, np.ndarray):
            replay.allowance = ALLOWANCES.get(node.op)
        if isinstance(matrix, Grouped):
            self._grouped(replay, node, found, matrix)
        if isinstance(matrix, Ternary) and not self.bfloat16:
            self._projection(replay, node, inputs[0], found, rtol, matrix, got)
        return replay

    def _grouped(self, replay: Replay, node: Node, found: Mapping[str, Any], matrix: Grouped) -> None:
        """Replay a projection whose weights have several scales from the candidate's codes, where it has any."""
        rule = self.model.numerics.quantizer_of(self.model.weights.tensor_type(node.weight))
        prefix = node.weight.removesuffix(".weight")
        theirs, codes = self.values.get(f"{prefix}.act_q8"), found.get(f"{prefix}.act_q8")
        if codes is None or theirs is None or theirs.shape != codes.shape or theirs.dtype.kind not in "iu":
            return
        narrow = np.clip(theirs, -128, 127).astype(np.int8)
        scale, sums = found[f"{prefix}.act_scale"], narrow.sum(axis=1, dtype=np.int32)
        quantized = bitlinear.Quantized(narrow, scale, sums)
        if rule.groups == "token":
            replay.value, _ = linear.grouped_product(quantized, rule, matrix)
            replay.reach = (f"{prefix}.act_q8", node.name)

    def _projection(
        self, replay: Replay, node: Node, x: Any, found: Mapping[str, Any], rtol: float, matrix: Ternary, got: Any
    ) -> None:
        """Hold the output of a projection against its sums: those of the candidate's codes, or the ones it stands for."""
        rule = self.model.numerics.quantizer_of(self.model.weights.tensor_type(node.weight))
        prefix = node.weight.removesuffix(".weight")
        if rule.groups != "token" or f"{prefix}.acc_i32" not in found:
            return
        scale, acc = found[f"{prefix}.act_scale"], found[f"{prefix}.acc_i32"]
        codes = found[f"{prefix}.act_q8"]
        with np.errstate(all="ignore"):
            step = np.abs(np.float64(matrix.scale) / scale.astype(np.float64))[:, None]
            replay.limit = np.maximum(replay.limit, np.where(np.isfinite(step), code_flips.WHOLE * step, 0.0))
        own = self.values.get(f"{prefix}.acc_i32")
        theirs = self.values.get(f"{prefix}.act_q8") if own is None else None
        if theirs is not None and theirs.shape == codes.shape and theirs.dtype.kind in "iu":
            own = _accumulate(matrix, theirs, rule.offset)
        if own is not None and own.shape == acc.shape:
            replay.value = bitlinear.epilogue_of_rule(own.astype(np.int32), scale, matrix.scale, rule)
            replay.reach = tuple(dict.fromkeys((*replay.reach[:-1], f"{prefix}.acc_i32", node.name)))
            return
        if got is None:
            return
        off = beyond(got, replay.value, replay.limit)
        if not off.any():
            return
        outputs = code_flips.Outputs(np.asarray(got), x, scale, codes, acc, matrix)
        replay.flips, known = code_flips.explain(outputs, off, rtol)
        if known is not None:
            rows = np.asarray(known.any(axis=1))
            epilogued = bitlinear.epilogue_of_rule(known.astype(np.int32), scale, matrix.scale, rule)
            replay.value = np.where(rows[:, None], epilogued, replay.value)

    def _integer(
        self, name: str, node: Node, tap: str, inputs: list[Any], found: Mapping[str, Any], rtol: float,
        reach: tuple[str, ...],
    ) -> Replay | None:  # fmt: skip
        """Replay codes, scales or sums: exact, but for codes at a rounding boundary; sums are those of the
        candidate's codes."""
        if name not in found:
            return None
        prefix = name.removesuffix(f".{tap}")
        value = found[name]
        replay = Replay(name, tap, (*reach, name), value, 0.0, "exact")
        theirs = self.values.get(f"{prefix}.act_q8")
        codes = found[f"{prefix}.act_q8"]
        if tap == "act_scale":
            replay.limit, replay.words = ulps(value, 1) + rtol * np.abs(value), "1 ulp"
        elif tap == "act_q8":
            got = self.values.get(name)
            if got is not None and got.shape == value.shape:
                replay.flips, replay.value = code_flips.explain_codes(
                    got, value, inputs[0], found[f"{prefix}.act_scale"], rtol
                )
                replay.words = "exact, or a step where the product lies on a rounding boundary"
        elif theirs is not None and theirs.shape == codes.shape and theirs.dtype.kind in "iu":
            matrix = self.model.weights.matrix(node.weight)
            if tap == "act_sum":
                replay.value = theirs.sum(axis=1, dtype=np.int32)
            elif isinstance(matrix, Ternary) and value.ndim == 2:
                rule = self.model.numerics.quantizer_of(self.model.weights.tensor_type(node.weight))
                acc = _accumulate(matrix, theirs, rule.offset)
                replay.value = acc if tap == "acc_i32" else acc + theirs.sum(axis=1, dtype=np.int32)[:, None]
            elif isinstance(matrix, Grouped) and value.shape[0] == len(theirs):
                replay.value = _grouped_sums(self.model, node, matrix, theirs, tap)
            replay.reach = (f"{prefix}.act_q8", name)
        return replay

    def _inputs(self, node: Node) -> tuple[list[Any] | None, float, tuple[str, ...]]:
        """Return the inputs of a node, how far off those may be that had to be made, and what was replayed for them."""
        values: list[Any] = []
        rtol, reach = 0.0, cast(tuple[str, ...], ())
        for name in node.inputs:
            if name == TOKENS:
                values.append(self.tokens)
                continue
            value = self.values.get(name)
            if value is not None:
                values.append(value)
                continue
            made = self._make(name)
            if made is None:
                return None, 0.0, ()
            values.append(made[0])
            reach = tuple(dict.fromkeys((*reach, *made[2])))
            rtol = max(rtol, made[1])
        return values, rtol, reach

    def _make(self, name: str) -> tuple[Any, float, tuple[str, ...]] | None:
        if name in self._made:
            return self._made[name]
        graph = self.model.graph
        if name not in graph.by_name:
            return None
        node = graph[name]
        inputs, rtol, reach = self._inputs(node)
        if inputs is None:
            return None
        try:
            value = self.model.evaluate(node, inputs)[node.name]
        except (ValueError, IndexError):
            return None
        _, limit = limit_of(self.model, self.bfloat16, node, inputs, value)
        own = 0.0 if node.op == "store_kv" else relative_error(limit, value)
        self._made[name] = value, rtol + own, (*reach, name)
        return self._made[name]


def _grouped_sums(model: Model, node: Node, matrix: Grouped, codes: NDArray[Any], tap: str) -> NDArray[np.int32]:
    """Return the sums of codes with weights that have several scales, as the tap has them."""
    narrow = np.clip(codes, -128, 127).astype(np.int8)
    rule = model.numerics.quantizer_of(model.weights.tensor_type(node.weight))
    acc = linear.token_sums(matrix, narrow, rule)
    if tap == "acc_i32":
        return acc
    sums = linear.sums_of_runs(narrow, 1 if acc.ndim == 2 else acc.shape[1])
    return acc + (sums if acc.ndim == 2 else sums[..., None])


def _accumulate(matrix: Ternary, codes: NDArray[Any], offset: str) -> NDArray[np.int32]:
    narrow = np.clip(codes, -128, 127).astype(np.int8)
    acc = matmul.accumulate(matrix.payload, matrix.rows, matrix.columns, narrow)
    if offset == "kept":
        acc += narrow.sum(axis=1, dtype=np.int32)[:, None]
    return acc
