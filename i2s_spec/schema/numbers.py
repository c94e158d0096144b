"""This module declares which fork means what by a number that several of them gave out.

Two lineages number things: llama.cpp, and the forks for BitNet that branched from it in 2024 and went on counting. From
36 (tensor types) and 38 (`general.file_type`) on, a number alone does not say what is meant; the bytes and the rest of
the file have to. `FILE_TYPES` here and `types.READINGS` hold every meaning, with whose it is.

    >>> print(file_type_words(40))
    I2_S to BitNet's forks, Q1_0 to llama.cpp
    >>> print(tensor_type_words(36))
    I2_S to BitNet's forks, the retired IQ4_NL_4_4 to llama.cpp
"""

from typing import Final, NamedTuple

from i2s_spec.schema import types
from i2s_spec.schema.keys import FILE_TYPES as COMMON

#: Whose numbers they are.
BITNET: Final = "BitNet's forks"
UPSTREAM: Final = "llama.cpp"


class Meaning(NamedTuple):
    """What one lineage means by a number; `tensors` are the types that most matrices of such a file have."""

    name: str
    whose: str
    tensors: tuple[str, ...] = ()


#: `general.file_type` where the lineages disagree; BitNet's meaning first.
FILE_TYPES: Final[dict[int, tuple[Meaning, ...]]] = {
    36: (Meaning("TQ1_0", UPSTREAM, ("TQ1_0",)),),
    37: (Meaning("TQ2_0", UPSTREAM, ("TQ2_0",)),),
    38: (
        Meaning("TL1", BITNET, ("TL1",)),
        Meaning("I2_S", "BitNet's forks before their release", ("I2_S",)),
        Meaning("MXFP4_MOE", UPSTREAM, ("MXFP4",)),
    ),
    39: (
        Meaning("TL2", BITNET, ("TL2",)),
        Meaning("I2_S", "BitNet's forks before their release", ("I2_S",)),
        Meaning("NVFP4", UPSTREAM, ("NVFP4",)),
    ),
    40: (Meaning("I2_S", BITNET, ("I2_S",)), Meaning("Q1_0", UPSTREAM, ("Q1_0",))),
    41: (
        Meaning("I2_SR", "a fork with row scales", ("I2_SR",)),
        Meaning("I2_S", "a proposal to BitNet (microsoft/BitNet#620)", ("I2_S",)),
        Meaning("Q2_0", UPSTREAM, ("Q2_0",)),
    ),
}

#: Meanings that a finding needs no words for: 40 is in every official I2_S file.
USUAL: Final = (40, "I2_S")

#: What llama.cpp calls a tensor type that it took back; BitNet's forks took the numbers over.
RETIRED: Final = {36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8"}

#: Elements and bytes of a block of the retired types 36 to 38, whatever was interleaved in them.
RETIRED_BLOCK: Final = (32, 18)

_FAMILIES: Final = {"BitNet": BITNET, "ggml": UPSTREAM, "one fork": "a fork with row scales"}


def file_types(number: int) -> tuple[Meaning, ...]:
    """Every meaning of a value of `general.file_type`; nothing for one that is not known."""
    if number in FILE_TYPES:
        return FILE_TYPES[number]
    name = COMMON.get(number)
    if name is None:
        return ()
    whose = "ik_llama.cpp" if number >= 100 else "all"
    stem = name.removesuffix("_S").removesuffix("_M").removesuffix("_L") if "_K" in name else name
    return (Meaning(name, whose, (stem,)),)


def file_type_words(number: int) -> str:
    """What each lineage means by a value of `general.file_type`."""
    meanings = file_types(number)
    if not meanings:
        return "nothing that is known"
    return ", ".join(f"{meaning.name} to {meaning.whose}" for meaning in meanings)


def tensor_types(number: int) -> tuple[Meaning, ...]:
    """Every meaning of a tensor type's number, BitNet's first."""
    found = [
        Meaning(kind.name, _FAMILIES.get(kind.family, kind.family), (kind.name,))
        for kind in types.READINGS.get(number, ())
    ]
    if number in RETIRED:
        found.append(Meaning(f"the retired {RETIRED[number]}", UPSTREAM))
    return tuple(sorted(found, key=lambda meaning: meaning.whose == UPSTREAM))


def tensor_type_words(number: int) -> str:
    """What each lineage means by a tensor type's number."""
    return ", ".join(f"{meaning.name} to {meaning.whose}" for meaning in tensor_types(number))
