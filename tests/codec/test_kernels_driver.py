"""The payload kernels without Python: a C driver makes the calls listed in a file, natively and under emulation.

The cases come from the definition and from the output of the reference implementations. This tests kernels that this
processor cannot run, and uses sanitizers that this interpreter was not built with.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from c_compiler import SANITIZERS, arm_compiler, arm_emulator, host_compiler, program_of, require_sanitizers
from windows import compiled_for_windows

from i2s_spec.codec.kernels import BLOCK, CODES, KINDS, MAP_IDS, is_runs, remap_of, run_layout
from i2s_spec.codec.reference import pack_codes
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, CodeMap, Layout

pytestmark = pytest.mark.thorough

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "driver" / "driver.c"
ORACLE = HERE.parent / "oracle"

WHATS: Final = ("unpack", "pack", "floats", "blocks", "to_rows", "of_rows", "scan", "histogram")
#: Byte with which the driver fills memory before a call.
FILL: Final = 0xA5

#: The value that kernels give the unused code: the result of the code map's arithmetic.
OF_UNUSED: Final = {"offset-1": 2, "zero-first": 0, "twos-complement": -2, "offset-2": -2}

#: Small and large sizes, whole blocks and partial ones, one element less, and just past the kernels' tiles of 4,096 and
#: 8,192.
SHAPES: Final = [(4, 128), (4, 4), (8, 1), (4, 33), (4, 63), (8, 47), (4, 48), (8, 64), (4, 96), (12, 96), (4, 160),
                 (8, 256), (4, 320), (16, 640), (4, 5001), (4, 8960), (20, 1920)]  # fmt: skip
SCALES: Final = [0.75, -0.5, 1e-40, -0.0, float("inf"), float("nan")]
REMAPS: Final = ((0, 1, 2, 3), (1, 2, 0, 3), (3, 0, 1, 2), (2, 2, 0, 1))

#: Folders with the output of the three builds of the reference quantizer, and their layouts.
BUILDS: Final = {"blk128": "interleave-128", "blk64": "interleave-64", "row4": "rows-1x4"}


#: The layouts that the kernels know.
RUNS = [layout for layout in LAYOUTS.values() if is_runs(layout)]


class Cases:
    """A file of cases as the driver reads it; driver.c says what the arguments are."""

    def __init__(self) -> None:
        self.parts = [b"I2SCASES"]

    def add(self, what: str, arguments: tuple[int, ...], source: bytes, result: bytes, answer: int = 0) -> None:
        words = (WHATS.index(what), *arguments, *[0] * (7 - len(arguments)), answer, len(source), len(result))
        self.parts += [struct.pack("<11q", *words), source, result]

    def write(self, path: Path) -> Path:
        path.write_bytes(b"".join(self.parts))
        return path


def remap_bits(codes: tuple[int, ...]) -> int:
    coefficients = remap_of(codes)
    return sum((int(c) & 1) << bit for bit, c in enumerate(coefficients)) if coefficients.size else -1


def meaning(code_map: CodeMap) -> np.ndarray[Any, Any]:
    """The trit of each code, int8 [4]."""
    return np.array([OF_UNUSED[code_map.name] if trit is None else trit for trit in code_map.trits], dtype=np.int8)


def add_elements(cases: Cases, codes: np.ndarray[Any, Any], layout: Layout, payload: bytes, scale: float) -> None:
    """A payload and its elements: there, back, and as floats, by every code map."""
    where = run_layout(layout, *codes.shape)
    blocks = len(payload) // where.group
    run = (blocks, where.group, int(where.lsb))
    cases.add("unpack", (*run, CODES), payload, codes.tobytes())
    cases.add("pack", (*run, CODES), codes.tobytes(), payload)
    for code_map, number in MAP_IDS.items():
        trits = meaning(code_map)[codes]
        cases.add("unpack", (*run, number), payload, trits.tobytes())
        with np.errstate(all="ignore"):  # NaN and infinity are valid results
            floats = trits.astype(np.float32) * np.float32(scale)
        bits = int(np.float32(scale).view(np.uint32))
        cases.add("floats", (*run, number, bits), payload, floats.tobytes())
        sound = np.where(codes == code_map.unused, code_map.code_of(0), codes).astype(np.uint8)
        trits = meaning(code_map)[sound]
        cases.add("pack", (*run, number), trits.tobytes(), pack_codes(sound, layout))
        for value, at in ((2, 0), (-2, trits.size // 2), (127, trits.size - 1)):
            wrong = trits.reshape(-1).copy()
            wrong[at] = value
            cases.add("pack", (*run, number), wrong.tobytes(), bytes(len(payload)), answer=1)


def add_transcodings(cases: Cases, codes: np.ndarray[Any, Any]) -> None:
    """Between all layouts that the kernels know a way between, with other codes too."""
    rows, cols = codes.shape
    blocky = {KINDS[where]: layout for layout in RUNS if (where := run_layout(layout, rows, cols)) in KINDS}
    bytes_of: dict[tuple[str, int], bytes] = {}
    for number, remap in enumerate(REMAPS):
        for layout in RUNS:
            bytes_of[layout.name, number] = pack_codes(np.array(remap, dtype=np.uint8)[codes], layout)
    for (number, remap), (kind, target) in product(enumerate(REMAPS), blocky.items()):
        bits = remap_bits(remap)
        for other, source in blocky.items():
            count = codes.size // BLOCK
            cases.add("blocks", (count, other, kind, bits), bytes_of[source.name, 0], bytes_of[target.name, number])
        if cols % BLOCK:
            continue
        for shared in (LAYOUTS["rows-1x4"], LAYOUTS["row-blocks-4"]):
            step, lsb = (1, 0) if shared.in_gguf else (rows // 4, 1)
            for first, last in {(0, rows // 4), (rows // 8, rows // 4), (0, rows // 8)}:
                arguments = (first, last, cols, step, lsb, kind, bits)
                source, result = bytes_of[shared.name, 0], bytes_of[target.name, number]
                cases.add("to_rows", arguments, source, only_rows(result, rows, step, first, last))
                source, result = bytes_of[target.name, 0], bytes_of[shared.name, number]
                left = bytearray([FILL]) * len(result)
                left[first * cols : last * cols] = result[first * cols : last * cols]
                cases.add("of_rows", arguments, source, bytes(left))


def only_rows(payload: bytes, rows: int, step: int, first: int, last: int) -> bytes:
    """The rows of the groups `first` to `last`, and what was there before in place of the others."""
    left = np.full(len(payload), FILL, dtype=np.uint8).reshape(rows, -1)
    for group in range(first, last):
        of_group = [(4 * group if step == 1 else group) + p * step for p in range(4)]
        left[of_group] = np.frombuffer(payload, dtype=np.uint8).reshape(rows, -1)[of_group]
    return left.tobytes()


def add_counts(cases: Cases, payload: bytes, scans: bool = True) -> None:
    counts = np.zeros(4, dtype="<u8")
    for shift in (0, 2, 4, 6):
        counts += np.bincount(np.frombuffer(payload, dtype=np.uint8) >> shift & 3, minlength=4).astype("<u8")
    cases.add("histogram", (), payload, counts.tobytes())
    for code in range(4 * scans):
        cases.add("scan", (code,), payload, b"", answer=int(counts[code] > 0))


def add_needles(cases: Cases, rng: np.random.Generator) -> None:
    """One code among others, wherever vectors, steps and rests begin and end."""
    for n, code in product((1, 7, 8, 63, 64, 65, 127, 255, 256, 257, 511, 1000, 65_535, 65_700), range(4)):
        # neighboring codes that share a bit with it must not match
        others = np.array([c for c in range(4) if c != code])
        hay = rng.choice(others, (n, 4))
        places = {0, n - 1, int(rng.integers(n))}
        cases.add("scan", (code,), packed(hay), b"", answer=0)
        for at in places:
            with_it = hay.copy()
            with_it[at, rng.integers(4)] = code
            cases.add("scan", (code,), packed(with_it), b"", answer=1)


def packed(codes: np.ndarray[Any, Any]) -> bytes:
    """Four codes a byte, [bytes, 4]."""
    return (codes << np.array([6, 4, 2, 0])).sum(axis=1).astype(np.uint8).tobytes()


def of_the_definition() -> Cases:
    cases, rng = Cases(), np.random.default_rng(20)
    for number, shape in enumerate(SHAPES):
        codes = rng.integers(0, 4, shape).astype(np.uint8)
        for layout in RUNS:
            if codes.size % layout.block == 0 and codes.shape[0] % layout.row_block == 0:
                add_elements(cases, codes, layout, pack_codes(codes, layout), SCALES[number % len(SCALES)])
        if codes.size % BLOCK == 0:
            add_transcodings(cases, codes)
    for n in (0, 1, 7, 8, 31, 96, 127, 128, 129, 255, 256, 1000, 3839, 3840, 20_000):
        add_counts(cases, rng.bytes(n))
    for byte in (0x00, 0x55, 0xAA, 0xFF):  # the largest possible counts, which could overflow narrow counters
        add_counts(cases, bytes([byte]) * 600_000, scans=False)
    add_needles(cases, rng)
    return cases


def of_the_vectors(folder: Path) -> Cases:
    """What the reference implementations made of the same weights: payloads in three layouts, and floats."""
    cases = Cases()
    for source in sorted((folder / "quant/in").glob("*.npy")):
        weights = np.load(source)
        small = np.abs(weights.astype(np.float64)) < 1e-6
        codes = np.where(small, 1, np.where(weights > 0, 2, 0)).astype(np.uint8)
        for build, name in BUILDS.items():
            layout = LAYOUTS[name]
            data = (folder / f"quant/out_{build}/{source.stem}.bin").read_bytes()
            if codes.size % layout.block or codes.shape[0] % layout.row_block:
                continue
            payload, scale = (
                data[: codes.size // 4],
                np.frombuffer(data, dtype="<f4", count=1, offset=codes.size // 4)[0],
            )
            add_elements(cases, codes, layout, payload, float(scale))
            add_counts(cases, payload)
            floats = folder / f"dequant/{source.stem}.npy"
            if build == "blk128" and floats.exists():
                bits = int(scale.view(np.uint32))
                run = (codes.size // BLOCK, 32, 0, MAP_IDS[CODE_MAPS["offset-1"]], bits)
                cases.add("floats", run, payload, np.load(floats).astype("<f4").tobytes())
    return cases


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_the_definition().write(tmp_path_factory.mktemp("driver") / "definition.cases")


@pytest.fixture(scope="module")
def from_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return of_the_vectors(ORACLE).write(tmp_path_factory.mktemp("driver") / "vectors.cases")


Build = Callable[..., Path]


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Compile the driver, every warning an error, once for each choice of flags; skip where the compiler cannot."""

    @cache
    def compiled(compiler: str, *flags: str) -> Path:
        return program_of(SOURCE, tmp_path_factory.mktemp("built"), compiler, *flags)

    return compiled


def run(*command: str | Path) -> Iterator[str]:
    done = subprocess.run([str(word) for word in command], capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    *sets, _, verdict = done.stdout.splitlines()
    passed, failed = verdict.split(", ")
    assert failed == "0 failed"
    assert int(passed.split()[0]) > 1000
    return (line.split(":")[0] for line in sets if line.endswith(": runs"))


def test_kernels_of_this_processor(build: Build, made_up: Path, from_vectors: Path) -> None:
    driver = build(host_compiler(), "-O3")
    assert "portable" in set(run(driver, made_up))
    assert "portable" in set(run(driver, from_vectors))


def test_the_whole_set_of_vectors(build: Build, shared: Path, tmp_path: Path) -> None:
    driver = build(host_compiler(), "-O3")
    assert "portable" in set(run(driver, of_the_vectors(shared / "vectors").write(tmp_path / "vectors.cases")))


def test_under_sanitizers(build: Build, made_up: Path, tmp_path: Path) -> None:
    """No byte is touched that does not belong to source or result, and nothing is done that C leaves undefined."""
    compiler = host_compiler()
    require_sanitizers(tmp_path, compiler, *SANITIZERS)
    assert "portable" in set(run(build(compiler, *SANITIZERS), made_up))


def test_neon_under_emulation(build: Build, made_up: Path, from_vectors: Path) -> None:
    emulator, driver = arm_emulator(), build(arm_compiler(), "-O3", "-static")
    assert list(run(emulator, driver, made_up, "neon")) == ["neon"]
    assert list(run(emulator, driver, from_vectors, "neon")) == ["neon"]


def test_as_windows_calls_kernels(made_up: Path, tmp_path: Path, run_by_wine: Callable[..., list[str]]) -> None:
    """64-bit Windows: `long` has 32 bits, other registers are callee-saved, the stack is aligned to 16 bytes."""
    *sets, _, verdict = run_by_wine(compiled_for_windows(SOURCE, tmp_path, "-O2"), made_up)
    assert verdict.endswith(", 0 failed")
    assert "portable: runs" in sets


def test_the_driver_can_fail(build: Build, tmp_path: Path) -> None:
    driver = build(host_compiler(), "-O3")
    cases = Cases()
    cases.add("unpack", (4, 1, 0, CODES), b"\x1b\x1b\x1b\x1b", bytes([0, 1, 2, 3] * 3 + [0, 1, 2, 2]))
    cases.add("scan", (3,), b"\x15" * 100, b"", answer=1)
    done = subprocess.run([driver, cases.write(tmp_path / "x")], capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 1
    assert "portable unpack, case 0: the result is wrong" in done.stdout
    assert "portable scan, case 1: the answer is wrong" in done.stdout
    assert "0 passed, " in done.stdout
