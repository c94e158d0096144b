"""The sums and scores of evidence in NumPy, where `pyx/_bit_sums.pyx` is not compiled (`codec._cpu`).

`profiles`, `counts`, `grams` and `comparisons` define them, and import this module; so they are written here again.
"""

from __future__ import annotations

from math import isnan, nan, sqrt
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.codec._cpu import read_at
from i2s_spec.codec.buffers import zeros
from i2s_spec.codec.portable import portable_needs, portable_sets

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Elements of the longest profile, and their greatest count.
_LONGEST: Final = 1 << 20
#: Columns of a block, whose order other blocks repeat.
_REPEATS: Final = 128

kernel_sets = score_sets = gram_sets = portable_sets
kernel_needs = portable_needs


# --- counts ----------------------------------------------------------------------------------------------------------


def planes_size(width: int, segment: int) -> int:
    """Return the bytes of the planes of rows: there are none."""
    return 1


def add_bit_sums(
    row: int, data: Any, width: int, segment: int, either: bool, columns: Any, segments: Any, first: int, planes: Any,
    held: int, last: bool,
) -> int:  # fmt: skip
    """Add the sums of whole rows of `width` bytes to `columns` [4, width], and write those of each segment of `segment`
    bytes to `segments` [segments, 4], from the segment `first` on, unless that is None.

    :returns: 0: all sums are in `columns`
    """
    import numpy as np

    raw = np.frombuffer(data, dtype=np.uint8)
    if width < 1 or segment < 1 or width % segment or raw.size % width:
        raise ValueError("the bytes are not whole rows of whole segments")
    sums = np.asarray(columns)
    if sums.shape != (4, width):
        raise ValueError("the counters have another shape")
    codes = raw >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & np.uint8(3)
    is_set = codes != 0 if either else codes & 1 != 0
    sums += is_set.reshape(4, -1, width).sum(axis=1, dtype=np.uint32)
    if segments is not None:
        found, count = np.asarray(segments), raw.size // segment
        if found.shape[1:] != (4,) or not 0 <= first <= len(found) - count:
            raise ValueError("the counters have another shape")
        found[first : first + count] = is_set.reshape(4, -1, segment).sum(axis=2, dtype=np.uint32).T
    return 0


def count_file(
    row: int, descriptor: int, start: int, height: int, buffer: Any, step: int, either: bool, others: bool, columns: Any,
    rows: Any,
) -> bool:  # fmt: skip
    """Write the counts of a matrix of a file: of `height` rows, which are read `step` bytes at a time, to `columns`
    [2, cols] and `rows` [2, height], or None, in the form of `totals`; return False if the file ends before the matrix."""
    cols = columns.shape[1]
    if cols < 4 or cols % 4 or height < 4 or height % 4 or step < cols or step % cols:
        raise ValueError("the bytes are not whole rows of whole segments")
    size, pairs = height // 4 * cols, zeros("I", 4, cols)
    stretches = None if rows is None else zeros("I", height, 4)
    for at in range(0, size, step):
        part = read_at(descriptor, start + at, min(step, size - at))
        if len(part) < min(step, size - at):
            return False
        add_bit_sums(row, part, cols, cols // 4, either, pairs, stretches, 4 * (at // cols), None, 0, True)
    totals(pairs, stretches, height, others, columns, rows)
    return True


def totals(pairs: Any, stretches: Any, height: int, others: bool, columns: Any, rows: Any) -> None:
    """Convert sums of bits, by columns and segments, to counts of places and of rows: first for bytes of four columns of a
    row, then for bytes of four rows. With `others`, the counts are of the bits that are not set. `stretches` and `rows`
    may be None."""
    import numpy as np

    of_pairs, found = np.asarray(pairs), np.asarray(columns)
    found[0] = of_pairs.reshape(4, 4, -1).sum(axis=1).T.reshape(-1)
    found[1] = of_pairs.sum(axis=0)
    if others:
        np.subtract(height, found, out=found, casting="unsafe")
    if rows is not None:
        of_rows, along = np.asarray(rows), np.asarray(stretches)
        of_rows[0] = along.sum(axis=1)
        of_rows[1] = along.reshape(-1, 4, 4).sum(axis=1)[:, ::-1].reshape(-1)  # the first row has the highest pair
        if others:
            np.subtract(found.shape[1], of_rows, out=of_rows, casting="unsafe")


def has_zero(counts: Any) -> bool:
    """Return whether a count is 0."""
    import numpy as np

    return bool((np.asarray(counts) == 0).any())


def zeros_alike(gate: Any, up: Any, base: Any, places: Any, first: int, stop: int) -> tuple[int, int, int, list[int]]:
    """Return how many counts are 0 in `gate` and `up`, in one of them, and in `base`; and for each order from `first` to
    `stop` how many of the first are 0 in `base` as well, read in that order."""
    import numpy as np

    of_gate, of_up, zero, orders = (np.asarray(each) for each in (gate, up, base, places))
    of_gate, of_up, zero = of_gate == 0, of_up == 0, zero == 0
    if not of_gate.size == of_up.size == zero.size or zero.size % _REPEATS or orders.shape[1] != _REPEATS:
        raise ValueError("the counts have another shape")
    if not 0 <= first <= stop <= len(orders) or (orders[first:stop] < 0).any():
        raise ValueError("an order is not among the places")
    both = of_gate & of_up
    alike = [int((both & zero[_repeated(each, zero.size)]).sum()) for each in orders[first:stop]]
    return int(both.sum()), int((of_gate | of_up).sum()), int(zero.sum()), alike


def _repeated(places: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    """Return an order of n columns from that of the first block: other blocks repeat it, shifted, modulo n."""
    import numpy as np

    return ((np.arange(0, n, places.size)[:, None] + places) % n).reshape(-1)


def unwritten(kind: str, *shape: int) -> memoryview[Any]:
    """Return memory for numbers of a kind (B: bytes, f: floats) in a shape."""
    return zeros(kind, *shape)


def line_offset(data: Any) -> int:
    """Return the first byte at a multiple of a cache line; nothing here depends on it."""
    return 0


# --- profiles --------------------------------------------------------------------------------------------------------


def _ranks(values: NDArray[Any]) -> tuple[NDArray[np.float64], int]:
    """Return ranks with mean 0, equals sharing one, and the number of different values."""
    import numpy as np

    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - (counts + 1) / 2 - (values.size - 1) / 2
    return middle[place.reshape(-1)], counts.size


def ranks(counts: Any, found: Any) -> int:
    """Write the ranks of counts, with mean 0; equal counts share a rank.

    :returns: the number of different counts, or -1 if there are more than 2^20 counts, or one is larger than that
    """
    import numpy as np

    values = np.asarray(counts)
    if not values.size:
        return 0
    if values.size > _LONGEST or values.max() >= _LONGEST:
        return -1
    np.asarray(found)[:], different = _ranks(values)
    return different


def float_ranks(values: Any, found: Any) -> int:
    """Write the ranks of floats, as `ranks` does; return the number of different values, or 0 if one is not finite."""
    import numpy as np

    floats = np.asarray(values)
    if not floats.size or not np.isfinite(floats).all():
        return 0
    np.asarray(found)[:], different = _ranks(floats)
    return different


def _score(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    size = sqrt(_product(first, first) * _product(second, second))
    return _product(first, second) / (size / sqrt(first.size - 1))


def count_score(one: Any, other: Any, values: int) -> float | None:
    """Return the score of two profiles of counts; None if one has fewer than `values` different values."""
    import numpy as np

    counts = np.asarray(one), np.asarray(other)
    if counts[0].size != counts[1].size or counts[0].size > _LONGEST:
        raise ValueError("the profiles have another shape")
    if counts[0].size < 2:
        return None
    if max(each.max() for each in counts) >= _LONGEST:
        raise ValueError("a count is too large")
    (first, many), (second, more) = map(_ranks, counts)
    return _score(first, second) if min(many, more) >= values else None


def column_scores(
    row: int, bases: Any, places: Any, split: int, others: Any, share: int, width: int, values: int, found: Any
) -> bool:
    """Write the scores of profiles, whose ranks are in `others`, against columns in the order of each row of `places`.

    `bases` has the counts of places for the first `split` orders and for the others; `share` heads of `width` columns each
    are summed. Places are given for all columns, or for the first block.

    :returns: whether every profile has at least `values` different values
    """
    import numpy as np

    counts, orders, ranked, made = (np.asarray(each) for each in (bases, places, others, found))
    n = counts.shape[1]
    if share < 1 or width < 1 or not 0 < n <= _LONGEST or n % share or (share > 1 and n % (share * width)):
        raise ValueError("the columns are not whole groups of heads")
    if len(orders) and share * int(counts.max()) >= _LONGEST:
        raise ValueError("a count is too large")
    for number, first in enumerate(orders):
        base = counts[0 if number < split else 1][_repeated(first, n)]
        summed = base.astype(np.int64).reshape(-1, share, width).sum(axis=1).reshape(-1) if share > 1 else base
        columns, different = _ranks(summed)
        if different < values:
            return False
        made[:, number] = [_score(other, columns) for other in ranked]
    return True


# --- Grams -----------------------------------------------------------------------------------------------------------


def gram(
    row: int, data: Any, stride: int, n: int, down: bool, mixed: bool, table: Any, found: Any, correlated: bool = False
) -> None:
    """Write the products of all pairs of columns (each minus its mean) of n bytes in every row of `stride`, or of rows; or
    their correlations, as `correlations` does.

    :param table: the trit of each code
    :param mixed: a byte holds four rows, else four columns
    """
    import numpy as np

    raw = np.frombuffer(data, dtype=np.uint8)
    if n < 1 or stride < n or raw.size < stride or raw.size % stride:
        raise ValueError("the bytes are not whole rows")
    codes = raw.reshape(-1, stride)[:, :n, None] >> np.arange(0, 8, 2, dtype=np.uint8) & np.uint8(3)
    # Four rows for each place, the last one first; or four places.
    codes = codes[:, :, ::-1].transpose(0, 2, 1).reshape(-1, n) if mixed else codes.reshape(len(codes), -1)
    trits = np.asarray(table).astype(np.float64)[codes]
    vectors = trits.T if down else trits
    vectors = vectors - vectors.mean(axis=1, keepdims=True)
    products = (vectors @ vectors.T).astype(np.float32)
    if correlated:
        correlations(row, products, found)
    else:
        np.asarray(found)[:] = products


def correlations(row: int, products: Any, found: Any) -> None:
    """Write products of vectors, less their means, as correlations; the diagonal is 0."""
    import numpy as np

    given, made = np.asarray(products), np.asarray(found)
    if given.shape != made.shape or given.shape[0] != given.shape[1]:
        raise ValueError("the matrices have another shape")
    size = np.sqrt(np.diagonal(given).astype(np.float64))
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    scaled = given * inverse[:, None] * inverse[None, :]
    np.fill_diagonal(scaled, 0)
    scaled -= scaled.sum() / max(1, len(scaled) * (len(scaled) - 1))
    np.fill_diagonal(scaled, 0)
    made[:] = scaled


def add_products(one: Any, other: Any, found: Any) -> None:
    """Write the sums of two square matrices, of as many first rows and columns as `found` has."""
    import numpy as np

    made = np.asarray(found)
    n = len(made)
    np.add(np.asarray(one)[:n, :n], np.asarray(other)[:n, :n], out=made)


def _gram_score(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Return the score of two matrices of correlations; NaN if one is constant."""
    first, second, n = one.astype("f8"), other.astype("f8"), len(one)
    size = _product(first, first) * _product(second, second)
    return _product(first, second) / sqrt(size) * sqrt(n * (n - 1) / 2) if size > 0 else nan


def _product(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the sum of products; threads, as `@` starts them, would take longer on a busy machine."""
    return float((one * other).sum())


def gram_scores(
    row: int, one: Any, first: Any, second: Any, places: Any, starts: Any, firsts: Any, numbers: Any, values: int,
    found: Any,
) -> None:  # fmt: skip
    """Write the scores of a matrix of correlations against two others under several orders, those of order h to the column
    `numbers[h]` of `found`.

    Compared are the rows and columns of `one` at `places` from `starts[h]` on, and those of the others from `firsts[h]` on,
    as many as all have. A score is NaN if these are fewer than `values`, or if one side is constant.
    """
    import numpy as np

    matrix, others, index, made = np.asarray(one), (np.asarray(first), np.asarray(second)), np.asarray(places), found
    for h, number in enumerate(numbers):
        begin = firsts[h]
        chosen = index[starts[h] : starts[h + 1]][: max(0, len(others[0]) - begin)]
        n = len(chosen)
        part = matrix[np.ix_(chosen, chosen)]
        for side, other in enumerate(others):
            good = n >= max(values, 2)
            made[side, number] = _gram_score(part, other[begin : begin + n, begin : begin + n]) if good else nan


def shared_gram(products: Any, places: Any, width: int, share: int, found: Any) -> None:
    """Write sums of products of columns, in the order of `places`, over the heads that share a key head.

    A group has `share` heads of `width` columns; `found` is [groups * width, groups * width].
    """
    import numpy as np

    made = np.asarray(found)
    groups = len(made) // width
    index = np.asarray(places)[: groups * share * width]
    parts = np.asarray(products)[np.ix_(index, index)].reshape(groups, share, width, groups, share, width)
    made[:] = np.einsum("asibsj->aibj", parts).reshape(made.shape)


def shared_scores(
    row: int, gram_row: int, products: Any, first: Any, second: Any, places: Any, starts: Any, firsts: Any, numbers: Any,
    width: int, share: int, values: int, found: Any,
) -> None:  # fmt: skip
    """Write the scores of the results of `shared_gram` for products under each of several orders, as correlations.

    The other parameters are those of `gram_scores`. A score is NaN also if an order does not begin with the first channel.
    """
    import numpy as np

    others = np.asarray(first), np.asarray(second)
    for h, number in enumerate(numbers):
        found[0, number] = found[1, number] = nan
        index = np.asarray(places)[starts[h] : starts[h + 1]]
        channels = len(index) // (width * share) * width
        n = min(channels, len(others[0]))
        if firsts[h] or channels < values or n < max(values, 2):
            continue
        grouped, correlated = np.empty((2, channels, channels), dtype=np.float32)
        shared_gram(products, index, width, share, grouped)
        correlations(gram_row, grouped, correlated)
        for side, other in enumerate(others):
            score = _gram_score(correlated[:n, :n], other[:n, :n])
            found[side, number] = score


# --- decisions -------------------------------------------------------------------------------------------------------


def squares(found: Any, grams: Any, in_rows: Any, squared: Any) -> None:
    """Write the squares of scores, three rows for each comparison, from two: where rows of partners stay where they are,
    where they do not, and either as the hypothesis has its own (`in_rows`).

    What is not a number counts nothing, and neither does a negative score of a comparison of `grams`.
    """
    many = len(in_rows)
    for i, gram in enumerate(grams):
        rows = []
        for side in range(2):
            scores = found[(2 * i + side) * many : (2 * i + side + 1) * many].tolist()
            rows.append([0.0 if isnan(score) or (gram and score < 0) else score * score for score in scores])
        rows.append([a if stay else b for stay, a, b in zip(in_rows, *rows, strict=True)])
        for side, row in enumerate(rows):
            for k, square in enumerate(row):
                squared[(3 * i + side) * many + k] = square


def sums_of_squares(squared: Any, numbers: Any, sides: Any, hypotheses: int) -> list[float]:
    """Return the sums of the rows `sides` of the comparisons `numbers`, which `squares` wrote: one for each hypothesis."""
    sums = [0.0] * hypotheses
    for number, side in zip(numbers, sides, strict=False):
        if number < 0 or not 0 <= side < 3 or (3 * number + 3) * hypotheses > len(squared):
            raise ValueError("there is no such comparison")
        start = (3 * number + side) * hypotheses
        sums = [a + b for a, b in zip(sums, squared[start : start + hypotheses].tolist(), strict=True)]
    return sums


class Pass:
    """The state that threads share while they count and compare. Tables are flat buffers, row after row.

    :param matrices: int64, rows of: where a payload begins, its rows and columns, the bytes that are read at once, where
        its counts go, whether rows are counted, and which layer it is of
    :param profiles: int64, rows of: whether it is one of `counts` or of `gains`, where it begins, and how long it is
    :param profile_ends: int64 [layers + 1]: the profiles of each layer
    :param asked: int64, rows of: a matrix whose columns are compared, its first and last use, heads that share, columns of
        a head, its first order, how many orders there are, and how many of them leave rows where they are
    :param asked_ends: int64 [layers + 1], likewise
    :param uses: int64, rows of: a profile for each way to read its rows, or one and -1
    :param numbers: int64 [orders]: which of the hypotheses each order is
    :param places: int32, a block of each order
    :param counts: uint32, of all matrices
    :param gains: float32, all that are compared
    :param found: float64, for each use two rows of as many as there are hypotheses, not a number yet
    :param made: uint8 [uses], 0 yet: whether a comparison is made
    :param left: int64 [layers]
    :raises ValueError: where tables do not fit
    """

    def __init__(
        self, sums: int, scores: int, either: bool, others: bool, values: int, matrices: Any, profiles: Any,
        profile_ends: Any, asked: Any, asked_ends: Any, uses: Any, numbers: Any, places: Any, counts: Any, gains: Any,
        found: Any, made: Any, left: Any,
    ) -> None:  # fmt: skip
        self._either, self._others, self._values = either, others, values
        self._matrices, self._profiles = _rows(matrices, 7), _rows(profiles, 3)
        self._asked, self._uses = _rows(asked, 8), _rows(uses, 2)
        self._profile_ends, self._asked_ends = list(profile_ends), list(asked_ends)
        self._numbers, self._places = list(numbers), places
        self._counts, self._gains, self._found, self._made = counts, gains, found, made
        self._hypotheses = len(found) // (2 * len(self._uses)) if self._uses else 0
        if len(places) != len(self._numbers) * _REPEATS or len(made) != len(self._uses):
            raise ValueError("the tables have another shape")
        self._left = [0] * len(left)
        for row in self._matrices:
            self._left[row[6]] += 1
        self._next, self._lock = 0, Lock()
        #: Bytes of scratch memory, and of what is read at once.
        self.room, self.step = 1, max((row[3] for row in self._matrices), default=0)

    def work(self, descriptor: int, buffer: Any, scratch: Any, most: int) -> int:
        """Count up to `most` matrices, and compare layers that are complete.

        :returns: the number of a matrix that could not be read; -1 if matrices may remain, -2 if none remain
        """
        for _ in range(most):
            number = self.take()
            if number < 0:
                return -2
            start, height, width, step, at, of_rows, _ = self._matrices[number]
            columns = self._counts[at : at + 2 * width].cast("B").cast("I", (2, width))
            rows = self._counts[at + 2 * width : at + 2 * (width + height)] if of_rows else None
            rows = None if rows is None else rows.cast("B").cast("I", (2, height))
            if not count_file(0, descriptor, start, height, buffer, step, self._either, self._others, columns, rows):
                return number
            self.counted(number, scratch)
        return -1

    def take(self) -> int:
        """Return the number of the next matrix, for a caller that counts it in another way; -1 if none remains."""
        with self._lock:
            number, self._next = self._next, self._next + 1
        return number if number < len(self._matrices) else -1

    def counted(self, matrix: int, scratch: Any) -> None:
        """Mark a matrix from `take` as counted, and compare its layer if this was the last one."""
        layer = self._matrices[matrix][6]
        with self._lock:
            self._left[layer] -= 1
            last = self._left[layer] == 0
        if last:
            self._compare(layer)

    def _compare(self, layer: int) -> None:
        """Rank the profiles of a layer, each once, and compare them."""
        import numpy as np

        ranked: dict[int, NDArray[np.float64]] = {}
        for i in range(self._profile_ends[layer], self._profile_ends[layer + 1]):
            of_counts, at, length = self._profiles[i]
            found = np.empty(length)
            part = (self._counts if of_counts else self._gains)[at : at + length]
            if (ranks if of_counts else float_ranks)(part, found) >= self._values:
                ranked[i] = found
        for i in range(self._asked_ends[layer], self._asked_ends[layer + 1]):
            self._ask(self._asked[i], ranked)

    def _ask(self, asked: list[int], ranked: dict[int, NDArray[np.float64]]) -> None:
        """Find the scores of the columns of one matrix against all profiles that have ranks."""
        import numpy as np

        matrix, start, stop, share, head, first, orders, split = asked
        uses = [
            (use, [each for each in self._uses[use] if each >= 0])
            for use in range(start, stop)
            if all(each in ranked for each in self._uses[use] if each >= 0)
        ]
        if not orders or not uses:
            return
        _, _, width, _, at, _, _ = self._matrices[matrix]
        bases = np.asarray(self._counts[at : at + 2 * width]).reshape(2, width)
        places = np.asarray(self._places[first * _REPEATS : (first + orders) * _REPEATS]).reshape(orders, _REPEATS)
        others = np.stack([ranked[each] for _, profiles in uses for each in profiles])
        scores = np.empty((len(others), orders))
        if not column_scores(0, bases, places, split, others, share, head, self._values, scores):
            return
        found, row = np.asarray(self._found).reshape(len(self._uses), 2, self._hypotheses), 0
        for use, profiles in uses:
            found[use][:, self._numbers[first : first + orders]] = scores[row : row + len(profiles)]
            self._made[use] = 1
            row += len(profiles)


def _rows(flat: Any, fields: int) -> list[list[int]]:
    """Return the rows of a flat table."""
    numbers = list(flat)
    if len(numbers) % fields:
        raise ValueError("the tables have another shape")
    return [numbers[at : at + fields] for at in range(0, len(numbers), fields)]
