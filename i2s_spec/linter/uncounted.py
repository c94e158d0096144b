"""This module finds tensor infos that the header does not count: they follow the last one that it does."""

import re
import struct
from typing import NamedTuple

from i2s_spec.gguf.reader import File
from i2s_spec.linter.placed import sound_shape
from i2s_spec.schema import limits, types

#: A tensor's name as models have it, and nothing that padding or weights would be by chance.
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_.\-]{2,63}")
#: Bytes of a length, and of a tensor info with the longest such name and four dimensions.
_LENGTH, _MOST = 8, 8 + 64 + 4 + 4 * 8 + 4 + 8
#: How many are counted.
_COUNTED = 65_536


class Uncounted(NamedTuple):
    """How many tensor infos follow those that are counted, the name of the first, and where the last one ends."""

    tensors: int
    first: bytes
    end: int


def uncounted(file: File) -> Uncounted | None:
    """The tensor infos behind the last one that the header counts; None where there are none.

    Padding is zeros, a name of no bytes, and payloads are no tensor infos by chance: a length below 65 in eight bytes, a
    plain name of that length, a sound shape, a type that is defined and an aligned offset inside the file.
    """
    if file.infos_end is None or file.fault is not None:
        return None
    at, count, first = file.infos_end, 0, b""
    while count < _COUNTED and (found := _info(file, at)) is not None:
        name, at = found
        first, count = first or name, count + 1
    return Uncounted(count, first, at) if count else None


def _info(file: File, at: int) -> tuple[bytes, int] | None:
    """Name and end of the tensor info at a place, if there is one."""
    mark = "<" if file.byte_order == "little" else ">"
    data = file.source.read(at, min(_MOST, max(0, file.size - at)))
    length = struct.unpack_from(f"{mark}Q", data)[0] if len(data) >= _LENGTH else 0
    name = data[_LENGTH : _LENGTH + length] if length <= 64 else b""
    behind = data[_LENGTH + length :] if len(name) == length else b""
    if not _NAME.fullmatch(name) or len(behind) < 4:
        return None
    (dimensions,) = struct.unpack_from(f"{mark}I", behind)
    if not 0 < dimensions <= limits.MAX_DIMENSIONS or len(behind) < 4 + 8 * dimensions + 12:
        return None
    *ne, number, offset = struct.unpack_from(f"{mark}{dimensions}QIQ", behind, 4)
    alignment = file.alignment or limits.DEFAULT_ALIGNMENT
    if not sound_shape(tuple(ne)) or number not in types.READINGS or offset % alignment or offset > file.size:
        return None
    return name, at + _LENGTH + length + 4 + 8 * dimensions + 12
