"""This module gives the meanings of numbers that several forks use differently.

Two lineages assign numbers: llama.cpp, and the forks for BitNet that branched from it in 2024 and continued counting.
From 36 (tensor types) and 38 (`general.file_type`) on, a number alone is ambiguous; the bytes and the rest of the file
must decide. `schema.registry` holds every meaning, with its program and time; this module gives the words of messages.

    >>> print(file_type_words(40))
    I2_S to BitNet's forks, Q1_0 to llama.cpp
    >>> print(tensor_type_words(36))
    I2_S to BitNet's forks, the retired IQ4_NL_4_4 to llama.cpp
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from i2s_spec.schema import types
from i2s_spec.schema.architectures.keys import FILE_TYPES as COMMON
from i2s_spec.schema.registry import meaning as registry_meaning
from i2s_spec.schema.registry import meanings as registry
from i2s_spec.schema.registry.meaning import BITNET, UPSTREAM

__all__ = ["BITNET", "FILE_TYPES", "UPSTREAM", "LineageMeaning", "file_types", "tensor_types"]


class LineageMeaning(NamedTuple):
    """The meaning of a number in one lineage; `tensors` are the types of most matrices of such a file."""

    name: str
    whose: str
    tensors: tuple[str, ...] = ()


def _in_files(meanings: Iterable[registry_meaning.Meaning]) -> tuple[LineageMeaning, ...]:
    """The meanings that a file of today may have: those that programs still write, and BitNet's before its release."""
    found = (each for each in meanings if each.files and (each.is_current or each.program.startswith(BITNET + " ")))
    return tuple(LineageMeaning(each.name, each.program, each.tensors) for each in found)


#: Values of `general.file_type` on which lineages disagree, or that only one uses; BitNet's meaning first.
FILE_TYPES: Final[dict[int, tuple[LineageMeaning, ...]]] = {
    number: _in_files(registry.file_meanings(number))
    for number in sorted({each.number for each in registry.all_file_meanings() if each.number > 35 and each.tensors})
    if any(each.is_current for each in registry.file_meanings(number))
}

_FAMILIES: Final = {"BitNet": BITNET, "ggml": UPSTREAM, "one fork": "a fork with row scales"}


def file_types(number: int) -> tuple[LineageMeaning, ...]:
    """Every meaning of a value of `general.file_type`; empty for an unknown value."""
    if number in FILE_TYPES:
        return FILE_TYPES[number]
    name = COMMON.get(number)
    if name is None:
        return ()
    whose = "ik_llama.cpp" if number >= 100 else "all"
    stem = name.removesuffix("_S").removesuffix("_M").removesuffix("_L") if "_K" in name else name
    return (LineageMeaning(name, whose, (stem,)),)


def file_type_words(number: int) -> str:
    """The meaning of a value of `general.file_type` in each lineage."""
    meanings = file_types(number)
    if not meanings:
        return "unknown"
    return ", ".join(f"{meaning.name} to {meaning.whose}" for meaning in meanings)


def tensor_types(number: int) -> tuple[LineageMeaning, ...]:
    """Every meaning of a tensor type's number that a file may have, BitNet's first."""
    found = [
        LineageMeaning(kind.name, _FAMILIES.get(kind.family, kind.family), (kind.name,))
        for kind in types.READINGS.get(number, ())
    ]
    known = {meaning.name for meaning in found}
    found += [meaning for meaning in _in_files(registry.tensor_meanings(number)) if meaning.name not in known]
    if number in types.TAKEN_OVER:
        found.append(LineageMeaning(f"the retired {types.TAKEN_OVER[number]}", UPSTREAM))
    return tuple(sorted(found, key=lambda meaning: (meaning.whose != BITNET, meaning.whose == UPSTREAM)))


def tensor_type_words(number: int) -> str:
    """The meaning of a tensor type's number in each lineage."""
    return ", ".join(f"{meaning.name} to {meaning.whose}" for meaning in tensor_types(number))
