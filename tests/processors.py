"""Older processors than this one, as features that are hidden (`I2S_HIDE`), and what is run as on each of them.

python tests/processors.py [PROFILE...] [-- PYTEST ARGUMENTS]
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

_LAST: Final = "avx512vbmi,avx512vpopcntdq,avxvnni"
_AVX512: Final = f"{_LAST},avx512vnni,avx512f,avx512bw,avx512vl,avx512dq"

#: What each of them lacks.
PROCESSORS: Final = {
    "sse4": f"{_AVX512},avx2,fma,f16c",
    "avx2": _AVX512,
    "skylake-sp": f"{_LAST},avx512vnni",
    "cascade-lake": _LAST,
    "all": "",
}

#: Everything that chooses kernels, or tests those that there are. `all` is every other run of the tests.
TESTS: Final = (
    "tests/codec/test_native.py", "tests/codec/test_float_passes.py", "tests/codec/blocks/test_blocks.py",
    "tests/codec/test_survey_kernels.py", "tests/codec/test_survey_groups.py",
    "tests/inspect/evidence/test_bit_sums.py",
    "tests/model/test_matmul.py", "tests/model/test_panels.py", "tests/model/test_fast.py",
    "tests/model/test_profiles.py::test_products_are_the_definition", "tests/cli/test_kernels.py",
)  # fmt: skip


def main(words: list[str]) -> int:
    """Run the tests as on each processor; the number of those on which one failed."""
    asked, more = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    failed = 0
    for name in asked or [each for each in PROCESSORS if each != "all"]:
        environment = {key: value for key, value in os.environ.items() if key != "I2S_ISA"}
        print(f"as on {name}:", flush=True)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "loadscope", *(more or TESTS)],
            cwd=Path(__file__).parent.parent, env=environment | {"I2S_HIDE": PROCESSORS[name]}, check=False,
        )  # fmt: skip
        failed += done.returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
