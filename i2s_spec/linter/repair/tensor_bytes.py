"""This module says which bytes of a file may belong to tensors, even if tensors overlap or their sizes are unknown.

A repair without review changes none of them. Doubt counts as yes: for a type number with several meanings the largest
size counts, and a tensor of unknown size may reach to the end of the file.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from math import prod

from i2s_spec.gguf.reader import File
from i2s_spec.inspect.placement import LEGACY_I2_S
from i2s_spec.schema import limits, types
from i2s_spec.schema.types import I2_S, SCALE_BYTES, TAIL_BYTES, padded

#: Elements of one block of the canonical layout: if a tensor ends inside a block, its last weights are in the tail.
_BLOCK = 128


class TensorBytes:
    """The bytes of a file that a tensor may hold as weights or scales.

    The 28 bytes after the scale of an I2_S matrix of whole blocks are not among them, unless another tensor lies there.
    """

    def __init__(self, file: File) -> None:
        index = file.index
        #: Where the first tensor of unknown size begins; None if all sizes are known.
        self.unknown_from: int | None = None
        bases, beyond = sorted(_bases(file)), file.size + 1
        spans: list[tuple[int, int]] = []
        sizes: dict[tuple[tuple[int, ...], int], int | None] = {}
        for i in range(index.tensors if bases else 0):
            info = index.tensor(i)
            like, offset = (info.ne, info.type), info.offset
            if like not in sizes:
                sizes[like] = held_bytes(*like)
            size = sizes[like]
            for base in bases:
                if size is None:
                    self.unknown_from = min(base + offset, self.unknown_from or base + offset)
                elif base + offset < file.size:
                    spans.append((base + offset, min(base + offset + size, beyond)))
        self._starts, self._ends = array("Q"), array("Q")
        for start, end in sorted(spans):
            if self._ends and start < self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            elif start < end:
                self._starts.append(start)
                self._ends.append(end)

    def why_not(self, start: int, stop: int) -> str | None:
        """Why a range of the file is not free, in words; an empty range is not free if it is inside a tensor."""
        place = bisect_right(self._starts, start) - 1
        if place >= 0 and start < self._ends[place] and (start < stop or self._starts[place] < start):
            return "a tensor lies there"
        if place + 1 < len(self._starts) and self._starts[place + 1] < stop:
            return "a tensor lies there"
        if self.unknown_from is not None and max(stop, start + 1) > self.unknown_from:
            return "a tensor of unknown size begins before it, and may reach it"
        return None


def held_bytes(ne: tuple[int, ...], number: int) -> int | None:
    """Most bytes that a tensor may hold as weights or scales, by shape and type number; None if that is unknown."""
    first = ne[0] if ne else 1
    kinds = [kind for kind in types.READINGS.get(number, ()) if first % kind.block == 0]
    sizes = [kind.nbytes(ne) for kind in kinds]
    if number in LEGACY_I2_S and kinds:
        sizes.append(I2_S.nbytes(ne))
    if kinds == [I2_S] and prod(ne) % _BLOCK == 0 and prod(ne[2:]) == 1:
        return sizes[0] - TAIL_BYTES + SCALE_BYTES
    return max(sizes, default=None)


def _bases(file: File) -> set[int]:
    """Where the data section may begin: by the header, and by the offsets and the end of the file."""
    if file.data_start is None:
        return set()
    stated = (
        {padded(file.infos_end, file.alignment or limits.DEFAULT_ALIGNMENT)} if file.infos_end is not None else set()
    )
    return {file.data_start, *stated}
