"""Types of single programs, whose numbers ggml or its large forks gave to other types, or to none.

A program that needs a type of its own takes a number that seems free, or one that its author never saw used.
`PROGRAM_TYPES` declares such types with the size of a block, and how a block is decoded if that is known (`Packing`).
`i2s_spec.gguf.type_numbers` finds out which type a file means; sources and versions are here, and `type_registry` lists
them with all others.

    >>> g8_0 = next(each for each in PROGRAM_TYPES if each.name == "G8_0")
    >>> str(g8_0), g8_0.type.nbytes((512, 3)), g8_0.packing.scales
    ('G8_0 of mortar.cpp', 768, (0, 2, 4, 6))
    >>> [each.name for each in of_number(41)]
    ['Q1_0_G32']
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from i2s_spec.schema.types import I2_S, LEGACY_I2_S, READINGS, SECOND_NUMBERS, TensorType

if TYPE_CHECKING:
    from collections.abc import Sequence


class Packing(NamedTuple):
    """How a block is decoded: codes of `bits` bits, those of the first weights lowest in their byte, times scales.

    :param block: weights of a block; `bytes` are its bytes
    :param codes: the first byte of the codes
    :param weights: the weight of each code, before it is multiplied
    :param scales: the first byte of each scale; they share the weights of the block evenly, in order
    :param form: how a scale is stored, a name in `types.NUMBER_FORMS`
    """

    block: int
    bytes: int
    codes: int
    bits: int
    weights: tuple[int, ...]
    scales: tuple[int, ...]
    form: Literal["F16", "BF16"]


_TRITS: Final = (-1, 0, 1, 2)
_SIGNS: Final = (-1, 1)


class ProgramType(NamedTuple):
    """A type of one program.

    :param program: its writer; `version` is the one that was examined
    :param source: where its form is documented
    :param packing: how it is decoded; None where that is not known, or not declared here
    :param keys: a pattern of metadata keys that only files of the program have
    :param rows_first: whether the program lists the number of rows before that of columns
    """

    type: TensorType
    program: str
    version: str
    source: str
    packing: Packing | None = None
    keys: str = ""
    rows_first: bool = False

    @property
    def name(self) -> str:
        return self.type.name

    @property
    def number(self) -> int:
        return self.type.number

    @property
    def block(self) -> tuple[int, int] | None:
        """Weights and bytes of a block; None where that is not the whole size."""
        if self.packing is not None:
            return self.packing.block, self.packing.bytes
        return (self.type.block, self.type.bytes) if self.type.size is None else None

    @property
    def size_words(self) -> str:
        """Its size in words: `66 bytes for 256 weights`."""
        if self.block is None:
            return ""
        block, size = self.block
        return f"{size} bytes for {block} weights" if block > 1 else f"{size} bytes a weight"

    @property
    def tell(self) -> str:
        """How it is distinguished from other meanings of its number, in words."""
        return ", ".join(filter(None, (self.size_words, self.type.note)))

    def takes(self, ne: Sequence[int]) -> bool:
        """Whether a tensor can have this shape; a program that lists rows first has whole blocks in the other side."""
        if self.rows_first and self.packing is not None:
            return any(side % self.packing.block == 0 for side in ne)
        return (ne[0] if ne else 1) % self.type.block == 0

    def marked_by(self, keys: Iterable[str]) -> bool:
        """Whether a file has keys of the program."""
        return bool(self.keys) and any(re.search(self.keys, key) for key in keys)

    def __str__(self) -> str:
        return f"{self.name} of {self.program}"


def _flat_256(ne: Sequence[int]) -> int:
    """BITNET_T158: blocks of 256 weights over the flattened tensor, whatever its rows."""
    return -(-prod(ne) // 256) * 66


def _t5b(ne: Sequence[int]) -> int:
    """T5B: 32 bytes for 160 weights, then 32 bytes with the scale."""
    return prod(ne) // 160 * 32 + 32


def _of(
    number: int, name: str, block: int, bytes: int, words: tuple[tuple[int, int], ...] | None, program: str, note: str
) -> TensorType:
    return TensorType(number, name, block, bytes, words, family=program, note=note)


_RUVLLM: Final = ("ruvllm", "2.5.0", "crates.io ruvllm 2.5.0")
_OXIBONSAI: Final = ("OxiBonsai", "0.2.3", "crates.io oxibonsai-core 0.2.3")
_FIRST_PRISM: Final = ("PrismML's first files", "early 2026", "unixsysdev/llama-turboquant#6")
_GROUPS_OF_32: Final = Packing(32, 6, 2, 1, _SIGNS, (0,), "F16")

#: Every such type whose size is known, by number.
PROGRAM_TYPES: Final = (
    ProgramType(TensorType(29, "BF16", 1, 2, ((0, 2),), family="ruvllm"), *_RUVLLM),
    ProgramType(
        TensorType(30, "BITNET_T158", 1, 1, None, size=_flat_256, family="ruvllm", note="the scale is last"), *_RUVLLM,
        Packing(256, 66, 0, 2, _TRITS, (64,), "F16"), r"\.bitnet\.weight_encoding$", rows_first=True,
    ),
    ProgramType(
        _of(39, "Q1_0_G128", 128, 18, ((0, 2),), "oxillama", "the bytes of Q1_0"), "oxillama", "0.1.4",
        "crates.io oxillama-gguf 0.1.4", Packing(128, 18, 2, 1, _SIGNS, (0,), "F16"),
    ),
    *(
        ProgramType(
            _of(number, "Q1_0_G32", 32, 6, ((0, 2),), "PrismML", "in groups of 32"), *_FIRST_PRISM, _GROUPS_OF_32
        )
        for number in (40, 41)
    ),
    ProgramType(
        _of(42, "TQ2_0_g128", 128, 34, ((32, 2),), "OxiBonsai", "the scale is last"), *_OXIBONSAI,
        Packing(128, 34, 0, 2, _TRITS, (32,), "F16"),
    ),
    *(
        ProgramType(
            _of(number, "STQ1_0", 256, 42, None, "Sherry's patches", "one zero in four weights"), "Sherry's patches",
            "2026", "ggml-org/llama.cpp#22836",
        )
        for number in (42, 43)
    ),
    ProgramType(
        _of(43, "F8_E4M3", 32, 34, None, "OxiBonsai", "eight bits a weight"), *_OXIBONSAI,
    ),
    ProgramType(
        _of(43, "Q1_0_g128", 128, 34, ((0, 2),), "sky-is-green", "the bytes of PQ2_0, in older files"),
        "sky-is-green/prism-ml-llama.cpp", "2026", "its README", Packing(128, 34, 2, 2, _TRITS, (0,), "F16"),
    ),
    ProgramType(
        TensorType(43, "T5B", 160, 32, None, size=_t5b, family="purpleskulll",
                   note="32 bytes for 160 weights, then 32 bytes of which the first four are the scale"),
        "purpleskulll's fork of BitNet", "2026", "its tools/gguf_to_t5b.py",
    ),
    ProgramType(_of(44, "F8_E5M2", 32, 34, None, "OxiBonsai", "eight bits a weight"), *_OXIBONSAI),
    ProgramType(
        _of(143, "G8_0", 32, 16, tuple((at, 2) for at in (0, 2, 4, 6)), "mortar.cpp",
            "a bfloat16 scale for each 8 weights, then the codes"),
        "mortar.cpp", "2026; as rlx-gguf 0.2.19 reads it", "crates.io rlx-gguf 0.2.19 src/g8_dequant.rs",
        Packing(32, 16, 8, 2, _TRITS, (0, 2, 4, 6), "BF16"),
    ),
)  # fmt: skip


@cache
def of_number(number: int) -> tuple[ProgramType, ...]:
    """Return the types that single programs gave a number."""
    return tuple(each for each in PROGRAM_TYPES if each.number == number)


def of_type(kind: TensorType | None) -> ProgramType | None:
    """Return the declaration of a type of a single program; None for a type of `types`."""
    if kind is None or kind.number not in SECOND_NUMBERS:
        return None
    return next((each for each in of_number(kind.number) if each.type is kind), None)


#: Numbers of which a meaning is known whose size is not: FV5 and FV5B of fermion.
UNKNOWN_SIZES: Final = frozenset({43, 44})


def largest_room(number: int, ne: Sequence[int]) -> int | None:
    """Most bytes that a tensor can have under any known meaning of its type number.

    :param ne: its shape, in ggml's order
    :returns: None where a meaning of unknown size is known, or no meaning at all, or the shape fits none
    """
    if number in UNKNOWN_SIZES:
        return None
    kinds = [*READINGS.get(number, ()), *(each.type for each in of_number(number))]
    sizes = [kind.nbytes(ne) for kind in kinds if (ne[0] if ne else 1) % kind.block == 0]
    if number in LEGACY_I2_S and sizes:
        sizes.append(I2_S.nbytes(ne))
    return max(sizes, default=None)
