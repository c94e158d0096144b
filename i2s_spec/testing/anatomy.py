"""The fields and records of any bytes, sound or broken, and what each can be changed to.

The fields come from the walk over the schema (`i2s_spec.inspect.dump_walk`), so every declared field is found. In a
broken file, the fields up to its fault are found, and the fault itself is one more.

    >>> from i2s_spec.testing.sample import Draft
    >>> anatomy = dissect(Draft().data)
    >>> [leaf.path for leaf in anatomy.leaves[:4]]
    ['header.magic', 'header.version', 'header.tensor_count', 'header.key_count']
    >>> len(anatomy.records["tensor_infos"])
    3

`operator` adds a function to the list of operators that change a file; `edges`, `lies` and `floats` are the values to
which they set numbers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import Random
from typing import Final, NamedTuple

from i2s_spec.errors import FormatError, TrustedText
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.inspect.dump_walk import file_nodes
from i2s_spec.schema import limits
from i2s_spec.schema.container import Elided, Scope, is_leaf
from i2s_spec.schema.faults import ByteOrder
from i2s_spec.schema.field import FieldNode
from i2s_spec.schema.types import READINGS, RETIRED, ValueType, padded

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
        """Return the bytes of a field as an unsigned number."""
        return int.from_bytes(self.data[leaf.start : leaf.stop], self.order)

    def packed(self, value: int, width: int) -> bytes:
        """Return a number as the bytes of a field; it wraps to the field's width."""
        return (value % (1 << 8 * width)).to_bytes(width, self.order)

    def replaced(self, start: int, stop: int, new: bytes, again: bool = True) -> bytes:
        """Return the bytes with those from `start` to `stop` replaced.

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
        """Return `data`, which is these bytes with changes after the header, with another count of records."""
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


# --- operators -------------------------------------------------------------------------------------------------------
# `mutations` adds them to the list, and `mutator` draws from it.


class Mutation(NamedTuple):
    """A changed file: its bytes, a description of the change, and the path of the changed field (or record)."""

    data: bytes
    what: str
    path: str = ""


#: An operator that changes a file at random; None if it does not apply.
Operator = Callable[[Anatomy, Random], Mutation | None]

#: Every operator with its weight: its relative frequency.
OPERATORS: Final[list[tuple[Operator, int]]] = []


def operator(weight: int) -> Callable[[Operator], Operator]:
    """Add the decorated function as an operator."""

    def register(function: Operator) -> Operator:
        OPERATORS.append((function, weight))
        return function

    return register


# --- numbers ---------------------------------------------------------------------------------------------------------
# A lie is a value that is wrong because of the position of the field: one more than the remaining bytes can hold, the
# value that wraps a 64-bit sum, an offset one alignment further. Every lie that fits the width is tried for every
# number, so no list of length fields is needed, and new fields are covered at once.

#: Bits of the integers in which readers store numbers.
_BITS: Final = (7, 8, 15, 16, 24, 31, 32, 40, 47, 48, 52, 53, 56, 60, 61, 62, 63)

#: Numbers with a meaning in GGUF: value types and tensor types, their neighbors, and the limits of readers.
_MEANINGS: Final = tuple(
    sorted(
        {
            *range(-1, 18),
            *(number + near for number in (*READINGS, *RETIRED) for near in (-1, 0, 1)),
            *(number + near for limit in limits.NAMED.values() for number in (limit.default,) for near in (0, 1)),
            *(bound + near for bound in (limits.MAX_KEY_LENGTH, limits.TENSOR_NAME_BYTES) for near in (0, 1)),
            *(1 << i for i in range(17)),
            len(ValueType),
            100,
            127,
            129,
            255,
            257,
            288,
            320,
            1000,
        }
    )
)

#: Edge values of float32 and float64, by their bytes in big-endian order.
_FLOAT32: Final = tuple(
    bytes.fromhex(text)
    for text in (
        "00000000", "80000000", "3f800000", "bf800000", "7f800000", "ff800000", "7fc00000", "ffc00000", "7f800001",
        "7fffffff", "00000001", "80000001", "007fffff", "00800000", "7f7fffff", "ff7fffff", "358637bd", "3727c5ac",
        "49f42400", "501502f9",
    )
)  # fmt: skip
_FLOAT64: Final = tuple(
    struct.pack(">d", value)
    for value in (0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 5e-324, 1e308, 1e-5)
)


def edges(width: int) -> Iterator[int]:
    """Yield the edge values of an unsigned or signed field of `width` bytes, each once, smallest first."""
    top = 1 << 8 * width
    found = {0, 1, 2, top - 1, top - 2, top // 2, top // 2 - 1}
    for bits in _BITS:
        if bits <= 8 * width:
            found |= {(1 << bits) - 1, 1 << bits, (1 << bits) + 1}
    found |= {number % top for number in _MEANINGS if -top // 2 <= number < top}
    yield from sorted(value for value in found if 0 <= value < top)


def lies(anatomy: Anatomy, leaf: FieldNode) -> Iterator[tuple[int, str]]:
    """Yield values of a number that contradict the bytes around it, each with a description."""
    width, value, size = leaf.stop - leaf.start, anatomy.number(leaf), len(anatomy.data)
    top, left = 1 << 8 * width, size - leaf.stop
    yield (value + 1) % top, "one more"
    yield (value - 1) % top, "one less"
    yield value * 2 % top, "twice as many"
    yield value // 2, "half as many"
    yield int.from_bytes(anatomy.data[leaf.start : leaf.stop][::-1], anatomy.order), "its bytes in the other order"
    yield value ^ (top >> 1), "the sign bit flipped"
    if width < 4:
        return
    yield left, "the bytes that are left"
    yield left + 1, "one more than the bytes that are left"
    yield left // 8, "as many u64 as are left"
    yield left // 8 + 1, "one u64 more than are left"
    yield size, "the size of the file"
    if width == 8:
        aligned = anatomy.alignment or limits.DEFAULT_ALIGNMENT
        yield (value + aligned) % top, "one alignment further"
        yield (value - aligned) % top, "one alignment nearer"
        yield top - (leaf.stop % top), "what wraps to the start of the file"
        yield top - aligned, "one alignment below 2^64"
        yield (top // 4 + value) % top, "what wraps when it is multiplied by 4"
        yield (top // 2 - aligned) % top, "what wraps a signed sum"
        if anatomy.data_start is not None:
            yield top - anatomy.data_start, "what wraps the start of the data section to 0"
            yield max(0, size - anatomy.data_start), "the end of the data section"


def floats(width: int, order: str) -> Iterator[bytes]:
    """Yield the bytes of edge values of floats: zeros, infinities, quiet and signalling NaN, subnormals, the
    largest.
    """
    for raw in {4: _FLOAT32, 8: _FLOAT64}.get(width, ()):
        yield raw if order == "big" else raw[::-1]
