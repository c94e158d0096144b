"""Passes over float words: kernels equal their definition, bit for bit, and the definition equals the rules."""

from __future__ import annotations

import platform
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from c_compiler import SANITIZERS, WARNINGS
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st
from windows import compiled_for_windows

from i2s_spec.codec import _floats, float_passes
from i2s_spec.codec import float_passes as float_passes_native
from i2s_spec.codec.float_passes import INFINITY, least_one, wide, width_of
from i2s_spec.codec.quantize import COLUMNS, torch_mean, torch_runs
from i2s_spec.codec.shape import FLOAT_WORDS

TYPES = ("F32", "F16", "BF16")
SETS = [each.name for each in float_passes_native.kernel_sets() if each.available]
HERE = Path(__file__).resolve().parent

#: The module that an installation without a compiler has in place of the extension.
IN_PYTHON: Any = ModuleType("floats_in_python")
exec(Path(float_passes.__file__).with_name("_floats.py").read_text(encoding="utf-8"), IN_PYTHON.__dict__)

types = st.sampled_from(TYPES)
gains = st.sampled_from([0.0, 1e-30, 0.7, 1.0, 3.0, 61.7, 1234.5, 1e5, 3e38, np.inf])


@pytest.fixture(params=SETS)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("I2S_ISA", request.param)
    return str(request.param)


def every_word(type: str) -> np.ndarray[Any, Any]:
    """All words of 16 bits, or those of 32 whose upper half is each of them, with lower halves that round both ways."""
    halves = np.arange(0x10000, dtype=np.uint32)
    if type != "F32":
        return halves.astype("<u2").view(np.uint8)
    ends = np.array([0, 1, 0x0FFF, 0x1000, 0x1001, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF], dtype=np.uint32)
    return (halves[:, None] << np.uint32(16) | ends).reshape(-1).astype("<u4").view(np.uint8)


def finite(type: str) -> np.ndarray[Any, Any]:
    words = every_word(type)
    return words.reshape(-1, width_of(type))[np.isfinite(wide(words, type))].reshape(-1)


def some(type: str, seed: int, count: int, large: bool = False) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    power = rng.uniform(-45, 4, count) if large else rng.normal(-2, 1, count)
    values = (10**power * rng.choice([-1, 1], count)).astype(np.float32)
    return float_passes.change_words_reference(values.view(np.uint8), "F32", type)[0]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_changes_of_every_word(kernels: str, type: str, target: str) -> None:
    words = finite(type).reshape(-1, width_of(type))
    fits = np.isfinite(wide(float_passes.change_words_reference(words.reshape(-1), type, target)[0], target))
    words = np.ascontiguousarray(words[fits]).reshape(-1)
    wanted, odd = float_passes.change_words_reference(words, type, target)
    made, told = float_passes_native.change_words(words, type, target)
    assert not odd
    assert not told
    assert made.tobytes() == wanted.tobytes()
    if type == target:
        assert made.tobytes() == words.tobytes()


@pytest.mark.parametrize("type", TYPES)
def test_infinities_and_nan_are_reported(kernels: str, type: str) -> None:
    """One such word at every position of a vector and of the remainder; and words that become infinite when converted."""
    width = width_of(type)
    for place in (0, 1, 31, 255, 256, 1023):
        words = some(type, place, 1024)
        for bits in (INFINITY[type], INFINITY[type] + 1, 2 * INFINITY[type] - 1 | 1 << (8 * width - 1)):
            mine = words.copy()
            mine[place * width : (place + 1) * width] = np.frombuffer(
                (bits % (1 << 8 * width) | INFINITY[type]).to_bytes(width, "little"), np.uint8
            )
            assert not np.isfinite(wide(mine, type)).all()
            for passes in (float_passes, float_passes_native):
                assert passes.sum_runs(mine, type, 8, np.empty((4, COLUMNS), np.float32))
                assert all(passes.change_words(mine, type, target)[1] for target in TYPES)
        for passes in (float_passes, float_passes_native):
            assert not passes.sum_runs(words, type, 8, np.empty((4, COLUMNS), np.float32))
    large = np.full(700, 65520, "<f4").view(np.uint8)  # the least number beyond the range of F16
    assert [passes.change_words(large, "F32", "F16")[1] for passes in (float_passes, float_passes_native)] == [
        True,
        True,
    ]
    just = np.full(700, 65519, "<f4").view(np.uint8)
    assert float_passes_native.change_words(just, "F32", "F16")[0].tobytes() == np.full(700, 65504, "<f2").tobytes()


@examples(100)
@given(
    type=types,
    seed=st.integers(0, 99),
    count=st.integers(0, 700),
    odd=st.integers(0, 9),
    rate=st.sampled_from([0, 0.1, 1]),
)
def test_the_only_magnitude_is_the_definition(type: str, seed: int, count: int, odd: int, rate: float) -> None:
    """Words of one magnitude, or zeros of both signs, among which some may have another one, or be infinite or NaN."""
    rng = np.random.default_rng(seed)
    form, sign = np.dtype(FLOAT_WORDS[type]), 1 << 8 * width_of(type) - 1
    sizes = rng.choice([0, int(rng.integers(1, sign))], count, p=[1 - rate, rate])
    if odd < 3 and count:
        sizes[rng.integers(count)] = rng.choice([1, sign - 1, INFINITY[type]])
    words = (sizes | sign * rng.integers(0, 2, count)).astype(form)
    found = np.unique(sizes[sizes != 0])
    wanted = -1 if found.size > 1 else int(found[0]) if found.size else 0
    little = words.astype(form.newbyteorder("<")).view(np.uint8)
    assert IN_PYTHON.only(0, _floats.KINDS[type], little, count) == wanted
    for row, (_, available) in enumerate(_floats.kernel_sets()):
        if available:
            assert _floats.only(row, _floats.KINDS[type], little, count) == wanted


@examples(40)
@given(type=types, runs=st.integers(0, 5), rows=st.integers(1, 40), seed=st.integers(0, 99), large=st.booleans())
def test_sums_are_the_definition(type: str, runs: int, rows: int, seed: int, large: bool) -> None:
    words = some(type, seed, runs * rows * COLUMNS, large)
    wanted, made = np.empty((runs, COLUMNS), np.float32), np.empty((runs, COLUMNS), np.float32)
    odd = float_passes.sum_runs_reference(words, type, rows, wanted)
    for name in SETS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("I2S_ISA", name)
            assert float_passes_native.sum_runs(words, type, rows, made) == odd
        assert odd or made.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("gain", share([0.0, 1e-30, 0.7, 1.0, 61.7, 1234.5, 1e5, 3e38, np.inf], every=3))
def test_trits_of_every_word(kernels: str, type: str, gain: float) -> None:
    """Comparing integers gives the same as the definition: a product, rounded and clipped."""
    words = finite(type)
    with np.errstate(all="ignore"):
        wanted = np.clip(np.rint(wide(words, type) * np.float32(gain)), -1, 1)
    wanted = np.nan_to_num(wanted).astype(np.int8)  # 0 times infinity gives 0
    least = least_one(np.float32(gain), type)
    assert np.array_equal(float_passes.cut_words_reference(words, type, least), wanted)
    for count in (*range(70), words.size // width_of(type)):
        part = words[: count * width_of(type)]
        assert float_passes_native.cut_words(part, type, least).tobytes() == wanted[:count].tobytes()


@examples(60)
@given(type=types, gain=st.floats(0, width=32, allow_nan=False, allow_infinity=False))
def test_words_from_the_least_one_on_round_to_1(type: str, gain: float) -> None:
    least = least_one(np.float32(gain), type)
    bits = np.array([max(least - 1, 0), min(least, INFINITY[type] - 1)], f"<u{width_of(type)}").view(np.uint8)
    with np.errstate(over="ignore"):
        below, at = np.rint(wide(bits, type) * np.float32(gain))
    assert below < 1
    assert at >= 1 or least == INFINITY[type]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("n", [1, 31, 511, 512, 40_000, 32 * 16 * 16 * 3 + 77])
def test_means_from_precomputed_sums(kernels: str, type: str, n: int) -> None:
    words = some(type, n, n)
    sizes = np.abs(wide(words, type))
    run, runs = torch_runs(n)
    sums = np.empty((runs, COLUMNS), np.float32)
    float_passes_native.sum_runs(words[: runs * run * COLUMNS * width_of(type)], type, run, sums)
    mean = torch_mean(lambda start, stop: sizes[start:stop], n, sums)
    assert mean.tobytes() == torch_mean(lambda start, stop: sizes[start:stop], n).tobytes()


def test_sizes_that_do_not_fit() -> None:
    for passes in (float_passes, float_passes_native):
        with pytest.raises(ValueError, match="32 words of F16 take 64 bytes, and there are 63"):
            passes.sum_runs(np.zeros(63, np.uint8), "F16", 1, np.zeros((1, COLUMNS), np.float32))
    with pytest.raises(ValueError, match="there are 7"):
        float_passes_native.cut_words(np.zeros(7, np.uint8), "F32", 1)
    with pytest.raises(ValueError, match="there are 7"):
        float_passes_native.change_words(np.zeros(7, np.uint8), "BF16", "F16")


def write_cases(path: Path) -> Path:
    """What the definition gives, for the driver."""
    parts = [b"I2SFLOAT"]

    def add(what: int, type: str, first: int, second: int, answer: bool, words: Any, result: Any) -> None:
        head = (what, _floats.KINDS[type], first, second, int(answer), words.nbytes, result.nbytes)
        parts.extend([struct.pack("<7q", *head), words.tobytes(), result.tobytes()])

    for type in TYPES:
        every = finite(type)[:: 7 if type == "F32" else 1]
        every = every[: every.size // 4 * 4] if type != "F32" else finite(type).reshape(-1, 4)[::7].reshape(-1)
        for words in (every, *(some(type, n, n) for n in (1, 15, 33, 257, 1000))):
            count = words.size // width_of(type)
            for gain in (0.0, 0.7, 61.7, 1e5):
                least = least_one(np.float32(gain), type)
                add(1, type, count, least, False, words, float_passes.cut_words_reference(words, type, least))
            for target in TYPES:
                made, odd = float_passes.change_words_reference(words, type, target)
                add(2, type, count, _floats.KINDS[target], odd, words, made)
        for runs, rows in ((1, 1), (3, 16), (2, 32), (5, 7)):
            words, sums = some(type, rows, runs * rows * COLUMNS, rows == 7), np.empty((runs, COLUMNS), np.float32)
            add(0, type, runs, rows, float_passes.sum_runs_reference(words, type, rows, sums), words, sums)
            words[-1] |= 0x7F
            words[-2] |= 0xFC
            add(0, type, runs, rows, True, words, sums)
    path.write_bytes(b"".join(parts))
    return path


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["here", "sanitizers", "clang", "neon"])
def test_the_kernels_without_python(how: str, tmp_path: Path) -> None:
    """Here, under sanitizers, by another compiler, and those of AArch64 under emulation."""
    compiler = {"clang": "clang", "neon": "aarch64-linux-gnu-gcc"}.get(how, "cc")
    emulator = next(filter(shutil.which, ("qemu-aarch64", "qemu-aarch64-static")), None)
    if shutil.which(compiler) is None or (how == "neon" and (emulator is None or platform.machine() == "aarch64")):
        pytest.skip(f"{compiler} or the emulator is not there")
    flags = {"sanitizers": SANITIZERS, "neon": ("-O3", "-static")}.get(how, ("-O3",))
    program, cases = tmp_path / "floats", write_cases(tmp_path / "cases")
    command = [compiler, *WARNINGS, "-ffp-contract=off", *flags, f"-I{HERE.parent.parent / 'pyx'}"]
    built = subprocess.run(
        [*command, str(HERE / "driver/floats.c"), "-o", str(program)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if how == "sanitizers" and "cannot find" in built.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert built.returncode == 0, built.stderr
    run = [str(emulator), str(program), str(cases), "neon"] if how == "neon" else [str(program), str(cases)]
    done = subprocess.run(run, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    *sets, verdict = done.stdout.splitlines()
    assert {line.split(":")[0] for line in sets} >= {"neon" if how == "neon" else "portable"}
    assert verdict.endswith(" 0 failed")


@pytest.mark.thorough
def test_as_windows_calls_kernels(tmp_path: Path, run_by_wine: Callable[..., list[str]]) -> None:
    """64-bit Windows: `long` has 32 bits, other registers are callee-saved, the stack is aligned to 16 bytes."""
    program = compiled_for_windows(HERE / "driver" / "floats.c", tmp_path, "-O2", "-ffp-contract=off")
    *sets, verdict = run_by_wine(program, write_cases(tmp_path / "cases"))
    assert verdict.endswith(" 0 failed")
    assert "portable" in {line.split(":")[0] for line in sets}
