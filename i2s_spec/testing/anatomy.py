"""This module finds the fields and records of any bytes, sound or broken, so that they can be changed one by one.

The fields come from the walk over the schema (`i2s_spec.inspect.dump.file_walk`), so every declared field is found. In
a broken file, the fields up to its fault are found, and the fault itself is one more.

    >>> from i2s_spec.testing.sample import Draft
    >>> anatomy = dissect(Draft().data)
    >>> [leaf.path for leaf in anatomy.leaves[:4]]
    ['header.magic', 'header.version', 'header.tensor_count', 'header.key_count']
    >>> len(anatomy.records["tensor_infos"])
    3
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from i2s_spec.errors import FormatError, TrustedText
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.dump.file_walk import file_nodes
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.types import padded
from i2s_spec.schema.walk import Elided, Scope, is_leaf

#: How far a walk goes into long arrays and tables: later elements are like the first ones.
SCOPE: Final = Scope(limit=8, records=96)

#: The field of the header that counts the records of each section.
COUNTED_BY: Final = {"key_values": "header.key_count", "tensor_infos": "header.tensor_count"}

#: The possible widths of a number.
WIDTHS: Final = (1, 2, 4, 8)


@dataclass(frozen=True)
class Anatomy:
    """The parts of some bytes.

    :param leaves: the fields that hold bytes themselves, in the order of the file
    :param records: the records of each counted section
    :param infos_end: where the last tensor info ends, None if that is not known
    :param data_start: where the data section begins, likewise
    :param sound: whether a reader can index it
    """

    data: bytes
    order: ByteOrder
    leaves: tuple[FieldNode, ...]
    records: Mapping[str, tuple[FieldNode, ...]]
    infos_end: int | None
    data_start: int | None
    alignment: int | None
    sound: bool

    @cached_property
    def places(self) -> Mapping[str, FieldNode]:
        """Every leaf by its path."""
        return {leaf.path: leaf for leaf in self.leaves}

    @cached_property
    def numbers(self) -> tuple[FieldNode, ...]:
        """The leaves that are numbers, and the fault of a broken file if it is as wide as a number."""
        return tuple(leaf for leaf in self.leaves if is_number(leaf))

    @cached_property
    def texts(self) -> tuple[FieldNode, ...]:
        """The leaves that are texts with a length before them."""
        return tuple(leaf for leaf in self.leaves if leaf.path.endswith(".text"))

    @cached_property
    def boundaries(self) -> tuple[int, ...]:
        """Every position where a field begins or ends, once."""
        return tuple(
            sorted({at for leaf in self.leaves for at in (leaf.start, leaf.stop) if 0 <= at <= len(self.data)})
        )

    def number(self, leaf: FieldNode) -> int:
        """The bytes of a field as an unsigned number."""
        return int.from_bytes(self.data[leaf.start : leaf.stop], self.order)

    def packed(self, value: int, width: int) -> bytes:
        """A number as the bytes of a field; it wraps to the field's width."""
        return (value % (1 << 8 * width)).to_bytes(width, self.order)

    def replaced(self, start: int, stop: int, new: bytes, again: bool = True) -> bytes:
        """The bytes with those from `start` to `stop` replaced.

        :param again: if the header becomes longer or shorter, whether to adapt its padding, so that the data section
        stays aligned; if not, everything after it moves unchanged
        """
        head, rest = self.data[:start] + new, self.data[stop:]
        change = len(new) - (stop - start)
        if not change or not again or self.infos_end is None or self.data_start is None or stop > self.infos_end:
            return head + rest
        end = self.infos_end + change
        padding = bytes(padded(end, self.alignment or 1) - end)
        return head + self.data[stop : self.infos_end] + padding + self.data[self.data_start :]

    def counted(self, data: bytes, section: str, by: int) -> bytes:
        """`data`, which is these bytes with changes after the header, with another count of records."""
        leaf = self.places.get(COUNTED_BY[section])
        if leaf is None:
            return data
        return data[: leaf.start] + self.packed(self.number(leaf) + by, leaf.stop - leaf.start) + data[leaf.stop :]


def is_number(leaf: FieldNode) -> bool:
    """Whether a field is a number that can be changed."""
    if leaf.stop - leaf.start not in WIDTHS or isinstance(leaf.value, TrustedText | Elided):
        return False
    return isinstance(leaf.value, int | float | FormatError)


@lru_cache(maxsize=64)
def dissect(data: bytes) -> Anatomy:
    """Find the parts of some bytes, whatever they are."""
    file = File(BufferSource(data))
    leaves: list[FieldNode] = []
    records: dict[str, list[FieldNode]] = {section: [] for section in COUNTED_BY}
    try:
        for node in file_nodes(file, SCOPE):
            section, _, rest = node.path.partition("[")
            if is_leaf(node):
                if node.start <= node.stop <= len(data):
                    leaves.append(node)
            elif section in records and rest.endswith("]") and "." not in rest:
                records[section].append(node)
    except FormatError:
        pass  # a fault that only the walk meets: the fields before it are known
    whole = file.fault is None
    return Anatomy(
        data=data,
        order=file.byte_order,
        leaves=tuple(leaves),
        records={
            section: tuple(n for n in nodes if n.start < n.stop <= len(data)) for section, nodes in records.items()
        },
        infos_end=file.infos_end if whole else None,
        data_start=file.data_start if whole else None,
        alignment=file.alignment if whole else None,
        sound=whole,
    )
