"""This module tells whether the bytes behind the scales are leftovers of one buffer, as `inspect.leftovers` traces them.

Where they are found again in an earlier tensor, the file was written by a C quantiser with a reused buffer, in the order
of the tensor table: nothing else explains 224 equal bits. Where they are zeros although an earlier, larger tensor must
have left something, it was not.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.errors import Span
from i2s_spec.schema.types import TAIL_BYTES

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.survey import Survey

#: Tensors of a survey that are traced, the first ones; no real file has as many.
TRACED: Final = 4096

_F32: Final = 0


class Leftover(NamedTuple):
    """A tail whose unused bytes are bytes of an earlier tensor: both names, and where those bytes lie in that tensor."""

    name: bytes
    source: bytes
    start: int
    stop: int
    span: Span


class Leftovers(NamedTuple):
    """What was found: stale tails, the first of those found again and how many there are, zero tails where leftovers
    were due."""

    traced: int
    first: Leftover | None
    found: int
    spared: int


def leftovers(file: File, survey: Survey | None) -> Leftovers:
    """Trace the tails of a survey."""
    if survey is None or not len(survey):
        return Leftovers(0, None, 0, 0)
    from i2s_spec.inspect.leftovers import leftovers as trace

    places = range(min(len(survey), TRACED))
    traced = trace(file, survey, places)
    first = None
    if traced.known:
        tensor = survey[traced.known[0]]
        at = tensor.payload_bytes + 4
        source = file.index.tensor(traced.known_of[0])[1]
        first = Leftover(tensor.name, source, at, at + TAIL_BYTES - 4, tensor.unused_span)
    stale = {*traced.known, *traced.unknown, *traced.replicated}
    return Leftovers(
        len(traced.known) + len(traced.unknown), first, len(traced.known), _spared(file, survey, stale)
    )  # fmt: skip


def _spared(file: File, survey: Survey, stale: set[int]) -> int:
    """How many tails are zero although a larger tensor went through the buffer before."""
    spared = largest = 0
    for row, _, size, place in islice(survey.extents(), 2 * TRACED):
        if place is not None and place not in stale and size < largest:
            spared += 1
        if file.index.tensor(row)[3] != _F32:
            largest = max(largest, size)
    return spared
