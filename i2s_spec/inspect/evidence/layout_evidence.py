"""This module decides the layout of a file by its weights: `layout_evidence` counts, compares and decides.

Comparisons of profiles take every layer, Grams a few. Then each tensor
is asked by itself, its partners being read as the file, or they themselves, were decided: a file some of whose tensors are
laid out otherwise is mixed, and these are named.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.inspect.evidence.comparisons import (
    Comparison,
    gram_comparisons,
    profile_comparisons,
    written_grams,
    zero_channel_comparisons,
)
from i2s_spec.inspect.evidence.counted import Counted, count, counts_size, room
from i2s_spec.inspect.evidence.decision import Decision, decide, quantile
from i2s_spec.inspect.evidence.grams import GramReader
from i2s_spec.inspect.evidence.hypotheses import HYPOTHESES, Hypothesis, fitting
from i2s_spec.inspect.evidence.roles import WRITERS, Matrix, Roles, roles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File
    from i2s_spec.schema.dialect import CodeMap

#: Weights of the layers whose Grams are compared, about; two layers at least.
GRAM_WEIGHTS: Final = 1 << 24

_NAMES: Final = [each.name for each in HYPOTHESES]
_NONE: Final = dict.fromkeys(_NAMES, 0.0)
_IN_ROWS: Final = np.array([each.in_rows for each in HYPOTHESES])

#: How many times the quantile of chance a tensor's sum is that agrees with its layer beyond doubt.
AGREES: Final = 4.0

#: How often tensors are asked again with their partners read as these were decided.
ROUNDS: Final = 3


class TensorEvidence(NamedTuple):
    """What is decided of one tensor."""

    matrix: Matrix
    decision: Decision


class LayoutEvidence(NamedTuple):
    """The evidence of a file: its comparisons, what they decide of it together and of each tensor.

    `profiles` and `grams` are what each of the two statistics decides alone. `layers` says how many layers were looked at.
    """

    comparisons: tuple[Comparison, ...]
    whole: Decision
    profiles: Decision
    grams: Decision
    tensors: tuple[TensorEvidence, ...]
    layers: int
    roles: Roles
    counts: dict[tuple[int, str], Counted]

    @property
    def mixed(self) -> bool:
        """Whether tensors are decided that are not laid out alike."""
        return len({tensor.decision.name for tensor in self.tensors if tensor.decision.name is not None}) > 1

    @property
    def decided(self) -> Hypothesis | None:
        """How the tensors of the file are laid out; None where that is undecided or they differ."""
        name = None if self.mixed else self.whole.name
        return next((each for each in HYPOTHESES if each.name == name), None)

    def otherwise(self, name: str) -> list[TensorEvidence]:
        """The tensors that are decided for something else than the hypothesis of this name."""
        return [tensor for tensor in self.tensors if tensor.decision.name not in (None, name)]

    def strangers(self) -> list[TensorEvidence]:
        """The tensors that agree with their layer in no way that is considered, where most others of their role do.

        These are two at least, and reach `AGREES` times what chance gives; a role with tensors between that and chance has
        no strangers, since their layers may have learned more or less.
        """
        by_role: dict[str, list[TensorEvidence]] = {}
        for tensor in self.tensors:
            if tensor.decision.name in (None, self.usual):
                by_role.setdefault(tensor.matrix.role, []).append(tensor)
        found: list[TensorEvidence] = []
        for tensors in by_role.values():
            chance = [quantile(tensor.decision.freedom) for tensor in tensors]
            sums = [tensor.decision.sums for tensor in tensors]
            weak = [max(each.values()) < wanted for each, wanted in zip(sums, chance, strict=True)]
            strong = [
                self.usual is not None and each.get(self.usual, 0.0) >= AGREES * wanted
                for each, wanted in zip(sums, chance, strict=True)
            ]
            if sum(strong) >= max(2, sum(weak)) and sum(strong) + sum(weak) == len(tensors):
                found += [tensor for tensor, alone in zip(tensors, weak, strict=True) if alone]
        return found

    @property
    def usual(self) -> str | None:
        """The hypothesis that most of the decided tensors have; that of the file where no tensor is decided."""
        names = Counter(tensor.decision.name for tensor in self.tensors if tensor.decision.name is not None)
        return names.most_common(1)[0][0] if names else self.whole.name


def layout_evidence(
    file: File, code_map: CodeMap, *, threads: int = 1, layers: int | None = None
) -> LayoutEvidence | None:
    """Ask the weights of a file how they are laid out; None for a file that has no matrices to ask.

    :param code_map: what the codes stand for
    :param threads: how many threads count
    :param layers: how many layers are looked at, evenly spread; None for all
    :raises FormatError: where the file cannot be read any more
    """
    found = roles(file, layers)
    if not found.matrices:
        return None
    return judge(found, *_Looking(file, found, code_map).look(threads))


class _Looking:
    """What reads payloads, by several threads: the counts of every matrix, and all comparisons.

    Threads take one matrix after another; who counts the last one of a layer compares this layer. The caller's thread makes
    the comparisons of Grams first, while others count already.
    """

    def __init__(self, file: File, found: Roles, code_map: CodeMap) -> None:
        self._source, self._found, self._code_map = file.source, found, code_map
        self._layers: dict[int, dict[tuple[int, str], Matrix]] = {layer: {} for layer in found.layers}
        for key, matrix in found.matrices.items():
            self._layers[key[0]][key] = matrix
        self._waiting = iter([key for matrices in self._layers.values() for key in matrices])
        self._left = {layer: len(matrices) for layer, matrices in self._layers.items()}
        # All counts are in one piece of memory: many small ones take the system milliseconds to hand out.
        sizes = [counts_size(each.rows, each.cols, _of_rows(each)) for each in found.matrices.values()]
        ends = np.cumsum([0, *sizes]).tolist()
        target = np.empty(ends[-1], dtype=np.uint32)
        self._targets = {key: target[at:to] for key, at, to in zip(found.matrices, ends, ends[1:], strict=False)}
        self._counts: dict[tuple[int, str], Counted] = {}
        self._compared: dict[int, tuple[list[Comparison], list[Comparison]]] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def look(self, threads: int) -> tuple[dict[tuple[int, str], Counted], list[Comparison]]:
        """With so many threads, the caller's among them: the counts, and the comparisons in the order of the file."""
        threads = min(threads, len(self._found.matrices))
        if threads < 2:
            grams = self._grams()
            self._work()
        else:
            with ThreadPoolExecutor(threads - 1) as pool:
                helpers = [pool.submit(self._work) for _ in range(threads - 1)]
                try:
                    grams = self._grams()
                    self._work()
                    for helper in helpers:
                        helper.result()
                finally:
                    self._stopped = True
        counts = {key: self._counts[key] for key in self._found.matrices}
        place = {key: number for number, key in enumerate(counts)}
        comparisons: list[Comparison] = []
        for kind in zip(*self._compared.values(), strict=True):
            of_kind = [comparison for of_layer in kind for comparison in of_layer]
            comparisons += sorted(of_kind, key=lambda comparison: place[comparison.matrix.key])
        return counts, [*comparisons, *grams]

    def _grams(self) -> list[Comparison]:
        few, reader = _few(self._found), GramReader(self._source, self._code_map)
        written = written_grams(reader, few)
        parts = (gram_comparisons(reader, few, written, key) for key in few.matrices)
        return [comparison for part in parts for comparison in part]

    def _work(self) -> None:
        """Count and compare until nothing is left, or somebody failed."""
        buffer = room()
        try:
            for key in self._waiting:
                if self._stopped:
                    return
                matrix = self._found.matrices[key]
                shape, of_rows, target = (matrix.rows, matrix.cols), _of_rows(matrix), self._targets[key]
                counted = count(self._source, matrix.start, *shape, self._code_map, buffer, of_rows, target)
                with self._lock:
                    self._counts[key] = counted
                    self._left[key[0]] -= 1
                    whole = not self._left[key[0]]
                if whole:
                    self._compare(key[0])
        except BaseException:
            self._stopped = True
            raise

    def _compare(self, layer: int) -> None:
        matrices = self._layers[layer]
        counts = {key: self._counts[key] for key in matrices}
        of_layer = self._found._replace(matrices=matrices)
        profiles, zeros = profile_comparisons(of_layer, counts), zero_channel_comparisons(of_layer, counts)
        self._compared[layer] = list(profiles), list(zeros)


def _of_rows(matrix: Matrix) -> bool:
    """Whether rows are counted: of what writes the hidden state they say nothing."""
    return matrix.role not in WRITERS


def _few(found: Roles) -> Roles:
    """The layers whose Grams are compared: as many as are cheap, two at least, evenly spread."""
    layers = found.layers
    weights = sum(matrix.rows * matrix.cols for matrix in found.matrices.values())
    many = max(2, len(layers) * GRAM_WEIGHTS // weights)
    if many >= len(layers):
        return found
    chosen = {layers[i * (len(layers) - 1) // (many - 1)] for i in range(many)}
    return found._replace(matrices={key: each for key, each in found.matrices.items() if key[0] in chosen})


def judge(found: Roles, counts: dict[tuple[int, str], Counted], comparisons: Sequence[Comparison]) -> LayoutEvidence:
    """Decide from comparisons that are made."""
    squares = _Squares(comparisons)
    every = range(len(comparisons))
    profiles = squares.decide([number for number in every if not comparisons[number].gram])
    grams = squares.decide([number for number in every if comparisons[number].gram])
    whole = _agreed(squares.decide(every), profiles, grams)
    by_matrix: dict[tuple[int, str], list[int]] = {}
    for number, one in enumerate(comparisons):
        by_matrix.setdefault(one.matrix.key, []).append(number)
    assumed = _side(whole.best)
    sides: dict[tuple[int, str], bool] = dict.fromkeys(found.matrices, assumed)
    decisions: dict[tuple[int, str], Decision] = {}
    for _ in range(ROUNDS):
        decisions = squares.decide_each(by_matrix, sides)
        again = {key: _side(decisions[key].name, assumed) if key in decisions else assumed for key in sides}
        if again == sides:
            break
        sides = again
    return LayoutEvidence(
        tuple(comparisons),
        whole,
        profiles,
        grams,
        tuple(
            TensorEvidence(found.matrices[key], decision)
            for key, decision in _confirmed(whole, decisions, by_matrix, squares)
        ),
        len(found.layers),
        found,
        counts,
    )


def _agreed(whole: Decision, *parts: Decision) -> Decision:
    """The decision, if each of the two statistics that was made says the same, by however little.

    What is not random and not trained, such as a payload that was half written, may have an order of its own in one of
    them; it does not have the same one in gains and in Grams.
    """
    agree = all(part.best == whole.name for part in parts if part.freedom)
    return whole if agree else whole._replace(name=None)


def _confirmed(
    whole: Decision,
    decisions: dict[tuple[int, str], Decision],
    by_matrix: dict[tuple[int, str], list[int]],
    squares: _Squares,
) -> Iterator[tuple[tuple[int, str], Decision]]:
    """The decisions on tensors; none for those of one layout together whose profiles speak for another one.

    In a file that is decided the profiles of a few tensors, which may be no more than noise, must do so by a margin.
    """
    groups: dict[str | None, list[int]] = {}
    for key, decision in decisions.items():
        of_profiles = (number for number in by_matrix[key] if not squares.comparisons[number].gram)
        groups.setdefault(decision.name, []).extend(of_profiles)
    profiles = {name: squares.decide(group) for name, group in groups.items()}
    for key, decision in decisions.items():
        of_group = profiles[decision.name]
        if whole.name is not None and of_group.name is None:
            yield key, decision
        else:
            yield key, _agreed(decision, of_group)


def _side(name: str | None, otherwise: bool = True) -> bool:
    """Whether a hypothesis leaves rows where they are."""
    return next((each.in_rows for each in HYPOTHESES if each.name == name), otherwise)


class _Squares:
    """Comparisons, and their scores squared, float64 [comparisons, how partners are read, hypotheses].

    Partners are read in rows, mixed, or (2) as the hypothesis reads its own. Channels that are written alike are read alike,
    never oppositely: a Gram that correlates negatively counts nothing.
    """

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self.comparisons = comparisons
        found = np.array([one.found for one in comparisons]).reshape(-1, 2, len(_NAMES))
        found[np.isnan(found)] = 0.0
        of_grams = [number for number, one in enumerate(comparisons) if one.gram]
        found[of_grams] = np.maximum(found[of_grams], 0.0)
        found *= found
        own = np.where(_IN_ROWS, found[:, 0], found[:, 1])
        self._squares = np.concatenate((found, own[:, None]), axis=1)
        self._fits = np.array([fitting(one.matrix.rows, one.matrix.cols) for one in comparisons])

    def decide(self, numbers: Sequence[int]) -> Decision:
        """Decide from comparisons together, partners being read as the hypothesis reads its own."""
        if not numbers:
            return decide(_NONE, 0)
        chosen = list(numbers)
        return _decided(self._squares[chosen, 2].sum(axis=0), self._fits[chosen].all(axis=0), len(chosen))

    def decide_each(
        self, groups: dict[tuple[int, str], list[int]], sides: dict[tuple[int, str], bool]
    ) -> dict[tuple[int, str], Decision]:
        """Decide on each matrix, whose comparisons are given.

        :param sides: how the rows of partners are read; those of one that is not here as the hypothesis reads its own
        """
        if not groups:
            return {}
        side = np.full(len(self.comparisons), 2)
        for number, one in enumerate(self.comparisons):
            if one.partners and (seen := [sides[key] for key in one.partners if key in sides]):
                side[number] = 0 if 2 * sum(seen) >= len(seen) else 1
        order = [number for group in groups.values() for number in group]
        freedoms = [len(group) for group in groups.values()]
        starts = np.cumsum([0, *freedoms[:-1]])
        sums = np.add.reduceat(self._squares[order, side[order]], starts, axis=0)
        return {
            key: _decided(row, self._fits[group[0]], len(group))
            for (key, group), row in zip(groups.items(), sums, strict=True)
        }


def _decided(sums: NDArray[np.float64], fits: Any, freedom: int) -> Decision:
    named = zip(_NAMES, sums.tolist(), fits.tolist(), strict=True)
    return decide({name: total for name, total, fit in named if fit}, freedom)
