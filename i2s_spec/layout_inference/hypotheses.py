"""The ways in which a payload may be laid out, and the decision between them by their scores.

The ways are the layouts of files, and accidents that occur with them. Each way but one permutes the columns of every
row and leaves the rows where they are; `rows-1x4` mixes four rows. Both are read from one table of counts: four rows of
the tensor as one row of bytes.

>>> [each.name for each in HYPOTHESES][:6]
['interleave-128', 'interleave-64', 'rows-1x4', 'sequential-msb', 'sequential-lsb', 'interleave-128, groups reversed']
>>> HYPOTHESES[0].places(128)[:3].tolist(), HYPOTHESES[3].places(128)[:3].tolist()
([3, 7, 11], [3, 2, 1])

`decide` names one hypothesis, or none:

    >>> [round(quantile(k)) for k in (1, 6, 36)]
    [47, 57, 113]
    >>> decide({"a": 906.0, "b": 94.0, "c": 66.0}, 36).name, decide({"a": 36.0, "b": 34.0, "c": 37.0}, 36).name
    ('a', None)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.codec.buffers import packed, shaped
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS, Layout

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Columns come in whole blocks, so that every row begins a block in every layout.
BLOCK: Final = 128
#: Bytes of a block.
BLOCK_BYTES: Final = BLOCK // 4


class Hypothesis(NamedTuple):
    """A layout, perhaps with an accident: `reversed` groups, `swapped` 32-bit words, a payload `shifted` by blocks."""

    name: str
    layout: Layout
    reversed: bool = False
    swapped: bool = False
    shifted: int = 0

    @property
    def plain(self) -> bool:
        """Whether it is a layout as declared, which a dialect can name."""
        return not (self.reversed or self.swapped or self.shifted)

    @property
    def in_rows(self) -> bool:
        """Whether rows stay where they are."""
        return self.layout.row_block == 1

    def fits(self, rows: int, cols: int) -> bool:
        """Whether a tensor of this shape can be laid out so, and read otherwise than canonically."""
        if self.shifted and cols == BLOCK:
            return False  # a row is one block: columns stay where they are
        if self.shifted < 0 and cols == 2 * BLOCK:
            return False  # of two blocks, early is late
        return cols % BLOCK == 0 and rows % self.layout.row_block == 0

    def places(self, cols: int) -> NDArray[np.intp]:
        """Where each column lies among the places of a row: four for each byte, the least pair of bits first.

        Of `rows-1x4`, where a row of bytes holds four rows, a place is a byte.
        """
        return _places(self, cols)

    def first_places(self, cols: int) -> list[int]:
        """Return the `places` of the columns of the first block: those of other blocks move on with their block, in
        a ring.
        """
        found = _block(self.layout)
        if self.reversed:
            found = [place ^ 3 for place in found]
        if self.swapped:
            found = [place ^ 3 << 2 for place in found]
        if self.shifted:
            found = [(place + self.shifted * BLOCK) % cols for place in found]
        return found


@lru_cache(maxsize=64)
def _places(each: Hypothesis, cols: int) -> NDArray[np.intp]:
    import numpy as np

    k = np.arange(cols)
    byte = np.asarray(each.layout.byte_of(k, 4, cols)).astype(np.intp)
    if not each.in_rows:
        return byte
    pair = np.broadcast_to(np.asarray(each.layout.shift_of(k, 4, cols)), k.shape).astype(np.intp) // 2
    if each.reversed:
        pair = 3 - pair
    if each.swapped:
        byte = byte ^ 3
    if each.shifted:
        byte = (byte + each.shifted * BLOCK_BYTES) % (cols // 4)
    return byte * 4 + pair


@lru_cache(maxsize=16)
def _block(layout: Layout) -> list[int]:
    """Return the places of the columns of the first block in a layout."""
    byte_of, shift_of = layout.byte_of, layout.shift_of
    if layout.row_block > 1:
        return [byte_of(k, 4, BLOCK) for k in range(BLOCK)]
    return [byte_of(k, 4, BLOCK) * 4 + shift_of(k, 4, BLOCK) // 2 for k in range(BLOCK)]


class Orders(NamedTuple):
    """The hypotheses that fit a shape: first those that leave rows where they are, `split` of them, then the others.

    `first` has the `first_places` of each, int32 [names, BLOCK]. `numbers` are their places in HYPOTHESES.
    """

    names: list[str]
    numbers: list[int]
    split: int
    first: memoryview[Any]


@lru_cache(maxsize=64)
def orders(rows: int, cols: int) -> Orders:
    """Return the hypotheses that fit a shape, and where each has its columns."""
    numbers = [n for side in (True, False) for n, each in enumerate(HYPOTHESES) if each.in_rows == side]
    numbers = [n for n in numbers if HYPOTHESES[n].fits(rows, cols)]
    found = [HYPOTHESES[n] for n in numbers]
    first = packed("i", [place for each in found for place in each.first_places(cols)])
    names, split = [each.name for each in found], sum(each.in_rows for each in found)
    return Orders(names, numbers, split, shaped(first, "i", len(found), BLOCK))


@lru_cache(maxsize=64)
def fitting(rows: int, cols: int) -> list[bool]:
    """Which of HYPOTHESES fit a shape."""
    return [each.fits(rows, cols) for each in HYPOTHESES]


def _made() -> tuple[Hypothesis, ...]:
    layouts = [layout for layout in LAYOUTS.values() if layout.in_gguf]
    interleaved = [layout for layout in layouts if layout.block > 4]
    plain = [Hypothesis(layout.name, layout) for layout in layouts]
    turned = [Hypothesis(f"{layout}, groups reversed", layout, reversed=True) for layout in interleaved]
    first = CANONICAL.layout
    return (
        *plain,
        *turned,
        Hypothesis(f"{first}, 32-bit words swapped", first, swapped=True),
        Hypothesis(f"{first}, one block late", first, shifted=1),
        Hypothesis(f"{first}, one block early", first, shifted=-1),
    )


#: Every way that is considered; layouts first, the canonical one foremost.
HYPOTHESES: Final = _made()


def named(layout: str) -> Hypothesis:
    """Return the plain hypothesis of a layout."""
    return next(each for each in HYPOTHESES if each.name == layout)


# --- decision --------------------------------------------------------------------------------------------------------
# Each comparison gives a score whose square, where nothing ties the two sides together, is distributed as that of a
# normal number; the sum of k of them as chi-square with k degrees of freedom. A hypothesis is decided where it leads
# every other by more than a chance of `CHANCE` ever gives to a single one, and has at least twice their sum: a trained
# model read wrongly still has some order in it (channels of a block stay in that block), and this order is shared by
# all wrong readings.

#: The chance that one hypothesis reaches the margin in untrained weights, and its normal quantile.
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
    """Return the value that a sum of `freedom` squares of normal numbers exceeds with a probability of CHANCE or more.

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
