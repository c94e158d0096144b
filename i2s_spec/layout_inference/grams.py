"""Gram matrices, compared: which channels are read together and which are written together.

Matrices that read the hidden state have its channels as columns, those that write it as rows; likewise within a layer
for the channels between `ffn_up` and `ffn_down` and between `attn_v` and `attn_output`. Channels that are written with
like weights are read with like weights. So the correlations between columns of a reader, and those between rows of its
writers, go together where both are read rightly. A wrong layout permutes the columns of a reader within their blocks;
what is left is the order of the blocks alone.

The correlations of two unrelated matrices do not correlate: of n pairs of channels the coefficient has mean 0 and
variance 1 / n, so that times the root of n it is a score.

Both are taken of the first channels and of the first rows or columns only, so that the cost is bounded.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.codec.buffers import packed
from i2s_spec.codec.isa import KernelSet, row_of, table
from i2s_spec.layout_inference import _bit_sums, profiles
from i2s_spec.layout_inference.hypotheses import BLOCK, HYPOTHESES
from i2s_spec.layout_inference.profiles import VALUES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.gguf.source import Source
    from i2s_spec.layout_inference.hypotheses import Hypothesis
    from i2s_spec.layout_inference.roles import Matrix
    from i2s_spec.schema.dialect import CodeMap

#: Channels that are compared, in whole blocks, and rows or columns that they are compared over.
CHANNELS: Final = 256
OVER: Final = 512
#: Bytes that are read of one matrix at most, about.
READ: Final = 1 << 22

#: By whether rows stay where they are: float32 [vectors, vectors].
Grams = dict[bool, "memoryview[Any]"]


@lru_cache(maxsize=1)
def kernel_sets() -> tuple[KernelSet, ...]:
    """Every set of kernels for Grams that was compiled, the slowest first."""
    return table(_bit_sums.gram_sets())


class GramReader:
    """Reads the first rows of matrices, into one buffer, and gives their Grams; `gram_reference` is the definition."""

    def __init__(self, source: Source, code_map: CodeMap) -> None:
        self._source = source
        self._trits = packed("b", [trit or 0 for trit in code_map.trits])
        self._buffer = _bit_sums.unwritten("B", READ)
        self._row = row_of(kernel_sets)

    def columns(self, matrix: Matrix, correlated: bool = False) -> Grams:
        """Products of the first places of the columns with each other, each column less its mean; or their correlations.

        :returns: float32 [places, places]: by the places of layouts that leave rows where they are (True), and of those that
            mix four
        """
        return self._grams(matrix, OVER, min(matrix.cols, CHANNELS), True, correlated)

    def rows(self, matrix: Matrix, correlated: bool = False) -> Grams:
        """Products of the first rows with each other, each row less its mean, float32 [rows, rows], likewise."""
        return self._grams(matrix, CHANNELS, min(matrix.cols, OVER), False, correlated)

    def _grams(self, matrix: Matrix, rows: int, places: int, down: bool, correlated: bool) -> Grams:
        rows = _rows(matrix, rows)
        raw = self._buffer[: rows * matrix.cols // 4]
        self._source.readinto(matrix.start, raw)
        size = places if down else rows
        found: Grams = {}
        for in_rows in (True, False):
            stride, n = (matrix.cols // 4, places // 4) if in_rows else (matrix.cols, places)
            found[in_rows] = _bit_sums.unwritten("f", size, size)
            _bit_sums.gram(self._row, raw, stride, n, down, not in_rows, self._trits, found[in_rows], correlated)
        return found


def _rows(matrix: Matrix, most: int) -> int:
    """At most so many first rows, as many as are cheap."""
    return max(4, min(matrix.rows, most, READ // (matrix.cols // 4) // 4 * 4))


def gram_reference(source: Source, matrix: Matrix, code_map: CodeMap, in_rows: bool, down: bool) -> NDArray[np.float64]:
    """Return the definition of `GramReader.columns` (`down`) and of `GramReader.rows`, of one side."""
    import numpy as np

    rows, places = (OVER, CHANNELS) if down else (CHANNELS, OVER)
    rows = _rows(matrix, rows)
    raw = source.read(matrix.start, rows * matrix.cols // 4)
    codes = np.frombuffer(raw, dtype=np.uint8)[:, None] >> np.arange(0, 8, 2, dtype=np.uint8) & 3
    if in_rows:
        codes = codes.reshape(rows, -1)
    else:  # four rows for each place, the last one first
        codes = codes.reshape(rows // 4, -1, 4)[:, :, ::-1].transpose(0, 2, 1).reshape(rows, -1)
    trits = np.array([trit or 0 for trit in code_map.trits], dtype=np.float64)[codes[:, :places]]
    vectors = trits.T if down else trits
    vectors = vectors - vectors.mean(axis=1, keepdims=True)
    found: NDArray[np.float64] = vectors @ vectors.T
    return found


def correlations(products: memoryview[Any]) -> memoryview[Any]:
    """Products as correlations, with 0 on the diagonal and for channels that are constant; they sum up to 0."""
    found = _bit_sums.unwritten("f", len(products), len(products))
    _bit_sums.correlations(row_of(kernel_sets), products, found)
    return found


def added(one: memoryview[Any], other: memoryview[Any]) -> memoryview[Any]:
    """Return the sums of two matrices of products, of as many first vectors as both have."""
    size = min(len(one), len(other))
    found = _bit_sums.unwritten("f", size, size)
    _bit_sums.add_products(one, other, found)
    return found


def correlations_reference(products: NDArray[Any]) -> NDArray[np.float32]:
    """Return the definition of `correlations`."""
    import numpy as np

    size = np.sqrt(np.diagonal(products).astype(np.float64))
    inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    found = products * inverse[:, None] * inverse[None, :]
    np.fill_diagonal(found, 0)
    n = len(found)
    found -= found.sum(dtype=np.float64) / max(1, n * (n - 1))
    np.fill_diagonal(found, 0)
    return found.astype(np.float32)


def as_read(products: NDArray[np.float32], each: Hypothesis, cols: int) -> tuple[NDArray[np.float32], int]:
    """Return the part of a column Gram that a hypothesis has channels for, in their order, and the first of these
    channels.
    """
    index, first = read_places(each, cols, len(products))
    return products[index].take(index, axis=1), first


@lru_cache(maxsize=256)
def read_places(each: Hypothesis, cols: int, known: int) -> tuple[list[int], int]:
    """Of the first `known` places those that a hypothesis has channels for, in their order, and the first channel."""
    block = each.first_places(cols)
    index = [(start + place) % cols for start in range(0, known, BLOCK) for place in block]
    first = next(channel for channel, place in enumerate(index) if place < known)
    return [place for place in index if place < known], first


class Reads(NamedTuple):
    """The hypotheses of one side that fit a shape, by their numbers, and what `read_places` gives for each: `places` one
    after the other, each from `starts` on, and the `firsts`."""

    numbers: memoryview[Any]
    places: memoryview[Any]
    starts: memoryview[Any]
    firsts: memoryview[Any]


@lru_cache(maxsize=64)
def reads(rows: int, cols: int, known: int, in_rows: bool) -> Reads:
    """Return the ways to read a Gram matrix of `known` places, of a matrix of a shape."""
    chosen = [
        (number, *read_places(each, cols, known))
        for number, each in enumerate(HYPOTHESES)
        if each.in_rows == in_rows and each.fits(rows, cols)
    ]
    starts = [0]
    for _, places, _ in chosen:
        starts.append(starts[-1] + len(places))
    return Reads(
        packed("q", [number for number, _, _ in chosen]),
        packed("i", [place for _, places, _ in chosen for place in places]),
        packed("q", starts),
        packed("q", [first for _, _, first in chosen]),
    )


def score_as_read(one: memoryview[Any], others: Grams, read: Reads, found: memoryview[Any]) -> None:
    """Compute the `score` of the channels that `as_read` finds and as many of each of the `others`, for each way to read.

    :param one: correlations of columns
    :param others: correlations of rows, where these stay where they are (True), and where not
    :param found: float64 [2, hypotheses], in the same order, which is written where there is a way to read; not a number
        where one is constant, or channels are too few
    """
    row = row_of(profiles.score_kernel_sets)
    _bit_sums.gram_scores(
        row, one, others[True], others[False], read.places, read.starts, read.firsts, read.numbers, VALUES, found
    )


def score_as_shared(
    products: memoryview[Any], others: Grams, read: Reads, share: int, width: int, found: memoryview[Any]
) -> None:
    """Compute the same for heads that share a key head: the `score` of what `as_read` and `shared` find in products.

    :param share: heads that share one, each of `width` columns
    :param found: likewise; not a number also where the first channels are not known
    """
    _bit_sums.shared_scores(
        row_of(profiles.score_kernel_sets), row_of(kernel_sets), products, others[True], others[False], read.places,
        read.starts, read.firsts, read.numbers, width, share, VALUES, found,
    )  # fmt: skip


def score(one: NDArray[np.float32], other: NDArray[np.float32]) -> float | None:
    """Return the score of two matrices of `correlations`; about normal where they are unrelated, None where one is
    constant.
    """
    first, second = one.reshape(-1), other.reshape(-1)
    size = float(first @ first) * float(second @ second)
    n = len(one)
    return float(first @ second) / sqrt(size) * sqrt(n * (n - 1) / 2) if size > 0 else None


def shared(products: NDArray[np.float32], width: int, share: int) -> NDArray[np.float32] | None:
    """Sum the Gram of the channels of heads over the heads that share one key head; None where no group is whole.

    :param products: [channels, channels], the first of them, heads of one group beside each other
    :param width: channels of a head
    :param share: heads that share one
    :returns: [groups * width, groups * width]
    """
    import numpy as np

    groups = len(products) // (width * share)
    if groups == 0:
        return None
    whole = groups * share * width
    parts = products[:whole, :whole].reshape(groups, share, width, groups, share, width)
    found: NDArray[np.float32] = np.einsum("asibsj->aibj", parts).reshape(groups * width, groups * width)
    return found
