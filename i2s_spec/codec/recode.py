"""This module defines what can be done with codes without asking for weights: another dialect, a count, a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from i2s_spec.codec.payload import count_codes, held_codes, join, recoded_codes
from i2s_spec.codec.remainder.dropped import check_readable, check_writable
from i2s_spec.codec.shape import payload_shape, windows
from i2s_spec.codec.tail import read_tail, write_tail
from i2s_spec.errors import counted
from i2s_spec.schema.checks import ByteOrder
from i2s_spec.schema.dialect import CODES_PER_BYTE, Dialect, parse


@dataclass(frozen=True, slots=True)
class Scan:
    """How often the unused code occurs, and at which flat element first."""

    count: int
    first: int | None


def transcode(
    data: Any,
    shape: Sequence[int],
    source: str | Dialect = "canonical",
    target: str | Dialect = "canonical",
    *,
    byte_order: ByteOrder = "little",
    strict: bool = True,
) -> bytes:
    """The same trits and the same scale, bit for bit, in another dialect.

    The code that stands for nothing becomes the unused code, so that there is always a way back. The
    bytes of the tail that mean nothing become zeros, or copies of the scale if the target has those.

    :param data: payload and tail, anything with the buffer protocol
    :param shape: (rows, cols) or (n,), the order of NumPy
    :param source: the dialect that the data is in
    :param target: the dialect that is wanted
    :param strict: refuse what either layout has no whole block for, and rows that begin inside a block of the target. If
        False, what the source does not hold is 0 in the target
    :returns: as many bytes as there were
    :raises ValueError: as `unpack` and `pack` do
    """
    source, target = parse(source), parse(target)
    tensor = payload_shape(shape)
    check_readable(source.layout, tensor, strict=strict)
    check_writable(target.layout, tensor, strict=strict)
    payload, tail = tensor.split(data)
    new_tail = write_tail(read_tail(tail, source.tail, byte_order), target.tail, byte_order)

    code_of = np.array(recoded_codes(source.code_map, target.code_map), dtype=np.uint8)
    codes = np.full(tensor.elements, target.code_map.code_of(0), dtype=np.uint8)
    known = held_codes(payload, tensor, source.layout)
    for start, stop in windows(known.size):
        codes[start:stop] = code_of[known[start:stop]]
    return join(codes, tensor, target.layout, new_tail)


def histogram(data: Any, shape: Sequence[int], *, strict: bool = True) -> tuple[int, int, int, int]:
    """How often each of the codes 0 to 3 occurs, which is the same in every layout.

    All n/4 bytes of payload are counted, also those after the last whole block, which hold code 0 in released files.

    :param data: payload and tail, anything with the buffer protocol
    :param shape: (rows, cols) or (n,), the order of NumPy
    :param strict: refuse a number of elements that is not a multiple of 4. If False, what does not fill a byte is left out
    :raises ValueError: for data of another size than n/4 + 32
    """
    tensor = payload_shape(shape)
    if strict and (over := tensor.elements % CODES_PER_BYTE):
        raise ValueError(
            f"{counted(tensor.elements, 'element leaves', 'elements leave')} {over} over, which "
            f"fill no byte; strict=False counts the others"
        )
    payload, _ = tensor.split(data)
    return count_codes(payload)


def scan(
    data: Any,
    shape: Sequence[int],
    dialect: str | Dialect = "canonical",
    *,
    strict: bool = True,
) -> Scan:
    """How often the unused code occurs, and where first (clause 5.4).

    Only elements in whole blocks are looked at. Parameters and errors are those of `unpack`.
    """
    dialect = parse(dialect)
    tensor = payload_shape(shape)
    check_readable(dialect.layout, tensor, strict=strict)
    count, first = 0, None
    payload, _ = tensor.split(data)
    codes = held_codes(payload, tensor, dialect.layout)
    for start, stop in windows(codes.size):
        here = codes[start:stop] == dialect.code_map.unused
        if here.any():
            count += int(np.count_nonzero(here))
            first = start + int(here.argmax()) if first is None else first
    return Scan(count, first)
