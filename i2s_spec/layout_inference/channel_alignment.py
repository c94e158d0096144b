"""The two profiles, of all that must agree, that tell layouts apart best, shown under each layout.

It is what `layout_evidence` sums up, made visible: the ranks of two profiles, channel by channel. In the right layout
the points lie along a diagonal; in a wrong one they are a cloud. With random weights they are a cloud in every layout.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.layout_inference import profiles
from i2s_spec.layout_inference.hypotheses import HYPOTHESES, Hypothesis
from i2s_spec.layout_inference.roles import GAINS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.layout_inference.evidence import LayoutEvidence

#: Channels that are shown, evenly spread over all.
POINTS: Final = 192

#: Matrices within a layer whose rows write what the columns of `ffn_down` read.
ALIGNED_SOURCES: Final = ("ffn_gate", "ffn_up")


class Aligned(NamedTuple):
    """Two profiles under one layout: the correlation of their ranks, and of some channels both ranks, from 0 to 1."""

    layout: str
    correlation: float
    points: tuple[tuple[float, float], ...]


class ChannelAlignment(NamedTuple):
    """The two profiles: the tensor whose columns one is, what the other one is, how many channels, and every layout."""

    tensor: str
    partner: str
    channels: int
    layouts: tuple[Aligned, ...]


class _Pair(NamedTuple):
    """A matrix, by layer and role, and a profile that its columns must agree with: of a gain, or of rows of another one."""

    key: tuple[int, str]
    partner: str
    gain: memoryview[Any] | None

    def ranks(self, found: LayoutEvidence, each: Hypothesis) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return the ranks of the partner and of the columns; None where one of them is almost constant."""
        counted = found.counts[self.key]
        partner = (
            self.gain if self.gain is not None else found.counts[self.key[0], self.partner].rows_base(each.in_rows)
        )
        one, other = profiles.ranks(np.asarray(partner)), profiles.ranks(counted.columns(each))
        return None if one is None or other is None or one.size != other.size else (one, other)


def channel_alignment(found: LayoutEvidence) -> ChannelAlignment | None:
    """Return the pair of profiles that agrees better in one layout than in all others, by the most, under each layout.

    :returns: None for a file that has no such profiles
    """
    layouts = [each for each in HYPOTHESES if each.plain]
    best: tuple[float, _Pair] | None = None
    for pair in _pairs(found):
        fitting = (pair.ranks(found, each) for each in layouts if each.fits(*_shape(found, pair)))
        scores = sorted((abs(profiles.ranked_score(*ranks)) for ranks in fitting if ranks is not None), reverse=True)
        lead = scores[0] - scores[1] if len(scores) > 1 else -1.0
        if lead >= 0 and (best is None or lead > best[0]):
            best = lead, pair
    if best is None:
        return None
    pair = best[1]
    shown = tuple(
        _aligned(each.name, *ranks)
        for each in layouts
        if each.fits(*_shape(found, pair)) and (ranks := pair.ranks(found, each)) is not None
    )
    layer, role = pair.key
    prefix = f"blk.{layer}."
    partner = prefix + pair.partner if pair.gain is not None else f"rows of {prefix}{pair.partner}"
    return ChannelAlignment(f"{prefix}{role}", partner, _shape(found, pair)[1], shown)


def _shape(found: LayoutEvidence, pair: _Pair) -> tuple[int, int]:
    matrix = found.roles.matrices[pair.key]
    return matrix.rows, matrix.cols


def _pairs(found: LayoutEvidence) -> Iterator[_Pair]:
    for key, matrix in found.roles.matrices.items():
        if key not in found.counts:
            continue
        layer, role = key
        for name in GAINS[role]:
            gain = found.roles.gains.get((layer, name))
            if gain is not None and len(gain) == matrix.cols:
                yield _Pair(key, name, gain)
        if role == "ffn_down":
            yield from (_Pair(key, name, None) for name in ALIGNED_SOURCES if (layer, name) in found.counts)


def _aligned(layout: str, one: NDArray[np.float64], other: NDArray[np.float64]) -> Aligned:
    correlation = profiles.ranked_score(one, other) / sqrt(one.size - 1)
    chosen = np.linspace(0, one.size - 1, min(one.size, POINTS)).astype(np.intp)
    span, half = max(1, one.size - 1), (one.size - 1) / 2
    across, up = (one[chosen] + half) / span, (other[chosen] + half) / span
    points = zip(across.round(3).tolist(), up.round(3).tolist(), strict=True)
    return Aligned(layout, correlation, tuple(points))
