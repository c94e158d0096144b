"""This module finds the possible meanings of the type number of a tensor in a file.

A number alone says little: upstream llama.cpp, the BitNet forks, ik_llama.cpp and PrismML assign numbers independently,
and forks of forks take numbers that seem free. The meanings are distinguished by the distance from a tensor to the next
one, and by metadata keys that only one program writes.

    >>> [(each.name, each.program) for each in tensor_meanings(142)]
    [('PQ2_0', 'PrismML'), ('IQ2_TN', 'ik_llama.cpp')]
    >>> [each.name for each in fitting(42, (128, 640), 34 * 640)]
    ['Q2_0_G128']
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from i2s_spec.errors import counted
from i2s_spec.schema import types
from i2s_spec.schema.registry.file_types import FILE_TYPES
from i2s_spec.schema.registry.meaning import OWN_KEYS, BlockSize, Meaning
from i2s_spec.schema.registry.tensor_types import TENSOR_TYPES


def _by_number(meanings: Sequence[Meaning]) -> dict[int, tuple[Meaning, ...]]:
    found: dict[int, tuple[Meaning, ...]] = {}
    for each in sorted(meanings, key=lambda meaning: meaning.number):  # meanings of the same number keep their order
        found[each.number] = (*found.get(each.number, ()), each)
    return found


_TENSOR_TYPES: Final = _by_number(TENSOR_TYPES)
_FILE_TYPES: Final = _by_number(FILE_TYPES)


def tensor_meanings(number: int) -> tuple[Meaning, ...]:
    """Every meaning of a tensor type's number from 30 on, the likeliest in a file first."""
    return _TENSOR_TYPES.get(number, ())


def file_meanings(number: int) -> tuple[Meaning, ...]:
    """Every meaning of a value of `general.file_type` from 30 on, the likeliest in a file first."""
    return _FILE_TYPES.get(number, ())


def all_tensor_meanings() -> tuple[Meaning, ...]:
    """Every meaning of every tensor type's number from 30 on, by number."""
    return tuple(each for meanings in _TENSOR_TYPES.values() for each in meanings)


def all_file_meanings() -> tuple[Meaning, ...]:
    """Every meaning of every file type from 30 on, by number."""
    return tuple(each for meanings in _FILE_TYPES.values() for each in meanings)


def telling(meaning: Meaning) -> str:
    """How to distinguish a meaning of a tensor type's number from its other meanings, in words.

    >>> telling(tensor_meanings(142)[0])
    '34 bytes for 128 weights; keys prism.*'
    """
    if meaning.tell:
        return meaning.tell
    namesakes = (each.tell for each in tensor_meanings(meaning.number) if each.name == meaning.name and each.tell)
    if named := next(namesakes, ""):
        return named
    kind, size = meaning.type, meaning.size
    if kind is not None and kind.size is None:
        size = BlockSize(kind.block, kind.bytes, kind.row_bytes)
    if size is None:
        alone = len({each.name for each in tensor_meanings(meaning.number)}) == 1
        return "no other meaning is known" if alone else "its size is not known here; only its program decides"
    front = f", {size.row_bytes} before a row" if size.row_bytes else ""
    return f"{counted(size.bytes, 'byte')} for {counted(size.block, 'weight')}{front}"


def fitting(
    number: int, ne: Sequence[int], room: int, alignment: int = 32, keys: Collection[str] = ()
) -> tuple[Meaning, ...]:
    """The possible meanings of a tensor type's number for a tensor of a file.

    :param ne: its shape, in ggml's order
    :param room: bytes until the next tensor begins, or until the file ends
    :param alignment: the alignment of the file
    :param keys: names of the file's key-values
    :returns: the meanings whose size, with or without padding, equals `room`; those of a program whose own keys the
    file has come first. Empty if there are none
    """
    found = []
    for each in tensor_meanings(number):
        size = each.nbytes(ne)
        if size is not None and room in (size, types.padded(size, alignment)):
            found.append(each)
    own = {program for program, start in OWN_KEYS.items() if any(key.startswith(start) for key in keys)}
    return tuple(sorted(found, key=lambda each: each.program not in own))
