"""This module makes test files for readers that do not know type 36: the same files, with F32 tensors instead of I2_S.

An I2_S tensor of n elements takes n/4 + 32 bytes, as do n/16 + 8 elements of F32. So the type and the dimensions of its
tensor info are replaced in place: every length, offset and count stays the same, and so does a fault of the container.

Our reader stops at a fault. The tensor infos after it, which a more tolerant reader reaches, are found by the names in
the sound sample from which the files were made.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import cache
from math import prod
from typing import Literal

from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import BufferSource
from i2s_spec.linter.engine import lint
from i2s_spec.linter.rule import Severity
from i2s_spec.schema.types import BY_NAME, I2_S, TAIL_BYTES
from i2s_spec.testing.sample import Draft

_F32_BYTES = BY_NAME["F32"].bytes
_ELEMENTS_OF_A_BYTE = 4
_WORD = 8
_HALF = 4

#: The largest number of dimensions to look for; a file with a wrong number of them has five.
_MOST_SIDES = 8

Order = Literal["little", "big"]


def without_i2s(data: bytes) -> bytes | None:
    """A file with F32 tensors of the same bytes; the file itself where it has no I2_S tensor.

    None where that is impossible because a size is not a whole number of floats.
    """
    index = File(BufferSource(data)).index
    changed = bytearray(data)
    found = [index.tensor(i) for i in range(index.tensors)]
    places = [
        (info.ne, info.ne_span.start, info.type_span.start, index.byte_order)
        for info in found
        if info.type == I2_S.number
    ]
    places += _behind_a_fault(data, {info.name for info in found})
    for ne, at_ne, at_type, order in places:
        size = prod(ne) // _ELEMENTS_OF_A_BYTE + TAIL_BYTES
        if prod(ne) % _ELEMENTS_OF_A_BYTE or size % _F32_BYTES:
            return None
        for which in range(len(ne)):
            at = at_ne + _WORD * which
            changed[at : at + _WORD] = (1 if which else size // _F32_BYTES).to_bytes(_WORD, order)
        changed[at_type : at_type + _HALF] = BY_NAME["F32"].number.to_bytes(_HALF, order)
    return bytes(changed) if changed != data else data


@cache
def _sample_names() -> tuple[bytes, ...]:
    """The I2_S tensors of the sample of which broken copies are made."""
    index = File(BufferSource(Draft().data)).index
    return tuple(info.name for info in map(index.tensor, range(index.tensors)) if info.type == I2_S.number)


def _behind_a_fault(data: bytes, known: Container[bytes]) -> Iterator[tuple[tuple[int, ...], int, int, Order]]:
    """The dimensions, places and type of those I2_S tensors of the sample that our reader did not reach."""
    order: Order = "little"
    for name in _sample_names():
        record = len(name).to_bytes(_WORD, order) + name
        if name in known or data.count(record) != 1:
            continue
        at = data.index(record) + len(record)
        sides = int.from_bytes(data[at : at + _HALF], order)
        start, stop = at + _HALF, at + _HALF + _WORD * sides
        if sides > _MOST_SIDES or data[stop : stop + _HALF] != I2_S.number.to_bytes(_HALF, order):
            continue
        ne = tuple(int.from_bytes(data[i : i + _WORD], order) for i in range(start, stop, _WORD))
        yield ne, start, stop, order


def same_fault(data: bytes, twin: bytes, code: str, path: str) -> bool:
    """Whether a file has the fault of another file, in the same field, and no error that the other does not have."""
    if twin is data:
        return True
    found = lint(twin).findings
    errors = {finding.code for finding in found if finding.severity is Severity.ERROR}
    known = {finding.code for finding in lint(data).findings if finding.severity is Severity.ERROR}
    return errors <= known and any(finding.code == code and finding.span.path == path for finding in found)
