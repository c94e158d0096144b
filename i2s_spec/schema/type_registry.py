"""Every meaning that a program gave to a type number from 29 on, and the published advisories on readers of GGUF.

Programs assign the numbers of tensor types and of `general.file_type` independently, so that a number alone says
little. `TENSOR_TYPES` and `FILE_TYPE_HISTORY` list all meanings; for each number, the most likely meaning in a file
comes first, as in `types`. `tensor_assignments` and `file_assignments` look them up, `fitting` chooses by the size of a
tensor:

    >>> [(each.name, each.program) for each in tensor_assignments(142)]
    [('PQ2_0', 'PrismML'), ('IQ2_TN', 'ik_llama.cpp')]
    >>> [each.name for each in fitting(42, (128, 640), 34 * 640)]
    ['TQ2_0_g128', 'Q2_0_G128']

`tensor_type_words` and `file_type_words` give the words of messages:

    >>> print(file_type_words(40))
    I2_S to BitNet's forks, Q1_0 to llama.cpp
    >>> print(tensor_type_words(36))
    I2_S to BitNet's forks, the retired IQ4_NL_4_4 to llama.cpp

Dates and commits of llama.cpp are those of ggml-org/ggml, to which its changes are copied; those of ik_llama.cpp were
taken from the whole history of `ggml.h`; those of the BitNet forks are from Eddie-Wang1120/llama.cpp, before the first
release, and from microsoft/BitNet's submodule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import prod
from typing import Final, NamedTuple

from i2s_spec.errors import counted
from i2s_spec.schema import types
from i2s_spec.schema.keys import FILE_TYPES as COMMON
from i2s_spec.schema.keys import MOSTLY
from i2s_spec.schema.program_types import PROGRAM_TYPES

# --- assignments -----------------------------------------------------------------------------------------------------

#: The programs that assign numbers.
UPSTREAM: Final = "llama.cpp"
BITNET: Final = "BitNet's forks"
IK: Final = "ik_llama.cpp"
PRISM: Final = "PrismML"

#: Prefixes of metadata keys that only the files of one program have.
OWN_KEYS: Final = {PRISM: "prism."}


class BlockSize(NamedTuple):
    """Elements and bytes of a block, and bytes before a row, of a type that `types` does not declare."""

    block: int
    bytes: int
    row_bytes: int = 0


class Assignment(NamedTuple):
    """A number and its meaning: the name that one program gives it, or gave it for some time.

    :param name: the name of the type; if `types` declares a type with this name and number, its size applies
    :param since: date and commit of its introduction, if known; `until` those of its end, empty if it is still in use
    :param source: where this is documented
    :param tell: how to distinguish it from the other meanings of the number
    :param files: whether it occurs in files: some numbers are only used for tensors in memory
    :param tensors: for a file type, the tensor types that most matrices of such a file have
    """

    number: int
    name: str
    program: str
    since: str
    until: str = ""
    source: str = ""
    tell: str = ""
    files: bool = True
    size: BlockSize | None = None
    tensors: tuple[str, ...] = ()

    @property
    def type(self) -> types.TensorType | None:
        """The declaration of the type, if there is one."""
        return next((kind for kind in types.READINGS.get(self.number, ()) if kind.name == self.name), None)

    def nbytes(self, ne: Sequence[int]) -> int | None:
        """Bytes of a tensor; None if the size is not known, or rows are not whole blocks."""
        if self.type is not None:
            return self.type.nbytes(ne) if ne[0] % self.type.block == 0 else None
        if self.size is None or ne[0] % self.size.block:
            return None
        return (ne[0] // self.size.block * self.size.bytes + self.size.row_bytes) * prod(ne[1:])

    @property
    def is_current(self) -> bool:
        """Whether the program still gives the number this meaning."""
        return not self.until


def periods(program: str, source: str, text: str) -> Iterator[Assignment]:
    """Meanings from lines `number name since [until]`, a point in time being `date@commit`."""
    for line in text.split("\n"):
        if line.strip():
            number, name, since, *until = line.split()
            yield Assignment(
                int(number), name, program, since.replace("@", " "), "".join(until).replace("@", " "), source
            )


# --- tensor types ----------------------------------------------------------------------------------------------------

_GGML: Final = "ggml-org/ggml include/ggml.h"
_IK: Final = "ikawrakow/ik_llama.cpp ggml/include/ggml.h"
_FORK: Final = "Eddie-Wang1120/llama.cpp ggml.h"
_BITNET: Final = "microsoft/BitNet, submodule 3rdparty/llama.cpp, ggml.h"
_PRISM: Final = "PrismML-Eng/llama.cpp ggml/include/ggml.h, ggml-org/llama.cpp#29058"

#: BitNet's meanings, which apply to files with the architectures of BitNet.
_OF_BITNET: Final = (
    Assignment(30, "I2", BITNET, "2024-05", "2024-06", _FORK, "T-MAC's packing, in development branches", files=False),
    Assignment(31, "I2", BITNET, "2024-06-09 dbee0a86", "2024-06", _FORK, "T-MAC's packing, in development branches"),
    Assignment(31, "I2_S", BITNET, "2024-06 7a8961ff", "2024-08-28 44d7881e", _FORK,
            "n/4 + 32 bytes, where Q4_0_4_4 has 18 for 32 weights; codes in two's complement"),
    Assignment(32, "I8_S", BITNET, "2024-06 7a8961ff", "2024-08-28 44d7881e", _FORK, "activations in memory", files=False),
    Assignment(36, "I2_S", BITNET, "2024-08-28 44d7881e", "", _BITNET, "n/4 + 32 bytes"),
    Assignment(37, "I8_S", BITNET, "2024-08-28 44d7881e", "", _BITNET, "activations in memory", files=False),
    Assignment(38, "TL1", BITNET, "2024-08-28 44d7881e", "", _BITNET, "n/4 + 32 bytes, for ARM"),
    Assignment(39, "TL2", BITNET, "2024-08-28 44d7881e", "2026-05", _BITNET,
            "five bits for three weights and 32 bytes, for x86; MXFP4 has 17 bytes for 32"),
    Assignment(42, "TL2", BITNET, "2026-05", "", _BITNET,
            "five bits for three weights and 32 bytes, for x86; Q2_0 has 18 bytes for 64 weights, or 34 for 128"),
)  # fmt: skip

_OF_UPSTREAM: Final = (
    Assignment(30, "BF16", UPSTREAM, "2024-05-11 6d13791b", "", _GGML, "two bytes a weight"),
    *periods(UPSTREAM, _GGML, """
    31 Q4_0_4_4 2024-07-27@3f5a4bbe 2024-12-10@b3a469a1
    32 Q4_0_4_8 2024-07-27@3f5a4bbe 2024-12-10@b3a469a1
    33 Q4_0_8_8 2024-07-27@3f5a4bbe 2024-12-10@b3a469a1
    34 TQ1_0 2024-09-08@05904467
    35 TQ2_0 2024-09-08@05904467
    """),
    Assignment(36, "IQ4_NL_4_4", UPSTREAM, "2024-12-03 bb693904", "2024-12-10 b3a469a1", _GGML,
            "18 bytes for 32 weights; today's llama.cpp refuses the number and calls it by this name",
            size=BlockSize(32, 18)),
    Assignment(37, "IQ4_NL_4_8", UPSTREAM, "2024-12-10 b3a469a1", "2024-12-10 b3a469a1", _GGML,
            "named in a comment, and never written by a release", size=BlockSize(32, 18)),
    Assignment(38, "IQ4_NL_8_8", UPSTREAM, "2024-12-10 b3a469a1", "2024-12-10 b3a469a1", _GGML,
            "named in a comment, and never written by a release", size=BlockSize(32, 18)),
    Assignment(39, "MXFP4", UPSTREAM, "2025-08-14 3b145175", "", _GGML, "17 bytes for 32 weights"),
    Assignment(40, "NVFP4", UPSTREAM, "2026-03-15 ac55e3cd", "", _GGML, "36 bytes for 64 weights"),
    Assignment(41, "Q1_0", UPSTREAM, "2026-04-09 b5dafbb0", "", _GGML, "18 bytes for 128 weights"),
    Assignment(42, "Q2_0", UPSTREAM, "2026-07-09 fcfe6389", "", _GGML, "18 bytes for 64 weights"),
)  # fmt: skip

_OF_PRISM: Final = (
    Assignment(42, "Q2_0_G128", PRISM, "2026-03", "2026-08-27 prism-v7", "PrismML-Eng/llama.cpp#167, #130, #40",
            "34 bytes for 128 weights; files called *-Q2_0.gguf, which only the branch prism-v5 loads"),
    Assignment(42, "Q2_0", PRISM, "2026-08-27 prism-v7", "", "PrismML-Eng/llama.cpp#130", "18 bytes for 64 weights"),
    Assignment(142, "PQ2_0", PRISM, "2026-08-27 prism-v7", "", _PRISM, "34 bytes for 128 weights; keys prism.*"),
    Assignment(143, "PTQ1_0", PRISM, "2026-09 prism-b10683", "", _PRISM, "28 bytes for 128 weights; keys prism.*"),
)  # fmt: skip

_OF_IK: Final = (
    *periods(IK, _IK, """
    31 IQ1_BN 2024-06-22@eecd48eab 2024-07-27@0ceeb1172
    31 Q4_0_4_4 2024-07-27@0ceeb1172
    32 IQ2_BN 2024-06-22@318899c8b 2024-07-27@0ceeb1172
    32 Q4_0_4_8 2024-07-27@0ceeb1172
    32 Q8_K64 2024-06-22@eecd48eab 2024-06-22@318899c8b
    33 Q4_0_8_8 2024-07-27@0ceeb1172
    33 Q8_K64 2024-06-22@318899c8b 2024-07-27@0ceeb1172
    34 IQ1_BN 2024-07-27@0ceeb1172 2024-09-09@4a5d5e207
    35 IQ2_BN 2024-07-27@0ceeb1172 2024-09-09@4a5d5e207
    36 I2_S 2025-01-10@400b77429
    36 Q8_K64 2024-07-27@0ceeb1172 2024-09-09@4a5d5e207
    37 IQ2_K 2024-08-01@e5cd93b4b 2024-09-09@4a5d5e207
    37 IQ4_K 2024-07-28@007d2a56b 2024-08-01@e5cd93b4b
    38 IQ2_K 2024-08-01@3f7dad300 2024-08-01@e5cd93b4b
    38 IQ3_K 2024-08-01@fb4cff345 2024-09-09@4a5d5e207
    38 IQ4_K 2024-08-01@e5cd93b4b 2024-08-01@fb4cff345
    39 IQ4_K 2024-08-01@fb4cff345 2024-09-09@4a5d5e207
    39 IQ5_K 2024-08-01@e5cd93b4b 2024-08-01@fb4cff345
    39 MXFP4 2025-08-09@e23b2a7cc
    40 IQ5_K 2024-08-01@fb4cff345 2024-09-09@4a5d5e207
    41 IQ6_K 2024-08-09@81266c22d 2024-09-09@4a5d5e207
    41 Q1_0_G128 2026-04-02@90ec1b80c
    97 Q8_0_X4 2025-03-27@d71e84bdc
    98 Q8_0_X4 2025-01-15@c606c1910 2025-03-27@d71e84bdc
    98 Q8_1_X4 2025-03-27@d71e84bdc
    99 Q8_1_X4 2025-01-15@c606c1910 2025-03-27@d71e84bdc
    99 Q8_2_X4 2025-03-27@d71e84bdc
    133 Q6_0 2024-10-02@104e7e26c
    134 IQ1_BN 2024-09-09@4a5d5e207
    135 IQ2_BN 2024-09-09@4a5d5e207
    136 Q8_K64 2024-09-09@4a5d5e207
    137 IQ2_K 2024-09-09@4a5d5e207
    138 IQ3_K 2024-09-09@4a5d5e207
    139 IQ4_K 2024-09-09@4a5d5e207
    140 IQ5_K 2024-09-09@4a5d5e207
    141 IQ6_K 2024-09-09@4a5d5e207
    144 IQ4_KS 2024-10-09@a10ccd65f
    145 IQ2_KS 2024-10-13@67817fb5b
    146 IQ4_KSS 2024-10-16@f369c6f92
    147 Q8_K16 2024-12-06@612a20767
    148 Q8_K32 2024-12-08@b39bbb040
    149 Q8_KR8 2024-12-14@e885c1e59
    150 Q8_K128 2025-02-09@6658922b9
    151 Q8_KV 2025-02-19@1140b4568
    152 IQ5_KS 2025-05-15@90e53a0b8
    153 IQ2_KT 2025-05-23@25d34e3d2
    154 IQ3_KT 2025-05-23@25d34e3d2
    155 IQ4_KT 2025-05-23@25d34e3d2
    156 IQ3_KS 2025-07-02@adc28f885
    157 IQ2_KL 2025-07-14@f375799f1
    158 IQ1_KT 2025-07-20@e1164e1fd
    202 Q4_0_R4 2024-12-02@61304f5c0 2025-02-06@8049ffcbc
    202 Q4_0_R8 2025-02-06@8049ffcbc
    206 Q5_0_R4 2024-12-03@d9593f368
    208 Q8_0_R4 2024-12-03@6b26cb05f 2025-02-06@8049ffcbc
    208 Q8_0_R8 2025-02-06@8049ffcbc
    210 Q2_K_R4 2024-12-11@0f6621d41
    211 Q3_K_R4 2024-12-11@4872f2f57
    212 Q4_K_R4 2024-12-09@13126ce10
    213 Q5_K_R4 2024-12-10@e78e47b85
    214 Q6_K_R4 2024-12-10@b7e2f656f
    216 IQ2_XXS_R4 2024-12-20@9dfd69bd9
    217 IQ2_XS_R4 2024-12-21@6892554e4
    218 IQ3_XXS_R4 2024-12-20@310f8b1d2
    219 IQ1_S_R4 2025-02-05@eb547bad1
    220 IQ4_NL_R4 2024-12-08@daf5f5202
    220 IQ4_NL_X4 2024-12-02@72d94fbf2 2024-12-08@daf5f5202
    221 IQ3_S_R4 2024-12-23@da3bfd100
    222 IQ2_S_R4 2024-12-21@7598ec79a
    223 IQ4_XS_R4 2024-12-04@9119023a4 2025-02-06@8049ffcbc
    223 IQ4_XS_R8 2025-02-06@8049ffcbc
    229 IQ1_M_R4 2025-02-06@7c94c3da5
    230 BF16_R16 2024-12-15@e811de75e
    233 Q6_0_R4 2024-12-03@d9593f368
    335 IQ2_BN_R4 2024-12-06@612a20767
    337 IQ2_K_R4 2024-12-17@c16d35291
    338 IQ3_K_R4 2024-12-17@b52e2e293
    339 IQ4_K_R4 2024-12-12@ce97b0325
    340 IQ5_K_R4 2024-12-18@c208fec2f
    344 IQ4_KS_R4 2024-12-18@8352f1227
    352 IQ5_KS_R4 2025-05-17@db111c91e
    353 MXFP4_R8 2026-07-28@f0f6ae4bb
    397 Q8_K_R16 2025-08-22@ca8c72ff1
    398 Q8_KV_R8 2025-02-19@1140b4568
    399 Q8_K_R8 2024-12-14@e885c1e59
    """),
    Assignment(41, "IQ2_TN", IK, "2024-08-07 58a323f58", "2024-08-09 81266c22d", _IK, "66 bytes for 256 weights",
            size=BlockSize(256, 66)),
    Assignment(42, "IQ2_TN", IK, "2024-08-09 81266c22d", "2024-09-09 4a5d5e207", _IK, "66 bytes for 256 weights",
            size=BlockSize(256, 66)),
    Assignment(142, "IQ2_TN", IK, "2024-09-09 4a5d5e207", "2024-10-25 4b35340f4", _IK,
            "66 bytes for 256 weights, later 64 and a float32 in front of a row", size=BlockSize(256, 66)),
    Assignment(143, "IQ1_TN", IK, "2024-09-09 4a5d5e207", "2024-10-25 4b35340f4", _IK,
            "54 bytes for 256 weights, later 52 and a float16 in front of a row", size=BlockSize(256, 54)),
)  # fmt: skip

#: Types that ik_llama.cpp uses for activations during products; they do not occur in files.
_IN_MEMORY: Final = frozenset({"Q8_0_X4", "Q8_1_X4", "Q8_2_X4", "Q8_K64", "Q8_K16", "Q8_K32", "Q8_K128", "Q8_KR8"})

_RLX: Final = "crates.io rlx-gguf 0.2.19"
_ROCM: Final = "charlie12345/ROCmFPX ggml/include/ggml.h"
_TURBO: Final = "forks' ggml.h; the numbers differ from fork to fork"
_UNKNOWN: Final = "its size is not known here"

#: Numbers that a single repository uses; few files have them.
_OF_OTHERS: Final = (
    Assignment(40, "I2_SR", "a fork with row scales", "2026", "", "sabdulmajid/BitNet 856c71d",
               "n/4 + 4 bytes a row + 32 bytes"),
    *(Assignment(each.number, each.name, each.program, "2026", "", each.source, each.tell,
                 size=None if each.block is None else BlockSize(*each.block)) for each in PROGRAM_TYPES),
    Assignment(37, "I8_S", "rlx-gguf", "2026", "", _RLX, _UNKNOWN),
    Assignment(43, "FV5", "fermion", "2026", "", _RLX, _UNKNOWN),
    Assignment(44, "FV5B", "fermion", "2026", "", _RLX, _UNKNOWN),
    Assignment(169, "SALT", "Tritium", "2026", "", "crates.io tritium-format 1.1.0-rc.2",
               f"key tritium.salt.format; {_UNKNOWN}"),
    *(Assignment(number, "I2_S", "forks of llama.cpp", "2026", "", "reports", "n/4 + 32 bytes, as type 36")
      for number in range(56, 60)),
    *(Assignment(number, f"TURBO{bits}_0", "TurboQuant's forks", "2026", "", _TURBO, "KV caches in memory", files=False)
      for number, bits in ((41, 3), (42, 4), (42, 2), (42, 3), (43, 2), (43, 3), (43, 4), (44, 4), (44, 2))),
    *(Assignment(number, name, "TurboQuant's forks", "2026", "", "forks' ggml.h", "weights in blocks of 32")
      for number, name in ((45, "TQ3_1S"), (46, "TQ4_1S"))),
    *(Assignment(number, name, "ROCmFPX", "2026", "", _ROCM, f"{size} bytes for 32 weights", size=BlockSize(32, size))
      for number, name, size in ((100, "Q4_0_ROCMFP4", 18), (101, "Q4_0_ROCMFP4_FAST", 17), (104, "Q3_0_ROCMFPX", 14),
                                 (107, "Q2_0_ROCMFPX", 10))),
    *(Assignment(number, name, "ROCmFPX", "2026", "", _ROCM)
      for number, name in ((102, "Q6_0_ROCMFPX"), (103, "Q8_0_ROCMFPX"), (108, "Q4_0_ROCMI4"))),
    *(Assignment(number, name, "ROCmFPX", "2026", "", _ROCM, "KV caches in memory", files=False)
      for number, name in ((105, "TURBO3_0"), (106, "TURBO4_0"))),
)  # fmt: skip

#: Every meaning; where numbers are equal, the likeliest in a file first.
TENSOR_TYPES: Final[tuple[Assignment, ...]] = tuple(
    sorted(
        (
            *_OF_BITNET,
            *_OF_UPSTREAM,
            *_OF_PRISM,
            *(each._replace(files=each.name not in _IN_MEMORY) for each in _OF_IK),
            *_OF_OTHERS,
        ),
        key=lambda each: (each.number, not each.files, not each.is_current),
    )
)


# --- file types ------------------------------------------------------------------------------------------------------
# Nothing is computed from `general.file_type`, so a wrong number costs no more than confusion.

_LLAMA: Final = "ggml-org/llama.cpp include/llama.h"
_IK_FILES: Final = "ikawrakow/ik_llama.cpp include/llama.h"
_FORK_FILES: Final = "Eddie-Wang1120/llama.cpp llama.h"
_BITNET_FILES: Final = "microsoft/BitNet, submodule 3rdparty/llama.cpp, llama.h"
_PRISM_FILES: Final = "PrismML-Eng/llama.cpp#242"

_FILES_OF_BITNET: Final = (
    Assignment(
        32, "I2", BITNET, "2024-05", "2024-06", _FORK_FILES, "T-MAC's packing, in development branches", tensors=("I2_S",)
    ),
    Assignment(33, "I2_S", BITNET, "2024-06", "2024-08", _FORK_FILES, "before the first release", tensors=("I2_S",)),
    Assignment(38, "TL1", BITNET, "2024-10-17", "", _BITNET_FILES, tensors=("TL1",)),
    Assignment(38, "I2_S", "BitNet's forks before their release", "2024-08", "2024-10", _FORK_FILES, tensors=("I2_S",)),
    Assignment(39, "TL2", BITNET, "2024-10-17", "", _BITNET_FILES, tensors=("TL2",)),
    Assignment(39, "I2_S", "BitNet's forks before their release", "2024-08", "2024-10", _FORK_FILES, tensors=("I2_S",)),
    Assignment(40, "I2_S", BITNET, "2024-10-17", "", _BITNET_FILES, tensors=("I2_S",)),
)  # fmt: skip

_FILES_OF_UPSTREAM: Final = (
    Assignment(32, "BF16", UPSTREAM, "2024-05-11", "", _LLAMA, tensors=("BF16",)),
    Assignment(33, "Q4_0_4_4", UPSTREAM, "2024-07-27", "2024-12-10", _LLAMA),
    Assignment(34, "Q4_0_4_8", UPSTREAM, "2024-07-27", "2024-12-10", _LLAMA),
    Assignment(35, "Q4_0_8_8", UPSTREAM, "2024-07-27", "2024-12-10", _LLAMA),
    Assignment(36, "TQ1_0", UPSTREAM, "2024-09-08", "", _LLAMA, tensors=("TQ1_0",)),
    Assignment(37, "TQ2_0", UPSTREAM, "2024-09-08", "", _LLAMA, tensors=("TQ2_0",)),
    Assignment(38, "MXFP4_MOE", UPSTREAM, "2025-08-14", "", _LLAMA, tensors=("MXFP4", "Q8_0")),  # Q8_0: all but experts
    Assignment(39, "NVFP4", UPSTREAM, "2026-03-15", "", _LLAMA, tensors=("NVFP4",)),
    Assignment(40, "Q1_0", UPSTREAM, "2026-04-09", "", _LLAMA, tensors=("Q1_0",)),
    Assignment(41, "Q2_0", UPSTREAM, "2026-07-09", "", _LLAMA, tensors=("Q2_0",)),
)

_FILES_OF_PRISM: Final = (
    Assignment(141, "PQ2_0", PRISM, "2026-08-27", "", _PRISM_FILES, tensors=("PQ2_0",)),
    Assignment(143, "PTQ1_0", PRISM, "2026-09", "", _PRISM_FILES, tensors=("PTQ1_0",)),
)

_FILES_OF_IK: Final = (
    *periods(IK, _IK_FILES, """
    33 Q4_0_4_4 2024-07-27@0ceeb1172
    34 Q4_0_4_8 2024-07-27@0ceeb1172
    35 Q4_0_8_8 2024-07-27@0ceeb1172
    38 IQ2_K 2024-08-01@e5cd93b4b 2024-09-09@4a5d5e207
    38 IQ4_K 2024-07-28@007d2a56b 2024-08-01@e5cd93b4b
    38 MXFP4 2025-08-09@e23b2a7cc
    39 IQ2_K 2024-08-01@3f7dad300 2024-08-01@e5cd93b4b
    39 IQ3_K 2024-08-01@fb4cff345 2024-09-09@4a5d5e207
    39 IQ4_K 2024-08-01@e5cd93b4b 2024-08-01@fb4cff345
    40 IQ4_K 2024-08-01@fb4cff345 2024-09-09@4a5d5e207
    40 IQ5_K 2024-08-01@e5cd93b4b 2024-08-01@fb4cff345
    41 IQ5_K 2024-08-01@fb4cff345 2024-09-09@4a5d5e207
    41 Q1_0_G128 2026-04-02@90ec1b80c
    42 IQ6_K 2024-08-09@4b2c94618 2024-09-09@4a5d5e207
    135 Q6_0 2024-10-02@104e7e26c
    138 IQ2_K 2024-09-09@4a5d5e207
    139 IQ3_K 2024-09-09@4a5d5e207
    140 IQ4_K 2024-09-09@4a5d5e207
    141 IQ5_K 2024-09-09@4a5d5e207
    142 IQ6_K 2024-09-09@4a5d5e207
    145 IQ4_KS 2024-10-09@a10ccd65f
    146 IQ3_KL 2024-10-09@a10ccd65f
    147 IQ2_KS 2024-10-13@67817fb5b
    148 IQ4_KSS 2024-10-16@f369c6f92
    149 Q8_KV 2025-02-19@1140b4568
    150 IQ5_KS 2025-05-15@90e53a0b8
    151 IQ2_KT 2025-05-23@25d34e3d2
    152 IQ3_KT 2025-05-23@25d34e3d2
    153 IQ4_KT 2025-05-23@25d34e3d2
    154 IQ3_KS 2025-07-02@adc28f885
    155 IQ2_KL 2025-07-14@f375799f1
    156 IQ1_KT 2025-07-20@e1164e1fd
    202 Q4_0_R4 2024-12-02@61304f5c0 2025-02-06@8049ffcbc
    202 Q4_0_R8 2025-02-06@8049ffcbc
    207 Q8_0_R4 2024-12-03@6b26cb05f 2025-02-06@8049ffcbc
    207 Q8_0_R8 2025-02-06@8049ffcbc
    208 Q5_0_R4 2024-12-03@d9593f368
    210 Q2_K_R4 2024-12-11@0f6621d41
    211 Q3_K_R4 2024-12-11@4872f2f57
    214 Q4_K_R4 2024-12-09@13126ce10
    216 Q5_K_R4 2024-12-10@e78e47b85
    218 Q6_K_R4 2024-12-10@b7e2f656f
    219 IQ2_XXS_R4 2024-12-20@9dfd69bd9
    220 IQ2_XS_R4 2024-12-21@6892554e4
    223 IQ3_XXS_R4 2024-12-20@310f8b1d2
    224 IQ1_S_R4 2025-02-05@eb547bad1
    225 IQ4_NL_R4 2024-12-08@daf5f5202
    225 IQ4_NL_X4 2024-12-02@72d94fbf2 2024-12-08@daf5f5202
    226 IQ3_S_R4 2024-12-23@da3bfd100
    229 IQ2_M_R4 2024-12-21@7598ec79a
    230 IQ4_XS_R4 2024-12-04@9119023a4 2025-02-06@8049ffcbc
    230 IQ4_XS_R8 2025-02-06@8049ffcbc
    231 IQ1_M_R4 2025-02-06@7c94c3da5
    232 BF16_R16 2024-12-15@e811de75e
    235 Q6_0_R4 2024-12-03@bb699e1e6 2024-12-12@ce97b0325
    237 IQ2_BN_R4 2024-12-06@612a20767 2024-12-12@ce97b0325
    335 Q6_0_R4 2024-12-12@ce97b0325
    337 IQ2_BN_R4 2024-12-12@ce97b0325
    338 IQ2_K_R4 2024-12-17@c16d35291
    339 IQ3_K_R4 2024-12-17@b52e2e293
    340 IQ4_K_R4 2024-12-12@ce97b0325
    341 IQ5_K_R4 2024-12-18@c208fec2f
    345 IQ4_KS_R4 2024-12-18@8352f1227
    350 IQ5_KS_R4 2025-05-17@db111c91e
    351 MXFP4_R8 2026-07-28@f0f6ae4bb
    398 Q8_KV_R8 2025-02-19@1140b4568
    399 Q8_K_R8 2024-12-14@e885c1e59
    """),
    Assignment(33, "IQ1_BN", IK, "2024-06-22 eecd48eab", "2024-07-27 0ceeb1172", _IK_FILES, tensors=("IQ1_BN",)),
    Assignment(34, "IQ2_BN", IK, "2024-06-22 318899c8b", "2024-07-27 0ceeb1172", _IK_FILES, tensors=("IQ2_BN",)),
    Assignment(36, "IQ1_BN", IK, "2024-07-27 0ceeb1172", "2024-09-09 4a5d5e207", _IK_FILES, tensors=("IQ1_BN",)),
    Assignment(37, "IQ2_BN", IK, "2024-07-27 0ceeb1172", "2024-09-09 4a5d5e207", _IK_FILES, tensors=("IQ2_BN",)),
    Assignment(42, "IQ2_TN", IK, "2024-08-07 58a323f58", "2024-08-09 4b2c94618", _IK_FILES),
    Assignment(43, "IQ2_TN", IK, "2024-08-09 4b2c94618", "2024-09-09 4a5d5e207", _IK_FILES),
    Assignment(136, "IQ1_BN", IK, "2024-09-09 4a5d5e207", "", _IK_FILES, tensors=("IQ1_BN",)),
    Assignment(137, "IQ2_BN", IK, "2024-09-09 4a5d5e207", "", _IK_FILES, tensors=("IQ2_BN",)),
    Assignment(143, "IQ2_TN", IK, "2024-09-09 4a5d5e207", "2024-10-25 4b35340f4", _IK_FILES),
    Assignment(144, "IQ1_TN", IK, "2024-09-09 4a5d5e207", "2024-10-25 4b35340f4", _IK_FILES),
)  # fmt: skip

_FILES_OF_OTHERS: Final = (
    Assignment(41, "I2_SR", "a fork with row scales", "2026", "", "sabdulmajid/BitNet 856c71d", tensors=("I2_SR",)),
    Assignment(41, "I2_S", "a proposal to BitNet (microsoft/BitNet#620)", "2026", "",
            "microsoft/BitNet#620", tensors=("I2_S",)),
)  # fmt: skip

#: Every meaning; where numbers are equal, the likeliest in a file first.
FILE_TYPE_HISTORY: Final[tuple[Assignment, ...]] = tuple(
    sorted(
        (*_FILES_OF_BITNET, *_FILES_OF_UPSTREAM, *_FILES_OF_PRISM, *_FILES_OF_IK, *_FILES_OF_OTHERS),
        key=lambda each: (each.number, not each.is_current),
    )
)


# --- meanings --------------------------------------------------------------------------------------------------------
# The possible meanings of the type number of a tensor in a file.
#
# Upstream llama.cpp, the BitNet forks, ik_llama.cpp and PrismML assign numbers independently, and forks of forks take
# numbers that seem free. The meanings are distinguished by the distance from a tensor to the next one, and by metadata
# keys that only one program writes.


def _by_number(meanings: Sequence[Assignment]) -> dict[int, tuple[Assignment, ...]]:
    found: dict[int, tuple[Assignment, ...]] = {}
    for each in sorted(meanings, key=lambda meaning: meaning.number):  # meanings of the same number keep their order
        found[each.number] = (*found.get(each.number, ()), each)
    return found


_TENSOR_TYPES: Final = _by_number(TENSOR_TYPES)
_FILE_TYPES: Final = _by_number(FILE_TYPE_HISTORY)


def tensor_assignments(number: int) -> tuple[Assignment, ...]:
    """Every meaning of a tensor type's number from 29 on, the likeliest in a file first."""
    return _TENSOR_TYPES.get(number, ())


def file_assignments(number: int) -> tuple[Assignment, ...]:
    """Every meaning of a value of `general.file_type` from 30 on, the likeliest in a file first."""
    return _FILE_TYPES.get(number, ())


def all_tensor_assignments() -> tuple[Assignment, ...]:
    """Every meaning of every tensor type's number from 29 on, by number."""
    return tuple(each for meanings in _TENSOR_TYPES.values() for each in meanings)


def all_file_assignments() -> tuple[Assignment, ...]:
    """Every meaning of every file type from 30 on, by number."""
    return tuple(each for meanings in _FILE_TYPES.values() for each in meanings)


def telling(meaning: Assignment) -> str:
    """How to distinguish a meaning of a tensor type's number from its other meanings, in words.

    >>> telling(tensor_assignments(142)[0])
    '34 bytes for 128 weights; keys prism.*'
    """
    if meaning.tell:
        return meaning.tell
    namesakes = (each.tell for each in tensor_assignments(meaning.number) if each.name == meaning.name and each.tell)
    if named := next(namesakes, ""):
        return named
    kind, size = meaning.type, meaning.size
    if kind is not None and kind.size is None:
        size = BlockSize(kind.block, kind.bytes, kind.row_bytes)
    if size is None:
        alone = len({each.name for each in tensor_assignments(meaning.number)}) == 1
        return "no other meaning is known" if alone else "its size is not known here; only its program decides"
    front = f", {size.row_bytes} before a row" if size.row_bytes else ""
    return f"{counted(size.bytes, 'byte')} for {counted(size.block, 'weight')}{front}"


def fitting(
    number: int, ne: Sequence[int], room: int, alignment: int = 32, keys: Collection[str] = ()
) -> tuple[Assignment, ...]:
    """Return the possible meanings of a tensor type's number for a tensor of a file.

    :param ne: its shape, in ggml's order
    :param room: bytes until the next tensor begins, or until the file ends
    :param alignment: the alignment of the file
    :param keys: names of the file's key-values
    :returns: the meanings whose size, with or without padding, equals `room`; those of a program whose own keys the
    file has come first. Empty if there are none
    """
    found = []
    for each in tensor_assignments(number):
        size = each.nbytes(ne)
        if size is not None and room in (size, types.padded(size, alignment)):
            found.append(each)
    own = {program for program, start in OWN_KEYS.items() if any(key.startswith(start) for key in keys)}
    return tuple(sorted(found, key=lambda each: each.program not in own))


# --- advisories ------------------------------------------------------------------------------------------------------
# The published advisories that the specification and the rules cite, with their subjects.
#
# An advisory may be cited only where its subject is: rules and clauses that cite one must agree with the rules in this
# list. Sources: the records of the CVE programme and of the projects' own advisories, as of September 2026.


class Advisory(NamedTuple):
    """One published weakness.

    :param program: the affected program
    :param subject: the part of a file that triggered it, and the effect
    :param rules: the rules that find such a part; none if the part is not known
    """

    id: str
    program: str
    subject: str
    rules: tuple[str, ...]


#: Every advisory, in the order of their numbers.
ADVISORIES: Final[tuple[Advisory, ...]] = (
    Advisory("CVE-2024-12055", "Ollama", "a length in the file is not checked: a read out of bounds", ("G209",)),
    Advisory("CVE-2024-21802", "llama.cpp", "more than 4 dimensions: a write behind an array", ("G308",)),
    Advisory("CVE-2024-21825", "llama.cpp", "number of an array's elements: its product with their size wraps", ("G213",)),
    Advisory("CVE-2024-21836", "llama.cpp", "number of tensors: its product with the size of a record wraps", ("G109",)),
    Advisory("CVE-2024-23496", "llama.cpp", "length of a string, 2^64 - 1: one more for a NUL wraps to 0", ("G209",)),
    Advisory("CVE-2024-23605", "llama.cpp", "number of keys: its product with the size of a record wraps", ("G108",)),
    Advisory("CVE-2024-34359", "llama-cpp-python", "a chat template rendered without a sandbox runs code", ("S201",)),
    Advisory("CVE-2024-39720", "Ollama", "a file of four bytes: a read behind a buffer", ("G001", "G101")),
    Advisory("CVE-2024-41130", "llama.cpp", "a file that ends in its metadata: a null pointer is read", ("G201",)),
    Advisory("CVE-2024-56326", "Jinja", "str.format in a template leaves the sandbox", ("S201",)),
    Advisory("CVE-2024-8063", "Ollama", "block_count 0: a division by zero", ("M004",)),
    Advisory("CVE-2025-0312", "Ollama", "a key that is missing: a null pointer is read", ("M002",)),
    Advisory("CVE-2025-0315", "Ollama", "memory is allocated for a length without a limit", ("G209",)),
    Advisory("CVE-2025-0317", "Ollama", "general.alignment 0: a division by zero", ("G218",)),
    Advisory("CVE-2025-49847", "llama.cpp", "length of a token's text beyond 2^31 - 1: a write behind a buffer", ("S210",)),
    Advisory("CVE-2025-52566", "llama.cpp", "a template that makes more than 2^31 - 1 tokens: likewise", ("S202",)),
    Advisory("CVE-2025-53630", "llama.cpp", "the sum of the padded sizes of tensors wraps", ("G410",)),
    Advisory("CVE-2025-66959", "Ollama", "a length in the file is not compared with anything", ("G209",)),
    Advisory("CVE-2026-27940", "llama.cpp", "this sum and the memory for the records wrap", ("G410",)),
    Advisory("CVE-2026-33298", "llama.cpp", "the size of a tensor in bytes wraps", ("G312",)),
    Advisory("CVE-2026-52131", "llama.cpp", "an assertion of the reader; which field it is about was not published", ()),
    Advisory("CVE-2026-5760", "SGLang", "a chat template rendered without a sandbox runs code", ("S201",)),
    Advisory("CVE-2026-7482", "Ollama", "offset and size of a tensor beyond the file: memory is read and sent away",
             ("G402",)),
    Advisory("GHSA-g4cc-763q-h9h6", "llama.cpp", "id of a special token beyond the vocabulary: a read out of bounds",
             ("T008",)),
)  # fmt: skip


# --- numbers ---------------------------------------------------------------------------------------------------------
# The meanings of numbers on which lineages disagree, for messages.
#
# Two lineages assign numbers: llama.cpp, and the forks for BitNet that branched from it in 2024 and continued counting.
# From 36 (tensor types) and 38 (`general.file_type`) on, a number alone is ambiguous; the bytes and the rest of the
# file must decide.


class LineageMeaning(NamedTuple):
    """The meaning of a number in one lineage; `tensors` are the types of most matrices of such a file."""

    name: str
    whose: str
    tensors: tuple[str, ...] = ()


def _in_files(meanings: Iterable[Assignment]) -> tuple[LineageMeaning, ...]:
    """Return the meanings that a file of today may have: those that programs still write, and BitNet's before its
    release.
    """
    found = (each for each in meanings if each.files and (each.is_current or each.program.startswith(BITNET + " ")))
    return tuple(LineageMeaning(each.name, each.program, each.tensors) for each in found)


#: Values of `general.file_type` on which lineages disagree, or that only one uses; BitNet's meaning first.
FILE_TYPES: Final[dict[int, tuple[LineageMeaning, ...]]] = {
    number: _in_files(file_assignments(number))
    for number in sorted({each.number for each in all_file_assignments() if each.number > 35 and each.tensors})
    if any(each.is_current for each in file_assignments(number))
}

_FAMILIES: Final = {"BitNet": BITNET, "ggml": UPSTREAM, "one fork": "a fork with row scales"}


def file_types(number: int) -> tuple[LineageMeaning, ...]:
    """Every meaning of a value of `general.file_type`; empty for an unknown value."""
    if number in FILE_TYPES:
        return FILE_TYPES[number]
    name = COMMON.get(number)
    if name is None:
        return tuple(each._replace(tensors=(each.name,)) for each in _in_files(file_assignments(number)))
    whose = "ik_llama.cpp" if number >= 100 else "all"
    return (LineageMeaning(name, whose, MOSTLY.get(number, (name,))),)


def file_types_of(kind: str) -> tuple[int, ...]:
    """Return the numbers of files whose layers mostly have a type: the one that is named after it, else those of
    mixtures.
    """
    if kind in COMMON.values():
        return (next(number for number, name in COMMON.items() if name == kind),)
    numbers = sorted({*FILE_TYPES, *COMMON})
    named = tuple(number for number in numbers if any(kind == each.name for each in file_types(number)))
    return named or tuple(n for n in numbers if any(each.tensors[:1] == (kind,) for each in file_types(n)))


def file_type_words(number: int) -> str:
    """Return the meaning of a value of `general.file_type` in each lineage."""
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
    found += [meaning for meaning in _in_files(tensor_assignments(number)) if meaning.name not in known]
    if number in types.TAKEN_OVER:
        found.append(LineageMeaning(f"the retired {types.TAKEN_OVER[number]}", UPSTREAM))
    return tuple(sorted(found, key=lambda meaning: (meaning.whose != BITNET, meaning.whose == UPSTREAM)))


def tensor_type_words(number: int) -> str:
    """Return the meaning of a tensor type's number in each lineage."""
    return ", ".join(f"{meaning.name} to {meaning.whose}" for meaning in tensor_types(number))
