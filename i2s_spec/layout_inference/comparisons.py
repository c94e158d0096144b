"""Every comparison that a file has the tensors for, scored under each hypothesis.

    gains ~ columns       the gains on what enters a matrix, and the share of weights that are not 0 in its columns
    rows ~ columns        such shares of the rows that write channels within a layer and of the columns that read them
    all-zero rows ~ all-zero columns   of channels that training has switched off (`counts.zero_channels`)
    Gram of rows ~ Gram of columns     `grams`: of the hidden state, and of the channels within a layer

A comparison is evidence about the matrix whose columns it has. Where the other side is a matrix too, its rows must be
read somehow: as layouts do that leave rows where they are, or as `rows-1x4`. There is a score for either.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from i2s_spec.codec.buffers import packed, shaped
from i2s_spec.layout_inference import grams, profiles
from i2s_spec.layout_inference.counts import zero_comparisons
from i2s_spec.layout_inference.hypotheses import HYPOTHESES, fitting, orders
from i2s_spec.layout_inference.roles import GAINS, READERS, WRITERS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.layout_inference.counts import Counted
    from i2s_spec.layout_inference.roles import Matrix, Roles

#: Whether rows stay where they are, and a hypothesis for either.
SIDES: Final = {True: next(h for h in HYPOTHESES if h.in_rows), False: next(h for h in HYPOTHESES if not h.in_rows)}

#: The bytes of a comparison without scores, by side and hypothesis.
NO_SCORES: Final = packed("d", [nan] * len(SIDES) * len(HYPOTHESES)).tobytes()

#: Matrices whose rows write the channels that the columns of another of their layer read.
SOURCES: Final = {"ffn_down": ("ffn_gate", "ffn_up"), "attn_output": ("attn_v",)}

Scores = dict[str, float]


class MatrixComparison(NamedTuple):
    """One comparison: the matrix that it is evidence about, a description, and scores.

    `found` has two lists: the score under each of HYPOTHESES where the rows of `partners` stay where they are, and where
    they do not; not a number where a hypothesis does not fit. Without partners the sides are the same. `gram` tells which
    of the two statistics it is.
    """

    matrix: Matrix
    text: str
    gram: bool
    partners: tuple[tuple[int, str], ...]
    found: list[list[float]]

    @property
    def scores(self) -> dict[bool, Scores]:
        """The scores by how partners are read and by the names of hypotheses that fit."""
        return {
            side: {each.name: score for each, score in zip(HYPOTHESES, row, strict=True) if not isnan(score)}
            for side, row in zip(SIDES, self.found, strict=True)
        }


def profile_comparisons(found: Roles, counts: dict[tuple[int, str], Counted]) -> Iterator[MatrixComparison]:
    """Yield the comparisons of profiles, which `evidence.Plan` plans for compiled code.

    :param counts: of every matrix, by layer and role
    """
    import numpy as np

    ranked: dict[tuple[int, str], NDArray[np.float64] | None] = {}
    for key, matrix in found.matrices.items():
        layer, role = key
        asked: list[_Asked] = []
        for name in GAINS[role]:
            of_gain = layer, name
            if of_gain not in ranked:
                gain = found.gains.get(of_gain)
                ranked[of_gain] = None if gain is None else profiles.ranks(np.asarray(gain))
            of_columns = ranked[of_gain]
            if of_columns is not None and of_columns.size == matrix.cols:
                asked.append(_Asked(f"{name} ~ columns of {role}", (), [of_columns]))
        share = heads_that_share(found) if role == "attn_output" else 1
        width = matrix.cols // max(1, found.heads)
        of_rows: list[_Asked] = []
        for name in SOURCES.get(role, ()):
            source = counts.get((layer, name))
            if source is None or source.rows_count * share != matrix.cols:
                continue
            sides = [of_side for each in SIDES.values() if (of_side := profiles.ranks(source.rows(each))) is not None]
            if len(sides) == len(SIDES) and (share == 1 or (width > 0 and matrix.cols % (share * width) == 0)):
                of_rows.append(_Asked(f"rows of {name} ~ columns of {role}", ((layer, name),), sides))
        if share == 1:  # the same columns, which are ranked once
            asked += of_rows
            of_rows = []
        if asked:
            yield from _compared(matrix, counts[key], asked)
        if of_rows:
            yield from _compared(matrix, counts[key], of_rows, share, width)


def zero_channel_comparisons(found: Roles, counts: dict[tuple[int, str], Counted]) -> Iterator[MatrixComparison]:
    """Yield the comparisons of all-zero rows and columns.

    :param counts: of every matrix, by layer and role
    """
    for layer, scores in zero_comparisons(counts):
        text = "all-zero rows of ffn_gate and ffn_up ~ all-zero columns of ffn_down"
        partners = ((layer, "ffn_gate"), (layer, "ffn_up"))
        yield MatrixComparison(found.matrices[layer, "ffn_down"], text, False, partners, _table(scores))


def _table(scores: dict[bool, Scores]) -> list[list[float]]:
    """Scores by side and name as `MatrixComparison.found` has them."""
    return [[scores[side].get(each.name, nan) for each in HYPOTHESES] for side in SIDES]


def heads_that_share(found: Roles) -> int:
    """Heads that share a key head; 0 where the file does not tell."""
    return found.heads // found.key_heads if found.key_heads and found.heads % found.key_heads == 0 else 0


class _Asked(NamedTuple):
    """What the columns of a matrix are compared with: ranks for each side, or for both at once."""

    text: str
    partners: tuple[tuple[int, str], ...]
    ranks: list[NDArray[np.float64]]


def _compared(
    matrix: Matrix, counted: Counted, asked: list[_Asked], share: int = 1, width: int = 1
) -> Iterator[MatrixComparison]:
    """Yield the columns of a matrix, compared under every hypothesis; nothing where they are almost constant.

    :param share: heads whose columns are summed, each of `width`
    """
    import numpy as np

    ranks = [of_side for one in asked for of_side in one.ranks]
    others = ranks[0][None] if len(ranks) == 1 else np.stack(ranks)
    read = orders(matrix.rows, matrix.cols)
    large = share * matrix.rows >= profiles.COUNTS
    score = profiles.column_scores_reference if large else profiles.column_scores
    scores = score(counted.bases, np.asarray(read.first), read.split, others, share, width if share > 1 else 1)
    if scores is None:
        return
    found = np.full((len(ranks), len(HYPOTHESES)), np.nan)
    found[:, read.numbers] = scores
    at = 0
    for one in asked:
        sides = found[at : at + len(one.ranks)].tolist()
        at += len(one.ranks)
        yield MatrixComparison(matrix, one.text, False, one.partners, sides if len(sides) > 1 else sides * len(SIDES))


#: Correlations of rows by side, and how many channels they are of; None if writers differ in that.
Written = tuple[dict[bool, "memoryview[Any]"], int | None]


def gram_comparisons(
    reader: grams.GramReader, found: Roles, written: Written, key: tuple[int, str]
) -> list[MatrixComparison]:
    """Return the comparisons of the Gram of one matrix, reading the payloads that they need.

    :param written: what `written_grams` gives
    :raises FormatError: where the source does not hold a payload
    """
    matrix, (layer, role) = found.matrices[key], key
    asked: list[tuple[str, tuple[tuple[int, str], ...], grams.Grams, int, int]] = []
    if role in READERS and written[1] == matrix.cols:
        writers = tuple(each for each in found.matrices if each[1] in WRITERS)
        asked.append((f"Gram of {role} ~ Gram of what writes its input", writers, written[0], 1, 1))
    for name in SOURCES.get(role, ()):
        partner = found.matrices.get((layer, name))
        share = heads_that_share(found) if role == "attn_output" else 1
        width = matrix.cols // max(1, found.heads)
        if partner is None or share < 1 or partner.rows * share != matrix.cols:
            continue
        if share > 1 and not 0 < share * width <= min(matrix.cols, grams.CHANNELS):
            continue  # the heads that share one are not all among the channels
        rows = reader.rows(partner, correlated=True)
        asked.append((f"Gram of {role} ~ Gram of {name}", ((layer, name),), rows, share, width))
    if not asked:
        return []
    shared = any(share > 1 for *_, share, _ in asked)
    own = reader.columns(matrix, correlated=not shared)
    made: list[MatrixComparison] = []
    for text, partners, rows, share, width in asked:
        scores = _gram_scores(matrix, own, rows, share, width)
        if not any(isnan(row[number]) for row in scores for number in _plain(matrix.rows, matrix.cols)):
            made.append(MatrixComparison(matrix, text, True, partners, scores))
    return made


@lru_cache(maxsize=64)
def _plain(rows: int, cols: int) -> list[int]:
    """Return the layouts as declared that fit a shape, by their numbers."""
    return [number for number, fits in enumerate(fitting(rows, cols)) if fits and HYPOTHESES[number].plain]


def written_grams(reader: grams.GramReader, found: Roles) -> Written:
    """For each side the correlations of the rows of all writers of the hidden state, and its width; None if they differ."""
    widths = {matrix.rows for matrix in found.matrices.values() if matrix.role in WRITERS}
    if len(widths) != 1:
        return {}, None
    totals: grams.Grams = {}
    for matrix in found.matrices.values():
        if matrix.role in WRITERS:
            for side, gram in reader.rows(matrix).items():
                totals[side] = grams.added(totals[side], gram) if side in totals else gram
    return {side: grams.correlations(total) for side, total in totals.items()}, widths.pop()


def _gram_scores(matrix: Matrix, own: grams.Grams, rows: grams.Grams, share: int, width: int) -> list[list[float]]:
    """Return the scores of a matrix as `MatrixComparison.found` has them; not a number where there is none.

    :param own: what its columns correlate with each other; where heads share rows, products of these
    :param rows: correlations of the rows of its partners
    :param share: heads, each of `width` columns, that have the same rows
    """
    found = shaped(memoryview(bytearray(NO_SCORES)), "d", len(SIDES), len(HYPOTHESES))
    for side, columns in own.items():
        read = grams.reads(matrix.rows, matrix.cols, len(columns), side)
        if share == 1:
            grams.score_as_read(columns, rows, read, found)
        else:
            grams.score_as_shared(columns, rows, read, share, width, found)
    return cast("list[list[float]]", found.tolist())  # a list for each side
