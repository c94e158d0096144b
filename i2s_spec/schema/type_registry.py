"""This module lists every meaning that a program gave to a tensor type's number from 30 on.

Dates and commits of llama.cpp are those of ggml-org/ggml, to which its changes are copied; those of ik_llama.cpp were
taken from the whole history of `ggml.h`; those of the BitNet forks are from Eddie-Wang1120/llama.cpp, before the first
release, and from microsoft/BitNet's submodule. For each number, the most likely meaning in a file comes first, as in
`types`.
"""

from typing import Final

from i2s_spec.schema.registry.meaning import BITNET, IK, PRISM, UPSTREAM, BlockSize, Meaning, periods

_GGML: Final = "ggml-org/ggml include/ggml.h"
_IK: Final = "ikawrakow/ik_llama.cpp ggml/include/ggml.h"
_FORK: Final = "Eddie-Wang1120/llama.cpp ggml.h"
_BITNET: Final = "microsoft/BitNet, submodule 3rdparty/llama.cpp, ggml.h"
_PRISM: Final = "PrismML-Eng/llama.cpp ggml/include/ggml.h, ggml-org/llama.cpp#29058"

#: BitNet's meanings, which apply to files with the architectures of BitNet.
_OF_BITNET: Final = (
    Meaning(30, "I2", BITNET, "2024-05", "2024-06", _FORK, "T-MAC's packing, in development branches", files=False),
    Meaning(31, "I2", BITNET, "2024-06-09 dbee0a86", "2024-06", _FORK, "T-MAC's packing, in development branches"),
    Meaning(31, "I2_S", BITNET, "2024-06 7a8961ff", "2024-08-28 44d7881e", _FORK,
            "n/4 + 32 bytes, where Q4_0_4_4 has 18 for 32 weights; codes in two's complement"),
    Meaning(32, "I8_S", BITNET, "2024-06 7a8961ff", "2024-08-28 44d7881e", _FORK, "activations in memory", files=False),
    Meaning(36, "I2_S", BITNET, "2024-08-28 44d7881e", "", _BITNET, "n/4 + 32 bytes"),
    Meaning(37, "I8_S", BITNET, "2024-08-28 44d7881e", "", _BITNET, "activations in memory", files=False),
    Meaning(38, "TL1", BITNET, "2024-08-28 44d7881e", "", _BITNET, "n/4 + 32 bytes, for ARM"),
    Meaning(39, "TL2", BITNET, "2024-08-28 44d7881e", "2026-05", _BITNET,
            "five bits for three weights and 32 bytes, for x86; MXFP4 has 17 bytes for 32"),
    Meaning(42, "TL2", BITNET, "2026-05", "", _BITNET,
            "five bits for three weights and 32 bytes, for x86; Q2_0 has 18 bytes for 64 weights, or 34 for 128"),
)  # fmt: skip

_OF_UPSTREAM: Final = (
    Meaning(30, "BF16", UPSTREAM, "2024-05-11 6d13791b", "", _GGML, "two bytes a weight"),
    *periods(UPSTREAM, _GGML, """
    31 Q4_0_4_4 2024-07-27@3f5a4bbe 2024-12-10@b3a469a1
    32 Q4_0_4_8 2024-07-27@3f5a4bbe 2024-12-10@b3a469a1
    33 Q4_0_8_8 2024-07-27@3f5a4bbe 2024-12-10@b3a469a1
    34 TQ1_0 2024-09-08@05904467
    35 TQ2_0 2024-09-08@05904467
    """),
    Meaning(36, "IQ4_NL_4_4", UPSTREAM, "2024-12-03 bb693904", "2024-12-10 b3a469a1", _GGML,
            "18 bytes for 32 weights; today's llama.cpp refuses the number and calls it by this name",
            size=BlockSize(32, 18)),
    Meaning(37, "IQ4_NL_4_8", UPSTREAM, "2024-12-10 b3a469a1", "2024-12-10 b3a469a1", _GGML,
            "named in a comment, and never written by a release", size=BlockSize(32, 18)),
    Meaning(38, "IQ4_NL_8_8", UPSTREAM, "2024-12-10 b3a469a1", "2024-12-10 b3a469a1", _GGML,
            "named in a comment, and never written by a release", size=BlockSize(32, 18)),
    Meaning(39, "MXFP4", UPSTREAM, "2025-08-14 3b145175", "", _GGML, "17 bytes for 32 weights"),
    Meaning(40, "NVFP4", UPSTREAM, "2026-03-15 ac55e3cd", "", _GGML, "36 bytes for 64 weights"),
    Meaning(41, "Q1_0", UPSTREAM, "2026-04-09 b5dafbb0", "", _GGML, "18 bytes for 128 weights"),
    Meaning(42, "Q2_0", UPSTREAM, "2026-07-09 fcfe6389", "", _GGML, "18 bytes for 64 weights"),
)  # fmt: skip

_OF_PRISM: Final = (
    Meaning(42, "Q2_0_G128", PRISM, "2026-03", "2026-08-27 prism-v7", "PrismML-Eng/llama.cpp#167, #130, #40",
            "34 bytes for 128 weights; files called *-Q2_0.gguf, which only the branch prism-v5 loads"),
    Meaning(42, "Q2_0", PRISM, "2026-08-27 prism-v7", "", "PrismML-Eng/llama.cpp#130", "18 bytes for 64 weights"),
    Meaning(142, "PQ2_0", PRISM, "2026-08-27 prism-v7", "", _PRISM, "34 bytes for 128 weights; keys prism.*"),
    Meaning(143, "PTQ1_0", PRISM, "2026-09 prism-b10683", "", _PRISM, "28 bytes for 128 weights; keys prism.*"),
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
    Meaning(41, "IQ2_TN", IK, "2024-08-07 58a323f58", "2024-08-09 81266c22d", _IK, "66 bytes for 256 weights",
            size=BlockSize(256, 66)),
    Meaning(42, "IQ2_TN", IK, "2024-08-09 81266c22d", "2024-09-09 4a5d5e207", _IK, "66 bytes for 256 weights",
            size=BlockSize(256, 66)),
    Meaning(142, "IQ2_TN", IK, "2024-09-09 4a5d5e207", "2024-10-25 4b35340f4", _IK,
            "66 bytes for 256 weights, later 64 and a float32 in front of a row", size=BlockSize(256, 66)),
    Meaning(143, "IQ1_TN", IK, "2024-09-09 4a5d5e207", "2024-10-25 4b35340f4", _IK,
            "54 bytes for 256 weights, later 52 and a float16 in front of a row", size=BlockSize(256, 54)),
)  # fmt: skip

#: Types that ik_llama.cpp uses for activations during products; they do not occur in files.
_IN_MEMORY: Final = frozenset({"Q8_0_X4", "Q8_1_X4", "Q8_2_X4", "Q8_K64", "Q8_K16", "Q8_K32", "Q8_K128", "Q8_KR8"})

#: Numbers that a single repository uses; few files have them.
_OF_OTHERS: Final = (
    Meaning(
        40,
        "I2_SR",
        "a fork with row scales",
        "2026",
        "",
        "sabdulmajid/BitNet 856c71d",
        "n/4 + 4 bytes a row + 32 bytes",
    ),
    Meaning(
        43,
        "T5B",
        "purpleskulll's fork of BitNet",
        "2026",
        "",
        "its tools/gguf_to_t5b.py",
        "rows of 32 bytes for 160 weights, then 32 bytes of which the first four are the scale",
    ),
    Meaning(
        43,
        "Q1_0_g128",
        "sky-is-green/prism-ml-llama.cpp",
        "2026",
        "",
        "its README",
        "the bytes of PQ2_0, 34 for 128 weights, in older files",
        size=BlockSize(128, 34),
    ),
    Meaning(143, "G8_0", "mortar.cpp", "2026", "", "mortar.cpp", "no keys prism.*; its size is not known here"),
    *(
        Meaning(number, "I2_S", "forks of llama.cpp", "2026", "", "reports", "n/4 + 32 bytes, as type 36")
        for number in range(56, 60)
    ),
    *(
        Meaning(
            number,
            name,
            "TurboQuant's forks",
            "2026",
            "",
            "forks' ggml.h; the numbers differ from fork to fork",
            "KV caches in memory",
            files=False,
        )
        for number, name in (
            (41, "TURBO3_0"),
            (42, "TURBO4_0"),
            (42, "TURBO2_0"),
            (42, "TURBO3_0"),
            (43, "TURBO2_0"),
            (43, "TURBO3_0"),
            (43, "TURBO4_0"),
            (44, "TURBO4_0"),
            (44, "TURBO2_0"),
        )
    ),
    Meaning(45, "TQ3_1S", "TurboQuant's forks", "2026", "", "forks' ggml.h", "weights in blocks of 32"),
    Meaning(46, "TQ4_1S", "TurboQuant's forks", "2026", "", "forks' ggml.h", "weights in blocks of 32"),
    *(
        Meaning(number, name, "ROCmFPX", "2026", "", "charlie12345/ROCmFPX ggml/include/ggml.h", tell, size=size)
        for number, name, tell, size in (
            (100, "Q4_0_ROCMFP4", "18 bytes for 32 weights", BlockSize(32, 18)),
            (101, "Q4_0_ROCMFP4_FAST", "17 bytes for 32 weights", BlockSize(32, 17)),
            (102, "Q6_0_ROCMFPX", "", None),
            (103, "Q8_0_ROCMFPX", "", None),
            (104, "Q3_0_ROCMFPX", "14 bytes for 32 weights", BlockSize(32, 14)),
            (107, "Q2_0_ROCMFPX", "10 bytes for 32 weights", BlockSize(32, 10)),
            (108, "Q4_0_ROCMI4", "", None),
        )
    ),
    Meaning(
        105,
        "TURBO3_0",
        "ROCmFPX",
        "2026",
        "",
        "charlie12345/ROCmFPX ggml/include/ggml.h",
        "KV caches in memory",
        files=False,
    ),
    Meaning(
        106,
        "TURBO4_0",
        "ROCmFPX",
        "2026",
        "",
        "charlie12345/ROCmFPX ggml/include/ggml.h",
        "KV caches in memory",
        files=False,
    ),
)

#: Every meaning; where numbers are equal, the likeliest in a file first.
TENSOR_TYPES: Final[tuple[Meaning, ...]] = tuple(
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
