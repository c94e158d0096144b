"""Oddities in the statistics of payloads: each tensor is classified once, by the rules that it concerns.

There is a part for I2_S and floats (`payload_anomalies`), one for types with a scale for each group
(`group_anomalies`), and one for equal payloads and equal rows (`duplicate_payloads`, `rows_are_equal`).

Statistics are never reported as errors. The thresholds below are so extreme that neither chance nor a sound model
reaches them: in a tensor of `SHARES_FROM` random codes, a deviation of shares by 0.02 is five standard deviations.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from math import isfinite, prod
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.codec.buffers import numbers
from i2s_spec.codec.observation import GROUPS_FROM, Groups
from i2s_spec.errors import Span
from i2s_spec.gguf.source import chunks
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.analysis.extents import BLOCK, extent_anomalies, holes
from i2s_spec.schema.blocks import FOURTH_CODE, GROUP_LAYOUTS, ROW_SCALES_APART, SCALES, BlockLayout, GroupScale
from i2s_spec.schema.dialect import CODES_PER_BYTE
from i2s_spec.schema.types import BY_NAME, I2_S, NUMBER_FORMS, NUMPY_TYPES, READINGS

if TYPE_CHECKING:
    from i2s_spec.inspect.survey import OtherSurvey, TensorSurvey

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


class Region:
    """A run of one byte in a tensor, in the file."""

    def __init__(self, row: int, start: int, stop: int, value: int) -> None:
        self.row, self.start, self.stop, self.value = row, start, stop, value


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
        #: Positions in the survey of float tensors with values that are not finite, and of quantized tensors, other than
        #: ternary ones, with such scales.
        self.not_finite: list[int] = []
        self.scales: list[int] = []
        #: Positions of tensors whose payload and tail are in place: the rules on scales examine these.
        self.placed = array("q")


@analysis
def compared(subject: LintContext) -> bool:
    """Whether some payload is large enough to be compared with others, or its rows with each other."""
    survey = subject.survey
    return survey is not None and any(survey.size(place) >= COMPARED for place in range(len(survey)))


@analysis
def payload_anomalies(subject: LintContext) -> PayloadAnomalies:
    """Return the anomalies that rules on payloads report; none if payloads are not read."""
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
            (found.not_finite if other.type in NUMBER_FORMS else found.scales).append(place)
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


def _one(subject: LintContext, found: PayloadAnomalies, place: int, tensor: TensorSurvey) -> None:
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


def _runs(subject: LintContext, found: PayloadAnomalies, tensor: TensorSurvey) -> bool:
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


def _float_kind(subject: LintContext, tensor: TensorSurvey) -> str | None:
    """Return the float type that a payload with many codes 3 could hold: F32, BF16 or F16."""
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


def _in_hole(subject: LintContext, start: int, length: int) -> bool:
    """Whether a part of these bytes was never written; another rule reports that."""
    return any(a < start + length and start < b for a, b in holes(subject))


# --- types with a scale for each group -------------------------------------------------------------------------------
# Scales differ because groups do: each is the largest magnitude of its weights. The thresholds below are so extreme that
# no trained weights reach them. For Student's t with two degrees of freedom, whose tails are heavier than those of any
# trained matrix, the largest of 2^24 group scales is about 2^12 times their median: maxima of n values grow with the
# square root of n. Groups of zeros, or of tiny values, are usual, for example in rows of an embedding that no token uses.
# So only the distance of the largest scales from most others counts, and whether one quarter of the scales is as far from
# another quarter.

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
def group_anomalies(subject: LintContext) -> GroupAnomalies:
    """Return the anomalies that rules on groups report; the payloads must be read."""
    survey = subject.payloads
    found, odd = GroupAnomalies(), extent_anomalies(subject).rows
    found.row_scales.update(_odd_row_scales(subject))
    for place in sorted((*survey.anomalous_groups(_plain_groups), *found.row_scales)):
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


def _odd_row_scales(subject: LintContext) -> Iterator[tuple[int, Groups]]:
    """Yield the I2_SR tensors with anomalies that were surveyed whole, by their positions, with their contents.

    They are read once more, a few megabytes at a time; few files have any.
    """
    survey, file = subject.payloads, subject.file
    layout = ROW_SCALES_APART
    for place in survey.others_of(layout.type.number):
        other = survey.others[place]
        if other.type != layout.name or not other.complete:
            continue
        from i2s_spec.codec.blocks import observe_row_scales
        from i2s_spec.codec.native import count_codes

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
        if not _plain_groups(groups):
            yield place, groups


def odd_groups(subject: LintContext, topic: str) -> Iterator[tuple[OtherSurvey, Groups, BlockLayout]]:
    """Yield the tensors of a topic, with the survey and the positions of their groups."""
    verdict, survey = group_anomalies(subject), subject.payloads
    for place in getattr(verdict, topic):
        other = survey.others[place]
        groups = verdict.row_scales.get(place, other.groups)
        assert groups is not None
        yield other, groups, GROUP_LAYOUTS[other.type]


#: The types whose scales can be infinite or NaN.
SCALES_CHECKED: Final = frozenset(name for name, scales in SCALES.items() if scales[0].form.mask)


class ScalesNotFinite(NamedTuple):
    """The scales of a tensor that are infinite or NaN: how many, of how many that were read; and the first one: which of a
    block it is, the number of the block, or of the row that has it, and its row in the tensor."""

    other: OtherSurvey
    infinite: int
    scales: int
    scale: GroupScale
    group: int
    row: int
    span: Span


def scales_not_finite(subject: LintContext) -> Iterator[ScalesNotFinite]:
    """Yield every tensor with such scales, in the order of the table."""
    survey = subject.payloads
    ternary = {other.row: (groups, layout) for other, groups, layout in odd_groups(subject, "not_finite")}
    for place in sorted((*group_anomalies(subject).not_finite, *payload_anomalies(subject).scales)):
        other = survey.others[place]
        scales, kind = SCALES[other.type], BY_NAME[other.type]
        in_row = other.ne[0] // kind.block  # blocks
        if other.row in ternary:
            groups, layout = ternary[other.row]
            first = groups.first_infinite
            row = first if layout.scale.per == "row" else first // in_row
            span = scale_span(other, layout, first)
            yield ScalesNotFinite(other, groups.infinite, groups.scales, layout.scale, first, row, span)
            continue
        assert other.first_non_finite is not None
        first, inside = divmod(other.first_non_finite, kind.bytes)
        scale = next(each for each in scales if each.offset == inside)
        start = other.start + first * kind.bytes
        span = Span(start, start + kind.bytes, f"data[{other.row}].block")
        read = other.read // kind.bytes * len(scales)
        yield ScalesNotFinite(other, other.non_finite, read, scale, first, first // in_row, span)


def block_span(other: OtherSurvey, layout: BlockLayout, at: int) -> Span:
    """Return the block that holds a byte of a payload."""
    unit, front = _unit(other, layout)
    row, inside = at // unit * unit, at % unit
    start = row + front + (inside - front) // layout.nbytes * layout.nbytes if inside >= front else row
    return Span(other.start + start, other.start + start + layout.nbytes, f"data[{other.row}].block")


def scale_span(other: OtherSurvey, layout: BlockLayout, group: int) -> Span:
    """Return the block of a scale, by the number of its group; for the scale of a row, only the scale."""
    if layout.scale.apart:
        start = other.start + prod(other.ne) // CODES_PER_BYTE + group * layout.scale.nbytes
        return Span(start, start + layout.scale.nbytes, f"data[{other.row}].scales[{group}]")
    unit, front = _unit(other, layout)
    start = other.start + group * unit
    return Span(start, start + (front or unit), f"data[{other.row}].{'scale' if front else 'block'}")


def _unit(other: OtherSurvey, layout: BlockLayout) -> tuple[int, int]:
    """Return the bytes from one scale to the next, and the bytes before the blocks of a row."""
    front = layout.type.row_bytes
    return (front + other.ne[0] // layout.block * layout.nbytes, front) if front else (layout.nbytes, 0)


def far_apart(octaves: Sequence[int]) -> int:
    """Count the scales that are far above the upper quartile; or above the lower one, if the two quartiles are that far
    apart. 0 if the scales differ no more than in trained models."""
    total = sum(octaves)
    if total < GROUPS_FROM:
        return 0
    lower, upper = _octave(octaves, total, 1), _octave(octaves, total, 3)
    return sum(octaves[(lower if upper - lower > FAR else upper) + FAR + 1 :])


def _octave(octaves: Sequence[int], total: int, quarter: int) -> int:
    """Return the octave of a quartile."""
    reached = 0
    for octave, count in enumerate(octaves):
        reached += count
        if 4 * reached >= quarter * total:
            return octave
    raise AssertionError("a quarter is at most the whole")


def _plain_groups(groups: Groups) -> bool:
    odd = groups.odd or groups.infinite or groups.negative or groups.lost
    return not (odd or far_apart(groups.octaves))


# --- types whose contents were examined ------------------------------------------------------------------------------
# For verdicts, which claim no more than was looked at.


class ExaminedTypes(NamedTuple):
    """The types of a file's tensors by what is known of their contents, each in the order of the table.

    :param examined: codes, values or scales were examined
    :param free: every byte is valid
    :param unknown: nothing is known of their contents: the number of a type without a name
    :param unread: how many tensors were not read: they overlap, reach beyond the file, or were left out of a sample
    """

    examined: tuple[str, ...]
    free: tuple[str, ...]
    unknown: tuple[str, ...]
    unread: int


@analysis
def examined_types(subject: LintContext) -> ExaminedTypes | None:
    """Return what was examined of the payloads, by type; None if they were not read."""
    survey, index = subject.survey, subject.file.index
    if survey is None:
        return None
    kinds: dict[int, str] = {}
    named: dict[str, None] = {}
    for row in range(index.tensors):
        number = index.tensor(row).type
        if number not in kinds:
            kind = subject.file.tensors.by_index(row).type
            name = f"type {number}" if kind is None else kind.name
            named[name] = None
            if len(READINGS.get(number, ())) < 2:  # else tensors differ
                kinds[number] = name
    examined = [name for name in named if name == I2_S.name or name in NUMBER_FORMS or name in SCALES_CHECKED]
    free = [name for name in named if name not in examined and (name in SCALES or name in NUMPY_TYPES)]
    unknown = [name for name in named if name not in examined and name not in free]
    read = len(survey) + len(survey.others)
    return ExaminedTypes(tuple(examined), tuple(free), tuple(unknown), index.tensors - read)


# --- equal payloads and equal rows -----------------------------------------------------------------------------------
# Fingerprints give candidates; a comparison of every byte confirms them.

#: Fewest rows of a tensor whose equality means anything.
LIKE_ROWS: Final = 4
#: Most tensors that are read again to see whether equal fingerprints mean equal payloads.
CONFIRMED: Final = 1024
#: Bytes that are compared at once, and bytes of the first, quick comparison.
STEP: Final = 1 << 20
NEARBY: Final = 512


class DuplicatePayload(NamedTuple):
    """Two tensors with the same payload, by their positions in the survey; the first is the earlier one."""

    first: int
    second: int


@analysis
def duplicate_payloads(subject: LintContext) -> list[DuplicatePayload]:
    """Return each tensor with the payload of an earlier one, and the first that has it; every byte was compared."""
    survey, anomalies = subject.survey, payload_anomalies(subject)
    assert survey is not None
    skipped = {*anomalies.constant, *anomalies.floats}
    groups: dict[tuple[int, int], list[int]] = {}
    for place in anomalies.placed:
        if survey.size(place) < COMPARED or place in skipped:
            continue
        digest, size = survey.digest(place)
        if digest is not None:
            groups.setdefault((digest, size), []).append(place)
    pairs: list[DuplicatePayload] = []
    budget = CONFIRMED
    for places in groups.values():
        left = places
        while len(left) > 1 and budget > 0:
            first, rest = left[0], left[1 : budget + 1]
            left = []
            for place in rest:
                if _equal(subject, survey[first], survey[place]):
                    pairs.append(DuplicatePayload(first, place))
                else:
                    left.append(place)
            budget -= len(rest)
    return sorted(pairs, key=lambda pair: pair.second)


def _equal(subject: LintContext, one: TensorSurvey, other: TensorSurvey) -> bool:
    return _same_bytes(subject, one.start, other.start, one.payload_bytes)


def _same_bytes(subject: LintContext, one: int, other: int, size: int) -> bool:
    source = subject.file.source
    for at in range(0, size, STEP):
        length = min(STEP, size - at)
        if source.read(one + at, length) != source.read(other + at, length):
            return False
    return True


def rows_are_equal(subject: LintContext, tensor: TensorSurvey) -> bool:
    """Whether all rows of a payload are equal; if the first two rows agree, every byte is compared."""
    row = tensor.ne[0] // 4
    if tensor.ne[0] % 4 or prod(tensor.ne[1:]) < LIKE_ROWS or tensor.payload_bytes < COMPARED:
        return False
    return _same_bytes(subject, tensor.start, tensor.start + row, min(row, NEARBY)) and _same_bytes(
        subject, tensor.start, tensor.start + row, tensor.payload_bytes - row
    )
