"""This module judges the room that every tensor has: the bytes from where it begins to where the next one does.

Of most files all rooms are the padded sizes of their tensors, and no rule has anything to look at. The others are judged
here once for all rules: what a wrong idea of the size explains, what is too large, and where padding lies.
"""

import struct
from array import array
from collections.abc import Iterator
from itertools import chain, islice
from math import prod

from i2s_spec.linter.placed import Placement, Room
from i2s_spec.linter.subject import Subject
from i2s_spec.schema.types import I2_S, TAIL_BYTES, padded

#: Where the scales of trained models lie, with a margin of a power of ten or more on either side: the float32 1e-4 to 1e2.
USUAL = (struct.unpack("<f", struct.pack("<f", 1e-4))[0], 1e2)

#: Codes of I2_S in a byte, and rows that are looked at for a scale in front.
CODES_PER_BYTE, ROWS = 4, 8

#: Elements of one block of the canonical layout, `interleave-128`.
BLOCK = 128


class Rooms:
    """The rooms that rules have to look at, kept as places in the order of the offsets: there may be very many."""

    def __init__(self) -> None:
        #: Those that a wrong idea of the tensor's size explains, by the idea; and the rows of their tensors.
        self.misjudged: dict[str, array[int]] = {}
        self.rows: set[int] = set()
        #: Those that are larger than the padded size of the tensor, for no such reason.
        self.wide = array("q")
        #: Those with padding behind the tensor, where nothing is wrong with its size.
        self.padding = array("q")


def judged(subject: Subject) -> Rooms:
    """The rooms of a file; looked at once for all rules."""
    found = subject.kept.get("rooms")
    if found is None:
        found = subject.kept["rooms"] = _judged(subject)
    assert isinstance(found, Rooms)
    return found


def _judged(subject: Subject) -> Rooms:
    found, step, placements = Rooms(), subject.step, subject.placements
    covered = 0  # how far tensors before this one reach: what they cover is neither padding nor a gap
    ends = chain((placement.offset for placement in islice(placements, 1, None)), (subject.data_size,))
    for place, (placement, end) in enumerate(zip(placements, ends, strict=False)):
        size, room = placement.size, end - placement.offset
        if not size:
            continue
        whole = -(-size // step) * step
        before, covered = covered, max(covered, placement.offset + size)
        if room != whole:
            idea = misjudged_room(subject, placement, room)
            if idea is not None:
                found.misjudged.setdefault(idea, array("q")).append(place)
                found.rows.add(placement.row)
                continue
            if room > whole and before < end:
                found.wide.append(place)
        if size < whole and size < room and before <= placement.offset + size:
            found.padding.append(place)
    return found


def misjudged(subject: Subject, idea: str) -> Iterator[Room]:
    """The rooms that a wrong idea of the tensor's size explains."""
    return map(subject.room, judged(subject).misjudged.get(idea, ()))


def wide(subject: Subject) -> Iterator[Room]:
    """The rooms that are larger than the padded size of the tensor, for no such reason."""
    return map(subject.room, judged(subject).wide)


def padding(subject: Subject) -> Iterator[Room]:
    """The rooms with padding behind the tensor, where nothing is wrong with its size."""
    return map(subject.room, judged(subject).padding)


def misjudged_room(subject: Subject, placement: Placement, room: int) -> str | None:
    """Which wrong idea of an I2_S tensor's size explains the distance to the next tensor, if one does.

    `no-tail`: the writer left out (a part of) the 32 bytes; `unpacked`: one byte for each weight; `whole-blocks`:
    payload padded to blocks of 128; `row-scales`: every row has a scale in front; `chunks`: every chunk of a threaded
    quantiser wrote a tail of its own.
    """
    size = placement.size
    if placement.number != I2_S.number or size is None or room <= 0 or room == padded(size, subject.step):
        return None
    payload, step = size - TAIL_BYTES, subject.step
    if payload <= room < size:
        return "no-tail"
    n = prod(subject.file.index.tensor(placement.row)[2])
    if room == padded(n, step):
        return "unpacked"
    if room == padded(-(-n // BLOCK) * TAIL_BYTES + TAIL_BYTES, step):
        return "whole-blocks"
    if row_scales(subject, placement, room):
        return "row-scales"
    return "chunks" if chunks(subject, placement, room) else None


def row_scales(subject: Subject, placement: Placement, room: int) -> tuple[int, int] | None:
    """Rows and bytes of the float in front of each of them that explain the room of an I2_S tensor, if they do.

    The room alone does not: in some rows, wherever they begin then, there is a float like the scales of trained models.
    """
    ne = subject.file.index.tensor(placement.row)[2]
    rows, row = prod(ne[1:]), ne[0] // CODES_PER_BYTE
    mark = "<" if subject.file.byte_order == "little" else ">"
    for width, form in ((4, "f"), (2, "e")):
        whole = rows * (row + width)
        if ne[0] % CODES_PER_BYTE or rows < ROWS or room != padded(whole, subject.step):
            continue
        start = (subject.file.data_start or 0) + placement.offset
        if start + whole > subject.file.size:
            continue
        places = (start + rows * number // ROWS * (row + width) for number in range(ROWS))
        scales = [struct.unpack(mark + form, subject.file.source.read(at, width))[0] for at in places]
        if all(scale > 0 and USUAL[0] <= scale <= USUAL[1] for scale in scales):
            return rows, width
    return None


def chunks(subject: Subject, placement: Placement, room: int) -> int:
    """How many chunks with a tail each explain the room of an I2_S tensor; 0 where they do not.

    A threaded quantiser splits a tensor by rows, so there are no more chunks than rows, and what lies behind the proper
    end is the rest of the weights, not zeros. The first chunk keeps its scale behind its codes: without one there, more
    than a second tail is a gap with something else in it.
    """
    ne = subject.file.index.tensor(placement.row)[2]
    n = prod(ne)
    extra = room - n // 4
    count = extra // TAIL_BYTES
    if extra % TAIL_BYTES or not 2 <= count <= prod(ne[1:]) or room <= padded(n // 4 + TAIL_BYTES, subject.step):
        return 0
    start = (subject.file.data_start or 0) + placement.offset + n // 4 + TAIL_BYTES
    stop = min(start + extra - TAIL_BYTES, subject.file.size)
    if start >= stop:  # the file is cut before them
        return 0
    if not any(subject.file.source.read(start, min(stop - start, 4096))):
        return 0
    return count if count == 2 or _scale_of_chunk(subject, placement, -(-prod(ne[1:]) // count)) else 0


def _scale_of_chunk(subject: Subject, placement: Placement, rows: int) -> bool:
    """Whether a scale like those of trained models stands behind the codes of a tensor's first rows."""
    ne = subject.file.index.tensor(placement.row)[2]
    at = (subject.file.data_start or 0) + placement.offset + rows * ne[0] // CODES_PER_BYTE
    data = subject.file.source.read(at, 4) if at + 4 <= subject.file.size else b""
    mark = "<f" if subject.file.byte_order == "little" else ">f"
    return len(data) == 4 and USUAL[0] <= struct.unpack(mark, data)[0] <= USUAL[1]
