"""Where the tensors of a file lie: whether one follows the other, by which alignment, and from which byte on (clause 2.7).

`DataSection` is asked before the first byte of a tensor is read, by every part of the package: the linter reports what it
finds, and all other verbs read there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import counted
from i2s_spec.gguf.placement import Placements, placements_of
from i2s_spec.gguf.source import FetchingSource
from i2s_spec.schema import limits
from i2s_spec.schema.types import I2_S, SCALE_BYTES, TAIL_BYTES, padded

if TYPE_CHECKING:
    from i2s_spec.gguf.data_shift import Shift
    from i2s_spec.gguf.tensor import Tensors

#: Bytes before the data section that are read, and its first ones, to see whether a closer look is due.
LOOKED_AT: Final = 4096
FIRST: Final = 32
#: Gaps between tensors that are read to tell whether they are padding.
GAPS: Final = 8


class DataSection:
    """Where the tensors of a file lie.

    `shift` is how far all of them are from where the header puts them; offsets then count from where they are.
    `possible_shift` is one that the size of the file shows, and neither the weights nor the padding decide.
    """

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._index = tensors.index
        self._contiguous: dict[int, bool] = {}  # by the alignment
        self._looked = self._measured = False
        self.shift: Shift | None = None
        self.possible_shift: Shift | None = None

    @property
    def on_server(self) -> bool:
        """Whether every byte is fetched from a server."""
        return isinstance(self._index.source, FetchingSource)

    def locate(self, look: bool = True) -> None:
        """Find where the data section begins, unless that was done.

        :param look: whether bytes may be read although the end of the file is where the header puts it
        """
        self._index.locate = None
        if self._looked or (self._measured and not look):
            return
        self._measured, self._looked = True, look
        if not self._is_start_doubtful(look):
            return
        from i2s_spec.gguf.data_shift import shift_of

        self._looked = True
        self.shift, self.possible_shift = shift_of(
            self._index, self.placements, self.is_contiguous, self.effective_alignment, self.on_server
        )
        if self.shift is not None:
            self.begin_at(self.shift.base)

    def begin_at(self, start: int) -> None:
        """Count offsets from another position, and drop what was found for the previous one."""
        self._index.locate = None
        self._index.data_start = start
        for name in ("placements", "in_table_order", "size", "effective_alignment"):
            vars(self).pop(name, None)
        self._contiguous.clear()

    def _is_start_doubtful(self, look: bool) -> bool:
        """Whether a closer look is due: the end of the file does not fit, there are weights before the data section, or
        it begins with zeros."""
        index, placements = self._index, self.placements
        if not placements or index.infos_end is None or index.data_start is None:
            return False
        if not placements.end_at(self.size, self.effective_alignment):
            return True
        if not look:
            return False
        start = min(index.data_start, index.source.size)
        before = min(max(0, start - index.infos_end), LOOKED_AT)
        data = index.source.read(start - before, before + min(FIRST, self.size))
        return any(data[:before]) or not any(data[before:])

    @cached_property
    def size(self) -> int:
        """Bytes between its start and the end of the file."""
        return max(0, self._index.source.size - (self._index.data_start or 0))

    @cached_property
    def placements(self) -> Placements:
        """Every tensor in the order of the offsets; empty if the position of the data section is not known."""
        return placements_of(self._tensors, self.size)

    @cached_property
    def in_table_order(self) -> Placements:
        """The placements in the order of the tensor table."""
        return self.placements.by_row()

    @cached_property
    def effective_alignment(self) -> int:
        """The alignment that the offsets really use: that of the header, if none explains all of them."""
        stated = self._index.alignment or limits.DEFAULT_ALIGNMENT
        if self.shift is not None and self.shift.alignment:
            return self.shift.alignment
        if self.is_contiguous(stated):
            return stated
        others = (step for step in limits.ALIGNMENTS if self.is_contiguous(step) and self._is_padded_to(step, stated))
        return next(others, stated)

    def _is_padded_to(self, step: int, stated: int) -> bool:
        """Whether offsets that a larger alignment explains have only zeros between tensors, as padding has, and more than
        one tensor shows it; a smaller one leaves no room for anything else."""
        source, base, gaps = self._index.source, self._index.data_start or 0, 0
        if step < stated:
            return True
        for offset, size in self.in_table_order.sizes():
            start, stop = (base + offset + padded(size or 0, each) for each in (stated, step))
            if start < min(stop, source.size):
                gaps += 1
                if any(source.read(start, min(stop, source.size) - start)):
                    return False
                if gaps == GAPS:
                    break
        return gaps > 1

    @property
    def contiguous(self) -> bool:
        """Whether every tensor begins where the padded one before it ends, in the order of the table."""
        return not (self.placements and self.placements[0].offset) and self.is_contiguous(self.effective_alignment)

    def is_contiguous(self, alignment: int) -> bool:
        """Whether that is so with an alignment, wherever the first tensor begins."""
        if alignment not in self._contiguous:
            self._contiguous[alignment] = self._follow_each_other(alignment)
        return self._contiguous[alignment]

    def _follow_each_other(self, alignment: int) -> bool:
        expected = first = self.placements[0].offset if self.placements else 0
        for offset, size in self.in_table_order.sizes():
            if offset != expected or size is None:
                return False
            expected = first + padded(expected - first + size, alignment)
        return True

    def _has_data_behind(self) -> bool:
        """Whether other bytes than zeros follow the last tensor."""
        end = (self._index.data_start or 0) + self.placements.end
        return any(self._index.source.read(end, max(0, min(LOOKED_AT, self._index.source.size - end))))

    @property
    def words(self) -> str:
        """The warning for readers of tensors; empty if the tensors are where the header puts them."""
        shift, possible = self.shift, self.possible_shift
        if shift is not None:
            code = "G222 alignment-not-honoured" if shift.alignment else "G414 data-shifted"
            return f"{code}: all tensors lie {shift.words} than the header puts them, and are read there"
        if possible is not None and possible.bytes > 0 and self._has_data_behind():
            behind = counted(possible.bytes, "byte")
            return f"G407 trailing-bytes: {behind} at the end may be weights: all tensors may lie {possible.words}"
        return ""

    @property
    def stated_starts(self) -> set[int]:
        """Where the header puts the beginning; empty if it does not say."""
        if self._index.data_start is None or self._index.infos_end is None:
            return set()
        return {padded(self._index.infos_end, self._index.alignment or limits.DEFAULT_ALIGNMENT)}

    @property
    def possible_starts(self) -> set[int]:
        """Where it may begin: where it was found, and where the end of the file fits and the weights do not exclude it."""
        if self._index.data_start is None:
            return set()
        possible = self.possible_shift
        return {self._index.data_start, *([possible.base] if possible is not None else [])}


# --- bytes that may belong to tensors --------------------------------------------------------------------------------
# This holds even if tensors overlap or their sizes are unknown. Doubt counts as yes: for a type number with several
# meanings the largest size counts, and a tensor of unknown size may reach to the end of the file.

#: Elements of one block of the canonical layout: if a tensor ends inside a block, its last weights are in the tail.
_BLOCK = 128


class TensorBytes:
    """The bytes of a file that a tensor may hold as weights or scales.

    The 28 bytes after the scale of an I2_S matrix of whole blocks are not among them, unless another tensor lies there.
    """

    def __init__(self, tensors: Tensors, starts: Collection[int]) -> None:
        """
        :param starts: where the data section may begin
        """
        index, end_of_file = tensors.index, tensors.index.source.size
        #: Where the first tensor of unknown size begins; None if all sizes are known.
        self.unknown_from: int | None = None
        bases, beyond = sorted(starts), end_of_file + 1
        spans: list[tuple[int, int]] = []
        sizes: dict[tuple[tuple[int, ...], int], int | None] = {}
        for i in range(index.tensors if bases else 0):
            info = index.tensor(i)
            like, offset = (info.ne, info.type), info.offset
            if like not in sizes:
                sizes[like] = held_bytes(tensors, i)
            size = sizes[like]
            for base in bases:
                if size is None:
                    self.unknown_from = min(base + offset, self.unknown_from or base + offset)
                elif base + offset < end_of_file:
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


def held_bytes(tensors: Tensors, i: int) -> int | None:
    """Most bytes that a tensor may hold as weights or scales, by shape and type number; None if that is unknown."""
    info = tensors.index.tensor(i)
    if info.type == I2_S.number and prod(info.ne) % _BLOCK == 0 and prod(info.ne[2:]) == 1:
        return I2_S.nbytes(info.ne) - TAIL_BYTES + SCALE_BYTES
    return tensors.room_needed(tensors.by_index(i))
