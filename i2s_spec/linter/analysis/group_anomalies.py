"""This module classifies the survey of types with a scale for each group: once for every tensor, for all rules.

Scales differ because groups do: each is the largest magnitude of its weights. The thresholds below are so extreme that
no trained weights reach them. For Student's t with two degrees of freedom, whose tails are heavier than those of any
trained matrix, the largest of 2^24 group scales is about 2^12 times their median: maxima of n values grow with the
square root of n. Groups of zeros, or of tiny values, are usual, for example in rows of an embedding that no token uses.
So only the distance of the largest scales from most others counts, and whether one quarter of the scales is as far from
another quarter.
"""

from array import array
from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Final

from i2s_spec.codec.payload_facts import GROUPS_FROM, Groups
from i2s_spec.errors import Span
from i2s_spec.linter.analysis.subject import Subject, analysis
from i2s_spec.linter.analysis.tensor_extents import extent_anomalies
from i2s_spec.schema.block_layout import FOURTH_CODE, GROUP_LAYOUTS, ROW_SCALES_APART, BlockLayout
from i2s_spec.schema.dialect import CODES_PER_BYTE

if TYPE_CHECKING:
    from i2s_spec.inspect.survey.tensor_survey import OtherSurvey

#: Octaves by which scales are far apart. Exponents must differ by one more, so that the scales surely do by this much.
FAR: Final = 12

#: Bytes of codes of I2_SR that are read at once.
_READ: Final = 1 << 22


class GroupAnomalies:
    """Positions in the survey of the other types, by anomaly."""

    def __init__(self) -> None:
        self.reserved, self.beyond, self.digits = array("q"), array("q"), array("q")
        self.not_finite, self.negative, self.lost, self.apart = array("q"), array("q"), array("q"), array("q")
        #: Anomalies of I2_SR tensors. The survey does not see their groups, because their scales are not beside their
        #: codes.
        self.row_scales: dict[int, Groups] = {}


@analysis
def group_anomalies(subject: Subject) -> GroupAnomalies:
    """The anomalies that rules on groups report; the payloads must be read."""
    survey = subject.payloads
    found, odd = GroupAnomalies(), extent_anomalies(subject).rows
    found.row_scales.update(_odd_row_scales(subject))
    for place in sorted((*survey.anomalous_groups(_plain), *found.row_scales)):
        other = survey.others[place]
        groups = found.row_scales.get(place, other.groups)
        if other.row in odd or groups is None:
            continue
        layout = GROUP_LAYOUTS[other.type]
        if groups.odd:
            {"reserved": found.reserved, "weight": found.beyond, "": found.digits}[layout.fourth].append(place)
        # If the bytes are not scales at all, they have every anomaly; only the worst is reported.
        if groups.infinite:
            found.not_finite.append(place)
        elif groups.negative:
            found.negative.append(place)
        elif far_apart(groups.octaves):
            found.apart.append(place)
        elif (
            groups.lost and layout.scale.per == "block"
        ):  # ik_llama.cpp's quantizers write codes of +1 for a row of zeros
            found.lost.append(place)
    return found


def _odd_row_scales(subject: Subject) -> Iterator[tuple[int, Groups]]:
    """The I2_SR tensors with anomalies that were surveyed whole, by their positions, with their contents.

    They are read once more, a few megabytes at a time; few files have any.
    """
    survey, file = subject.payloads, subject.file
    layout = ROW_SCALES_APART
    for place in survey.others_of(layout.type.number):
        other = survey.others[place]
        if other.type != layout.name or not other.complete:
            continue
        from i2s_spec.codec.blocks.group_observation import observe_row_scales
        from i2s_spec.codec.payload_native import count_codes
        from i2s_spec.gguf.ranges import chunks

        payload = prod(other.ne) // CODES_PER_BYTE
        odd, first = 0, -1
        for part, data in enumerate(chunks(file.source, other.start, other.start + payload, _READ)):
            count = count_codes(data)[FOURTH_CODE]
            if count and first < 0:
                first = part * _READ + next(i for i, byte in enumerate(data) if byte & byte >> 1 & 0x55)
            odd += count
        start = other.start + payload
        scales = chunks(file.source, start, start + layout.scale.nbytes * prod(other.ne[1:]), _READ)
        groups = observe_row_scales(odd, first, scales, file.byte_order)
        if not _plain(groups):
            yield place, groups


def odd_groups(subject: Subject, topic: str) -> Iterator[tuple["OtherSurvey", Groups, BlockLayout]]:
    """The tensors of a topic, with the survey and the positions of their groups."""
    verdict, survey = group_anomalies(subject), subject.payloads
    for place in getattr(verdict, topic):
        other = survey.others[place]
        groups = verdict.row_scales.get(place, other.groups)
        assert groups is not None
        yield other, groups, GROUP_LAYOUTS[other.type]


def block_span(other: "OtherSurvey", layout: BlockLayout, at: int) -> Span:
    """The block that holds a byte of a payload."""
    unit, front = _unit(other, layout)
    row, inside = at // unit * unit, at % unit
    start = row + front + (inside - front) // layout.nbytes * layout.nbytes if inside >= front else row
    return Span(other.start + start, other.start + start + layout.nbytes, f"data[{other.row}].block")


def scale_span(other: "OtherSurvey", layout: BlockLayout, group: int) -> Span:
    """The block of a scale, by the number of its group; for the scale of a row, only the scale."""
    if layout.scale.apart:
        start = other.start + prod(other.ne) // CODES_PER_BYTE + group * layout.scale.nbytes
        return Span(start, start + layout.scale.nbytes, f"data[{other.row}].scales[{group}]")
    unit, front = _unit(other, layout)
    start = other.start + group * unit
    return Span(start, start + (front or unit), f"data[{other.row}].{'scale' if front else 'block'}")


def _unit(other: "OtherSurvey", layout: BlockLayout) -> tuple[int, int]:
    """Bytes from one scale to the next, and bytes before the blocks of a row."""
    front = layout.type.row_bytes
    return (front + other.ne[0] // layout.block * layout.nbytes, front) if front else (layout.nbytes, 0)


def far_apart(octaves: Sequence[int]) -> int:
    """How many scales are far above the upper quartile; or above the lower quartile, if the two quartiles are that far
    apart. 0 if the scales differ no more than in trained models."""
    total = sum(octaves)
    if total < GROUPS_FROM:
        return 0
    lower, upper = _octave(octaves, total, 1), _octave(octaves, total, 3)
    return sum(octaves[(lower if upper - lower > FAR else upper) + FAR + 1 :])


def _octave(octaves: Sequence[int], total: int, quarter: int) -> int:
    """The octave of a quartile."""
    reached = 0
    for octave, count in enumerate(octaves):
        reached += count
        if 4 * reached >= quarter * total:
            return octave
    raise AssertionError("a quarter is at most the whole")


def _plain(groups: Groups) -> bool:
    odd = groups.odd or groups.infinite or groups.negative or groups.lost
    return not (odd or far_apart(groups.octaves))
