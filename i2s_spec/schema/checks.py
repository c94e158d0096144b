"""This module states the container's rules about numbers, rather than bytes; the schema and the scanner both use it.

Each function takes values that were read, and either returns a result or raises the `FormatError` of the specification.
"""

from __future__ import annotations

from typing import Final, Literal

from i2s_spec.errors import FormatError, Span, TrustedText
from i2s_spec.schema import faults, limits
from i2s_spec.schema.types import ValueType, padded

ByteOrder = Literal["little", "big"]


def order_prefix(order: str) -> Literal["<", ">"]:
    """The prefix for a byte order in formats of `struct` and dtypes of NumPy."""
    return "<" if order == "little" else ">"


#: The first bytes of a file, and how many of them `magic.not_gguf` looks at in a file that has others.
MAGIC: Final = b"GGUF"
HEAD: Final = 1024

HEADER_BYTES = 24

#: The positions of the three numbers of the header.
VERSION_SPAN = Span(4, 8, "header.version")
TENSOR_COUNT_SPAN = Span(8, 16, "header.tensor_count")
KEY_COUNT_SPAN = Span(16, 24, "header.key_count")


def header_size(size: int) -> None:
    """A file shorter than a header is refused (clause 2.2)."""
    if size < HEADER_BYTES:
        raise FormatError(faults.HEADER_TRUNCATED, Span(0, size, "header"), got=size, want=HEADER_BYTES)


def byte_order(version: int) -> tuple[ByteOrder, int]:
    """Byte order and version of a file whose version field, read as little-endian, is `version` (clause 2.3).

    No flag states the byte order. A little-endian version is small, so its low 16 bits are not 0; those of a big-endian
    one are.
    """
    if version == 0:
        raise FormatError(faults.VERSION_ZERO, VERSION_SPAN, got=0, want=limits.VERSIONS)
    order: ByteOrder = "little"
    if version & 0xFFFF == 0:
        order, version = "big", int.from_bytes(version.to_bytes(4, "little"), "big")
    if version == 1:
        raise FormatError(faults.VERSION_ONE, VERSION_SPAN, got=1, want=limits.VERSIONS)
    if version not in limits.VERSIONS:
        if order == "big":
            little = int.from_bytes(version.to_bytes(4, "big"), "little")
            raise FormatError(
                faults.BYTE_ORDER_UNCLEAR, VERSION_SPAN, got=little, want=limits.VERSIONS,
                got_hex=TrustedText(f"{little:08x}"), swapped=version,
            )  # fmt: skip
        raise FormatError(faults.VERSION_UNKNOWN, VERSION_SPAN, got=version, want=limits.VERSIONS)
    return order, version


def counts(tensors: int, keys: int, size: int) -> None:
    """Counts that the bytes after the header cannot hold, or that exceed the limits, are refused (clauses 2.2, 12.2)."""
    room = size - HEADER_BYTES
    if keys > (most := room // limits.SMALLEST_KEY_VALUE):
        raise FormatError(faults.KEY_COUNT, KEY_COUNT_SPAN, got=keys, want=most, room=room)
    if tensors > (most := room // limits.SMALLEST_TENSOR_INFO):
        raise FormatError(faults.TENSOR_COUNT, TENSOR_COUNT_SPAN, got=tensors, want=most, room=room)
    if keys > limits.MAX_KEYS:
        raise FormatError(faults.TOO_MANY_KEYS, KEY_COUNT_SPAN, got=keys, want=limits.MAX_KEYS)
    if tensors > limits.MAX_TENSORS:
        raise FormatError(faults.TOO_MANY_TENSORS, TENSOR_COUNT_SPAN, got=tensors, want=limits.MAX_TENSORS)


def alignment(value_type: int, value: object, type_span: Span) -> int:
    """The alignment that `general.alignment` sets: a u32, a power of two, at most the limit (clause 2.7).

    `type_span` is the span of the value's type; the value follows it.
    """
    value_span = Span(type_span.stop, type_span.stop + 4, type_span.path.removesuffix(".type") + ".value")
    if value_type != ValueType.UINT32 or not isinstance(value, int):
        got = ValueType(value_type).label
        raise FormatError(faults.ALIGNMENT_TYPE, type_span, got=TrustedText(got), want=TrustedText("u32"))
    if value == 0:
        raise FormatError(faults.ALIGNMENT_ZERO, value_span, got=0, want=limits.DEFAULT_ALIGNMENT)
    if value & (value - 1):
        raise FormatError(faults.ALIGNMENT_NOT_POWER_OF_TWO, value_span, got=value)
    if value > limits.MAX_ALIGNMENT:
        raise FormatError(faults.ALIGNMENT_TOO_LARGE, value_span, got=value, want=limits.MAX_ALIGNMENT)
    return value


def data_start(end_of_infos: int, alignment: int) -> int:
    """Where the data section begins: the first multiple of the alignment at or after the last tensor info (clause 2.7)."""
    return padded(end_of_infos, alignment)
