"""This module tells by the density of rows which rows of queries and keys are rotated together.

Rotation mixes two rows of a head, so that training treats them alike: they have about as many weights that are not 0. Files
of some architectures have the two in the halves of a head (rows j and j + d/2, `neox`), those of others beside each other
(rows 2j and 2j + 1, `norm`), and converters permute them. The score is the rank correlation between the counts of the first
and of the second rows of all pairs, as for other profiles.

Density also changes slowly along a head. Rows beside each other are alike in either order; rows half a head apart only where
they are rotated together. So `neox` needs its own sum alone to exceed what chance gives, and `norm` needs that sum to be
twice the other as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.codec.buffers import as_kind
from i2s_spec.inspect.evidence import profiles
from i2s_spec.inspect.evidence.decision import RATIO, quantile
from i2s_spec.inspect.evidence.hypotheses import named
from i2s_spec.schema.dialect import CANONICAL

if TYPE_CHECKING:
    from i2s_spec.inspect.evidence.layout_evidence import LayoutEvidence

#: Matrices whose rows are rotated, and whether they have key heads.
ROTATED: Final = {"attn_q": False, "attn_k": True}


class PairOrder(NamedTuple):
    """The sums of squared scores of rows in the halves of heads and beside each other, and how many scores each has."""

    halves: float
    neighbors: float
    comparisons: int

    @property
    def wanted(self) -> float:
        """What a sum must exceed."""
        return quantile(self.comparisons) if self.comparisons else 0.0

    @property
    def order(self) -> str | None:
        """`neox`, `norm`, or None where that is undecided."""
        if not self.comparisons:
            return None
        if self.halves >= self.wanted:
            return "neox"
        return "norm" if self.neighbors >= max(self.wanted, RATIO * self.halves) else None


def pair_order(found: LayoutEvidence) -> PairOrder:
    """The order of rows in the queries and keys of a file, read in the layout that was decided, or canonically."""
    each = found.decided or named(CANONICAL.layout.name)
    sums = [0.0, 0.0]
    many = 0
    for (_, role), counted in found.counts.items():
        if role not in ROTATED:
            continue
        heads = found.roles.key_heads if ROTATED[role] else found.roles.heads
        rows = counted.rows_base(each.in_rows)
        if not heads or not len(rows) or len(rows) % (2 * heads):
            continue
        scores = [profiles.count_score(*pairs) for pairs in (_halves(rows, heads), (_every(rows), _every(rows[1:])))]
        if None in scores:
            continue
        many += 1
        sums = [total + max(0.0, score or 0.0) ** 2 for total, score in zip(sums, scores, strict=True)]
    return PairOrder(sums[0], sums[1], many)


def _halves(rows: memoryview[Any], heads: int) -> Iterator[memoryview[Any]]:
    """The counts of the first half of each head's rows, and those of the second."""
    half = len(rows) // heads // 2
    for first in (0, half):
        parts = (rows[start : start + half].tobytes() for start in range(first, len(rows), 2 * half))
        yield as_kind(b"".join(parts), "I")


def _every(rows: memoryview[Any]) -> memoryview[Any]:
    """Every second count."""
    return as_kind(rows[::2].tobytes(), "I")
