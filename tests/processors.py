"""Older processors, simulated by hiding features (`I2S_HIDE`), and the tests that run for each of them.

python tests/processors.py [PROFILE...] [-- PYTEST ARGUMENTS]
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

_LAST: Final = "amxint8,avx512vbmi,avx512vpopcntdq,avxvnni"
_AVX512: Final = f"{_LAST},avx512vnni,avx512f,avx512bw,avx512vl,avx512dq"

#: The features that each processor lacks.
PROCESSORS: Final = {
    "sse4": f"{_AVX512},avx2,fma,f16c",
    "avx2": _AVX512,
    "skylake-sp": f"{_LAST},avx512vnni",
    "cascade-lake": _LAST,
    "all": "",
}

#: Kernel sets, by the names in the test ids, that are already the best ones of an earlier processor. Hiding features of
#: other sets does not change their code, so they are not tested again.
BELOW: Final = {"avx2": "portable", "skylake-sp": "portable or avx2", "cascade-lake": "portable or avx2"}

#: Modules that choose kernels or test the available ones. `all` stands for every other test.
TESTS: Final = (
    "tests/codec/test_native.py", "tests/codec/test_float_passes.py", "tests/codec/test_blocks.py",
    "tests/codec/test_reference_survey_kernels.py", "tests/codec/test_blocks_survey_groups.py",
    "tests/layout_inference/test_profiles_bit_sums.py", "tests/layout_inference/test_evidence_pass.py",
    "tests/model/test_matmul.py", "tests/model/test_panels.py", "tests/model/test_fast_compile.py",
    "tests/model/test_numerics_profiles.py::test_products_are_the_definition", "tests/cli/test_kernels.py",
)  # fmt: skip


def main(words: list[str]) -> int:
    """Run the tests as on each processor; the number of those on which one failed.

    Several take a process each, as many at a time as there are processors, and one takes all processors.
    """
    asked, more = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    profiles = asked or [each for each in PROCESSORS if each != "all"]
    tests = {each: more or [*TESTS, *(["-k", f"not ({BELOW[each]})"] if each in BELOW else [])] for each in profiles}
    if len(profiles) == 1:
        print(f"as on {profiles[0]}:", flush=True)
        return int(_run(profiles[0], ["-n", "auto", "--dist", "loadscope", *tests[profiles[0]]], None).returncode != 0)
    failed = 0
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        # The last profiles declared run most tests, so they start first.
        runs = {each: pool.submit(_run, each, ["-n0", *tests[each]], subprocess.PIPE) for each in reversed(profiles)}
        for name in profiles:
            done = runs[name].result()
            print(f"as on {name}:\n{done.stdout}", end="", flush=True)
            failed += done.returncode != 0
    return failed


def _run(name: str, words: list[str], output: int | None) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "I2S_ISA"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=Path(__file__).parent.parent,
        env=environment | {"I2S_HIDE": PROCESSORS[name]}, check=False, stdout=output,
        stderr=None if output is None else subprocess.STDOUT, encoding="utf-8",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
