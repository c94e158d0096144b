"""Where the table puts the tensors of a file, the room that each has there, and what sizes there can be."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import chain, islice
from math import prod
from typing import NamedTuple

from i2s_spec.gguf.tensor import Tensors
from i2s_spec.schema import limits, types
from i2s_spec.schema.types import padded

#: As many placements are objects as well: most models have fewer tensors.
MOST_OBJECTS = 4096

#: Sizes of tensors of one shape, type and extent that are remembered at once.
ALIKE = 1024


class Placement(NamedTuple):
    """Where the table puts one tensor, relative to the data section.

    `size` is None if it is not known: an unknown type, a wrong shape, a row that is not whole blocks.
    """

    offset: int
    row: int
    number: int
    size: int | None

    @property
    def end(self) -> int:
        return self.offset + (self.size or 0)


class Placements:
    """Placements in an order, kept as numbers: a header of a hundred thousand tensors must not become as many objects."""

    def __init__(self) -> None:
        self._offsets, self._rows, self._numbers = array("Q"), array("Q"), array("q")
        self._sizes: list[int | None] = []  # those of tensors that are alike are one object
        self._made: list[Placement] | None = None  # of few: many rules look at all of them

    def append(self, offset: int, row: int, number: int, size: int | None) -> None:
        self._made = None
        self._offsets.append(offset)
        self._rows.append(row)
        self._numbers.append(number)
        self._sizes.append(size)

    def by_row(self) -> Placements:
        """Return the same in the order of the tensor table, in which they mostly are already."""
        count, rows = len(self), self._rows
        if all(map(int.__le__, rows, islice(rows, 1, None))):
            return self
        found = Placements()
        for place in sorted(range(count), key=rows.__getitem__):
            found.append(*self[place])
        return found

    def __len__(self) -> int:
        return len(self._sizes)

    def __getitem__(self, place: int) -> Placement:
        return Placement(self._offsets[place], self._rows[place], self._numbers[place], self._sizes[place])

    def __iter__(self) -> Iterator[Placement]:
        made = map(Placement, self._offsets, self._rows, self._numbers, self._sizes)
        if len(self) > MOST_OBJECTS:
            return made
        if self._made is None:
            self._made = list(made)
        return iter(self._made)

    @property
    def end(self) -> int:
        """Where the tensor that reaches furthest ends."""
        return max((offset + (size or 0) for offset, size in self.sizes()), default=0)

    def end_at(self, place: int, step: int) -> bool:
        """Whether the tensor that reaches furthest, or the padding after it, ends at a place, or there is no tensor.

        They are in the order of the offsets.
        """
        if not self._offsets:
            return True
        first, end = self._offsets[0], self.end
        return place in (end, first + padded(end - first, step))

    def sizes(self) -> Iterator[tuple[int, int | None]]:
        """Return the offset and the size of each, which need no object for each."""
        return zip(self._offsets, self._sizes, strict=True)

    def extents(self, data_size: int) -> Iterator[Extent]:
        """Yield the extent of each, where they are in the order of the offsets; the last one ends with the data
        section.
        """
        placements = iter(self)
        placement = next(placements, None)
        while placement is not None:
            after = next(placements, None)
            stop = data_size if after is None else after.offset
            yield Extent(placement, stop - placement.offset, after)
            placement = after


class Extent(NamedTuple):
    """The bytes from a tensor's first one to where the next tensor begins, or the data end if there is no next."""

    placement: Placement
    allotted_bytes: int
    next: Placement | None


def placements_of(tensors: Tensors, data_size: int) -> Placements:
    """Every tensor in the order of the offsets; empty where the header does not say where the data section is.

    :param data_size: bytes between the start of the data section and the end of the file
    """
    index = tensors.index
    placements = Placements()
    if index.data_start is None or index.tensors != index.tensor_count:
        return placements
    offsets = array("Q", (index.tensor(i).offset for i in range(index.tensors)))
    rows = sorted(range(index.tensors), key=offsets.__getitem__)
    sizes: dict[tuple[tuple[int, ...], int, int], int | None] = {}  # many tensors are alike: they need one number
    tensor, before = index.tensor, None
    known: tuple[tuple[int, ...], int, int] = (), 0, 0  # what the last one was like
    for i, after in zip(rows, chain(islice(rows, 1, None), (None,)), strict=False):
        info = tensor(i)
        number, offset = info.type, offsets[i]
        like = info.ne, number, (data_size if after is None else offsets[after]) - offset
        if like != known:
            if like not in sizes:
                if len(sizes) == ALIKE:
                    sizes.clear()
                sizes[like] = size_of(tensors, *like)
            known, before = like, sizes[like]
        placements.append(offset, i, number, before)
    return placements


def size_of(tensors: Tensors, ne: tuple[int, ...], number: int, room: int) -> int | None:
    """Bytes of a tensor by its type; None where shape and type do not say it.

    :param room: bytes to the next tensor, by which old numbers of I2_S are distinguished from their meaning today
    """
    if not sound_shape(ne):
        return None
    if tensors.is_legacy_i2s(number, ne, room):
        return types.I2_S.nbytes(ne)
    kind = tensors.type_of(number, ne, room)
    return kind.nbytes(ne) if kind is not None and ne[0] % kind.block == 0 else None


def sound_shape(ne: tuple[int, ...]) -> bool:
    """One to four dimensions, each at least 1, with a product that fits a signed 64-bit integer."""
    return 0 < len(ne) <= limits.MAX_DIMENSIONS and min(ne) > 0 and prod(ne) < limits.INT64_END
