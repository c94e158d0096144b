"""The fast path at its seams: between threads, between windows, between kernel sets, at the end of one long run."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest

from i2s_spec.codec import isa, kernels, native, reference
from i2s_spec.codec.isa import KernelSet, chosen
from i2s_spec.errors import SettingError
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS

IN_FILES = [name for name, layout in LAYOUTS.items() if layout.in_gguf]


def trits(rows: int, cols: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1, 2, (rows, cols)).astype(np.int8)


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("shape", [(4, 128), (12, 896), (4, 8320), (20, 128)])
def test_threads_share_the_work_without_a_rest(
    monkeypatch: pytest.MonkeyPatch, layout: str, shape: tuple[int, int]
) -> None:
    monkeypatch.setattr(kernels, "THREAD_BYTES", 1)
    weights = trits(*shape)
    data = reference.pack(weights, 0.5, layout)
    for threads in (1, 2, 3, 5, 7):
        assert native.pack(weights, 0.5, layout, threads=threads) == data
        assert np.array_equal(native.unpack(data, shape, layout, threads=threads)[0], weights)
        assert np.array_equal(native.dequantize(data, shape, layout, threads=threads), weights * np.float32(0.5))
        assert native.histogram(data, shape, threads=threads) == reference.histogram(data, shape)
        for other in LAYOUTS:
            wanted = reference.pack(weights, 0.5, other)
            assert native.transcode(data, shape, layout, other, threads=threads) == wanted


@pytest.mark.parametrize("at", [0, 1, 511, 512, 700, 1023])
def test_one_thread_s_find_is_everybody_s(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    monkeypatch.setattr(kernels, "THREAD_BYTES", 1)
    weights = trits(8, 128)
    weights.reshape(-1)[at] = 2
    with pytest.raises(ValueError, match=rf"first is 2 at element {at:,} "):
        native.pack(weights, 0.5, threads=3)
    codes = np.zeros(256, dtype=np.uint8)
    codes[at // 4] = 0x30
    for threads in (1, 2, 3, 7):
        assert kernels.occurs(codes, 3, threads)
        assert not kernels.occurs(codes, 2, threads)


@pytest.mark.parametrize("layout", IN_FILES)
@pytest.mark.parametrize("at", [0, (1 << 20) - 1, 1 << 20, (1 << 20) + 4711])
def test_an_unused_code_is_found_behind_the_first_megabyte(layout: str, at: int) -> None:
    shape = (4, (1 << 18) + 2048)
    data = bytearray(reference.pack(np.zeros(shape, dtype=np.int8), 1.0, layout))
    k = np.array(at)
    byte, shift = int(LAYOUTS[layout].byte_of(k, *shape)), int(LAYOUTS[layout].shift_of(k, *shape))
    data[byte] |= 3 << shift
    assert native.scan(bytes(data), shape, layout) == reference.scan(bytes(data), shape, layout)
    assert native.scan(bytes(data), shape, layout).first == at


def test_the_fastest_set_that_the_processor_has(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = (KernelSet(0, "portable", True), KernelSet(1, "avx2", True), KernelSet(2, "avx512", False))
    monkeypatch.delenv(isa.VARIABLE, raising=False)
    assert chosen(sets).name == "avx2"
    assert chosen(sets[:1]).name == "portable"
    monkeypatch.setenv(isa.VARIABLE, "avx512vl")
    with pytest.raises(SettingError, match="cannot run"):
        chosen(sets)
    monkeypatch.setenv(isa.VARIABLE, "avxvnni")
    assert chosen(sets).row == 1


def test_kernels_are_numbered_from_the_portable_ones() -> None:
    first, *others = isa.kernel_sets()
    assert first == KernelSet(0, "portable", True)
    assert [each.row for each in others] == list(range(1, len(others) + 1))


@pytest.mark.parametrize("value", [-257, -256, -255, -2, 2, 255, 257, 1 << 20, -(1 << 20)])
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
def test_values_that_eight_bits_would_make_trits_of(value: int, dtype: type[np.signedinteger]) -> None:
    weights = np.zeros((4, 128), dtype=np.int64)
    weights[2, 5] = value
    if np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        with pytest.raises(ValueError, match=rf"first is {value} at element 261 "):
            native.pack(weights.astype(dtype), 1.0)


@pytest.mark.parametrize("policy", ["reject", "zero", "plus-two"])
@pytest.mark.parametrize("code_map", list(CODE_MAPS))
def test_every_policy_for_the_unused_code(policy: Any, code_map: str) -> None:
    dialect, shape = f"interleave-128/{code_map}", (2, 256)
    data = bytes(range(128)) + reference.pack(np.zeros((1, 128), dtype=np.int8), 0.5)[32:]
    for name in ("unpack", "dequantize"):
        results = []
        for codec in (reference, native):
            try:
                results.append(getattr(codec, name)(data, shape, dialect, code3=policy))
            except ValueError as error:
                results.append(str(error))
        wanted, got = ([np.asarray(part).tobytes() for part in each] for each in results)
        assert got == wanted
    assert isinstance(results[0], str) == (policy == "reject" or (policy == "plus-two" and code_map != "offset-1"))


ODD_SHAPES = [(4, 32), (4, 33), (4, 36), (8, 36), (4, 48), (12, 100), (4, 128), (8, 1040)]


@pytest.mark.parametrize(
    ("layout", "shape"),
    [(name, shape) for name, layout in LAYOUTS.items() for shape in ODD_SHAPES if prod(shape) % layout.block == 0],
)
def test_code_maps_change_in_every_byte(layout: str, shape: tuple[int, int]) -> None:
    """Also in what is left behind the last 32 bytes of payload, whatever the length of a run."""
    weights = trits(*shape)
    data = reference.pack(weights, 0.5, layout, strict=False)
    out = bytearray(b"\xa5" * len(data))
    for code_map in CODE_MAPS:
        target = f"{layout}/{code_map}"
        native.transcode(data, shape, layout, target, strict=False, out=out)
        assert out == reference.pack(weights, 0.5, target, strict=False)
