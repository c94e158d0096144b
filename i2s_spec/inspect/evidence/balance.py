"""This module tests which two of the codes in use occur equally often: in trained weights those of -1 and +1.

Of two codes that are equally likely, one occurs n / 2 times among n of either, with a standard deviation of half the root of
n. Trained weights are not balanced exactly (2B-4T within 0.34 %), which is many standard deviations in a billion weights;
so a pair is decided by comparison: every other pair must be far from balance, and farther by `RATIO`.

    >>> balance((344, 312, 344, 0), 3).pair, balance((34400, 31200, 34420, 0), 3).pair
    (None, (0, 2))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import sqrt
from typing import Final, NamedTuple

from i2s_spec.schema.dialect import CANONICAL, CODE_MAPS, CodeMap

#: Standard deviations by which every other pair must be off balance, and how many times those of the best pair.
FAR: Final = 10.0
RATIO: Final = 4.0
#: How far apart the codes of -1 and +1 are in no trained model that is known: three times as far as in 2B-4T, the farthest.
APART: Final = 0.01


class Balance(NamedTuple):
    """How far each pair of codes is off balance, in standard deviations, and the pair that is decided, if any."""

    pair: tuple[int, int] | None
    sigmas: dict[tuple[int, int], float]


def sigma(one: int, other: int) -> float:
    """How far two counts are from being equal, in standard deviations of a fair coin."""
    return abs(one - other) / sqrt(one + other) if one + other else 0.0


def balance(counts: Sequence[int], unused: int) -> Balance:
    """Test the pairs of the three codes in use.

    :param counts: how often each of the codes 0 to 3 occurs
    :param unused: the code that means nothing
    """
    used = [code for code in range(4) if code != unused]
    sigmas = {pair: sigma(counts[pair[0]], counts[pair[1]]) for pair in combinations(used, 2)}
    best, second, _ = sorted(sigmas, key=lambda pair: sigmas[pair])
    decided = sigmas[second] >= max(FAR, RATIO * sigmas[best])
    return Balance(best if decided else None, sigmas)


def likely_code_map(counts: Sequence[int]) -> CodeMap:
    """The code map that counts of codes speak for: of those that leave the rarest code unused, the one whose -1 and +1
    balance; the first of them where no pair is decided."""
    rarest = min(range(3, -1, -1), key=lambda code: counts[code])
    maps = [each for each in CODE_MAPS.values() if each.unused == rarest]
    pair = balance(counts, rarest).pair
    fitting = [each for each in maps if pair == tuple(sorted((each.code_of(-1), each.code_of(1))))]
    return next(iter(fitting or maps), CANONICAL.code_map)


def foreign_code_map(counts: Sequence[int], payloads: Iterable[Sequence[int]]) -> CodeMap | None:
    """The code map that the codes of all payloads decide, where the canonical one is farther from balance than trained
    weights are: in all payloads together, and in nine of ten. What was not written is off balance, too, in some.

    :param counts: how often the codes 0 to 3 occur in all
    :param payloads: how often they occur in each
    """
    canonical = CANONICAL.code_map.code_of(-1), CANONICAL.code_map.code_of(1)
    found = likely_code_map(counts)
    signs = found.code_of(-1), found.code_of(1)
    if found == CANONICAL.code_map or balance(counts, found.unused).pair != tuple(sorted(signs)):
        return None
    minus, plus = (counts[code] for code in canonical)
    if abs(minus - plus) < APART * (minus + plus):
        return None
    nearer = [sigma(*(each[code] for code in signs)) < sigma(*(each[code] for code in canonical)) for each in payloads]
    return found if 10 * sum(nearer) >= 9 * len(nearer) else None
