"""This module estimates the cycles of the ARM kernels with llvm-mca: a model of the processor's pipelines, not a
measurement.

`python -m bench.arm_cycles` prints a table; `--write` writes it to `bench/estimates/arm.json`, which the page of
benchmarks draws. It needs `aarch64-linux-gnu-gcc` and llvm-mca (Debian: `llvm-19`); older versions know fewer models.

The headers of `pyx/` are compiled, and llvm-mca gets the main loop of each kernel. It assumes that every load hits the
first cache and every branch is predicted. It knows of a processor what LLVM's scheduling model contains: for Cortex-A76
the model of Cortex-A57, with three instructions per cycle; for Apple M1 that of Cyclone, of 2013. Rows name the model.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
RESULT: Final = Path(__file__).parent / "estimates" / "arm.json"
COMPILER: Final = "aarch64-linux-gnu-gcc"
FLAGS: Final = ("-O3", "-ffp-contract=off")
ITERATIONS: Final = 1000

#: Weights per row of the table: 16 bytes of payload.
WEIGHTS: Final = 64

#: Products that one instruction computes.
PRODUCTS: Final = {"smlal": 8, "smlal2": 8, "sdot": 16, "smmla": 32}

#: LLVM's scheduling models, by the prefix of their units' names.
MODELS: Final = {"A57": "Cortex-A57", "N1": "Neoverse N1", "V1": "Neoverse V1", "Cy": "Cyclone"}


class Kernel(NamedTuple):
    """A loop: the kernel set, the operation, the number of tokens (0: no product), and the function that contains
    it."""

    set: str
    does: str
    tokens: int
    call: str


_ONE: Final = "w, blocks, q, out"
_SOME: Final = "w, blocks, q, out, stride"
_TILE: Final = "w, blocks, q, 0, 8, 8, out, stride"

#: The operation that counts weights: its work is measured in bytes read.
SURVEY: Final = "survey"

KERNELS: Final = (
    Kernel("portable", SURVEY, 0, "out[0] = i2s_codes_portable(w, (uint64_t *)panel)"),
    Kernel("neon", SURVEY, 0, "out[0] = i2s_codes_neon(w, (uint64_t *)panel)"),
    Kernel("neon", "one token", 1, f"i2s_matrix_neon(4, 1, {_SOME})"),
    Kernel("neon", "four tokens", 4, f"i2s_matrix_neon(2, 4, {_SOME})"),
    Kernel("dotprod", "one token", 1, f"i2s_vector_dotprod(4, {_ONE})"),
    Kernel("dotprod", "four tokens", 4, f"i2s_matrix_dotprod(4, 4, {_SOME})"),
    Kernel("dotprod", "panels, eight tokens", 8, f"i2s_panel_tile_dotprod(8, {_TILE})"),
    Kernel("dotprod", "panels, unpacking", 0, "i2s_panel_unpack_dotprod(row, blocks, panel)"),
    Kernel("i8mm", "four tokens", 4, f"i2s_matrix_i8mm(8, 4, {_SOME})"),
    Kernel("i8mm", "panels, eight tokens", 8, f"i2s_panel_tile_i8mm(8, {_TILE})"),
    Kernel("i8mm", "panels, unpacking", 0, "i2s_panel_unpack_i8mm(row, blocks, panel)"),
)

#: Processors and the sets that they run. The first three lack I8MM.
PROCESSORS: Final = {
    "cortex-a76": ("portable", "neon", "dotprod"),
    "neoverse-n1": ("portable", "neon", "dotprod"),
    "apple-m1": ("portable", "neon", "dotprod"),
    "neoverse-v1": ("portable", "neon", "dotprod", "i8mm"),
}


class MissingProgramError(Exception):
    """A required program is not installed."""


class Estimate(NamedTuple):
    """llvm-mca's result for a loop: cycles of one iteration, and the model used."""

    cycles: float
    model: str


def estimates() -> dict[str, Any]:
    """Every kernel on every processor that runs it.

    :raises MissingProgramError: without the compiler or llvm-mca
    """
    mca, version = _newest()
    loops = _loops()
    rows = []
    for processor, sets in PROCESSORS.items():
        for kernel, loop in zip(KERNELS, loops, strict=True):
            if kernel.set in sets:
                cycles, model = _estimate(mca, processor, loop)
                work = _products(loop) if kernel.tokens else _read(loop) if kernel.does == SURVEY else _unpacked(loop)
                row = {
                    "processor": processor,
                    "model": model,
                    "set": kernel.set,
                    "kernel": kernel.does,
                    "tokens": kernel.tokens,
                }
                rows.append(row | {"cycles": round(WEIGHTS * cycles / work, 3), "instructions": len(loop)})
    return {
        "schema_version": 1,
        "estimated_by": f"llvm-mca {version}",
        "compiler": _first_line(COMPILER, "--version"),
        "flags": " ".join(FLAGS),
        "weights": WEIGHTS,
        "rows": rows,
    }


def _newest() -> tuple[str, str]:
    """The newest installed llvm-mca, and its version."""
    names = ("llvm-mca", *(f"llvm-mca-{number}" for number in range(11, 40)))
    found = []
    for path in filter(None, map(shutil.which, names)):
        printed = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
        if version := re.search(r"LLVM version (\d+(?:\.\d+)*)", printed):
            found.append((tuple(map(int, version[1].split("."))), path, version[1]))
    if not found:
        raise MissingProgramError("llvm-mca is not installed (Debian: llvm-19)")
    _, path, version_text = max(found)
    return path, version_text


def _first_line(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def _loops() -> list[list[str]]:
    """The instructions of each kernel's loop."""
    if shutil.which(COMPILER) is None:
        raise MissingProgramError(f"{COMPILER} is not installed (Debian: gcc-aarch64-linux-gnu)")
    arguments = (
        "const uint8_t *w, int64_t blocks, const int8_t *q, int32_t *out, int64_t stride, "
        "const uint8_t *const *row, uint8_t *panel"
    )
    functions = [
        f"I2S_MM_I8MM void kernel_{number}({arguments}) {{\n"
        + "".join(f"    (void){name};\n" for name in ("w", "q", "out", "stride", "row", "panel"))
        + f"    {kernel.call};\n}}\n"
        for number, kernel in enumerate(KERNELS)
    ]
    with tempfile.TemporaryDirectory(prefix="i2s-cycles-") as folder:
        source, assembly = Path(folder) / "kernels.c", Path(folder) / "kernels.s"
        source.write_text(
            '#include <stdlib.h>\n#include "survey.h"\n#include "matmul.h"\n' + "".join(functions), encoding="ascii"
        )
        command = [COMPILER, *FLAGS, "-w", f"-I{ROOT / 'pyx'}", "-S", str(source), "-o", str(assembly)]
        subprocess.run(command, check=True)
        text = assembly.read_text(encoding="ascii")
    return [_loop(_function(text, f"kernel_{number}")) for number in range(len(KERNELS))]


def _function(assembly: str, name: str) -> list[str]:
    """Labels and instructions of a function; a call of the kernel that was not inlined is followed."""
    body = assembly.split(f"\n{name}:\n", 1)[1].split("\n\t.size\t", 1)[0]
    lines = [line.split("//")[0].rstrip() for line in body.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("\t.", "#"))]
    called = [line.split()[1] for line in lines if re.match(r"\tbl?\ti2s_", line)]
    return _function(assembly, called[0]) if called else lines


def _loop(lines: list[str]) -> list[str]:
    """The innermost loop with the most multiplications, or else the most stores, or else the most loads."""
    places = {line[:-1]: at for at, line in enumerate(lines) if line.endswith(":")}
    loops = []
    for at, line in enumerate(lines):
        target = line.split()[-1]
        if re.match(r"\t(b\.?[a-z]{2}|cbn?z|tbn?z|b)\t", line) and places.get(target, at) < at:
            loops.append(lines[places[target] + 1 : at + 1])
    inner = [each for each in loops if not any(len(other) < len(each) and _within(other, each) for other in loops)]
    best = max(inner, key=lambda each: (_products(each), _unpacked(each), _read(each)))
    return [line for line in best if not line.endswith(":")]


def _within(inner: list[str], outer: list[str]) -> bool:
    return any(outer[at : at + len(inner)] == inner for at in range(len(outer) - len(inner) + 1))


def _products(loop: list[str]) -> int:
    return sum(PRODUCTS.get(line.split()[0], 0) for line in loop)


def _unpacked(loop: list[str]) -> int:
    """Weights stored, one byte each."""
    return _vector_bytes(loop, "str", "stp", "st1")


def _read(loop: list[str]) -> int:
    """Weights read, four in a byte."""
    return 4 * _vector_bytes(loop, "ldr", "ldp", "ld1")


def _vector_bytes(loop: list[str], *names: str) -> int:
    """Bytes of the vector operands of these instructions; instructions without registers do not count."""
    named = [line.split("[")[0] for line in loop if line.split()[0] in names and "[sp" not in line]
    return 16 * sum(len(re.findall(r"\b[qv]\d+", line)) for line in named)


def _estimate(mca: str, processor: str, loop: list[str]) -> Estimate:
    command = [mca, "-mtriple=aarch64", f"-mcpu={processor}", "-mattr=+dotprod,+i8mm", f"-iterations={ITERATIONS}"]
    done = subprocess.run(command, input="\n".join(loop) + "\n", capture_output=True, text=True, check=True).stdout
    cycles = re.search(r"^Total Cycles:\s+(\d+)$", done, re.M)
    units = re.search(r"^\[0(?:\.0)?\]\s+- (\w+?)Unit", done, re.M)
    if cycles is None or units is None:
        raise ValueError(f"llvm-mca said something else for {processor}: {done[:200]}")
    return Estimate(int(cycles[1]) / ITERATIONS, MODELS.get(units[1], units[1]))


def _as_text(found: dict[str, Any]) -> str:
    head = f"Cycles for {found['weights']} weights and one token; {found['estimated_by']}: a model, not a measurement\n"
    lines = [
        f"{row['processor']:<12} (model: {row['model']:<11}) {row['set']:<8} {row['kernel']:<21} {row['cycles']:7.2f}"
        for row in found["rows"]
    ]
    return head + "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the estimates, and write them if requested."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.arm_cycles", description="Cycles of the ARM kernels by llvm-mca."
    )
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(ROOT)}")
    asked = parser.parse_args(arguments)
    try:
        found = estimates()
    except MissingProgramError as missing:
        print(f"bench.arm_cycles: {missing}", file=sys.stderr)
        return 1
    print(_as_text(found))
    if asked.write:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
