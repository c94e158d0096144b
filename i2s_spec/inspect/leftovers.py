"""This module traces the 28 bytes after a scale: zeros, copies of the scale, bytes of an earlier tensor, or unknown.

llama-quantize makes its tensors in one buffer, in the order of the table, and writes n/4 + 4 bytes of it. What it copies
out after those is what the last larger tensor left at the same place of the buffer (clause 6.1). Where the tails of a
file are such bytes, a C quantizer with a reused buffer has written it: nothing else explains 224 equal bits. Where they
are zeros although an earlier, larger tensor must have left something, it has not.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, MutableSequence
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.errors import Span
from i2s_spec.schema.types import SCALE_BYTES, TAIL_BYTES

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.survey.result import Survey

#: Tensors of a survey that `stale_tails` traces, the first ones; no real file has as many.
TRACED: Final = 4096
#: F32 tensors are copied from file to file, past the buffer.
_F32: Final = 0


class Leftovers(NamedTuple):
    """Places in a survey by what is after the scale; what is in none of the first three has zeros there."""

    #: Seven more copies of the scale.
    replicated: MutableSequence[int]
    #: 28 bytes that an earlier, larger tensor has at the same place; and the rows of those tensors.
    known: MutableSequence[int]
    known_of: MutableSequence[int]
    #: Other bytes.
    unknown: MutableSequence[int]


def leftovers(file: File, survey: Survey, places: Iterable[int] | None = None) -> Leftovers:
    """Look after the scales of the tensors of a survey, or of those at some places of it; 28 bytes are read for each."""
    wanted = bytearray(b"\x01" if places is None else b"\x00") * len(survey)
    for one in places or ():
        wanted[one] = 1
    found = Leftovers(*(array("q") for _ in range(4)))
    larger: list[tuple[int, int, int]] = []  # size, row, start: each earlier tensor of which the buffer holds an end
    for row, start, size, place in survey.extents():
        while larger and larger[-1][0] <= size:
            larger.pop()
        tail = survey.tail(place) if place is not None and wanted[place] else b""
        if place is not None and tail[SCALE_BYTES:].strip(b"\0"):
            if tail == tail[:SCALE_BYTES] * (TAIL_BYTES // SCALE_BYTES):
                found.replicated.append(place)
            elif larger and _holds(file, larger[-1][2] + size - TAIL_BYTES + SCALE_BYTES, tail[SCALE_BYTES:]):
                found.known.append(place)
                found.known_of.append(larger[-1][1])
            else:
                found.unknown.append(place)
        if file.index.tensor(row).type != _F32:
            larger.append((size, row, start))
    return found


def _holds(file: File, at: int, data: bytes) -> bool:
    return file.source.read(at, len(data)) == data


class Leftover(NamedTuple):
    """A tail whose unused bytes are bytes of an earlier tensor: both names, and where those bytes lie in that tensor."""

    name: bytes
    source: bytes
    start: int
    stop: int
    span: Span


class StaleTails(NamedTuple):
    """How many tails hold leftovers, the first whose bytes an earlier tensor has and how many such there are, and how many
    tails are zero although leftovers were due."""

    traced: int
    first: Leftover | None
    found: int
    spared: int


def stale_tails(file: File, survey: Survey | None) -> StaleTails:
    """The leftovers of a survey, with an example; none of a file that was not surveyed."""
    if survey is None or not len(survey):
        return StaleTails(0, None, 0, 0)
    places = range(min(len(survey), TRACED))
    traced = leftovers(file, survey, places)
    first = None
    if traced.known:
        tensor = survey[traced.known[0]]
        at = tensor.payload_bytes + 4
        source = file.index.tensor(traced.known_of[0]).name
        first = Leftover(tensor.name, source, at, at + TAIL_BYTES - 4, tensor.unused_span)
    stale = {*traced.known, *traced.unknown, *traced.replicated}
    return StaleTails(
        len(traced.known) + len(traced.unknown), first, len(traced.known), _spared(file, survey, stale)
    )  # fmt: skip


def _spared(file: File, survey: Survey, stale: set[int]) -> int:
    """How many tails are zero although a larger tensor went through the buffer before."""
    spared = largest = 0
    for row, _, size, place in islice(survey.extents(), 2 * TRACED):
        if place is not None and place not in stale and size < largest:
            spared += 1
        if file.index.tensor(row).type != _F32:
            largest = max(largest, size)
    return spared
