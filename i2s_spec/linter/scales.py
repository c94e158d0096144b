"""This module judges the scales of a file, each alone and beside its siblings: every odd one is odd in one way.

The thresholds are stated here, once, with their reasons.
"""

from __future__ import annotations

import re
import struct
from array import array
from collections.abc import Iterable, Iterator
from math import isfinite, isinf, isnan
from typing import TYPE_CHECKING, Final

from i2s_spec.linter.subject import Subject
from i2s_spec.linter.weighing import weighed

if TYPE_CHECKING:
    from i2s_spec.inspect.survey import TensorSurvey

#: Below this a scale is as good as none: times 127 and times any activation it stays too small for a float16.
VANISHING: Final = 1e-12
#: Where the scales of trained models lie, with a margin of a power of ten or more on either side: the float32 1e-4 to 1e2.
USUAL: Final = (struct.unpack("<f", struct.pack("<f", 1e-4))[0], 1e2)
#: A scale is foreign among its siblings where it is so many times as large or as small as their median, ...
FAR: Final = 16
#: ... and its reciprocal at home where it is within this factor of the median. Trained scales of one kind of tensor lie
#: within a factor of 4 of each other over all layers.
NEAR: Final = 4
#: How many siblings a median needs.
SIBLINGS: Final = 3

LAYER = re.compile(rb"(?:blk\.)(\d{1,6})\.(.+)")


#: Places in the survey and their scales: a file may have a hundred thousand, so that they are kept as numbers.
Scales = tuple["array[int]", "array[float]"]


def scales(subject: Subject) -> Iterator[tuple[int, float]]:
    """Place in the survey and scale of every tensor whose scale is where it should be and in the order of the file.

    Where most scales make sense only in the other byte order, there is another rule for all of them.
    """
    verdict, survey = weighed(subject), subject.survey
    if verdict is None or survey is None:
        return iter(())
    kept: Scales | None = subject.kept.get("scales")
    if kept is None:
        kept, swapped = (array("q"), array("d")), 0
        mark = ">f" if subject.file.byte_order == "little" else "<f"
        for place in verdict.placed:
            tail = survey.tail(place)
            scale = survey.scale(place)
            kept[0].append(place)
            kept[1].append(scale)
            swapped += not usual(scale) and usual(struct.unpack_from(mark, tail)[0])
        if 2 * swapped > len(kept[0]):
            kept = (array("q"), array("d"))
        subject.kept["scales"] = kept
    return zip(*kept, strict=True)


def usual(scale: float) -> bool:
    """Whether a scale, or its absolute value, is like those of trained models."""
    return isfinite(scale) and USUAL[0] <= abs(scale) <= USUAL[1]


def odd(subject: Subject, kind: str) -> Iterator[tuple[int, TensorSurvey]]:
    """The tensors whose scale is of one kind of oddness; each scale is of one kind at most."""
    survey = subject.survey
    if survey is None:
        return
    kinds: dict[str, list[int]] | None = subject.kept.get("odd scales")
    if kinds is None:
        kinds = subject.kept["odd scales"] = {}
        for place, scale in scales(subject):
            if (found := kind_of(scale)) is not None:
                kinds.setdefault(_header_kind(subject, survey[place]) or found, []).append(place)
        _reciprocals(subject, groups(subject), kinds)
    for place in kinds.get(kind, ()):
        yield place, survey[place]


def kind_of(scale: float) -> str | None:
    """In which way a scale is odd by itself: nan, infinite, zero, negative, vanishing or unusual; None for the others."""
    if isnan(scale):
        return "nan"
    if isinf(scale):
        return "infinite"
    if scale == 0:
        return "zero"
    if scale < 0:
        return "negative"
    if scale < VANISHING:
        return "vanishing"
    return None if USUAL[0] <= scale <= USUAL[1] else "unusual"


def _header_kind(subject: Subject, tensor: TensorSurvey) -> str | None:
    """Whether the tensor begins with a float16 scale and zeros, as blocks of a fork for PowerPC do."""
    if tensor.payload_bytes < 64:
        return None
    head = subject.file.source.read(tensor.start, 32)
    if any(head[2:]):
        return None
    return "header" if any(usual(value) and value > 0 for value in halves(head)) else None


def halves(head: bytes) -> tuple[float, float]:
    """The first two bytes as a float16 in either order."""
    return struct.unpack_from("<e", head)[0], struct.unpack_from(">e", head)[0]


def groups(subject: Subject) -> dict[bytes, Scales]:
    """Places and scales of tensors by what their names say without the number of the layer."""
    survey = subject.survey
    assert survey is not None
    groups: dict[bytes, Scales] = {}
    for place, scale in scales(subject):
        match = LAYER.fullmatch(subject.name(survey.row(place)))
        name = match[2] if match else b""
        group = groups.get(name)
        if group is None:
            group = groups[name] = array("q"), array("d")
        group[0].append(place)
        group[1].append(scale)
    return groups


def _reciprocals(subject: Subject, groups: dict[bytes, Scales], kinds: dict[str, list[int]]) -> None:
    """Scales that would be at home among their siblings as their reciprocals; such a one is nothing else besides."""
    everybody = median(scale for group in groups.values() for scale in group[1])
    found: dict[int, float] = {}
    for name, group in groups.items():
        middle = median(group[1]) if name else None
        middle = middle if middle is not None else everybody
        if middle is None:
            continue
        for place, scale in zip(*group, strict=True):
            if not (isfinite(scale) and scale > 0):
                continue
            away, back = _factor(scale, middle), _factor(1 / scale, middle) if 1 / scale < 3e38 else FAR
            if away >= FAR and back <= NEAR:
                found[place] = middle
    subject.kept["middles"] = found
    if found:
        kinds["reciprocal"] = sorted(found)
        for kind in ("vanishing", "unusual"):
            kinds[kind] = [place for place in kinds.get(kind, ()) if place not in found]


def median(scales: Iterable[float]) -> float | None:
    """The median of those that are positive and finite, if they are more than `SIBLINGS`."""
    sound = sorted(scale for scale in scales if isfinite(scale) and scale > 0)
    return sound[len(sound) // 2] if len(sound) > SIBLINGS else None


def _factor(one: float, other: float) -> float:
    return max(one / other, other / one)
