"""This module detects that all tensors are shifted by the same number of bytes from where the header puts them (clause
2.7).

If a writer leaves out the padding before the data section, counts offsets from the start of the file, or puts something
before the first tensor, that is one mistake, but every payload looks wrong to readers. It is reported only if the
offsets follow each other without gaps, the file ends where the shifted offsets say, and the weights agree.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final, NamedTuple

from i2s_spec.codec.buffers import numbers
from i2s_spec.schema.types import BY_NAME, I2_S, TAIL_BYTES, padded

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File
    from i2s_spec.inspect.placement import Placement, Placements

#: How many tensors are checked by their scale or their first floats.
_SAMPLED: Final = 16
#: Ranges of scales of trained models (clause 6.2) and of plausible floats, each with a wide margin.
_SCALES: Final = (1e-4, 1e2)
_FLOATS: Final = (1e-20, 1e20)
_F32: Final = BY_NAME["F32"].number


class Shift(NamedTuple):
    """Where the first tensor begins, and where the header puts it; the offset that its info states."""

    begins: int
    stated: int
    offset: int

    @property
    def bytes(self) -> int:
        """How many bytes later than stated all tensors begin; negative if they begin earlier."""
        return self.begins - self.stated

    @property
    def base(self) -> int:
        """The position that the offsets count from."""
        return self.begins - self.offset


def shifted(file: File, placements: Placements, step: int) -> Shift | None:
    """Where the data section is, if offsets and the end of the file contradict the header, and the weights agree.

    :param placements: every tensor, in the order of the offsets
    :param step: the alignment that the offsets use
    """
    if not placements or file.infos_end is None or file.data_start is None:
        return None
    first = placements[0].offset
    end = _end(placements, step)
    if end is None:
        return None
    ends = {end, first + padded(end - first, step)}
    if any(file.data_start + each == file.size for each in ends):
        return None
    found = []
    for each in ends:
        shift = Shift(file.size - each + first, file.data_start + first, first)
        if shift.begins >= file.infos_end and shift.base >= 0 and _agrees(file, placements, shift):
            found.append(shift)
    return found[0] if len(found) == 1 else None


def _end(placements: Placements, step: int) -> int | None:
    """Where the last tensor ends, by the offsets; None if the offsets do not follow each other in the order of the
    table."""
    expected = end = placements[0].offset
    for offset, size in placements.by_row().sizes():
        if not size or offset != expected:
            return None
        end = offset + size
        expected += padded(size, step)
    return end


def _agrees(file: File, placements: Placements, shift: Shift) -> bool:
    """Whether weights are plausible at the shifted position, and none are where the header puts them."""
    stated = shift.stated - shift.offset
    scales = [(p.offset + p.size - TAIL_BYTES, 1) for p in _sampled(placements, I2_S.number) if p.size]
    if scales:
        return _plausible(file, shift.base, scales, _SCALES) and not _plausible(file, stated, scales, _SCALES)
    # Without scales, only known mistakes count, and those that the padding shows.
    if shift.base and (shift.offset or shift.begins != file.infos_end):
        return False
    padding = file.source.read(shift.begins, max(0, min(stated, file.size) - shift.begins))
    floats = [(p.offset, min(8, (p.size or 0) // 4)) for p in _sampled(placements, _F32)]
    return (not shift.base or any(padding)) and _plausible(file, shift.base, floats, _FLOATS)


def _sampled(placements: Placements, number: int) -> list[Placement]:
    """Some tensors of a type, spread over the file."""
    tensors = [placement for placement in placements if placement.number == number]
    return tensors[:: max(1, len(tensors) // _SAMPLED)][:_SAMPLED]


def _plausible(file: File, base: int, places: list[tuple[int, int]], bounds: tuple[float, float]) -> bool:
    """Whether the floats at some positions are inside the file and plausible as weights."""
    source, order = file.source, file.byte_order
    least, most = bounds
    for at, count in places:
        if base + at + 4 * count > source.size:
            return False
        for value in numbers("f", source.read(base + at, 4 * count), order):
            if not isfinite(value) or (not least <= abs(value) <= most and (value != 0 or bounds is _SCALES)):
                return False
    return True
