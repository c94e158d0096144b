"""Compiled functions leave the upper halves of vector registers unused.

While they are in use, SSE instructions of that thread take up to three times as long on some processors: those of Python
and NumPy, too. GCC omits `vzeroupper` where a function with a target calls one without as its last.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from i2s_spec import lint, load_model
from i2s_spec.codec import _blocks, _codec, _floats, blocks_native, isa
from i2s_spec.convert.new import new
from i2s_spec.inspect import survey_reader
from i2s_spec.layout_inference import _bit_sums
from i2s_spec.model import _fast, _matmul, _reduce
from i2s_spec.model.reference import matmul

HELPER = """
unsigned used(void) {
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return low;
}
void clear(void) { __asm__ volatile("vzeroupper"); }
"""
#: Bits of `xgetbv` 1: upper halves of registers 0 to 15, of 256 and of 512 bits.
HALVES = 0x44
MODULES = (_blocks, _codec, _floats, _bit_sums, _fast, _matmul, _reduce)
#: Lengths with and without rest, from memory and from caches.
SIZES = (0, 31, 256, 4096 + 13, (1 << 18) + 96)
Called = dict[str, list[str]]


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The functions of `HELPER`."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("upper halves of vector registers are of x86-64")
    info = Path("/proc/cpuinfo")
    if not info.exists() or " xgetbv1" not in info.read_text("utf-8"):
        pytest.skip("the system does not say that the processor tells which registers are in use")
    compiler = os.environ.get("CC") or "cc"
    if shutil.which(compiler) is None:
        pytest.skip(f"no C compiler: {compiler} is not there")
    folder = tmp_path_factory.mktemp("upper")
    (folder / "upper.c").write_text(HELPER, "utf-8")
    subprocess.run([compiler, "-mavx", "-O1", "-shared", "-fPIC", "upper.c", "-o", "upper.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "upper.so"))


@pytest.fixture
def called(helper: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> Called:
    """Every compiled function that is called: how often, and the calls after which upper halves were in use."""
    calls: Called = {}

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            helper.clear()
            result = function(*args, **options)
            now = helper.used() & HALVES
            calls.setdefault(name, []).append(f"{name}{args[:1]}" if now else "")
            return result

        return call

    def watch_methods(module: Any, kind: str, names: tuple[str, ...]) -> None:
        base = getattr(module, kind)
        monkeypatch.setattr(
            module,
            kind,
            type(kind, (base,), {name: watched(f"{kind}.{name}", getattr(base, name)) for name in names}),
        )

    for module in MODULES:
        for name, value in vars(module).items():
            if not name.startswith("_") and callable(value) and not isinstance(value, type):
                monkeypatch.setattr(module, name, watched(f"{module.__name__.rpartition('.')[2]}.{name}", value))
    watch_methods(survey_reader, "Parts", ("work", "feed", "join"))
    watch_methods(_fast, "Program", ("run",))
    return calls


def check(called: Called, *expected: str) -> None:
    """These were called, and no call left anything in use."""
    assert set(expected) <= set(called)
    assert sorted({text for texts in called.values() for text in texts if text}) == []


def rows_of(sets: Any) -> list[int]:
    return [each.row for each in sets if each.available]


def test_what_was_left_in_use_is_noticed(helper: ctypes.CDLL, tmp_path: Path) -> None:
    (tmp_path / "dirty.c").write_text('void dirty(void) { __asm__("vpcmpeqb %ymm3, %ymm3, %ymm3"); }\n', "utf-8")
    subprocess.run(
        [os.environ.get("CC") or "cc", "-mavx2", "-shared", "-fPIC", "dirty.c", "-o", "dirty.so"],
        cwd=tmp_path,
        check=True,
    )
    if not any(each.name == "avx2" and each.available for each in isa.kernel_sets()):
        pytest.skip("the processor does not have AVX2")
    helper.clear()
    assert helper.used() & HALVES == 0
    ctypes.CDLL(str(tmp_path / "dirty.so")).dirty()
    assert helper.used() & HALVES != 0
    helper.clear()


def test_kernels_of_codes(called: Called) -> None:
    """Also the probes of the benchmarks: what is measured after them would take longer."""
    random = np.random.default_rng(1)
    for row in rows_of(isa.kernel_sets()):
        for size in SIZES:
            data = random.integers(0, 256, size, dtype=np.uint8)
            wide, floats = np.zeros(4 * size, np.uint8), np.zeros(4 * size, np.float32)
            for code in range(4):
                _codec.scan(row, data, code)
                _codec.scan(row, np.full(size, 0x55 * code, np.uint8), code)
            _codec.histogram(row, data)
            _codec.read(row, data)
            _codec.write(row, wide)
            for group in (1, 16, 32):
                blocks = size // group
                whole = blocks * group
                _codec.unpack(row, data[:whole], blocks, group, False, 0, wide[: 4 * whole], 0)
                _codec.pack(row, wide[: 4 * whole], blocks, group, False, 0, data[:whole], False)
                _codec.floats(row, data[:whole], blocks, group, False, 0, 0.5, floats[: 4 * whole], 0)
    check(called, *(f"_codec.{name}" for name in ("scan", "histogram", "read", "write", "unpack", "pack", "floats")))


@pytest.mark.parametrize("name", ["TQ2_0", "PTQ1_0", "IQ1_BN", "IQ2_BN"])
def test_kernels_of_groups(called: Called, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).integers(-1, 2, (6, 2560), dtype=np.int8)
    for each in blocks_native.kernel_sets():
        if each.available:
            monkeypatch.setenv(isa.VARIABLE, each.name)
            packed = np.frombuffer(blocks_native.pack(values, 0.5, name), dtype=np.uint8)
            blocks_native.unpack(packed, values.shape, name)
            blocks_native.dequantize(packed, values.shape, name)
            blocks_native.histogram(packed, values.shape, name)
    check(called, "_blocks.pack", "_blocks.unpack", "_blocks.floats", "_blocks.count")


def test_products(called: Called) -> None:
    random = np.random.default_rng(1)
    for row in rows_of(matmul.kernel_sets()):
        _matmul.probe_multiplications(row, 100, 1)
        for rows, columns, tokens in ((5, 128, 1), (64, 2560, 1), (64, 2560, 3), (33, 640, 40), (3000, 2560, 1)):
            weights = random.integers(0, 256, rows * columns // 4, dtype=np.uint8)
            codes = random.integers(-128, 128, (tokens, columns), dtype=np.int8)
            _matmul.product(row, weights, rows, codes, np.zeros((tokens, rows), np.int32), 1)
    _matmul.probe_reading(random.integers(0, 256, 1 << 16, dtype=np.uint8), 2, 1)
    matmul.quantize_activations(random.standard_normal((3, 200)).astype(np.float32), threads=1)
    names = ("product", "probe_multiplications", "probe_reading", "quantize")
    check(called, *(f"_matmul.{name}" for name in names))


@pytest.mark.parametrize("set_", ["portable", "avx2", "avx512vl", "avx512"])
def test_models(called: Called, set_: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A lint, with the survey and the evidence of layouts, and passes of both profiles."""
    known = {each.name for each in (*isa.kernel_sets(), *matmul.kernel_sets()) if each.available}
    if set_ not in known:
        pytest.skip(f"this processor does not run {set_}")
    monkeypatch.setenv(isa.VARIABLE, set_)
    path = tmp_path / "model.gguf"
    new(path)
    lint(path)
    for profile in ("fast", "bitnet-golden-1"):
        model = load_model(path, profile, threads=1)
        cache = model.new_cache(16)
        model.forward([1, 2, 3, 4, 5], cache=cache)
        model.forward([6], cache=cache, logits="last")
    check(called, "Parts.work", "Program.run", "_bit_sums.gram", "_matmul.product")
