"""Decisions from comparisons: of a file as a whole, and of each tensor.

Tensors are decided one by one, while their partners are read as the file, or they themselves, were decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.codec.buffers import packed, zeros
from i2s_spec.layout_inference import _bit_sums
from i2s_spec.layout_inference.hypotheses import HYPOTHESES, Decision, decide, fitting

if TYPE_CHECKING:
    from i2s_spec.layout_inference.comparisons import MatrixComparison
    from i2s_spec.layout_inference.roles import Roles

_NAMES: Final = [each.name for each in HYPOTHESES]
_NONE: Final = dict.fromkeys(_NAMES, 0.0)
_IN_ROWS: Final = {each.name: each.in_rows for each in HYPOTHESES}

#: Where `_Squares` has the scores for partners that are read as the hypothesis reads its own.
_AS_OWN: Final = 2

#: How often tensors are asked again with their partners read as these were decided.
ROUNDS: Final = 3


class Decisions(NamedTuple):
    """What is decided of all comparisons together, of profiles and Grams alone, and of each matrix by layer and role."""

    whole: Decision
    profiles: Decision
    grams: Decision
    tensors: dict[tuple[int, str], Decision]


def decide_all(found: Roles, comparisons: Sequence[MatrixComparison]) -> Decisions:
    """Decide from comparisons that are made."""
    squares = _Squares(comparisons)
    every = range(len(comparisons))
    profiles = squares.decide([number for number in every if not comparisons[number].gram])
    grams = squares.decide([number for number in every if comparisons[number].gram])
    whole = _agreed(squares.decide(every), profiles, grams)
    by_matrix: dict[tuple[int, str], list[int]] = {}
    for number, one in enumerate(comparisons):
        by_matrix.setdefault(one.matrix.key, []).append(number)
    if not by_matrix:
        return Decisions(whole, profiles, grams, {})
    assumed = next((each.in_rows for each in HYPOTHESES if each.name == whole.best), True)
    sides = dict.fromkeys(found.matrices, assumed)
    decisions = squares.by_matrix(by_matrix, sides)
    for _ in range(ROUNDS - 1):
        again = {**sides, **{key: _IN_ROWS.get(one.name or "", assumed) for key, one in decisions.items()}}
        if again == sides:
            break
        sides = again
        decisions = squares.by_matrix(by_matrix, sides)
    return Decisions(whole, profiles, grams, dict(_confirmed(whole, decisions, by_matrix, squares)))


def _agreed(whole: Decision, *parts: Decision) -> Decision:
    """Return the decision, if each of the two statistics that was made says the same, by however little.

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
    """Yield the decisions on tensors; none for those of one layout together whose profiles speak for another one.

    In a file that is decided the profiles of a few tensors, which may be no more than noise, must do so by a margin.
    """
    groups: dict[str | None, list[int]] = {}
    for key, decision in decisions.items():
        of_profiles = (number for number in by_matrix[key] if not squares.comparisons[number].gram)
        groups.setdefault(decision.name, []).extend(of_profiles)
    profiles = {name: squares.decide(group) for name, group in groups.items()}
    for key, decision in decisions.items():
        of_group = profiles[decision.name]
        if decision.name is None or (whole.name is not None and of_group.name is None):
            yield key, decision
        else:
            yield key, _agreed(decision, of_group)


class _Squares:
    """Comparisons, and their scores squared, three rows for each (`squares_reference`): by how partners are read.

    Partners are read in rows, mixed, or (`_AS_OWN`) as the hypothesis reads its own. Channels that are written alike are
    read alike, never oppositely: a Gram that correlates negatively counts nothing.
    """

    def __init__(self, comparisons: Sequence[MatrixComparison]) -> None:
        self.comparisons = comparisons
        self._squares = zeros("d", 3 * len(_NAMES) * len(comparisons))
        found = packed("d", [score for one in comparisons for row in one.found for score in row])
        grams = bytes(one.gram for one in comparisons)
        _bit_sums.squares(found, grams, bytes(_IN_ROWS.values()), self._squares)

    def decide(self, numbers: Sequence[int]) -> Decision:
        """Decide from comparisons together, partners being read as the hypothesis reads its own."""
        if not numbers:
            return decide(_NONE, 0)
        return self._decided(numbers, [_AS_OWN] * len(numbers))

    def by_matrix(
        self, groups: dict[tuple[int, str], list[int]], sides: dict[tuple[int, str], bool]
    ) -> dict[tuple[int, str], Decision]:
        """Return the decision on each matrix.

        :param groups: the numbers of its comparisons
        :param sides: how the rows of partners are read; those of one that is not here as the hypothesis reads its own
        """
        return {
            key: self._decided(numbers, [self._side(number, sides) for number in numbers])
            for key, numbers in groups.items()
        }

    def _side(self, number: int, sides: dict[tuple[int, str], bool]) -> int:
        seen = [sides[key] for key in self.comparisons[number].partners if key in sides]
        if not seen:
            return _AS_OWN
        return 0 if 2 * sum(seen) >= len(seen) else 1

    def _decided(self, numbers: Sequence[int], sides: Sequence[int]) -> Decision:
        sums = _bit_sums.sums_of_squares(self._squares, numbers, sides, len(_NAMES))
        shapes = {(self.comparisons[number].matrix.rows, self.comparisons[number].matrix.cols) for number in numbers}
        fits = [all(each) for each in zip(*(fitting(*shape) for shape in shapes), strict=True)]
        return decide({name: total for name, total, fit in zip(_NAMES, sums, fits, strict=True) if fit}, len(numbers))


def squares_reference(found: list[list[float]], gram: bool) -> tuple[list[float], list[float], list[float]]:
    """Squares of the scores of a comparison: where rows of partners stay, where not, and as the hypothesis has its own."""
    first, second = ([0.0 if isnan(score) or (gram and score < 0) else score * score for score in row] for row in found)
    return first, second, [a if in_rows else b for in_rows, a, b in zip(_IN_ROWS.values(), first, second, strict=True)]
