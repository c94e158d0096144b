"""Where the data section of a file begins, if its header does not state that rightly (clause 2.7).

A header with an impossible `general.alignment` says nothing of where tensors lie; their offsets and the end of the file may.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from i2s_spec.schema import limits, types
from i2s_spec.schema.types import padded

if TYPE_CHECKING:
    from i2s_spec.gguf._scanner import TensorInfo


class Laid(NamedTuple):
    """The tensor infos of a file, where they end, and the size of the file."""

    infos: Collection[TensorInfo]
    infos_end: int
    size: int


def alignment_of_offsets(laid: Laid, value: object) -> int | None:
    """The alignment to read a file with whose `general.alignment` is unusable; None where its offsets contradict it.

    Programs that do not refuse such a file take the value, if it is a power of two of another integer type, or 32.

    :param value: what the key holds, of whatever type
    """
    stated = value if isinstance(value, int) and not isinstance(value, bool) else 0
    usable = 8 <= stated <= limits.MAX_ALIGNMENT and stated & (stated - 1) == 0
    steps = dict.fromkeys((*((stated,) if usable else ()), limits.DEFAULT_ALIGNMENT))
    best = max(steps, key=lambda step: _agreement(laid, step, step))
    agreement = _agreement(laid, best, best)
    if not usable and stated > 0:
        agreement *= max(_agreement(laid, step, stated) for step in (stated, best)) <= agreement
    return best if agreement else None


def _agreement(laid: Laid, step: int, before: int) -> int:
    """What a file makes of an alignment of its offsets, and of another one of where they begin: 2 if offsets and end are
    what these give, 1 if the offsets are multiples of the first, else 0."""
    expected = end = 0
    exact = True
    for info in laid.infos:
        if info.offset % step:
            return 0
        size = _size(info.type, info.ne)
        exact = exact and size is not None and info.offset == expected
        if exact and size is not None:
            end = info.offset + size
            expected = padded(end, step)
    start = padded(laid.infos_end, before)
    return 2 if exact and laid.size in (start + end, start + expected) else 1


def _size(number: int, ne: tuple[int, ...]) -> int | None:
    """Bytes of a tensor whose number has one meaning; None where that or its shape does not tell."""
    readings = types.READINGS.get(number, ())
    if len(readings) != 1 or not ne or ne[0] % readings[0].block:
        return None
    return readings[0].nbytes(ne)
