"""Tests that compile C: compilers, warnings that are errors, sanitizer reports that fail a test, an emulated processor."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

HEADERS = Path(__file__).resolve().parents[1] / "pyx"

#: Every warning is an error.
WARNINGS = ("-Wall", "-Wextra", "-Werror")

#: Options for every sanitizer. -Og compiles in two thirds of the time of -O1. -g1 gives reports names of functions and
#: lines; -g adds variables and takes half as long again.
REPORTING = ("-Og", "-g1", "-fno-sanitize-recover=all")

#: Invalid memory accesses and undefined behavior.
SANITIZERS = ("-fsanitize=address,undefined", *REPORTING)

#: For headers that others compile with their own options: strict C99, under both sanitizers.
STRICT = ("-std=c99", *WARNINGS, "-pedantic", *SANITIZERS)


def host_compiler() -> str:
    """The C compiler of this machine; skip without one."""
    compiler = os.environ.get("CC") or "cc"
    if shutil.which(compiler) is None:
        pytest.skip(f"no C compiler: {compiler} is not there")
    return compiler


def program_with_header(source: Path, folder: Path) -> Path:
    """Compile a program with the C header that is exported, under the sanitizers; skip without gcc."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc on the path")
    from i2s_spec.exports import export

    (folder / "i2s.h").write_text(export("c"), encoding="utf-8")
    subprocess.run([gcc, *STRICT, "-I", folder, source, "-o", folder / source.stem], check=True)
    return folder / source.stem


def program_of(source: Path, folder: Path, compiler: str, *options: str) -> Path:
    """Compile a program against our headers, every warning an error unless an option switches it off."""
    program = folder / source.stem
    words = [compiler, *WARNINGS, *options, f"-I{HEADERS}", str(source), "-o", str(program), "-lm"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    return program


def require_sanitizers(folder: Path, compiler: str, *flags: str) -> None:
    """Skip if the compiler does not have the sanitizers of some flags, or the system does not let them run."""
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    if subprocess.run([compiler, *flags, probe, "-o", folder / "probe"], capture_output=True, check=False).returncode:
        pytest.skip(f"{compiler} has no such sanitizers")
    if subprocess.run([folder / "probe"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let the sanitizer run")


def arm_emulator() -> str:
    """The emulator of 64-bit ARM; skip without one, and on ARM."""
    if platform.machine() == "aarch64":
        pytest.skip("this processor runs NEON itself")
    found = next(filter(shutil.which, ("qemu-aarch64", "qemu-aarch64-static")), None)
    return found or pytest.skip("no emulator: neither qemu-aarch64 nor qemu-aarch64-static is there")


def arm_compiler() -> str:
    """The GCC for 64-bit ARM; skip without it."""
    name = "aarch64-linux-gnu-gcc"
    return name if shutil.which(name) else pytest.skip(f"no cross-compiler: {name} is not there")


def skip_without_shadow_memory(stderr: str) -> None:
    """Skip if the system happened to load the program at an address that ThreadSanitizer needs."""
    if "unexpected memory mapping" in stderr:
        pytest.skip("the system puts a program where the thread sanitizer cannot run it, now and then")
