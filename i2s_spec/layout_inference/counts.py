"""The counts of one payload, read once, in pieces: how many weights that are not 0 each row and column has.

What is kept serves every layout: `Counted.columns` and `Counted.rows` give the counts as a hypothesis reads them.
`zero_channels` finds channels that are switched off, `balance` the two codes that occur equally often:

    >>> balance((344, 312, 344, 0), 3).pair, balance((34400, 31200, 34420, 0), 3).pair
    (None, (0, 2))
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from math import exp, inf, lgamma, log, pi, sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.codec.buffers import packed, shaped, zeros
from i2s_spec.gguf.source import FileSource
from i2s_spec.layout_inference import _bit_sums
from i2s_spec.layout_inference.hypotheses import BLOCK, orders
from i2s_spec.layout_inference.profiles import BitSums, sum_kernel_row
from i2s_spec.schema.dialect import CANONICAL, CODE_MAPS, CodeMap

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.gguf.source import Source
    from i2s_spec.layout_inference.hypotheses import Hypothesis

#: Bytes that are read at once, about: they stay in the second-level cache while they are counted.
PIECE: Final = 1 << 19
#: Rows of bytes that kernels take at once; a piece has whole tiles of them where it has room for one.
TILE: Final = 32
#: Rows and columns of the largest tensor that is examined.
MOST: Final = 1 << 18

#: Vectors that begin at multiples of this are loaded at once.
LINE: Final = 64


class Counted:
    """The counts of one tensor.

    :param target: uint32, of `counts_size`: two counts for each column, by places, where rows stay where they are, and
        where not; then two for each row likewise, if rows were counted
    :param rows_count: rows of the tensor
    :param cols_count: its columns
    """

    def __init__(self, target: memoryview[Any], rows_count: int, cols_count: int) -> None:
        self.rows_count = rows_count
        self.cols_count = cols_count
        self._columns, self._rows = target[: 2 * cols_count], target[2 * cols_count :]

    @property
    def bases(self) -> NDArray[np.uint32]:
        """Both `base`, uint32 [2, cols]."""
        import numpy as np

        return np.asarray(self._columns).reshape(2, -1)

    def base(self, in_rows: bool) -> memoryview[Any]:
        """Weights that are not 0 by the place of a column, as `Hypothesis.places` numbers places, uint32 [cols]."""
        return self._columns[: self.cols_count] if in_rows else self._columns[self.cols_count :]

    def rows_base(self, in_rows: bool) -> memoryview[Any]:
        """Weights that are not 0 in each row, uint32 [rows], by whether rows stay where they are; or empty."""
        return self._rows[: len(self._rows) // 2] if in_rows else self._rows[len(self._rows) // 2 :]

    def columns(self, each: Hypothesis) -> NDArray[np.uint32]:
        """Weights that are not 0 in each column, uint32 [cols]."""
        import numpy as np

        found: NDArray[np.uint32] = np.asarray(self.base(each.in_rows))[each.places(self.cols_count)]
        return found

    def rows(self, each: Hypothesis) -> NDArray[np.uint32]:
        """Weights that are not 0 in each row, uint32 [rows]; those of shifted payloads are as of unshifted ones.

        Empty where rows were not counted.
        """
        import numpy as np

        return np.asarray(self.rows_base(each.in_rows))


def totals_reference(
    pairs: NDArray[np.uint32], stretches: NDArray[np.uint32], height: int, others: bool
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the counts of `Counted`: by places of columns, and by rows, if bytes hold four columns and if four rows.

    :param pairs: uint32 [4, cols]
    :param stretches: uint32 [rows, 4]
    :param height: rows of the tensor
    :param others: whether those that are not set are counted
    :returns: uint32 [2, cols] and uint32 [2, rows]
    """
    import numpy as np

    by_place = np.stack((pairs.reshape(4, 4, -1).sum(axis=1).T.reshape(-1), pairs.sum(axis=0)))
    of_four = stretches.reshape(-1, 4, 4).sum(axis=1)[:, ::-1]  # the first row has the highest pair
    by_row = np.stack((stretches.sum(axis=1), of_four.reshape(-1)))
    if others:
        by_place, by_row = height - by_place, pairs.shape[1] - by_row
    return by_place.astype(np.uint32), by_row.astype(np.uint32)


def looked_at(rows: int, cols: int) -> bool:
    """Whether a tensor of this shape can be counted: whole blocks in a row, groups of four rows, and no huge side."""
    return 0 < rows <= MOST and 0 < cols <= MOST and cols % 128 == 0 and rows % 4 == 0


def count(
    source: Source,
    start: int,
    rows: int,
    cols: int,
    code_map: CodeMap,
    buffer: memoryview | None = None,
    of_rows: bool = True,
    target: memoryview[Any] | None = None,
) -> Counted:
    """Read a payload and count.

    :param start: of the payload in the source
    :param code_map: which code is 0; the code that is unused is taken to be missing
    :param buffer: for what is read, as `room` gives it
    :param of_rows: whether rows are counted, too
    :param target: where the counts go, uint32 [counts_size(rows, cols, of_rows)]
    :raises FormatError: where the source does not hold the payload
    """
    either, others = counted_bits(code_map)
    step, size = step_of(cols), rows * cols // 4
    if buffer is None:
        buffer = room(min(size, max(PIECE, MOST)))
    if target is None:
        target = zeros("I", counts_size(rows, cols, of_rows))
    columns = shaped(target[: 2 * cols], "I", 2, cols)
    along = shaped(target[2 * cols :], "I", 2, rows) if of_rows else None
    if type(source) is not FileSource or not _bit_sums.count_file(
        sum_kernel_row(), source.fileno(), start, rows, buffer, step, either, others, columns, along
    ):  # a read that failed is repeated, to raise its error
        sums = BitSums(rows // 4, cols, cols // 4, either, along=of_rows)
        for at in range(0, size, step):
            piece = buffer[: min(step, size - at)]
            source.readinto(start + at, piece)
            sums.add(piece)
        _bit_sums.totals(sums.columns, sums.segments, rows, others, columns, along)
    return Counted(target, rows, cols)


def counts_size(rows: int, cols: int, of_rows: bool) -> int:
    """How many numbers the counts of a matrix are."""
    return 2 * (cols + rows if of_rows else cols)


def room(size: int = max(PIECE, MOST)) -> memoryview:
    """Return a buffer for what is read, at a multiple of LINE."""
    raw = _bit_sums.unwritten("B", size + LINE)
    first = _bit_sums.line_offset(raw)
    return raw[first : first + size]


@cache
def counted_bits(code_map: CodeMap) -> tuple[bool, bool]:
    """Whether a weight counts where either bit of its code is set, or where the lower one is; and whether others do."""
    # Codes 1 and 3 have the lower bit, 2 and 3 the upper one. Where 1 is that of 0 and 3 is missing, those without the lower
    # bit count; where 0 is and 3 is missing, those with either; else 3 and another one are not 0 and have the lower bit.
    zero, full = code_map.code_of(0), code_map.unused != 3
    return not full and zero != 1, not full and zero == 1


def step_of(cols: int) -> int:
    """Bytes that are read at once, whole tiles where there is room for one."""
    many = PIECE // cols
    return max(1, many // TILE * TILE if many >= TILE else many // 2 * 2) * cols


# --- zeros -----------------------------------------------------------------------------------------------------------
# Channels that training has switched off: all-zero rows and columns, evidence of their own kind.
#
# A channel of the feed-forward that is never used has an all-zero row in `ffn_gate` and in `ffn_up`, and an all-zero
# column in `ffn_down`: in the released 2B-4T file the rows agree in all 30 layers and lie within the columns. The rows
# do not depend on the order of the columns; the columns of `ffn_down` line up with them in the right layout only. Their
# chance is that of drawing rows at random (hypergeometric), and its normal quantile the score, so that a few of them do
# not weigh as many.

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
    """Return the logarithm of the chance that at least `both` of so many rows are among so many columns
    (hypergeometric).
    """

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
    """Return a number that a normal one exceeds in magnitude with this chance, or with a greater one; 0 where it
    would be below 3.

    By the bound of Mills, P(|N| > z) is at least 2 (1 - 1/z^2) exp(-z^2 / 2) / (z sqrt(2 pi)).

    >>> round(normal_of(-50.0), 2)
    9.74
    """
    twice = -2 * log_chance
    square = twice - log(twice) - log(pi / 2) if twice > 1 else 0.0
    return sqrt(square) if square >= 9 else 0.0


def zero_comparisons(counts: Mapping[tuple[int, str], Counted]) -> Iterator[tuple[int, dict[bool, dict[str, float]]]]:
    """Yield the scores of each layer that has all-zero rows and columns, by how rows are read and by hypothesis."""
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
    """Yield the all-zero channels of each layer that has any.

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


# --- balance ---------------------------------------------------------------------------------------------------------
# Which two of the codes in use occur equally often: in trained weights those of -1 and +1.
#
# Of two codes that are equally likely, one occurs n / 2 times among n of either, with a standard deviation of half the
# root of n. Trained weights are not balanced exactly (2B-4T within 0.34 %), which is many standard deviations in a
# billion weights; so a pair is decided by comparison: every other pair must be far from balance, and farther by
# `RATIO`.

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
    """Return the code map that counts of codes speak for: of those that leave the rarest code unused, the one whose
    -1 and +1 balance; the first of them where no pair is decided."""
    rarest = min(range(3, -1, -1), key=lambda code: counts[code])
    maps = [each for each in CODE_MAPS.values() if each.unused == rarest]
    pair = balance(counts, rarest).pair
    fitting = [each for each in maps if pair == tuple(sorted((each.code_of(-1), each.code_of(1))))]
    return next(iter(fitting or maps), CANONICAL.code_map)


def foreign_code_map(counts: Sequence[int], payloads: Iterable[Sequence[int]]) -> CodeMap | None:
    """Return the code map that the codes of all payloads decide, where the canonical one is farther from balance
    than trained weights are: in all payloads together, and in nine of ten. What was not written is off balance, too,
    in some.

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
