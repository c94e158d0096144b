"""The float kernels of profile `fast` without Python: C programs compare them with sums in double, also emulated.

Program `fast` looks at each kernel, `head` at a final projection that is not read whole.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from c_compiler import SANITIZERS, arm_compiler, arm_emulator, host_compiler, program_of, require_sanitizers
from windows import compiled_for_windows

pytestmark = pytest.mark.thorough

HERE = Path(__file__).resolve().parent


#: Program `head` includes more than it uses.
UNUSED = {"fast": (), "head": ("-Wno-unused-function",)}


def build(folder: Path, compiler: str, *flags: str, name: str = "fast") -> Path:
    """Compile a program, every warning an error."""
    return program_of(HERE / "driver" / f"{name}.c", folder, compiler, "-ffp-contract=fast", "-pthread", *flags)


def run(*command: str | Path) -> list[str]:
    """The sets that ran; everything passed."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, encoding="utf-8", check=False, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-2000:] + done.stderr[-2000:]
    *sets, verdict = done.stdout.splitlines()
    assert verdict.endswith(" passed, 0 failed")
    assert int(verdict.split()[0]) > 300_000
    return [line.split(":")[0] for line in sets if line.endswith(": runs")]


PROGRAMS = pytest.mark.parametrize("name", ["fast", "head"])


@PROGRAMS
def test_kernels_of_this_processor(tmp_path: Path, name: str) -> None:
    assert "portable" in run(build(tmp_path, host_compiler(), "-O3", *UNUSED[name], name=name))


def test_a_row_has_its_bits_alone_where_plain_c_has_fused_operations(tmp_path: Path) -> None:
    """A compiler may fuse a product and a sum in one row and not in four, unless the operation is written out."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("for x86-64")
    fused = build(tmp_path, host_compiler(), "-O3", "-march=native", *UNUSED["head"], name="head")
    assert "portable" in run(fused)


def test_a_token_streams_weights_from_memory(tmp_path: Path) -> None:
    """A pass takes the kernel for weights from memory where a product on its own does, and both give the same sums."""
    program = build(tmp_path, host_compiler(), "-O2", "-Wno-unused-function", name="pass")
    done = subprocess.run([program], capture_output=True, encoding="utf-8", check=False, timeout=60)
    assert (done.returncode, done.stdout.split(": ")[1]) == (0, "streamed 1 times, 0 failed\n"), (
        done.stdout + done.stderr
    )


@PROGRAMS
def test_under_a_sanitizer(tmp_path: Path, name: str) -> None:
    compiler = host_compiler()
    require_sanitizers(tmp_path, compiler, *SANITIZERS)
    assert "portable" in run(build(tmp_path, compiler, *SANITIZERS, *UNUSED[name], name=name))


@PROGRAMS
def test_neon_under_emulation(tmp_path: Path, name: str) -> None:
    emulator = arm_emulator()
    program = build(tmp_path, arm_compiler(), "-O3", "-static", *UNUSED[name], name=name)
    assert run(emulator, program) == ["portable", "neon", "dotprod"][: 2 if name == "fast" else 3]


@PROGRAMS
def test_as_windows_calls_kernels(tmp_path: Path, run_by_wine: Callable[..., list[str]], name: str) -> None:
    """64-bit Windows: `long` has 32 bits, other registers are callee-saved, the stack is aligned to 16 bytes."""
    source = HERE / "driver" / f"{name}.c"
    *sets, verdict = run_by_wine(compiled_for_windows(source, tmp_path, "-O2", "-ffp-contract=fast", *UNUSED[name]))
    assert verdict.endswith(" passed, 0 failed")
    assert "portable: runs" in sets
