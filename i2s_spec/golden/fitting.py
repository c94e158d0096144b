"""The numerics of a runtime: the profile whose values a dump repeats to the last digit for the longest (clause 10.4).

A runtime is deterministic, and so is a profile that emulates it: the first tensors of its dump agree with the profile's
to the last digit, and only a code that flips at a rounding boundary, or a mistake, ends that. `fit` runs the first layer
under every profile that differs in rounding and in the order of sums, and no more of the model than tells them apart.
A profile that means something else (another activation, another quantizer) is no choice of numerics: what fits it is
that mistake.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.errors import FormatError
from i2s_spec.golden.recording import recorded_inputs
from i2s_spec.golden.shown import SUMMED, pair_of
from i2s_spec.model.graph import INTEGER_TAPS, TOKENS, base
from i2s_spec.model.numerics import NUMERIC_PROFILES, NumericProfile
from i2s_spec.model.weights import DENSE, Grouped, Ternary

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.golden.candidate import Candidate, Record
    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Graph

#: Layers that are run under a profile at most, of models with more weights than this in a layer.
MOST_LAYERS: Final = 3
SMALL_LAYER: Final = 1 << 22


#: The elements of activations that have one scale where a right runtime meets weights of a type: a token for I2_S; others
#: have blocks of their own, too, or stay floats. And of the other types.
GROUPS_OF: Final[Mapping[str, frozenset[str]]] = {
    "I2_S": frozenset({"token"}),
    "TQ1_0": frozenset({"token", "blocks-256", "none"}), "TQ2_0": frozenset({"token", "blocks-256", "none"}),
    "IQ1_BN": frozenset({"token", "interleaved-4", "none"}), "IQ2_BN": frozenset({"token", "interleaved-4", "none"}),
}  # fmt: skip
GROUPS: Final = frozenset({"token", "blocks-32", "none"})


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
    def key(self) -> tuple[int, int, int]:
        """The more the better: what agrees, then by what power of two the first that does not is off."""
        return self.exact, self.agreeing, -round(np.log2(self.far)) if 0 < self.far < np.inf else 0


def searched(model: Model) -> list[NumericProfile]:
    """Return the model's own numerics, and every profile that differs from them in rounding and order only; the
    likelier first.

    What has one scale is a meaning, and part of a type: `GROUPS_OF`.
    """
    types = {model.weights.tensor_type(node.weight) for node in model.graph if node.op == "linear"}

    def is_rounding(profile: NumericProfile) -> bool:
        return all(profile.quantizer_of(kind).groups in GROUPS_OF.get(kind, GROUPS) for kind in types - DENSE.keys())

    own = model.numerics
    others = [each for each in NUMERIC_PROFILES.values() if each.name != own.name and is_rounding(each)]
    return [own, *others] if is_rounding(own) else [*others, own]


def fit(model: Model, record: Record, theirs: Candidate) -> Model:
    """Return the model with the numerics that a dump agrees with for the longest; its own where no others agree for
    longer.
    """
    graph = model.graph
    head = [name for name in record.shapes if name in theirs and record.layer(name) in (None, 0)]
    known = {name for part in (graph.before_layers(), graph.layer(0)) for name in model.tap_names(part)}
    if not known & set(head):
        return model  # the logits alone, or later layers: nothing near the beginning is shown
    contenders = [_Contender(model.replace(numerics=profile)) for profile in searched(model)]
    weights = sum(prod(model.file.tensors[name].shape) for node in graph.layer(0) for name in node.weights)
    layers = graph.layers if weights <= SMALL_LAYER else min(graph.layers, MOST_LAYERS)
    for number in range(-1, layers):
        part = graph.before_layers() if number < 0 else graph.layer(number)
        names = [name for name in record.shapes if name in theirs and name in part.by_name]
        running = [each for each in contenders if not each.ended]
        if number > 0 and len(running) < 2:
            break
        for each in running:
            try:
                _advance(each, part, number, names, record, theirs)
            except FormatError:  # of the file, whatever the profile
                raise
            except ValueError:
                each.ended, each.exact = True, -1  # the profile does not compute such a model
    return max(contenders, key=lambda each: each.key).model


def _advance(each: _Contender, part: Graph, number: int, names: list[str], record: Record, theirs: Candidate) -> None:
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
        allowed = 2 * each.model.numerics.angle_error * pair.largest if part.by_name[name].op == "rope" else 0.0
        agrees = bool((pair.apart() <= pair.room() + allowed).all()) if allowed else pair.agrees()
        if agrees and not (part.by_name[name].op in SUMMED and pair.sum_off(precise=number < 0) > 0):
            each.agreeing += 1
            each.exact += not each.ended
        elif not each.ended:
            each.ended = True
            each.far = float(pair.apart().max()) / (pair.largest or 1.0)


class Steps(NamedTuple):
    """By how much outputs of a projection change where a code of a token flips, and a weight of +1 or -1 meets it.

    :param size: float64 [T], the most that it can be
    :param whole: whether it is always that: all weights have one scale, and all codes of a token
    """

    size: NDArray[np.float64]
    whole: bool


class WantedValues:
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
        """Return a tensor; None where it is not known."""
        return self.record.value(name) if self._own is None else self._own.get(name)

    def inputs(self, name: str) -> tuple[str, ...]:
        """Return the names of the values that enter an operation, as a record has them; () where they are not known."""
        found = self.record.inputs(name)
        if not found and self.model is not None and name in self.model.graph.by_name:  # of a record of version 0.1
            return tuple(recorded_inputs(self.model.graph, self.model.graph[name]))
        return found

    def steps(self, name: str) -> Steps | None:
        """Return by how much outputs of a projection change where a code flips; None where it has no codes, or none
        known."""
        weights, y = self.record.weights(name), self.value(name)
        scale = self.value(f"{weights[0].removesuffix('.weight')}.act_scale") if weights else None
        if scale is None or y is None or scale.shape[:1] != y.shape[:1] or self.has_own_blocks(name):
            return None
        matrix = self.model.weights.matrix(weights[0]) if self.model is not None else None
        if isinstance(matrix, Ternary):
            worth = abs(float(matrix.scale))
        elif isinstance(matrix, Grouped):
            worth = float(np.abs(matrix.scales).max(initial=0.0))
        else:
            worth = self._worth(y, scale, self.value(f"{weights[0].removesuffix('.weight')}.acc_i32"))
        with np.errstate(all="ignore"):
            found = worth / np.abs(scale.astype(np.float64)).reshape(len(scale), -1).min(axis=1)
        usable = bool(np.isfinite(found).all() and (found > 0).all())
        return Steps(found, scale.ndim == 1 and not isinstance(matrix, Grouped)) if usable else None

    def has_own_blocks(self, name: str) -> bool:
        """Whether runtimes may quantize the activations of a projection in blocks that only a model would tell."""
        kind = self.record.type(name)
        return self.model is None and kind not in ("", "I2_S", *DENSE)

    @staticmethod
    def _worth(y: NDArray[Any], scale: NDArray[Any], sums: NDArray[Any] | None) -> float:
        """Return the output that a weight of 1 stands for, by the sums of a record."""
        if sums is None or sums.shape != y.shape or scale.ndim != 1 or not (sums != 0).any():
            return np.nan
        with np.errstate(all="ignore"):
            each = np.abs(y.astype(np.float64) / sums * scale[:, None])
        return float(np.median(each[sums != 0]))
