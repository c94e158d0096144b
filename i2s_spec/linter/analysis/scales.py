"""The scales of a file, classified each by itself and by its siblings: an odd scale has exactly one kind of oddness.

The thresholds are stated here, once, with their reasons. The 28 bytes after the scales are classified, too
(`stale_tails`).
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, MutableSequence
from math import inf, isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.codec.buffers import numbers
from i2s_spec.inspect.survey import leftovers
from i2s_spec.linter.analysis.context import LintContext, analysis
from i2s_spec.linter.analysis.extents import USUAL
from i2s_spec.linter.analysis.payload_stats import payload_anomalies
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.types import SCALE_BYTES

if TYPE_CHECKING:
    from i2s_spec.inspect.survey import Leftovers, TensorSurvey

#: Below this a scale acts as 0: times 127 and times any activation it stays too small for a float16.
VANISHING: Final = 1e-12
#: A scale is an outlier if it is larger or smaller than the median of its siblings by this factor, ...
FAR: Final = 16
#: ... unless its reciprocal is within this factor of the median: then it is reported as a reciprocal. Trained scales of
#: one kind of tensor lie within a factor of 4 of each other over all layers.
NEAR: Final = 4
#: Fewest siblings for a median.
SIBLINGS: Final = 3

#: Bytes of a header before a payload.
HEADER: Final = 32

#: Digits of a layer's number at most.
_DIGITS: Final = 6


#: Positions in the survey and their scales; arrays, where they are many.
Scales = tuple[MutableSequence[int], MutableSequence[float]]


def scales(subject: LintContext) -> Iterator[tuple[int, float]]:
    """Yield position in the survey and scale of every tensor whose scale is in place and in the byte order of the file.

    If most scales are plausible only in the other byte order, another rule reports all of them.
    """
    return zip(*_scales(subject), strict=True)


@analysis
def _scales(subject: LintContext) -> Scales:
    anomalies, survey = payload_anomalies(subject), subject.payloads
    swapped = 0
    found: Scales = (array("q", anomalies.placed), array("d"))
    other: ByteOrder = "big" if subject.file.byte_order == "little" else "little"
    low, high = USUAL
    for place in anomalies.placed:
        scale = survey.scale(place)
        found[1].append(scale)
        if not low <= scale <= high:
            swapped += not usual(scale) and usual(numbers("f", survey.tail(place)[:SCALE_BYTES], other)[0])
    return ([], []) if 2 * swapped > len(found[0]) else found


def usual(scale: float) -> bool:
    """Whether a scale, or its absolute value, is like those of trained models."""
    return bool(USUAL[0] <= abs(scale) <= USUAL[1])  # false for NaN and infinities


def odd(subject: LintContext, kind: str) -> Iterator[tuple[int, TensorSurvey]]:
    """Yield the tensors whose scale has one kind of oddness; each scale has at most one kind."""
    survey = subject.payloads
    for place in odd_scales(subject).kinds.get(kind, ()):
        yield place, survey[place]


class OddScales(NamedTuple):
    """Positions in the survey by kind of oddness, and the median of the siblings of each scale that is a reciprocal."""

    kinds: dict[str, list[int]]
    medians: dict[int, float]


@analysis
def odd_scales(subject: LintContext) -> OddScales:
    """Return every odd scale of a file; each has at most one kind of oddness."""
    survey = subject.payloads
    kinds: dict[str, list[int]] = {}
    low, high = USUAL
    for place, scale in scales(subject):
        if not low <= scale <= high and (found := kind_of(scale)) is not None:
            header = in_front(subject, survey[place])
            kinds.setdefault(found if header is None else "header", []).append(place)
    medians = _reciprocals(groups(subject)) if spread(subject) >= FAR else {}
    if medians:
        kinds["reciprocal"] = sorted(medians)
        for kind in ("vanishing", "unusual"):
            kinds[kind] = [place for place in kinds.get(kind, ()) if place not in medians]
    return OddScales(kinds, medians)


@analysis
def spread(subject: LintContext) -> float:
    """Return how many times as large as the smallest the largest positive scale is: in most files, the factor shows that
    no scale is odd beside others.
    """
    positive = [scale for _, scale in scales(subject) if 0 < scale < inf]
    return max(positive) / min(positive) if positive else 1.0


def kind_of(scale: float) -> str | None:
    """Return how a scale is odd by itself: nan, infinite, zero, negative, vanishing or unusual; None if it is not."""
    if not isfinite(scale):
        return "infinite" if abs(scale) > 0 else "nan"
    if scale == 0:
        return "zero"
    if scale < 0:
        return "negative"
    if scale < VANISHING:
        return "vanishing"
    return None if USUAL[0] <= scale <= USUAL[1] else "unusual"


class ScaleInFront:
    """A scale before a payload: its value, its type, and the number of bytes before the codes."""

    def __init__(self, scale: float, type: str, size: int) -> None:
        self.scale, self.type, self.size = scale, type, size


def in_front(subject: LintContext, tensor: TensorSurvey) -> ScaleInFront | None:
    """Return the scale before a payload, if there is certainly one.

    A header of 32 bytes is a float followed by zeros, which as codes would be at least 112 weights of -1. If a float32
    alone precedes the codes, the codes are shifted: the place of the scale holds the last four bytes of codes, and the
    float, read as codes, contains a code 3, which ternary codes do not.
    """
    if tensor.payload_bytes < 64 or subject.ranges_are_few:
        return None
    head = subject.file.source.read(tensor.start, HEADER)
    single: float = numbers("f", head[:4], subject.file.byte_order)[0]
    if not any(head[4:]) and _positive(single):
        return ScaleInFront(single, "float32", HEADER)
    half = next((value for value in halves(head) if _positive(value)), None)
    if not any(head[2:]) and half is not None:
        return ScaleInFront(half, "float16", HEADER)
    inside = _unused(head[:4])
    if _positive(single) and inside and tensor.counts[3] == inside and tensor.complete and not _unused(tensor.tail[:4]):
        return ScaleInFront(single, "float32", 4)
    return None


def _positive(value: float) -> bool:
    return value > 0 and usual(value)


def _unused(data: bytes) -> int:
    """Return the number of codes 3 in some bytes."""
    return sum(byte >> shift & 3 == 3 for byte in data for shift in (0, 2, 4, 6))


def halves(head: bytes) -> tuple[float, float]:
    """Return the first two bytes as a float16 in either order."""
    return struct.unpack_from("<e", head)[0], struct.unpack_from(">e", head)[0]


def groups(subject: LintContext) -> dict[bytes, Scales]:
    """Return positions and scales of tensors, by name without the layer number."""
    survey = subject.payloads
    groups: dict[bytes, Scales] = {}
    for place, scale in scales(subject):
        named = in_layer(subject.name(survey.row(place)))
        name = named[1] if named is not None else b""
        group = groups.get(name)
        if group is None:
            group = groups[name] = array("q"), array("d")
        group[0].append(place)
        group[1].append(scale)
    return groups


def in_layer(name: bytes) -> tuple[bytes, bytes] | None:
    """Return the digits of the layer and the rest of a tensor's name; None if it is not in a layer.

    >>> in_layer(b"blk.3.ffn_up.weight"), in_layer(b"output.weight")
    ((b'3', b'ffn_up.weight'), None)
    """
    layer, _, rest = name[4:].partition(b".")
    if not name.startswith(b"blk.") or not layer.isdigit() or len(layer) > _DIGITS or not rest:
        return None
    return layer, rest


def _reciprocals(groups: dict[bytes, Scales]) -> dict[int, float]:
    """Return the positions of scales whose reciprocals are near the median of their siblings, and that median."""
    overall = median(scale for group in groups.values() for scale in group[1])
    found: dict[int, float] = {}
    for name, group in groups.items():
        nearby = median(group[1]) if name else None
        nearby = nearby if nearby is not None else overall
        if nearby is None:
            continue
        for place, scale in zip(*group, strict=True):
            if not (isfinite(scale) and scale > 0) or _factor(scale, nearby) < FAR:
                continue
            if 1 / scale < 3e38 and _factor(1 / scale, nearby) <= NEAR:
                found[place] = nearby
    return found


def median(scales: Iterable[float]) -> float | None:
    """Return the median of the positive finite scales, if there are more than `SIBLINGS`."""
    sound = sorted(scale for scale in scales if isfinite(scale) and scale > 0)
    return sound[len(sound) // 2] if len(sound) > SIBLINGS else None


def _factor(one: float, other: float) -> float:
    return max(one / other, other / one)


@analysis
def stale_tails(subject: LintContext) -> Leftovers | None:
    """Return the contents of the 28 bytes after the scales; None if all those bytes are zeros."""
    anomalies, survey = payload_anomalies(subject), subject.payloads
    if not any(survey.tail(place)[SCALE_BYTES:].strip(b"\0") for place in anomalies.placed):
        return None
    return leftovers(subject.file, survey, anomalies.placed)
