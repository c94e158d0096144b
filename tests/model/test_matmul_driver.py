"""The kernels of BitLinear without Python: a C driver makes the calls listed in a file, natively and under emulation.

This tests kernels that this processor cannot run, and uses sanitizers that this interpreter was not built with. All
memory that the kernels get lies between guard pages.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from c_compiler import (
    REPORTING,
    arm_compiler,
    arm_emulator,
    host_compiler,
    program_of,
    require_sanitizers,
    skip_without_shadow_memory,
)
from windows import compiled_for_windows

from i2s_spec.codec import isa
from i2s_spec.errors import SettingError
from i2s_spec.model.reference import bitlinear

pytestmark = pytest.mark.thorough

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "driver" / "driver.c"
HEADERS = HERE.parent.parent / "pyx"

PRODUCT, LINEAR, QUANTIZE, LOOK = range(4)

#: Rows, blocks, tokens: every number of rows and tokens with kernel code of its own; even and odd numbers of blocks;
#: near 5, 10 and 21 blocks, after which narrow sums are widened; beyond the 48 rows and 27 blocks of a panel, or 128
#: rows with AMX; more rows than are looked at in one turn. One token: with more than 32 blocks another kernel, with more
#: than 128 the codes are arranged for all.
SHAPES: Final = [(0, 1, 1), (1, 1, 1), (4, 1, 2), (3, 2, 3), (5, 3, 4), (2, 4, 5), (9, 5, 1), (6, 6, 6), (7, 9, 7),
                 (8, 10, 1), (13, 11, 4), (4, 20, 9), (17, 21, 2), (33, 5, 3), (100, 2, 1), (40, 22, 33),
                 (20, 32, 1), (17, 33, 1), (3, 129, 1), (300, 2, 1), (400, 1, 9), (49, 55, 12), (131, 28, 34)]  # fmt: skip

#: Largest rows * tokens for which extreme sums are tested too; these depend only on the number of blocks.
EXTREMES: Final = 600


class Cases:
    """A file of cases as the driver reads it; driver.c says what arguments and contents are."""

    def __init__(self) -> None:
        self.parts = [b"I2SMATML"]

    def add(self, what: int, arguments: tuple[int, ...], sources: list[bytes], results: list[Any]) -> None:
        contents = [*sources, *[b""] * (2 - len(sources)), *[r.tobytes() for r in results], *[b""] * (3 - len(results))]
        words = (what, *arguments, *[0] * (4 - len(arguments)), *map(len, contents))
        self.parts += [struct.pack("<10q", *words), *contents]

    def write(self, path: Path) -> Path:
        path.write_bytes(b"".join(self.parts))
        return path


#: Bytes without code 3.
CLEAN: Final = np.array([byte for byte in range(256) if not byte & byte >> 1 & 0x55], dtype=np.uint8)


def with_code_3(clean: bytes, pitch: int) -> list[tuple[bytes, bool]]:
    """A payload without code 3, and with one: at the start, the end of the first row, the start of the last, the end."""
    found = [(clean, False)]
    for field, at in enumerate({0, pitch - 1, len(clean) - pitch, len(clean) - 1} if clean else ()):
        broken = bytearray(clean)
        broken[at] |= 3 << 2 * field
        found.append((bytes(broken), True))
    return found


def of_the_definition(for_threads: bool = False) -> Cases:
    """Calls of every kind and shape.

    :param for_threads: only what threads do to each other is asked: no extremes, and not the largest shape
    """
    cases, rng = Cases(), np.random.default_rng(30)
    for rows, blocks, tokens in SHAPES[: -1 if for_threads else None]:
        columns = 128 * blocks
        some = rng.integers(-128, 128, (tokens, columns)).astype(np.int8)
        for payload, codes in [
            (rng.bytes(rows * columns // 4), some),
            (b"\xff" * (rows * columns // 4), np.full_like(some, -128)),
            (b"\xff" * (rows * columns // 4), np.full_like(some, 127)),
        ][: 3 if rows * tokens <= EXTREMES and not for_threads else 1]:
            sums = bitlinear.dot(payload, rows, columns, codes)
            cases.add(PRODUCT, (rows, blocks, tokens), [payload, codes.tobytes()], [sums])
        for looked, found in with_code_3(rng.choice(CLEAN, rows * columns // 4).tobytes(), columns // 4):
            sums = bitlinear.accumulate(looked, rows, columns, some)
            cases.add(LOOK, (rows, blocks, tokens), [looked, some.tobytes()], [sums, np.int32(found)])
        x = (rng.standard_normal((tokens, columns)) * 10.0 ** rng.integers(-7, 7)).astype(np.float32)
        x[0, :2] = 0, -0.0
        if tokens > 1:
            x[1] = 0
        if tokens > 2:
            x[2, -1] = np.inf
        made = bitlinear.quantize_activations(x)
        cases.add(QUANTIZE, (tokens, columns), [x.tobytes()], list(made))
        scale = np.float32(-0.37)
        floats = bitlinear.linear(payload, scale, rows, columns, x)
        floats[np.isnan(floats)] = np.nan
        if tokens <= 2:  # the NaN that 0/0 gives depends on the processor
            both = b"".join(part.tobytes() for part in made)
            cases.add(LINEAR, (rows, blocks, tokens, int(scale.view(np.uint32))), [payload, both], [floats])
    for columns in (1, 3, 7, 15, 16, 17, 31, 33, 63, 65, 100):
        x = rng.uniform(-1e-5, 1e-5, (3, columns)).astype(np.float32)
        cases.add(QUANTIZE, (3, columns), [x.tobytes()], list(bitlinear.quantize_activations(x)))
    return cases


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_the_definition().write(tmp_path_factory.mktemp("matmul") / "definition.cases")


Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile the driver with a compiler and its flags, every warning an error, once for each choice of both."""

    @cache
    def compiled(*compiler: str) -> Path:
        options = ("-ffp-contract=off", "-pthread")
        return program_of(SOURCE, tmp_path_factory.mktemp("built"), *compiler, *options)

    return compiled


def run(*command: str | Path) -> list[str]:
    """The sets that ran; everything passed."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, encoding="utf-8", check=False, timeout=300
    )
    skip_without_shadow_memory(done.stderr)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:] + done.stderr[-2000:]
    *sets, verdict = done.stdout.splitlines()
    passed, failed = verdict.split(", ")
    assert failed == "0 failed"
    assert int(passed.split()[0]) > 500
    return [line.split(":")[0] for line in sets if line.endswith(": runs")]


def test_kernels_of_this_processor(build: Build, made_up: Path) -> None:
    assert "portable" in run(build(host_compiler(), "-O3"), made_up)


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_under_sanitizers(build: Build, made_up: Path, tmp_path: Path, sanitizer: str) -> None:
    compiler, flags = host_compiler(), [f"-fsanitize={sanitizer}", *REPORTING]
    require_sanitizers(tmp_path, compiler, *flags)
    if sanitizer != "thread":
        assert "portable" in run(build(compiler, *flags), made_up)
        return
    # A process with threads cannot fork under this sanitizer. One kernel set is enough to find races.
    cases = of_the_definition(for_threads=True).write(tmp_path / "once.cases")
    assert "portable" in run(build(compiler, *flags), cases, "portable")


def cross_compiler(name: str = "gcc") -> list[str]:
    """A compiler for 64-bit ARM; Clang takes the libraries of GCC's."""
    gcc = arm_compiler()
    if name == "clang" and shutil.which("clang") is None:
        pytest.skip("clang is not there")
    return ["clang", "--target=aarch64-linux-gnu"] if name == "clang" else [gcc]


#: Sets by emulated processor: NEON alone, with dot products, and with I8MM.
ARM: Final = {
    "cortex-a53": ["portable", "neon"], "neoverse-n1": ["portable", "neon", "dotprod"],
    "max": ["portable", "neon", "dotprod", "i8mm"],
}  # fmt: skip


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_neon_under_emulation(build: Build, made_up: Path, compiler: str) -> None:
    """Plain C, which the other tests run, is emulated for one of the compilers."""
    driver = build(*cross_compiler(compiler), "-O3", "-static")
    for name in ARM["max"][compiler == "clang" :]:
        assert run(arm_emulator(), driver, made_up, name) == [name]


def test_kernel_sets_by_features_of_arm_processors(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the features that the system reports to the chosen set, and refused sets; names are those of `_cpu`."""
    cases, codes = Cases(), np.ones((9, 128), dtype=np.int8)
    payload = bytes(range(96))
    cases.add(PRODUCT, (3, 1, 9), [payload, codes.tobytes()], [bitlinear.dot(payload, 3, 128, codes)])
    file, driver = cases.write(tmp_path / "cases"), build(*cross_compiler(), "-O3", "-static")
    table = (HEADERS / "_cpu.pyx").read_text().split('cdef extern from *:\n    """', 1)[1].split('"""', 1)[0]
    listing = tmp_path / "names.c"
    listing.write_text(f"""{table}
#include <asm/hwcap.h>
#include <stdio.h>
_Static_assert(I2S_HWCAP_ASIMDDP == HWCAP_ASIMDDP && I2S_HWCAP2_I8MM == HWCAP2_I8MM, "bits as the kernel has them");
int main(void) {{
    for (int i = 0; i < I2S_CPU_SETS; i++) printf("%s %d\\n", i2s_cpu_sets[i].name, i2s_cpu_sets[i].available() != 0);
    return 0;
}}
""")
    names = tmp_path / "names"
    subprocess.run([*cross_compiler(), f"-I{HEADERS}", "-static", str(listing), "-o", str(names)], check=True)
    for processor, hidden, can in [
        *((processor, "", sets) for processor, sets in ARM.items()),
        ("max", "i8mm", ARM["neoverse-n1"]), ("max", "dotprod", ARM["cortex-a53"]),
    ]:  # fmt: skip
        monkeypatch.setenv("I2S_HIDE", hidden)
        said = subprocess.run(
            [arm_emulator(), "-cpu", processor, names], capture_output=True, encoding="utf-8", check=True
        ).stdout
        there = [(name, bool(int(runs))) for name, runs in map(str.split, said.splitlines())]
        assert there == [(name, name in can) for name in ARM["max"]]
        for name in ARM[
            "max"
        ]:  # one by one: the driver forks for several sets, and this emulator cannot fork a process with threads
            command = [arm_emulator(), "-cpu", processor, driver, file, name]
            done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
            line = f"{name}: {'runs' if name in can else 'this processor cannot'}"
            assert (done.returncode, done.stdout.splitlines()[0]) == (0, line), done.stdout
        monkeypatch.setattr(isa, "names", lambda there=there: tuple(there))
        sets = isa.table(there)
        for asked in ("", *ARM["max"]):
            monkeypatch.setenv(isa.VARIABLE, asked)
            if asked in ("", *can):
                assert isa.chosen(sets).name == (asked or can[-1])
            else:
                with pytest.raises(SettingError, match=f"I2S_ISA is {asked}, which this processor cannot run"):
                    isa.chosen(sets)


def test_as_windows_calls_kernels(made_up: Path, tmp_path: Path, run_by_wine: Callable[..., list[str]]) -> None:
    """64-bit Windows: `long` has 32 bits, other registers are callee-saved, the stack is aligned to 16 bytes."""
    *sets, verdict = run_by_wine(compiled_for_windows(SOURCE, tmp_path, "-O2", "-ffp-contract=off"), made_up)
    assert verdict.endswith(", 0 failed")
    assert "portable: runs" in sets


def test_the_driver_can_fail(build: Build, tmp_path: Path) -> None:
    driver = build(host_compiler(), "-O1")
    cases, codes = Cases(), np.ones((1, 128), dtype=np.int8)
    cases.add(PRODUCT, (1, 1, 1), [bytes([0x55] * 32), codes.tobytes()], [np.array([[127]], dtype=np.int32)])
    done = subprocess.run([driver, cases.write(tmp_path / "x")], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 1
    assert "portable product, case 0: the result is wrong" in done.stdout
    assert "\n0 passed, " in done.stdout
