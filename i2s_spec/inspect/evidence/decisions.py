"""This module decides from comparisons: of a file as a whole, and of each tensor.

Tensors are asked one by one, their partners being read as the file, or they themselves, were decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.inspect.evidence.decision import RATIO, Decision, decide, quantile
from i2s_spec.inspect.evidence.hypotheses import HYPOTHESES, fitting

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.inspect.evidence.comparisons import MatrixComparison
    from i2s_spec.inspect.evidence.roles import Roles

_NAMES: Final = [each.name for each in HYPOTHESES]
_NONE: Final = dict.fromkeys(_NAMES, 0.0)
_IN_ROWS: Final = np.array([each.in_rows for each in HYPOTHESES])

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
    groups = _Groups(squares, by_matrix)
    assumed = next((each.in_rows for each in HYPOTHESES if each.name == whole.best), True)
    sides = dict.fromkeys(found.matrices, assumed)
    sums = groups.sums(sides)
    for _ in range(ROUNDS - 1):
        again = {**sides, **groups.sides(sums, assumed)}
        if again == sides:
            break
        sides = again
        sums = groups.sums(sides)
    decisions = groups.decisions(sums)
    return Decisions(whole, profiles, grams, dict(_confirmed(whole, decisions, by_matrix, squares)))


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
        if decision.name is None or (whole.name is not None and of_group.name is None):
            yield key, decision
        else:
            yield key, _agreed(decision, of_group)


class _Squares:
    """Comparisons, and their scores squared, float64 [comparisons, how partners are read, hypotheses].

    Partners are read in rows, mixed, or (2) as the hypothesis reads its own. Channels that are written alike are read alike,
    never oppositely: a Gram that correlates negatively counts nothing.
    """

    def __init__(self, comparisons: Sequence[MatrixComparison]) -> None:
        self.comparisons = comparisons
        found = np.array([one.found for one in comparisons]).reshape(-1, 2, len(_NAMES))
        found[np.isnan(found)] = 0.0
        of_grams = [number for number, one in enumerate(comparisons) if one.gram]
        found[of_grams] = np.maximum(found[of_grams], 0.0)
        found *= found
        own = np.where(_IN_ROWS, found[:, 0], found[:, 1])
        self.squares = np.concatenate((found, own[:, None]), axis=1)
        self.fits = np.array([fitting(one.matrix.rows, one.matrix.cols) for one in comparisons])

    def decide(self, numbers: Sequence[int]) -> Decision:
        """Decide from comparisons together, partners being read as the hypothesis reads its own."""
        if not numbers:
            return decide(_NONE, 0)
        chosen = list(numbers)
        return _decided(self.squares[chosen, 2].sum(axis=0), self.fits[chosen].all(axis=0), len(chosen))


class _Groups:
    """The comparisons of each matrix, which are decided together.

    :param by_matrix: the numbers of comparisons, by layer and role; some matrix at least
    """

    def __init__(self, squares: _Squares, by_matrix: dict[tuple[int, str], list[int]]) -> None:
        self._squares, self._keys = squares, list(by_matrix)
        self._order = np.array([number for group in by_matrix.values() for number in group])
        self._freedoms = [len(group) for group in by_matrix.values()]
        self._starts = np.cumsum([0, *self._freedoms[:-1]])
        self._fits = squares.fits[[group[0] for group in by_matrix.values()]]
        self._partnered = [(number, one.partners) for number, one in enumerate(squares.comparisons) if one.partners]

    def sums(self, sides: dict[tuple[int, str], bool]) -> NDArray[np.float64]:
        """The sums of squares of each matrix, float64 [matrices, hypotheses].

        :param sides: how the rows of partners are read; those of one that is not here as the hypothesis reads its own
        """
        side = np.full(len(self._squares.comparisons), 2)
        for number, partners in self._partnered:
            if seen := [sides[key] for key in partners if key in sides]:
                side[number] = 0 if 2 * sum(seen) >= len(seen) else 1
        found: NDArray[np.float64] = np.add.reduceat(
            self._squares.squares[self._order, side[self._order]], self._starts, axis=0
        )
        return found

    def sides(self, sums: NDArray[np.float64], otherwise: bool) -> dict[tuple[int, str], bool]:
        """Whether rows of each matrix stay where they are, as it is decided; `otherwise` where it is not.

        This is `decide` for all of them at once.
        """
        fitting_sums = np.where(self._fits, sums, -np.inf)
        every = np.arange(len(sums))
        best = fitting_sums.argmax(axis=1)
        most = fitting_sums[every, best]
        fitting_sums[every, best] = -np.inf
        second = fitting_sums.max(axis=1)
        wanted = np.maximum([quantile(freedom) for freedom in self._freedoms], (1 - 1 / RATIO) * most)
        decided = (most - second >= wanted) & np.isfinite(second)
        found = np.where(decided, _IN_ROWS[best], otherwise)
        return dict(zip(self._keys, found.tolist(), strict=True))

    def decisions(self, sums: NDArray[np.float64]) -> dict[tuple[int, str], Decision]:
        """The decision on each matrix."""
        parts = zip(self._keys, sums, self._fits, self._freedoms, strict=True)
        return {key: _decided(row, fits, freedom) for key, row, fits, freedom in parts}


def _decided(sums: NDArray[np.float64], fits: Any, freedom: int) -> Decision:
    named = zip(_NAMES, sums.tolist(), fits.tolist(), strict=True)
    return decide({name: total for name, total, fit in named if fit}, freedom)
