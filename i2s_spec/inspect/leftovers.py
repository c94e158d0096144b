"""This module finds out where the 28 bytes behind a scale come from: an earlier tensor of the file, or nobody knows where.

llama-quantize makes its tensors in one buffer, in the order of the table, and writes n/4 + 4 bytes of it. What it copies
out behind those is what the last larger tensor left at the same place of the buffer (clause 6.1). Where that is so, byte
for byte, the file is its work; a writer of zeros, or one with another buffer, leaves no such bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.survey import Survey

SCALE_BYTES: Final = 4
#: F32 tensors are copied from file to file, past the buffer.
_F32: Final = 0


class Leftovers(NamedTuple):
    """Places in a survey by what is behind the scale; what is in none of the first three has zeros there."""

    #: Seven more copies of the scale.
    replicated: array[int]
    #: 28 bytes that an earlier, larger tensor has at the same place; and the rows of those tensors.
    known: array[int]
    known_of: array[int]
    #: Other bytes.
    unknown: array[int]


def leftovers(file: File, survey: Survey, places: Iterable[int] | None = None) -> Leftovers:
    """Look behind the scales of the tensors of a survey, or of those at some places of it; 28 bytes are read for each."""
    wanted = bytearray(b"\x01" if places is None else b"\x00") * len(survey)
    for one in places or ():
        wanted[one] = 1
    found = Leftovers(array("q"), array("q"), array("q"), array("q"))
    larger: list[tuple[int, int, int]] = []  # size, row, start: each earlier tensor of which the buffer holds an end
    for row, start, size, place in survey.extents():
        while larger and larger[-1][0] <= size:
            larger.pop()
        tail = survey.tail(place) if place is not None and wanted[place] else b""
        if place is not None and any(tail[SCALE_BYTES:]):
            if tail == tail[:SCALE_BYTES] * (TAIL_BYTES // SCALE_BYTES):
                found.replicated.append(place)
            elif larger and _holds(file, larger[-1][2] + size - TAIL_BYTES + SCALE_BYTES, tail[SCALE_BYTES:]):
                found.known.append(place)
                found.known_of.append(larger[-1][1])
            else:
                found.unknown.append(place)
        if file.index.tensor(row)[3] != _F32:
            larger.append((size, row, start))
    return found


def _holds(file: File, at: int, data: bytes) -> bool:
    return file.source.read(at, len(data)) == data
