"""This module looks at channels that training has switched off: all-zero rows and columns, evidence of their own kind.

A channel of the feed-forward that is never used has an all-zero row in `ffn_gate` and in `ffn_up`, and an all-zero column in
`ffn_down`: in the released 2B-4T file the rows agree in all 30 layers and lie within the columns. The rows do not depend
on the order of the columns; the columns of `ffn_down` line up with them in the right layout only. Their chance is that of
drawing rows at random (hypergeometric), and its normal quantile the score, so that a few of them do not weigh as many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import exp, inf, lgamma, log, pi, sqrt
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.codec.buffers import packed, shaped
from i2s_spec.inspect.evidence import _bit_sums
from i2s_spec.inspect.evidence.hypotheses import BLOCK, orders

if TYPE_CHECKING:
    from i2s_spec.inspect.evidence.counted import Counted
    from i2s_spec.inspect.evidence.hypotheses import Hypothesis


#: Terms of a sum that are smaller than the greatest by a factor of e to this do not count.
NEGLIGIBLE: Final = 50.0


class ZeroChannels(NamedTuple):
    """The all-zero channels of one layer's feed-forward.

    `rows` are all zero in `ffn_gate` and `ffn_up`, `either` in one of them; `columns` are all zero in `ffn_down`, and `both`
    of the first are among these.
    """

    layer: int
    channels: int
    rows: int
    either: int
    columns: int
    both: int

    @property
    def score(self) -> float:
        """The normal quantile of the chance that so many rows lie among the columns, were these drawn at random; or less."""
        if self.both * self.channels <= self.rows * self.columns:
            return 0.0  # no more than are expected: that chance is not small
        return normal_of(log_tail(self.channels, self.rows, self.columns, self.both))


def log_tail(channels: int, rows: int, columns: int, both: int) -> float:
    """The logarithm of the chance that at least `both` of so many rows are among so many columns (hypergeometric)."""

    def choose(n: int, k: int) -> float:
        return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)

    most = min(rows, columns)
    if both <= max(0, rows + columns - channels):
        return 0.0
    terms: list[float] = []
    largest = -inf
    for k in range(both, most + 1):
        terms.append(choose(columns, k) + choose(channels - columns, rows - k))
        largest = max(largest, terms[-1])
        if terms[-1] < largest - NEGLIGIBLE:
            break  # beyond the greatest they only fall
    return min(0.0, largest + log(sum(exp(term - largest) for term in terms)) - choose(channels, rows))


def normal_of(log_chance: float) -> float:
    """A number that a normal one exceeds in magnitude with this chance, or with a greater one; 0 where it would be below 3.

    By the bound of Mills, P(|N| > z) is at least 2 (1 - 1/z^2) exp(-z^2 / 2) / (z sqrt(2 pi)).

    >>> round(normal_of(-50.0), 2)
    9.74
    """
    twice = -2 * log_chance
    square = twice - log(twice) - log(pi / 2) if twice > 1 else 0.0
    return sqrt(square) if square >= 9 else 0.0


def zero_comparisons(counts: Mapping[tuple[int, str], Counted]) -> Iterator[tuple[int, dict[bool, dict[str, float]]]]:
    """The scores of each layer that has all-zero rows and columns, by how rows are read and by hypothesis."""
    for layer, role in counts:
        names = [(layer, name) for name in ("ffn_gate", "ffn_up")]
        if role != "ffn_down" or not all(name in counts for name in names):
            continue
        down = counts[layer, role]
        if not any(_bit_sums.has_zero(down.base(in_rows)) for in_rows in (True, False)):
            continue  # no column is all zero
        scores: dict[bool, dict[str, float]] = {}
        read = orders(down.rows_count, down.cols_count)
        for side in (True, False):
            gate, up = (counts[name].rows_base(side) for name in names)
            if not len(gate) == len(up) == down.cols_count:
                break
            scores[side] = {}
            for in_rows, part in ((True, (0, read.split)), (False, (read.split, len(read.names)))):
                rows, either, columns, alike = _bit_sums.zeros_alike(gate, up, down.base(in_rows), read.first, *part)
                for name, both in zip(read.names[slice(*part)], alike, strict=True):
                    channels = ZeroChannels(layer, len(gate), rows, either, columns, both)
                    scores[side][name] = channels.score if rows else 0.0
        if len(scores) == 2 and any(any(each.values()) for each in scores.values()):
            yield layer, scores


def zero_channels(counts: Mapping[tuple[int, str], Counted], each: Hypothesis) -> Iterator[ZeroChannels]:
    """The all-zero channels of each layer that has any.

    :param counts: of matrices, by layer and role
    :param each: how they are read
    """
    for layer, role in counts:
        names = [(layer, name) for name in ("ffn_gate", "ffn_up")]
        if role != "ffn_down" or not all(name in counts for name in names):
            continue
        down = counts[layer, role]
        gate, up = (counts[name].rows_base(each.in_rows) for name in names)
        if not len(gate) == len(up) == down.cols_count:
            continue
        first = shaped(packed("i", each.first_places(down.cols_count)), "i", 1, BLOCK)
        rows, either, columns, (both,) = _bit_sums.zeros_alike(gate, up, down.base(each.in_rows), first, 0, 1)
        if rows or columns:
            yield ZeroChannels(layer, len(gate), rows, either, columns, both)
