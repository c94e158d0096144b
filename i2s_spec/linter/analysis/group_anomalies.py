"""This module sorts what a survey saw of types with a scale for each group: once for every tensor, for all rules.

Scales differ because groups do: each is the largest magnitude of its weights. The thresholds below are so far out that no
weights that somebody trained get there. Of Student's t with two degrees of freedom, whose tails are heavier than those of
any trained matrix, the largest of 2^24 groups is about 2^12 times their median: maxima of n values grow with the square
root of n. Groups of zeros, and groups next to nothing, as rows of an embedding that no token uses, are usual: only how far
the largest are above most others counts, and whether a quarter of them is as far from another quarter.
"""

from array import array
from collections.abc import Iterator, Sequence

from i2s_spec.codec.payload_facts import GROUPS_FROM, Groups
from i2s_spec.errors import Span
from i2s_spec.light_typing import TYPE_CHECKING, Final
from i2s_spec.linter.analysis.subject import Subject, analysis
from i2s_spec.linter.analysis.tensor_extents import extent_anomalies
from i2s_spec.schema.block_layout import BLOCK_LAYOUTS, BlockLayout

if TYPE_CHECKING:
    from i2s_spec.inspect.survey.result import OtherSurvey

#: Octaves by which scales are far apart: their exponents differ by one more, so that they are.
FAR: Final = 12


class GroupAnomalies:
    """Places in the survey of the other types, by what is odd there."""

    def __init__(self) -> None:
        self.reserved, self.beyond, self.digits = array("q"), array("q"), array("q")
        self.not_finite, self.negative, self.lost, self.apart = array("q"), array("q"), array("q"), array("q")


@analysis
def group_anomalies(subject: Subject) -> GroupAnomalies | None:
    """What rules on groups have to look at; None where payloads are not read."""
    survey = subject.survey
    if survey is None:
        return None
    found, odd = GroupAnomalies(), extent_anomalies(subject).rows
    for place in survey.anomalous_groups(_plain):
        other = survey.others[place]
        groups = other.groups
        if other.row in odd or groups is None:
            continue
        layout = BLOCK_LAYOUTS[other.type]
        if groups.odd:
            {"reserved": found.reserved, "weight": found.beyond, "": found.digits}[layout.fourth].append(place)
        # Scales that are something else are odd in every way: the worst of them is what is said.
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


def odd_groups(subject: Subject, topic: str) -> Iterator[tuple["OtherSurvey", Groups, BlockLayout]]:
    """The tensors of a topic, what was seen of their groups, and how these lie."""
    verdict, survey = group_anomalies(subject), subject.survey
    for place in getattr(verdict, topic) if verdict is not None else ():
        assert survey is not None
        other = survey.others[place]
        assert other.groups is not None
        yield other, other.groups, BLOCK_LAYOUTS[other.type]


def block_span(other: "OtherSurvey", layout: BlockLayout, at: int) -> Span:
    """The block that holds a byte of a payload."""
    unit, front = _unit(other, layout)
    row, inside = at // unit * unit, at % unit
    start = row + front + (inside - front) // layout.nbytes * layout.nbytes if inside >= front else row
    return Span(other.start + start, other.start + start + layout.nbytes, f"data[{other.row}].block")


def scale_span(other: "OtherSurvey", layout: BlockLayout, group: int) -> Span:
    """The block of a scale, by the number of its group; of a row's scale that alone."""
    unit, front = _unit(other, layout)
    start = other.start + group * unit
    return Span(start, start + (front or unit), f"data[{other.row}].{'scale' if front else 'block'}")


def _unit(other: "OtherSurvey", layout: BlockLayout) -> tuple[int, int]:
    """Bytes from one scale to the next, and in front of the blocks of a row."""
    front = layout.type.row_bytes
    return (front + other.ne[0] // layout.block * layout.nbytes, front) if front else (layout.nbytes, 0)


def far_apart(octaves: Sequence[int]) -> int:
    """How many scales are wildly larger than others: than the upper quartile, or, where that is as far from the lower one,
    than the lower one. 0 where scales differ as they do in models."""
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
    raise AssertionError("a quarter of all is no more than all")


def _plain(groups: Groups) -> bool:
    odd = groups.odd or groups.infinite or groups.negative or groups.lost
    return not (odd or far_apart(groups.octaves))
