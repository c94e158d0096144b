"""The numerics of a runtime: the profile whose values a dump repeats to the last digit for the longest (clause 10.4).

A runtime is deterministic, and so is a profile that emulates it: the first tensors of its dump agree with the profile's
to the last digit, and only a code that flips at a rounding boundary, or a mistake, ends that. `fit` runs the first layer
under every profile that differs in rounding and in the order of sums, and no more of the model than tells them apart.
A profile that means something else (another activation, another quantizer) is no choice of numerics: what fits it is
that mistake.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.errors import SettingError
from i2s_spec.golden.recording import recorded_inputs
from i2s_spec.golden.shown import SUMMED, Pair, pair_of
from i2s_spec.model.graph import INTEGER_TAPS, TOKENS, base
from i2s_spec.model.weights import DENSE
from i2s_spec.model.numerics import NUMERIC_PROFILES, NumericProfile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.golden.candidate import Candidate, Record
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Graph

#: Layers that are run under a profile at most.
MOST_LAYERS: Final = 3


@dataclass
class _Contender:
    """A profile, how far a dump agrees with it, and what it gives at the end of the layers that were run.

    :param model: with the profile
    :param x: what leaves the last layer that was run
    :param exact: tensors that agree before the first that does not
    :param agreeing: all tensors that agree
    :param far: of the first tensor that does not agree, how far it is off, as a share of its largest
    """

    model: Model
    x: Any = None
    exact: int = 0
    agreeing: int = 0
    far: float = 0.0
    ended: bool = False

    @property
    def key(self) -> tuple[int, int, float]:
        return self.exact, self.agreeing, -self.far


def searched(model: Model) -> Iterator[NumericProfile]:
    """The model's own numerics, and every profile that differs from them in rounding and order only.

    For I2_S a token has one scale. Types that have scales of their own are met by runtimes with blocks of theirs, too.
    """
    yield model.numerics
    types = {model.weights.tensor_type(node.weight) for node in model.graph if node.op == "linear"}
    for profile in NUMERIC_PROFILES.values():
        rules = [profile.quantizer_of(kind) for kind in types if kind == "I2_S"]
        if profile.name != model.numerics.name and all(rule.groups == "token" for rule in rules):
            yield profile


def fit(model: Model, record: Record, theirs: Candidate) -> Model:
    """The model with the numerics that a dump agrees with for the longest; its own where no others agree for longer."""
    graph = model.graph
    head = [name for name in record.shapes if name in theirs and record.layer(name) in (None, 0)]
    known = {name for part in (graph.before_layers(), graph.layer(0)) for name in model.tap_names(part)}
    if not known & set(head):
        return model  # the logits alone, or later layers: nothing near the beginning is shown
    contenders = [_Contender(model.replace(numerics=profile)) for profile in searched(model)]
    for number in range(-1, min(graph.layers, MOST_LAYERS)):
        part = graph.before_layers() if number < 0 else graph.layer(number)
        names = [name for name in record.shapes if name in theirs and name in part.by_name]
        running = [each for each in contenders if not each.ended]
        if number > 0 and len(running) < 2:
            break
        for each in running:
            try:
                _advance(each, part, number, names, record, theirs)
            except (SettingError, ValueError, NotImplementedError):
                each.ended, each.exact = True, -1  # the profile does not compute such a model
    return max(contenders, key=lambda each: each.key).model


def _advance(
    each: _Contender, part: Graph, number: int, names: list[str], record: Record, theirs: Candidate
) -> None:
    """Run a part of the graph, and count what agrees."""
    if number < 0:
        values: dict[str, Any] = {TOKENS: record.tokens}
        for node in part:
            values.update(each.model.evaluate(node, values))
        (result,) = part.results
        each.x = values[result]
    else:
        each.x, values = each.model.layer(number, each.x, tuple(names))
    for name in names:
        pair = pair_of(theirs, name, values.get(name)) if base(name) not in INTEGER_TAPS else None
        if pair is None:
            continue
        if same(pair, part.by_name[name].op):
            each.agreeing += 1
            each.exact += not each.ended
        elif not each.ended:
            each.ended = True
            each.far = float(pair.apart().max()) / (pair.largest or 1.0)


def same(pair: Pair, op: str) -> bool:
    """Whether two tensors agree to the last digit that is shown, the printed sum included."""
    return pair.agrees() and not (op in SUMMED and pair.sum_off(precise=False) > 0)


class Reference:
    """What a candidate is held against: the values of a record, or of a model with other numerics than the record's.

    :param model: None where only the record is there
    """

    def __init__(self, record: Record, theirs: Candidate, model: Model | None) -> None:
        self.record, self.model = record, model
        self._own: dict[str, Any] | None = None
        if model is not None and model.numerics.name != record.header["profile"]:
            known = set(model.tap_names())
            wanted = [name for name in record.shapes if name in theirs or name.endswith(".act_scale")]
            names = [name for name in wanted if name in known]
            found = model.forward(record.tokens, taps=names)
            results = {"result_output": found.logits, "embedding": found.embedding}
            self._own = {**found.taps, **{name: value for name, value in results.items() if value is not None}}

    def value(self, name: str) -> NDArray[Any] | None:
        """A tensor; None where it is not known."""
        return self.record.value(name) if self._own is None else self._own.get(name)

    def inputs(self, name: str) -> tuple[str, ...]:
        """What goes into an operation, by the names that a record has; () where nobody knows."""
        found = self.record.inputs(name)
        if not found and self.model is not None and name in self.model.graph.by_name:  # of a record of version 0.1
            return tuple(recorded_inputs(self.model.graph, self.model.graph[name]))
        return found

    def steps(self, name: str) -> NDArray[Any] | None:
        """Of a projection, by how much each token's outputs change where a code of weight 1 flips; None for floats."""
        weights = self.record.header["taps"][name].get("weights", ())
        scale = self.value(f"{weights[0].removesuffix('.weight')}.act_scale") if weights else None
        y = self.value(name)
        if scale is None or y is None or self.has_own_blocks(name):
            return None
        worth = self._worth(name, y, scale, weights[0])
        with np.errstate(all="ignore"):
            found: NDArray[Any] = worth / np.abs(scale.astype(np.float64)).reshape(len(scale), -1).min(axis=1)
        return found if np.isfinite(found).all() else None

    def has_own_blocks(self, name: str) -> bool:
        """Whether runtimes may quantize the activations of a projection in blocks that only a model would tell."""
        kind = self.record.header["taps"][name].get("type", "I2_S")
        return self.model is None and kind != "I2_S" and kind not in DENSE

    def one_scale(self, name: str) -> bool:
        """Whether all weights of a projection, and all codes of a token, have one scale: differences are whole steps."""
        weights = self.record.header["taps"][name].get("weights", ())
        scale = self.value(f"{weights[0].removesuffix('.weight')}.act_scale") if weights else None
        from i2s_spec.model.weights import Grouped

        return scale is not None and scale.ndim == 1 and (
            self.model is None or not isinstance(self.model.weights.matrix(weights[0]), Grouped))

    def _worth(self, name: str, y: NDArray[Any], scale: NDArray[Any], tensor: str) -> float:
        """What a weight of 1 stands for: by the model, or by the sums of the record."""
        from i2s_spec.model.weights import Grouped, Ternary

        if self.model is not None:
            matrix = self.model.weights.matrix(tensor)
            return float(np.abs(matrix.scales).max()) if isinstance(matrix, Grouped) else abs(float(matrix.scale)) if isinstance(matrix, Ternary) else np.nan
        sums = self.value(f"{tensor.removesuffix('.weight')}.acc_i32")
        if sums is None or sums.shape != y.shape or scale.ndim != 1:
            return np.nan
        with np.errstate(all="ignore"):
            each = np.abs(y.astype(np.float64) / sums * scale[:, None])
        return float(np.median(each[sums != 0])) if (sums != 0).any() else np.nan
