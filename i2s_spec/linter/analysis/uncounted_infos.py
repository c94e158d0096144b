"""This module finds tensor infos that the header does not count: they follow the last counted one."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from i2s_spec.gguf.reader import File
from i2s_spec.inspect.placement import sound_shape
from i2s_spec.linter.analysis.lenient_records import LenientRecords, StopWalkError
from i2s_spec.schema import limits, types

#: A usual tensor name, which padding or weights cannot form by chance.
_LETTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
_IN_NAME: Final = _LETTERS + b"0123456789.-"
#: Largest size of a tensor info: the longest such name and four dimensions.
_MOST = 8 + 64 + 4 + 4 * 8 + 4 + 8
#: Most of them that are counted.
_COUNTED = 65_536


class _Policy(NamedTuple):
    """How such a tensor info is read: it must be whole, and within the limits of our own reader."""

    end: Literal["no"] = "no"
    string_bytes: int = 64
    dimensions: int = limits.MAX_DIMENSIONS
    too_many_dimensions: str = "no"
    allocates: int | None = None


_POLICY: Final = _Policy()


class Uncounted(NamedTuple):
    """How many tensor infos follow the counted ones, the name of the first, and where the last one ends."""

    tensors: int
    first: bytes
    end: int


def uncounted(file: File) -> Uncounted | None:
    """The tensor infos after the last one that the header counts; None if there are none.

    Padding does not match: its zeros would be an empty name. Payloads do not match by chance, either: it takes eight
    bytes with a length below 65, a plain name of that length, a sound shape, a defined type and an aligned offset
    inside the file.
    """
    if file.infos_end is None or file.fault is not None:
        return None
    at, count, first = file.infos_end, 0, b""
    while count < _COUNTED and (found := _info(file, at)) is not None:
        name, at = found
        first, count = first or name, count + 1
    return Uncounted(count, first, at) if count else None


def _is_name(name: bytes) -> bool:
    """Whether it is a plain name of 3 to 64 bytes that begins with a letter."""
    return 3 <= len(name) <= 64 and name[0] in _LETTERS and not name.translate(None, _IN_NAME)


def _info(file: File, at: int) -> tuple[bytes, int] | None:
    """Name and end of the tensor info at a position, if there is one."""
    data = file.source.read(at, min(_MOST, max(0, file.size - at)))
    records = LenientRecords(data, _POLICY, file.size, at, big=file.byte_order == "big")
    try:
        info = records.tensor("")
    except StopWalkError:
        return None
    alignment = file.alignment or limits.DEFAULT_ALIGNMENT
    if not _is_name(info.name) or not sound_shape(info.ne) or info.number not in types.READINGS:
        return None
    if info.offset % alignment or info.offset > file.size:
        return None
    return info.name, records.at
