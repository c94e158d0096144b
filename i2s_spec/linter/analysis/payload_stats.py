"""This module classifies the survey of payloads: once for every tensor, by the rules that it concerns.

Statistics are never reported as errors. The thresholds below are so extreme that neither chance nor a sound model
reaches them: in a tensor of `SHARES_FROM` random codes, a deviation of shares by 0.02 is five standard deviations.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from math import isfinite, prod
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.codec.buffers import numbers
from i2s_spec.linter.analysis.subject import Subject, analysis
from i2s_spec.linter.analysis.tensor_extents import BLOCK, CODES_PER_BYTE, extent_anomalies, holes

if TYPE_CHECKING:
    from i2s_spec.inspect.survey.tensor_survey import TensorSurvey

#: Shortest run of one byte value that is reported: 16,384 equal weights, a page of memory and a block of most file
#: systems. A pruned output of a large model is one row, which is shorter.
REGION: Final = 4096
#: Shortest run of zero bytes that is reported in a tensor of another type: embedding rows of unused tokens are zeros.
OTHER_REGION: Final = 1 << 20
#: Fewest zero bytes at the end of a payload that are reported: 128 weights of -1, a whole block. The bytes of the last
#: block that a quantizer leaves unwritten do not count; another rule reports them. Small payloads, which may be written
#: by hand, need more zeros.
END: Final = 32
END_FROM: Final = 1024
SMALL_END: Final = 256
#: Fewest codes of a tensor whose shares are evidence.
SHARES_FROM: Final = 16_384
#: Fewest codes 3 by which a small tensor that lacks another code has another code map: by chance no code is missing.
FOREIGN_FROM: Final = 256
#: Share of code 1 below which the quantizer made no zeros. Trained models have about a half; rounding normally
#: distributed weights with their mean gives 0.31; taking the sign of latent weights gives 0.
FEW_ZEROS: Final = 0.02
#: Share of code 1 from which a tensor has almost no effect.
MOSTLY_ZEROS: Final = 0.95
#: Shares of code 1 between which nothing is reported.
USUAL_ZEROS: Final = (0.25, 0.75)
#: Largest difference between the counts of codes 0 and 2, relative to their sum. Trained models stay within a few
#: hundredths.
LOPSIDED: Final = 0.25
#: Smallest payloads that are compared with each other: smaller ones are fixtures, and equal for good reasons.
COMPARED: Final = 4096
#: Share of code 3 from which a payload may be floats, the number of floats that are examined, and the share that must
#: be plausible.
FLOATS_FROM: Final = 0.05
FLOATS_READ: Final = 1024
FLOATS_SENSIBLE: Final = 0.99


class Region(NamedTuple):
    """A run of one byte in a tensor, in the file."""

    row: int
    start: int
    stop: int
    value: int


class PayloadAnomalies:
    """Positions in the survey, or rows of the table, for each rule that they concern."""

    def __init__(self) -> None:
        #: Positions in the survey with unusual shares, by anomaly.
        self.unused, self.foreign, self.floats = array("q"), array("q"), array("q")
        self.constant, self.few_zeros, self.mostly_zeros = array("q"), array("q"), array("q")
        self.uncommon, self.lopsided = array("q"), array("q")
        #: The float type that a payload looks like, by its position.
        self.kinds: dict[int, str] = {}
        #: Runs of zero bytes and of other bytes, and zeros up to the end.
        self.zero_regions: list[Region] = []
        self.regions: list[Region] = []
        self.ends: list[Region] = []
        #: Positions in the survey of the other types with values that are not finite.
        self.not_finite: list[int] = []
        #: Positions of tensors whose payload and tail are in place: the rules on scales examine these.
        self.placed = array("q")


@analysis
def compared(subject: Subject) -> bool:
    """Whether some payload is large enough to be compared with others, or its rows with each other."""
    survey = subject.survey
    return survey is not None and any(survey.size(place) >= COMPARED for place in range(len(survey)))


@analysis
def payload_anomalies(subject: Subject) -> PayloadAnomalies:
    """The anomalies that rules on payloads report; none if payloads are not read."""
    found, survey = PayloadAnomalies(), subject.survey
    if survey is None:
        return found
    odd = extent_anomalies(subject).rows  # the extent does not fit the size; the rules on extents report it
    found.placed.extend(place for place, row in enumerate(survey.rows) if row not in odd)
    for place in survey.anomalous(_plain, min(REGION, END)):
        if survey.row(place) not in odd:
            tensor = survey[place]
            if tensor.read:
                _one(subject, found, place, tensor)
    for place in survey.anomalous_others(OTHER_REGION):
        other = survey.others[place]
        if other.row in odd:
            continue
        if other.non_finite:
            found.not_finite.append(place)
        run = other.longest_run
        if run is not None and run.value == 0 and run.length >= OTHER_REGION:
            region = Region(other.row, other.start + run.start, other.start + run.stop, 0)
            if not _in_hole(subject, region.start, run.length):
                found.zero_regions.append(region)
    return found


def _plain(counts: Sequence[int]) -> bool:
    """Whether shares of codes are no evidence: there are too few codes, or the shares are usual."""
    zero, one, two, three = counts
    seen = zero + one + two + three
    if three or seen < SHARES_FROM:
        return not three
    return USUAL_ZEROS[0] * seen <= one <= USUAL_ZEROS[1] * seen and abs(zero - two) <= LOPSIDED * (zero + two)


def _one(subject: Subject, found: PayloadAnomalies, place: int, tensor: TensorSurvey) -> None:
    zero, one, two, three = tensor.counts
    seen = zero + one + two + three
    if three:
        kind = _float_kind(subject, tensor) if three >= FLOATS_FROM * seen else None
        if kind is not None:
            found.floats.append(place)
            found.kinds[place] = kind
        elif (seen >= SHARES_FROM or three >= FOREIGN_FROM) and (two == 0 or zero == 0) and tensor.constant is None:
            found.foreign.append(place)
        else:
            found.unused.append(place)
        if tensor.constant is not None or kind is not None:
            return
    elif tensor.constant is not None:
        if tensor.read > 1 and not (tensor.constant == 0 and _in_hole(subject, tensor.start, tensor.payload_bytes)):
            found.constant.append(place)
        return
    whole = _runs(subject, found, tensor)
    if not whole or three or seen < SHARES_FROM:
        return
    share = one / seen
    if share < FEW_ZEROS:
        found.few_zeros.append(place)
    elif share > MOSTLY_ZEROS:
        found.mostly_zeros.append(place)
    elif not USUAL_ZEROS[0] <= share <= USUAL_ZEROS[1]:
        found.uncommon.append(place)
    if zero + two >= SHARES_FROM // 4 and abs(zero - two) > LOPSIDED * (zero + two):
        found.lopsided.append(place)


def _runs(subject: Subject, found: PayloadAnomalies, tensor: TensorSurvey) -> bool:
    """Record long runs of one byte; returns whether there was none."""
    last, longest = tensor.last_run, tensor.longest_run
    least = (END if tensor.payload_bytes >= END_FROM else SMALL_END) + prod(tensor.ne) % BLOCK // CODES_PER_BYTE
    at_end = last is not None and last.value == 0 and last.length >= least
    if last is not None and at_end and not _in_hole(subject, tensor.start + last.start, last.length):
        found.ends.append(Region(tensor.row, tensor.start + last.start, tensor.start + last.stop, 0))
    if longest is None or longest.length < REGION or (at_end and longest == last):
        return not at_end
    region = Region(tensor.row, tensor.start + longest.start, tensor.start + longest.stop, longest.value)
    if longest.value:
        found.regions.append(region)
    elif not _in_hole(subject, region.start, longest.length):
        found.zero_regions.append(region)
    return False


# --- floats where codes should be ---


def _float_kind(subject: Subject, tensor: TensorSurvey) -> str | None:
    """The float type that a payload with many codes 3 could hold: F32, BF16 or F16."""
    length = min(tensor.payload_bytes // 4 * 4, 4 * FLOATS_READ)
    if length < 256:
        return None
    data = subject.file.source.read(tensor.start + (tensor.payload_bytes - length) // 2 // 4 * 4, length)
    halves = numbers("H", data, subject.file.byte_order)
    words = numbers("f", data, subject.file.byte_order)
    if _share(words, lambda x: x == 0 or (isfinite(x) and 1e-9 < abs(x) < 1e3)) >= FLOATS_SENSIBLE:
        return "F32"
    if _share(halves, lambda h: h & 0x7FFF == 0 or 0x62 <= h >> 7 & 0xFF <= 0x88) >= FLOATS_SENSIBLE:
        return "BF16"
    if _share(halves, lambda h: h & 0x7C00 <= 0x4400 and (h & 0x7FFF == 0 or h & 0x7FFF > 0x0010)) >= FLOATS_SENSIBLE:
        return "F16"
    return None


def _share(values: Sequence[float] | Sequence[int], good: Callable[[float], bool] | Callable[[int], bool]) -> float:
    return sum(map(good, values)) / len(values)  # type: ignore[arg-type]


# --- bytes that were never written ---


def _in_hole(subject: Subject, start: int, length: int) -> bool:
    """Whether a part of these bytes was never written; another rule reports that."""
    return any(a < start + length and start < b for a, b in holes(subject))
