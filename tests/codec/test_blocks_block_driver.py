"""The block kernels without Python: a C driver makes calls with known answers, natively and under emulation."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from c_compiler import arm_compiler, arm_emulator, host_compiler, program_of
from windows import compiled_for_windows

from i2s_spec.codec import blocks as block_reference
from i2s_spec.codec.blocks import blocks_of, read_scales, stored_scales
from i2s_spec.codec.observation import KINDS
from i2s_spec.schema.blocks import BLOCK_LAYOUTS

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "driver" / "block_driver.c"
WHATS = ("unpack", "pack", "floats", "count", "scales")


def case(
    what: str, kind: int, run: tuple[int, int, int], option: int, answer: int, source: bytes, result: bytes
) -> bytes:
    return struct.pack("<9q", WHATS.index(what), kind, *run, option, answer, len(source), len(result)) + source + result


def cases_of(name: str, rows: int, blocks: int, seed: int) -> bytes:
    """Every kind of call for one tensor."""
    rng, layout, kind = np.random.default_rng(seed), BLOCK_LAYOUTS[name], KINDS[name]
    shape = rows, blocks * layout.block
    tensor = blocks_of(shape, name)
    by_row = layout.scale.per == "row"
    run = (rows, blocks, layout.type.row_bytes) if by_row else (1, tensor.count, 0)
    data = rng.bytes(tensor.nbytes)
    values, _ = block_reference.unpack(data, shape, name, unused_code="plus-two")
    made = b"".join(case("unpack", kind, run, s, int(values.max() == 2), data, values.tobytes()) for s in (0, 1))
    sane = np.frombuffer(data, dtype=np.uint8).copy()
    tensor.scale_bytes(sane)[...] = stored_scales(tensor, rng.normal(size=tensor.groups), "little")
    for swap in (0, 1):
        floats = block_reference.dequantize(
            sane, shape, name, byte_order="big" if swap else "little", unused_code="plus-two"
        )
        if np.isfinite(floats).all():
            made += case("floats", kind, run, swap, int(values.max() == 2), sane.tobytes(), floats.tobytes())
            if not by_row:
                scales = read_scales(sane, shape, name, "big" if swap else "little")
                made += case("scales", kind, run, swap, 0, sane.tobytes(), scales.tobytes())
    codes = values.reshape(-1) + 1
    bits = (int((codes & 1).sum()), int((codes >> 1).sum()), int((codes == 3).sum()))
    made += case("count", kind, run, 0, 0, data, struct.pack("<3q", *bits))
    most = 2 if layout.fourth else 1
    stored = stored_scales(tensor, rng.normal(size=tensor.groups), "little")
    packed = block_reference.pack(values, stored.view("<f2" if layout.scale.type == "F16" else "<f4").reshape(-1), name)
    made += case("pack", kind, run, most, 0, values.tobytes() + stored.tobytes(), packed)
    for wrong, at in ((-2, 0), (3, values.size // 2), (127, values.size - 1), (2, 1)):
        broken = values.copy().reshape(-1)
        broken[at] = wrong
        bad = int(not -1 <= wrong <= most)
        result = packed if bad else block_reference.pack(broken.reshape(shape), read_scales(packed, shape, name), name)
        made += case("pack", kind, run, most, bad, broken.tobytes() + stored.tobytes(), result)
    return made


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blocks") / "cases"
    shapes = [(1, 1), (3, 2), (2, 9), (1, 8), (2, 33), (3, 41)]
    parts = [cases_of(name, *shape, seed) for name in KINDS for seed, shape in enumerate(shapes)]
    path.write_bytes(b"I2SBLOCK" + b"".join(parts))
    return path


Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile the driver, every warning an error, once for each choice of flags."""

    @cache
    def compiled(compiler: str, *flags: str) -> Path:
        return program_of(SOURCE, tmp_path_factory.mktemp("built"), compiler, "-ffp-contract=off", *flags)

    return compiled


def sets_that_ran(*command: str | Path) -> set[str]:
    done = subprocess.run([str(word) for word in command], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    *sets, verdict = done.stdout.splitlines()
    assert verdict.endswith(" 0 failed")
    assert int(verdict.split()[0]) > 1000
    return {line.split(":")[0] for line in sets}


@pytest.mark.thorough
def test_kernels_of_this_processor(build: Build, cases: Path) -> None:
    assert "portable" in sets_that_ran(build(host_compiler(), "-O3"), cases)


@pytest.mark.thorough
def test_neon_under_emulation(build: Build, cases: Path) -> None:
    assert sets_that_ran(arm_emulator(), build(arm_compiler(), "-O3", "-static"), cases) == {"portable", "neon"}


@pytest.mark.thorough
def test_as_windows_calls_kernels(cases: Path, tmp_path: Path, run_by_wine: Callable[..., list[str]]) -> None:
    """64-bit Windows: `long` has 32 bits, other registers are callee-saved, the stack is aligned to 16 bytes."""
    *sets, verdict = run_by_wine(compiled_for_windows(SOURCE, tmp_path, "-O2", "-ffp-contract=off"), cases)
    assert verdict.endswith(" 0 failed")
    assert "portable" in {line.split(":")[0] for line in sets}


@pytest.mark.thorough
def test_the_driver_can_fail(build: Build, tmp_path: Path) -> None:
    driver = build(host_compiler(), "-O3")
    path = tmp_path / "x"
    path.write_bytes(b"I2SBLOCK" + case("unpack", 0, (1, 1, 0), 0, 0, bytes(18), bytes(64)))
    done = subprocess.run([driver, path], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 1
    assert "portable unpack, case 0, kind 0: wrong" in done.stdout
