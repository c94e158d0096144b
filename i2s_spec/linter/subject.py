"""This module defines a file as the rules see it, with the analyses that several rules share, each made once.

Time and memory stay linear in the header: keys and tensors are walked a few times, never held as objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import NamedTuple

from i2s_spec.errors import Span
from i2s_spec.gguf.reader import File, Tensor
from i2s_spec.schema import limits, types
from i2s_spec.schema.types import padded

#: No tensor of any kind has as many elements or bytes: sizes are kept in signed 64-bit integers.
INT64_END = 1 << 63

#: Keys that rules look up by name.
_LOOKED_UP = frozenset(
    {b"general.alignment", b"general.architecture", b"split.no", b"split.count", b"split.tensors.count"}
)


class Placement(NamedTuple):
    """Where the table puts one tensor, relative to the data section; `size` is None where it cannot be told."""

    offset: int
    row: int
    size: int | None

    @property
    def end(self) -> int:
        return self.offset + (self.size or 0)


class Subject:
    """One file under the linter.

    `path` is the file's path where there is one; it is used for nothing but looking for the other parts of a split file.
    """

    def __init__(self, file: File, path: str | None = None) -> None:
        self.file = file
        self.path = path

    def key_names(self) -> Iterator[tuple[int, bytes]]:
        """Index and name of every key-value that could be read."""
        key = self.file.index.key
        return ((i, key(i)[1]) for i in range(self.file.index.keys))

    def tensor_names(self) -> Iterator[tuple[int, bytes]]:
        """Index and name of every tensor info that could be read."""
        tensor = self.file.index.tensor
        return ((i, tensor(i)[1]) for i in range(self.file.index.tensors))

    def tensors(self) -> Iterator[Tensor]:
        """Every tensor info that could be read."""
        return self.file.tensors.rows

    @cached_property
    def places(self) -> dict[bytes, int]:
        """Where the keys that rules look up stand; the first of each."""
        places: dict[bytes, int] = {}
        for i, name in self.key_names():
            if name in _LOOKED_UP:
                places.setdefault(name, i)
        return places

    def key_span(self, i: int) -> Span:
        """The bytes of a key's name."""
        start, name = self.file.index.key(i)[:2]
        return Span(start + 8, start + 8 + len(name), f"key_values[{i}].key")

    def name_span(self, i: int) -> Span:
        """The bytes of a tensor's name."""
        start, name = self.file.index.tensor(i)[:2]
        return Span(start + 8, start + 8 + len(name), f"tensor_infos[{i}].name")

    def info_span(self, i: int, field: str) -> Span:
        """The bytes of `n_dims`, `ne`, `type` or `offset` of a tensor info."""
        start, name, *_, stop = self.file.index.tensor(i)
        dims = start + 8 + len(name)
        spans = {
            "n_dims": (dims, dims + 4),
            "ne": (dims + 4, stop - 12),
            "type": (stop - 12, stop - 8),
            "offset": (stop - 8, stop),
        }
        return Span(*spans[field], f"tensor_infos[{i}].{field}")

    @property
    def data_size(self) -> int:
        """Bytes between the start of the data section and the end of the file."""
        return max(0, self.file.size - (self.file.data_start or 0))

    def absolute(self, start: int, stop: int, path: str) -> Span:
        """A span inside the data section as a span of the file, cut at the file's end."""
        base = self.file.data_start or 0
        size = self.file.size
        return Span(min(base + start, size), min(base + stop, size), path)

    @cached_property
    def placements(self) -> list[Placement]:
        """Every tensor in the order of the offsets; empty where the header does not say where the data section is.

        A size is None for an unknown type, a wrong shape, or a row that is not whole blocks: rules of their own say so.
        """
        if self.file.data_start is None or self.file.index.tensors != self.file.index.tensor_count:
            return []
        placements = []
        for tensor in self.tensors():
            size = None
            kind = tensor.type
            if kind is not None and sound_shape(tensor.ne) and tensor.ne[0] % kind.block == 0:
                size = kind.nbytes(tensor.ne)
            placements.append(Placement(tensor.offset, tensor.index, size))
        return sorted(placements)

    @cached_property
    def in_table_order(self) -> list[Placement]:
        """The placements in the order of the tensor table."""
        return sorted(self.placements, key=lambda placement: placement.row)

    @cached_property
    def total(self) -> int:
        """The sum of all padded sizes, in exact arithmetic."""
        return sum(padded(p.size or 0, self.step) for p in self.placements)

    @cached_property
    def ignores_alignment(self) -> bool:
        """Whether offsets were counted in steps of 32 although `general.alignment` asks for more (clause 2.7)."""
        alignment = self.file.alignment or limits.DEFAULT_ALIGNMENT
        if alignment <= limits.DEFAULT_ALIGNMENT or all(p.offset % alignment == 0 for p in self.placements):
            return False
        return self._running(limits.DEFAULT_ALIGNMENT)

    @property
    def step(self) -> int:
        """The alignment that the offsets were really counted with."""
        return limits.DEFAULT_ALIGNMENT if self.ignores_alignment else self.file.alignment or limits.DEFAULT_ALIGNMENT

    @cached_property
    def contiguous(self) -> bool:
        """Whether every tensor begins where the padded one before it ends, in the order of the table."""
        return self._running(self.step)

    def _running(self, alignment: int) -> bool:
        expected = 0
        for placement in self.in_table_order:
            if placement.offset != expected or placement.size is None:
                return False
            expected += padded(placement.size, alignment)
        return True

    @cached_property
    def rooms(self) -> list[tuple[Placement, int, bool]]:
        """Each placement with the bytes until the next tensor begins, and whether that is the end of the file instead."""
        rooms = []
        following = [*(p.offset for p in self.placements[1:]), self.data_size][: len(self.placements)]
        for at, (placement, after) in enumerate(zip(self.placements, following, strict=True)):
            rooms.append((placement, after - placement.offset, at == len(self.placements) - 1))
        return rooms

    @cached_property
    def legacy_numbers(self) -> set[int]:
        """Tensors of type 30 or 31 that have exactly the room of an I2_S tensor: files from before the number 36."""
        return {
            placement.row
            for placement, room, _ in self.rooms
            if self.number(placement.row) in (30, 31)
            and sound_shape(ne := self.file.index.tensor(placement.row)[2])
            and prod(ne) >= 128
            and padded(types.I2_S.nbytes(ne), self.step) == padded(room, self.step)
        }

    def number(self, i: int) -> int:
        """The type number of a tensor."""
        return self.file.index.tensor(i)[3]

    def name(self, i: int) -> bytes:
        """The name of a tensor."""
        return self.file.index.tensor(i)[1]


def sound_shape(ne: tuple[int, ...]) -> bool:
    """One to four dimensions, each at least 1, with a product that fits a signed 64-bit integer."""
    return 0 < len(ne) <= limits.MAX_DIMENSIONS and min(ne) > 0 and prod(ne) < INT64_END
