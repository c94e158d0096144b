"""Find out which known mistake explains a wrong value, by computing it with each of them in place (clause 10.5).

What is computed is the reach of the value in op-replay, its layer where layers are forced, the whole model up to it
where nothing but the tokens is given (`by_running`). A mistake explains a value *exactly* if the value is within its
limit then, *nearly* if most of what was off is gone. A `Diagnoser` also asks `patterns` what the value looks like.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from itertools import islice
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from i2s_spec.errors import SettingError, counted, quote
from i2s_spec.golden.candidate import WHOLE, only_known, shifted
from i2s_spec.golden.diagnosis.mistakes import MISTAKES, ModelMistake, epsilon
from i2s_spec.golden.diagnosis.patterns import (
    WEAK,
    Observation,
    by_pattern,
    factor_of,
    recognized,
    swapped_operands,
)
from i2s_spec.golden.diagnosis.solving import SAME_SCALE, fitted_epsilons, scales_of_others, solved
from i2s_spec.golden.metrics import beyond, relative
from i2s_spec.golden.replay import Replayer
from i2s_spec.golden.result import Diagnosis
from i2s_spec.golden.shown import Pair
from i2s_spec.golden.tolerance import FAIL, FORCED, Replay
from i2s_spec.model.graph import INTEGER_TAPS, TOKENS, base
from i2s_spec.schema.mistakes import Mistake

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph import Graph

    Array = NDArray[Any]

#: What is left with a mistake that explains a value nearly, as a share of what is off without it.
NEARLY: Final = 0.1

#: What is left, relative, of a value that a whole model with a mistake gives exactly.
SAME: Final = 1e-4

#: What may be left of what was off with one epsilon in place: within the wide limits of norms another one may be it, too.
OTHER_EPSILON: Final = 1 / 32

#: Most diagnoses of one value.
SHOWN: Final = 6


class Diagnoser:
    """Holds wrong values against every mistake that makes a difference to a model; it caches changed models.

    :param model: the reference
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._changed: dict[str, Model | None] = {}
        #: Of the last whole run: what each mistake leaves of the relative error, the least first, with its name.
        self.left: list[tuple[float, str]] = []

    def changed(self, mistake: ModelMistake) -> Model | None:
        """Return the model with a mistake in it; None where it makes no difference."""
        if mistake.name not in self._changed:
            try:
                self._changed[mistake.name] = mistake.apply(self.model)
            except (SettingError, ValueError):
                self._changed[mistake.name] = None
        return self._changed[mistake.name]

    def candidates(self, ops: Iterable[str], only: Iterable[str] | None = None) -> Iterable[tuple[Mistake, Model]]:
        """Yield the mistakes that change one of some operations, each with the model that has it."""
        reached = set(ops)
        if reached & set(INTEGER_TAPS):
            reached.add("linear")
        for mistake in MISTAKES:
            if not mistake.ops & reached or (only is not None and mistake.name not in only):
                continue
            model = self.changed(mistake)
            if model is not None:
                yield mistake.mistake, model

    def tell_apart(self, found: Iterable[Diagnosis], explained: Callable[[Model], int]) -> tuple[Diagnosis, ...]:
        """Keep, of several mistakes that explain a value exactly, those that explain most of its layer.

        :param explained: how many values of the layer are right in a changed model
        """
        found = tuple(found)
        exact = {each.name for each in found if each.fits == "exactly"}
        if len(exact) < 2:
            return found
        models = {each.name: self.changed(each) for each in MISTAKES if each.name in exact}
        counts = {name: explained(model) for name, model in models.items() if model is not None}
        most = max(counts.values(), default=0)
        return tuple(each for each in found if each.fits != "exactly" or counts.get(each.name, 0) == most)

    def of_replay(
        self, replayer: Replayer, replay: Replay, got: NDArray[Any], rows: int | None, only: Iterable[str] | None = None
    ) -> list[Diagnosis]:
        """Return what explains a value that differs from its replay: mistakes, patterns, numbers.

        :param only: names of mistakes that are tried; patterns are not looked for then
        """
        graph = self.model.graph
        ops = {graph[name].op if name in graph.by_name else name.rpartition(".")[2] for name in replay.reach}
        known, want = only_known(got, rows), only_known(replay.value, rows)
        before = relative(known, want)

        def attempt(model: Model) -> tuple[float, bool] | None:
            other = Replayer(model, replayer.tokens, replayer.values, replayer.bfloat16)
            if replay.name not in model.graph.by_name and replay.name in graph.by_name:
                return _labelled(other, _label_of(replay.name, graph, model.graph), got, known, rows)
            found = other.replay(replay.name, got)
            if found is None or found.value.shape != got.shape:
                return None
            value, limit = only_known(found.value, rows), only_known(found.limit, rows)
            wrong = beyond(known, value, limit).any() if found.span != "model" else True
            left = relative(known, value)
            return left, not wrong or (found.span == "model" and left < SAME)

        found = self._ranked(self.candidates(ops, only), attempt, before)
        if only is not None:
            return found
        if rows is None and ops <= {"norm", "norm_weight"} and not any(each.fits == "exactly" for each in found):
            found = self._epsilon(replayer, replay, known, want, attempt) or found
        if not any(each.fits == "exactly" for each in found):
            elsewhere = self._ranked(swapped_operands(self.model, replay.reach), attempt, before)
            found = [each for each in elsewhere if each.fits == "exactly"] or found
        inputs = tuple(
            np.asarray(replayer.values[name]) for name in _entering(replay, graph) if name in replayer.values
        )
        patterns = (
            recognized(known, want, only_known(replay.limit, rows), inputs, len(replayer.tokens), replay.op)
            if rows is None
            else []
        )
        foreign = _foreign_scale(self.model, replay, known, want) if rows is None else None
        patterns = [foreign, *patterns] if foreign is not None else patterns
        exact = any(each.fits == "exactly" for each in found)
        if not exact and replay.span == "op" and rows is None and replay.name in graph.by_name:
            patterns = with_solved(patterns, self.solved(replayer, replay, known, want))
        return _joined(found, patterns)

    def _epsilon(
        self, replayer: Replayer, replay: Replay, got: NDArray[Any], want: NDArray[Any],
        attempt: Callable[[Model], tuple[float, bool] | None],
    ) -> list[Diagnosis]:  # fmt: skip
        """Return the epsilon with which a norm gives what was seen, if there is one."""
        graph = self.model.graph
        norms = [graph[name] for name in replay.reach if name in graph.by_name and graph[name].op == "norm"]
        if len(norms) != 1 or norms[0].inputs[0] not in replayer.values:
            return []
        own, entering = float(norms[0].settings["eps"]), np.asarray(replayer.values[norms[0].inputs[0]])
        for value in fitted_epsilons(entering, got, want, own):
            says = f"the norms used an epsilon of {value:.3g}; the file says {own:.3g}"
            model = epsilon(value)(self.model)
            result = attempt(model) if model is not None else None
            if result is not None and result[1] and result[0] <= OTHER_EPSILON * relative(got, want):
                return [_diagnosis(Mistake("epsilon", says), "exactly", result[0])]
        return []

    def solved(self, replayer: Replayer, replay: Replay, got: Array, want: Array) -> list[Diagnosis]:
        """Return the numbers that explain a value on its own inputs."""
        pair = Pair(got, want, 0.0, lambda value: value, np.asarray(replay.value))
        return solved(self.model, self.model.graph[replay.name], pair, replayer.values.get)

    def of_run(
        self, run: Callable[[Model], NDArray[Any] | None], got: NDArray[Any], want: NDArray[Any], limit: Any = 0.0,
        tokens: int = 0, ops: Iterable[str] | None = None, agrees: Callable[[Model], bool] | None = None, op: str = "",
        is_same: Callable[[Array], bool] | None = None, passes: int | None = None,
    ) -> list[Diagnosis]:  # fmt: skip
        """Return what explains a value that a whole run, or a whole layer, does not give.

        :param run: takes a changed model; gives the value, or None where it has none
        :param op: the operation that gives the value
        :param is_same: whether what a changed model gives is the value; by default, nearly
        :param passes: how many mistakes are tried; None for all
        :param agrees: whether a changed model leaves right what is right: what comes near and does not is no explanation,
            and what fits exactly and does not is only one if nothing else is: the mistake is then in a part of its places
        """
        before = relative(got, want)

        def attempt(model: Model) -> tuple[float, bool] | None:
            value = run(model)
            if value is None or value.shape != got.shape:
                return None
            left = relative(got, value)
            return left, left < SAME if is_same is None else is_same(value)

        every = frozenset(op for mistake in MISTAKES for op in mistake.ops) if ops is None else ops
        self.left = []
        candidates = self.candidates(every)
        if passes is not None:  # those that were met in programs first
            candidates = islice(sorted(candidates, key=lambda each: not each[0].seen), passes)
        found = self._ranked(candidates, attempt, before, far=FAIL.relative)
        if agrees is not None and found:
            models = {mistake.name: model for mistake, model in self.candidates(every, [each.name for each in found])}
            fine = [each for each in found if agrees(models[each.name])]
            found = fine or [each for each in found if each.fits == "exactly"]
        return _joined(found, recognized(got, want, limit, (), tokens, op))

    def _ranked(
        self,
        candidates: Iterable[tuple[Mistake, Model]],
        attempt: Callable[[Model], tuple[float, bool] | None],
        before: float,
        far: float | None = None,
    ) -> list[Diagnosis]:
        """Return the mistakes that explain a value, those that do it exactly first.

        :param far: what may be left, relative, where values drift; otherwise a share of what is off is
        """
        exact, near = [], []
        for mistake, model in candidates:
            try:
                result = attempt(model)
            except (ValueError, IndexError, KeyError, FloatingPointError):
                continue  # a graph that cannot be computed from these values explains nothing
            if result is None or not np.isfinite(result[0]):
                if result is not None and result[1]:
                    exact.append(_diagnosis(mistake, "exactly", None))
                continue
            left, fits = result
            insort(self.left, (left, mistake.name))
            if fits and mistake.name.startswith("eps-") and left > OTHER_EPSILON * before:
                continue  # norms are held to so wide a limit that any smaller epsilon would do
            if fits and (left < before or not np.isfinite(before)):
                exact.append(_diagnosis(mistake, "exactly", left))
            elif left < NEARLY * before or (far is not None and left <= far and 2 * left < before):
                near.append(_diagnosis(mistake, "nearly", left))
        near.sort(key=lambda each: each.remaining or 0.0)
        if near:
            near = [each for each in near if (each.remaining or 0.0) <= 2 * (near[0].remaining or 0.0) + 1e-6]
        return exact + ([] if exact else near)


def _foreign_scale(model: Model, replay: Replay, got: NDArray[Any], want: NDArray[Any]) -> Diagnosis | None:
    """Return a projection whose outputs are those of the scale of another tensor, with the names of such tensors."""
    if replay.op != "linear" or replay.span != "op":
        return None
    found = factor_of(Observation(got, want, np.zeros(0, dtype=np.bool_)))
    if found is None or not found[0] or abs(found[0] - 1) <= SAME_SCALE:
        return None
    others = list(scales_of_others(model, model.graph[replay.name].weight, found[0]))
    if not others:
        return None
    more = f" (or of {len(others) - 1:,} others that have the same)" if len(others) > 1 else ""
    return by_pattern("scale-of-another", f"the scale of {quote(others[0], bare=True)}{more} was used", found[1])


def _label_of(name: str, graph: Graph, changed: Graph) -> str:
    """Return the value that a runtime without an operation gives the operation's name to: what would have entered
    it.
    """
    while name in graph.by_name and name not in changed.by_name:
        name = graph[name].inputs[0]
    return name


def _labelled(
    other: Replayer, raw: str, got: NDArray[Any], known: NDArray[Any], rows: int | None
) -> tuple[float, bool] | None:
    """Return how far a value is from the value that has lost its name to it, and whether the two are the same."""
    theirs = other.values.get(raw)
    if theirs is not None:
        left = relative(known, only_known(theirs, rows))
        return (left, left < SAME) if np.isfinite(left) else None
    found = other.replay(raw, got)  # a node has one name: with that of the norm it lost its own
    if found is None or found.span == "model" or found.value.shape != got.shape:
        return None
    value, limit = only_known(found.value, rows), only_known(found.limit, rows)
    left = relative(known, value)
    return (left, not beyond(known, value, limit).any()) if np.isfinite(left) else None


def _entering(replay: Replay, graph: Graph) -> list[str]:
    """Return the names of the values that enter operations replayed together, their own values left out."""
    nodes = [graph.by_name[name] for name in replay.reach if name in graph.by_name]
    names = dict.fromkeys(name for node in nodes for name in node.inputs)
    return [name for name in names if name not in replay.reach]


def _diagnosis(mistake: Mistake, fits: Any, left: float | None) -> Diagnosis:
    return Diagnosis(mistake.name, mistake.says, fits, left, mistake.seen)


def with_solved(patterns: list[Diagnosis], solved: list[Diagnosis]) -> list[Diagnosis]:
    """Join solved numbers and patterns, the numbers first; a bare factor is a pattern, too."""
    names = {each.name for each in patterns}
    factors = names & {"factor", "scale-doubled", "scale-halved", "negated", "scale-of-another"}
    first = [each for each in solved if each.name not in names and not (each.name == "factor" and factors)]
    return [*first, *patterns]


def _joined(known: list[Diagnosis], patterns: list[Diagnosis]) -> list[Diagnosis]:
    """Join mistakes that fit exactly, patterns that tell how, mistakes that fit nearly; and patterns that tell where,
    unless a mistake fits exactly."""
    exact = [each for each in known if each.fits == "exactly"]
    near = [each for each in known if each.fits != "exactly"]
    strong = [each for each in patterns if each.name not in WEAK]
    weak = [] if exact else [each for each in patterns if each.name in WEAK]
    return [*exact, *strong, *near, *weak][:SHOWN]


# --- whole runs ------------------------------------------------------------------------------------------------------
# The model runs from its tokens to one value, also with each known mistake in place.

#: Mistakes that are tried on a result if a pass is long, and multiplications of a long one.
MOST_PASSES: Final = 20
MUCH: Final = 1 << 31

#: Tokens that are enough to tell mistakes apart.
FEW_TOKENS: Final = 16


def by_running(
    diagnoser: Diagnoser, tokens: NDArray[np.int64], name: str, pair: Pair, few: bool, free: bool = False
) -> list[Diagnosis]:
    """Return what explains a value, by running the model from its tokens with each mistake in place.

    :param few: whether all rows are there, so that the first tokens may do
    :param free: whether the value's rows are known but for a constant
    """
    settings, graph = diagnoser.model.settings, diagnoser.model.graph
    few = few and len(tokens) > FEW_TOKENS and settings.causal and pair.got.shape[:1] == (len(tokens),)
    few = few and base(name) not in ("kq", "kq_soft_max", "kq_soft_max_ext")
    used = tokens[:FEW_TOKENS] if few else tokens
    got, want = (pair.got[:FEW_TOKENS], pair.want[:FEW_TOKENS]) if few else (pair.got, pair.want)

    def again(changed: Model) -> Array | None:
        if few and any(node.op == "soft_max" and not node.settings["causal"] for node in changed.graph):
            value = value_of(changed, tokens, name)  # what comes later makes a difference there
            return value if value is None else value[:FEW_TOKENS]
        value = value_of(changed, used, name)
        return value if value is None or few else pair.cut(value)

    def level(changed: Model) -> Array | None:
        value = again(changed)
        return value if value is None or not free or value.shape != got.shape else shifted(value, got)

    whole = name in WHOLE and len(used) * weights_of(diagnoser.model) > MUCH
    passes = MOST_PASSES if whole else None
    printed = (lambda value: pair._replace(want=value).agrees()) if pair.resolution else None
    op = graph[name].op if name in graph.by_name else ""
    return diagnoser.of_run(level, got, want, limit_of(want), len(tokens), op=op, is_same=printed, passes=passes)


def weights_of(model: Model) -> int:
    """How many weights a token meets."""
    return sum(prod(model.file.tensors[node.weight].shape) for node in model.graph if node.op in ("linear", "head"))


def nearest(diagnoser: Diagnoser, before: float) -> str:
    """Return the mistakes that come nearest to a result of a whole run, in words; empty where none was tried."""
    if not diagnoser.left:
        return ""
    first, *others = diagnoser.left[:2]
    words = f"of {counted(len(diagnoser.left), 'known mistake')}, a pass each, {first[1]} comes nearest: it leaves"
    behind = f"; the next, {others[0][1]}, {others[0][0]:.2g}" if others else ""
    return f"{words} {first[0]:.2g} of a relative error of {before:.2g}{behind}"


def limit_of(want: Array) -> float:
    """How far a value of a whole run may be off before it counts as wrong, at the least."""
    finite = np.abs(want[np.isfinite(want)])
    return FORCED.f32 * float(finite.max()) if finite.size else 0.0


def value_of(model: Model, tokens: NDArray[np.int64], name: str) -> Array | None:
    """Return the value that a model gives for a tap, None without one; nothing after it is computed."""
    if name == "result_output" and name in model.graph.by_name:
        return model.forward(tokens).logits
    if name == "embedding" and name in model.graph.by_name:
        return model.forward(tokens).embedding
    if name not in model.tap_names():
        return None
    prefix = name.rpartition(".")[0]
    node = next(
        node for node in model.graph if node.name == name or (prefix and node.weights[:1] == (f"{prefix}.weight",))
    )
    _, found = model.run_part(model.graph.until(node), {TOKENS: tokens}, (name,))
    value: Array | None = found.get(name)
    return value[0] if isinstance(value, list) else value
