"""This module lists every meaning that a program gave to a value of `general.file_type` from 30 on.

Nothing is computed from the number, so a wrong one costs no more than confusion. Sources as in `tensor_types`.
"""

from typing import Final

from i2s_spec.schema.registry.meaning import BITNET, IK, PRISM, UPSTREAM, Meaning, periods

_LLAMA: Final = "ggml-org/llama.cpp include/llama.h"
_IK: Final = "ikawrakow/ik_llama.cpp include/llama.h"
_FORK: Final = "Eddie-Wang1120/llama.cpp llama.h"
_BITNET: Final = "microsoft/BitNet, submodule 3rdparty/llama.cpp, llama.h"
_PRISM: Final = "PrismML-Eng/llama.cpp#242"

_OF_BITNET: Final = (
    Meaning(32, "I2", BITNET, "2024-05", "2024-06", _FORK, "T-MAC's packing, in development branches", tensors=("I2_S",)),
    Meaning(33, "I2_S", BITNET, "2024-06", "2024-08", _FORK, "before the first release", tensors=("I2_S",)),
    Meaning(38, "TL1", BITNET, "2024-10-17", "", _BITNET, tensors=("TL1",)),
    Meaning(38, "I2_S", "BitNet's forks before their release", "2024-08", "2024-10", _FORK, tensors=("I2_S",)),
    Meaning(39, "TL2", BITNET, "2024-10-17", "", _BITNET, tensors=("TL2",)),
    Meaning(39, "I2_S", "BitNet's forks before their release", "2024-08", "2024-10", _FORK, tensors=("I2_S",)),
    Meaning(40, "I2_S", BITNET, "2024-10-17", "", _BITNET, tensors=("I2_S",)),
)  # fmt: skip

_OF_UPSTREAM: Final = (
    Meaning(32, "BF16", UPSTREAM, "2024-05-11", "", _LLAMA, tensors=("BF16",)),
    Meaning(33, "Q4_0_4_4", UPSTREAM, "2024-07-27", "2024-12-10", _LLAMA),
    Meaning(34, "Q4_0_4_8", UPSTREAM, "2024-07-27", "2024-12-10", _LLAMA),
    Meaning(35, "Q4_0_8_8", UPSTREAM, "2024-07-27", "2024-12-10", _LLAMA),
    Meaning(36, "TQ1_0", UPSTREAM, "2024-09-08", "", _LLAMA, tensors=("TQ1_0",)),
    Meaning(37, "TQ2_0", UPSTREAM, "2024-09-08", "", _LLAMA, tensors=("TQ2_0",)),
    Meaning(38, "MXFP4_MOE", UPSTREAM, "2025-08-14", "", _LLAMA, tensors=("MXFP4",)),
    Meaning(39, "NVFP4", UPSTREAM, "2026-03-15", "", _LLAMA, tensors=("NVFP4",)),
    Meaning(40, "Q1_0", UPSTREAM, "2026-04-09", "", _LLAMA, tensors=("Q1_0",)),
    Meaning(41, "Q2_0", UPSTREAM, "2026-07-09", "", _LLAMA, tensors=("Q2_0",)),
)

_OF_PRISM: Final = (
    Meaning(141, "PQ2_0", PRISM, "2026-08-27", "", _PRISM, tensors=("PQ2_0",)),
    Meaning(143, "PTQ1_0", PRISM, "2026-09", "", _PRISM, tensors=("PTQ1_0",)),
)

_OF_IK: Final = (
    *periods(IK, _IK, """
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
    Meaning(33, "IQ1_BN", IK, "2024-06-22 eecd48eab", "2024-07-27 0ceeb1172", _IK, tensors=("IQ1_BN",)),
    Meaning(34, "IQ2_BN", IK, "2024-06-22 318899c8b", "2024-07-27 0ceeb1172", _IK, tensors=("IQ2_BN",)),
    Meaning(36, "IQ1_BN", IK, "2024-07-27 0ceeb1172", "2024-09-09 4a5d5e207", _IK, tensors=("IQ1_BN",)),
    Meaning(37, "IQ2_BN", IK, "2024-07-27 0ceeb1172", "2024-09-09 4a5d5e207", _IK, tensors=("IQ2_BN",)),
    Meaning(42, "IQ2_TN", IK, "2024-08-07 58a323f58", "2024-08-09 4b2c94618", _IK),
    Meaning(43, "IQ2_TN", IK, "2024-08-09 4b2c94618", "2024-09-09 4a5d5e207", _IK),
    Meaning(136, "IQ1_BN", IK, "2024-09-09 4a5d5e207", "", _IK, tensors=("IQ1_BN",)),
    Meaning(137, "IQ2_BN", IK, "2024-09-09 4a5d5e207", "", _IK, tensors=("IQ2_BN",)),
    Meaning(143, "IQ2_TN", IK, "2024-09-09 4a5d5e207", "2024-10-25 4b35340f4", _IK),
    Meaning(144, "IQ1_TN", IK, "2024-09-09 4a5d5e207", "2024-10-25 4b35340f4", _IK),
)  # fmt: skip

_OF_OTHERS: Final = (
    Meaning(41, "I2_SR", "a fork with row scales", "2026", "", "sabdulmajid/BitNet 856c71d", tensors=("I2_SR",)),
    Meaning(41, "I2_S", "a proposal to BitNet (microsoft/BitNet#620)", "2026", "",
            "microsoft/BitNet#620", tensors=("I2_S",)),
)  # fmt: skip

#: Every meaning; where numbers are equal, the likeliest in a file first.
FILE_TYPES: Final[tuple[Meaning, ...]] = tuple(
    sorted(
        (*_OF_BITNET, *_OF_UPSTREAM, *_OF_PRISM, *_OF_IK, *_OF_OTHERS),
        key=lambda each: (each.number, not each.is_current),
    )
)
