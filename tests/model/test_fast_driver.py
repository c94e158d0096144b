"""The float kernels of profile `fast` without Python: C programs compare them with sums in double, also emulated.

Program `fast` looks at each kernel, `head` at a final projection that is not read whole.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from c_compiler import SANITIZERS, WARNINGS
from windows import compiled_for_windows

pytestmark = pytest.mark.thorough

HERE = Path(__file__).resolve().parent
HEADERS = HERE.parent.parent / "pyx"


#: Program `head` includes more than it uses.
UNUSED = {"fast": (), "head": ("-Wno-unused-function",)}


def build(folder: Path, compiler: str, *flags: str, name: str = "fast") -> Path:
    """Compile a program, every warning an error."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no C compiler: {compiler} is not there")
    program = folder / name
    command = [compiler, *WARNINGS, "-ffp-contract=fast", *flags, f"-I{HEADERS}"]
    command += [str(HERE / "driver" / f"{name}.c"), "-o", str(program), "-lm", "-pthread"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return program


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
    assert "portable" in run(build(tmp_path, os.environ.get("CC") or "cc", "-O3", *UNUSED[name], name=name))


def test_a_row_has_its_bits_alone_where_plain_c_has_fused_operations(tmp_path: Path) -> None:
    """A compiler may fuse a product and a sum in one row and not in four, unless the operation is written out."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("for x86-64")
    fused = build(tmp_path, os.environ.get("CC") or "cc", "-O3", "-march=native", *UNUSED["head"], name="head")
    assert "portable" in run(fused)


def test_a_token_streams_weights_from_memory(tmp_path: Path) -> None:
    """A pass takes the kernel for weights from memory where a product on its own does, and both give the same sums."""
    program = build(tmp_path, os.environ.get("CC") or "cc", "-O2", "-Wno-unused-function", name="pass")
    done = subprocess.run([program], capture_output=True, encoding="utf-8", check=False, timeout=60)
    assert (done.returncode, done.stdout.split(": ")[1]) == (0, "streamed 1 times, 0 failed\n"), (
        done.stdout + done.stderr
    )


@PROGRAMS
def test_under_a_sanitizer(tmp_path: Path, name: str) -> None:
    compiler = os.environ.get("CC") or "cc"
    probe = tmp_path / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    command = [compiler, *SANITIZERS, str(probe), "-o", str(tmp_path / "probe")]
    if shutil.which(compiler) is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"{compiler} has no such sanitizers")
    if subprocess.run([tmp_path / "probe"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let the sanitizer run")
    assert "portable" in run(build(tmp_path, compiler, *SANITIZERS, *UNUSED[name], name=name))


@PROGRAMS
def test_neon_under_emulation(tmp_path: Path, name: str) -> None:
    if platform.machine() == "aarch64":
        pytest.skip("this processor runs NEON itself")
    emulator = next(filter(shutil.which, ("qemu-aarch64", "qemu-aarch64-static")), None)
    if emulator is None:
        pytest.skip("no emulator: neither qemu-aarch64 nor qemu-aarch64-static is there")
    program = build(tmp_path, "aarch64-linux-gnu-gcc", "-O3", "-static", *UNUSED[name], name=name)
    assert run(emulator, program) == ["portable", "neon", "dotprod"][: 2 if name == "fast" else 3]


@PROGRAMS
def test_as_windows_calls_kernels(tmp_path: Path, run_by_wine: Callable[..., list[str]], name: str) -> None:
    """64-bit Windows: `long` has 32 bits, other registers are callee-saved, the stack is aligned to 16 bytes."""
    source = HERE / "driver" / f"{name}.c"
    *sets, verdict = run_by_wine(compiled_for_windows(source, tmp_path, "-O2", "-ffp-contract=fast", *UNUSED[name]))
    assert verdict.endswith(" passed, 0 failed")
    assert "portable: runs" in sets
