"""This module decides between hypotheses by their scores, or does not.

Each comparison gives a score whose square, where nothing ties the two sides together, is distributed as that of a normal
number; the sum of k of them as chi-square with k degrees of freedom. A hypothesis is decided where it leads every other by
more than a chance of `CHANCE` ever gives to a single one, and has at least twice their sum: a trained model read wrongly
still has some order in it (channels of a block stay in that block), and this order is shared by all wrong readings.

    >>> [round(quantile(k)) for k in (1, 6, 36)]
    [47, 57, 113]
    >>> decide({"a": 906.0, "b": 94.0, "c": 66.0}, 36).name, decide({"a": 36.0, "b": 34.0, "c": 37.0}, 36).name
    ('a', None)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import sqrt
from typing import Final, NamedTuple

#: The chance that one hypothesis reaches the margin in weights that nobody trained, and its normal quantile.
CHANCE: Final = 1e-9
NORMAL: Final = 5.997807
#: How many times the next best sum the best must have.
RATIO: Final = 2.0


class Decision(NamedTuple):
    """The sums of squared scores by hypothesis, and which of them is decided, if any.

    `freedom` is how many scores each sum has; `margin` by how much the best leads and `wanted` by how much it must.
    """

    name: str | None
    best: str | None
    second: str | None
    margin: float
    wanted: float
    freedom: int
    sums: Mapping[str, float]


@lru_cache(maxsize=256)
def quantile(freedom: int) -> float:
    """What a sum of `freedom` squares of normal numbers exceeds with a probability of CHANCE, or a little more.

    By Wilson and Hilferty; for few degrees of freedom it is too large (46.8 for 37.3 at one), which is the careful side.
    """
    spread = 2 / (9 * freedom)
    return float(freedom * (1 - spread + NORMAL * sqrt(spread)) ** 3)


def decide(sums: Mapping[str, float], freedom: int) -> Decision:
    """Decide between hypotheses.

    :param sums: of squared scores, by hypothesis
    :param freedom: how many scores each has
    """
    if freedom < 1 or len(sums) < 2:
        return Decision(None, None, None, 0.0, 0.0, freedom, dict(sums))
    best = max(sums, key=sums.__getitem__)
    others = dict(sums)
    del others[best]
    second = max(others, key=others.__getitem__)
    margin = sums[best] - sums[second]
    wanted = max(quantile(freedom), (1 - 1 / RATIO) * sums[best])
    return Decision(best if margin >= wanted else None, best, second, margin, wanted, freedom, dict(sums))
