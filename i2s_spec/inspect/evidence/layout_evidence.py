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
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from i2s_spec.inspect.evidence.comparisons import (
    Comparison,
    gram_comparisons,
    profile_comparisons,
    written_grams,
    zero_channel_comparisons,
)
from i2s_spec.inspect.evidence.counted import Counted, count, room
from i2s_spec.inspect.evidence.decision import Decision, decide
from i2s_spec.inspect.evidence.hypotheses import HYPOTHESES, Hypothesis, fitting
from i2s_spec.inspect.evidence.roles import WRITERS, Matrix, Roles, roles

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.schema.dialect import CodeMap

#: Weights of the layers whose Grams are compared, about; two layers at least.
GRAM_WEIGHTS: Final = 1 << 24

_NAMES: Final = [each.name for each in HYPOTHESES]
_NONE: Final = [0.0] * len(_NAMES)
_IN_ROWS: Final = np.array([each.in_rows for each in HYPOTHESES])

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
    return judge(found, *_looked(file, found, code_map, threads))


def _looked(
    file: File, found: Roles, code_map: CodeMap, threads: int
) -> tuple[dict[tuple[int, str], Counted], list[Comparison]]:
    """What reads payloads: the counts of every matrix, and all comparisons.

    Each layer is counted and compared by one thread, and Grams by whoever is free.
    """
    local = threading.local()

    def one(layer: int) -> tuple[dict[tuple[int, str], Counted], list[Comparison], list[Comparison]]:
        if not hasattr(local, "buffer"):
            local.buffer = room()
        matrices = {key: matrix for key, matrix in found.matrices.items() if key[0] == layer}
        counts = {
            key: count(
                file.source, matrix.start, matrix.rows, matrix.cols, code_map, local.buffer, key[1] not in WRITERS
            )
            for key, matrix in matrices.items()
        }
        of_layer = found._replace(matrices=matrices)
        return counts, list(profile_comparisons(of_layer, counts)), list(zero_channel_comparisons(of_layer, counts))

    few, layers = _few(found), found.layers
    if threads < 2:
        written = written_grams(file.source, few, code_map)
        parts = [gram_comparisons(file.source, few, code_map, written, key) for key in few.matrices]
        looked = [one(layer) for layer in layers]
    else:
        with ThreadPoolExecutor(threads) as pool:
            writing = pool.submit(written_grams, file.source, few, code_map)
            waiting = [pool.submit(one, layer) for layer in layers]
            written = writing.result()
            grams = [pool.submit(gram_comparisons, file.source, few, code_map, written, key) for key in few.matrices]
            parts, looked = [each.result() for each in grams], [each.result() for each in waiting]
    of_layers = {key: counted for of_layer, _, _ in looked for key, counted in of_layer.items()}
    counts = {key: of_layers[key] for key in found.matrices}
    place = {key: number for number, key in enumerate(counts)}
    comparisons: list[Comparison] = []
    for kind in zip(*((profiles, zeros) for _, profiles, zeros in looked), strict=True):  # in the order of the file
        of_kind = [comparison for of_layer in kind for comparison in of_layer]
        comparisons += sorted(of_kind, key=lambda comparison: place[comparison.matrix.key])
    return counts, [*comparisons, *(comparison for part in parts for comparison in part)]


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
    squared = [_Squared(each) for each in comparisons]
    profiles = _decide([each for each in squared if not each.comparison.gram], {})
    grams = _decide([each for each in squared if each.comparison.gram], {})
    whole = _agreed(_decide(squared, {}), profiles, grams)
    by_matrix: dict[tuple[int, str], list[_Squared]] = {}
    for one in squared:
        by_matrix.setdefault(one.comparison.matrix.key, []).append(one)
    assumed = _side(whole.best)
    sides: dict[tuple[int, str], bool] = dict.fromkeys(found.matrices, assumed)
    decisions: dict[tuple[int, str], Decision] = {}
    for _ in range(ROUNDS):
        decisions = {key: _decide(of, sides) for key, of in by_matrix.items()}
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
            TensorEvidence(found.matrices[key], decision) for key, decision in _confirmed(whole, decisions, by_matrix)
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
    whole: Decision, decisions: dict[tuple[int, str], Decision], by_matrix: dict[tuple[int, str], list[_Squared]]
) -> Iterator[tuple[tuple[int, str], Decision]]:
    """The decisions on tensors; none for those of one layout together whose profiles speak for another one.

    In a file that is decided the profiles of a few tensors, which may be no more than noise, must do so by a margin.
    """
    groups: dict[str | None, list[_Squared]] = {}
    for key, decision in decisions.items():
        groups.setdefault(decision.name, []).extend(one for one in by_matrix[key] if not one.comparison.gram)
    profiles = {name: _decide(group, {}) for name, group in groups.items()}
    for key, decision in decisions.items():
        of_group = profiles[decision.name]
        if whole.name is not None and of_group.name is None:
            yield key, decision
        else:
            yield key, _agreed(decision, of_group)


def _side(name: str | None, otherwise: bool = True) -> bool:
    """Whether a hypothesis leaves rows where they are."""
    return next((each.in_rows for each in HYPOTHESES if each.name == name), otherwise)


class _Squared:
    """A comparison, and its scores squared as `[how partners are read][hypothesis]`.

    Partners are read in rows, mixed, or (2) as the hypothesis reads its own. Channels that are written alike are read alike,
    never oppositely: a Gram that correlates negatively counts nothing.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        scores = comparison.scores
        found = np.array([[*map(scores[side].get, _NAMES, _NONE)] for side in (True, False)])
        if comparison.gram:
            np.maximum(found, 0.0, out=found)
        found *= found
        self.sides = np.concatenate((found, np.where(_IN_ROWS, found[0], found[1])[None]))


def _decide(compared: Sequence[_Squared], sides: dict[tuple[int, str], bool]) -> Decision:
    """Decide from the sums of squared scores.

    :param sides: how the rows of partners are read; those of a partner that is not here as the hypothesis reads its own
    """
    parts = []
    for one in compared:
        seen = [sides[key] for key in one.comparison.partners if key in sides] if sides else []
        parts.append(one.sides[2 if not seen else 0 if 2 * sum(seen) >= len(seen) else 1])
    sums = (parts[0] if len(parts) == 1 else np.sum(parts, axis=0)).tolist() if parts else _NONE
    fits = {fitting(one.comparison.matrix.rows, one.comparison.matrix.cols) for one in compared}
    named = zip(_NAMES, sums, strict=True)
    return decide({name: total for name, total in named if all(name in fit for fit in fits)}, len(compared))
