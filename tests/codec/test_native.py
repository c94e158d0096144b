"""The compiled codec gives the same results and the same errors as the definition, with every kernel set."""

from __future__ import annotations

import itertools
import mmap
import warnings
from collections.abc import Iterator
from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import isa, kernels, native, reference
from i2s_spec.codec.isa import KernelSet, chosen
from i2s_spec.errors import SettingError
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS, Dialect

SETS = [each.name for each in isa.kernel_sets() if each.available]
DIALECTS = [Dialect(*parts) for parts in itertools.product(LAYOUTS.values(), CODE_MAPS.values(), TAILS.values())]


@pytest.fixture(params=SETS)
def kernel_set(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(isa.VARIABLE, request.param)
    return str(request.param)


@pytest.fixture(params=SETS, scope="module")
def module_set(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(isa.VARIABLE, request.param)
        yield str(request.param)


def outcome(call: Any, *args: Any, **options: Any) -> Any:
    """What a call gives, or how it fails, in a form that compares; with the warnings it makes."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            result = call(*args, **options)
        except (ValueError, TypeError) as error:
            return type(error), str(error)
    return comparable(result), [(each.category, str(each.message)) for each in said]


def comparable(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(comparable(part) for part in value)
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype, value.shape, value.tobytes()
    return value


shapes = st.one_of(
    st.tuples(st.integers(1, 12), st.sampled_from([1, 4, 16, 32, 33, 64, 96, 128, 160, 192, 256, 320, 640])),
    st.tuples(st.sampled_from([4, 8, 12, 16]), st.sampled_from([128, 256, 384, 512])),
    st.tuples(st.integers(1, 700)),
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.sampled_from([32, 64, 128])),
)


@given(
    shape=shapes,
    dialect=st.sampled_from(DIALECTS),
    scale=st.floats(width=32),
    order=st.sampled_from(["little", "big"]),
    strict=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from(["i1", "i2", "i8"]),
    threads=st.sampled_from([1, 3]),
)
@examples(120)
def test_pack(module_set: str, shape: Any, dialect: Dialect, scale: float, order: Any, strict: bool,
              seed: int, dtype: str, threads: int) -> None:  # fmt: skip
    trits = np.random.default_rng(seed).integers(-1, 2, shape).astype(dtype)
    options = {"byte_order": order, "strict": strict}
    expected = outcome(reference.pack, trits, scale, dialect, **options)
    assert outcome(native.pack, trits, scale, dialect, **options, threads=threads) == expected


@given(
    shape=shapes,
    dialect=st.sampled_from(DIALECTS),
    order=st.sampled_from(["little", "big"]),
    strict=st.booleans(),
    unused_code=st.sampled_from(["reject", "zero", "plus-two"]),
    sound=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
    offset=st.integers(0, 33),
    short=st.sampled_from([0, 0, 0, 1, -1]),
)
@examples(200)
def test_functions_that_read_equal_the_definition(
    module_set: str, shape: Any, dialect: Dialect, order: Any, strict: bool, unused_code: Any, sound: bool, seed: int,
    offset: int, short: int,
) -> None:  # fmt: skip
    random = np.random.default_rng(seed)
    n = int(np.prod(shape))
    size = n // 4 + 32 + short
    data = random.integers(0, 256, max(size, 0), dtype=np.uint8)
    if sound:  # without unused codes
        used = [code for code in range(4) if code != dialect.code_map.unused]
        fields = random.choice(used, (data.size, 4)).astype(np.uint8)
        data = fields[:, 0] << 6 | fields[:, 1] << 4 | fields[:, 2] << 2 | fields[:, 3]
    memory = memoryview(bytes(offset) + data.tobytes())[offset:]  # at any alignment
    options = {"byte_order": order, "strict": strict, "unused_code": unused_code}
    for name in ("unpack", "dequantize"):
        expected = outcome(getattr(reference, name), memory, shape, dialect, **options)
        assert outcome(getattr(native, name), memory, shape, dialect, **options, threads=2) == expected
    options = {"strict": strict}
    expected = outcome(reference.scan, memory, shape, dialect, **options)
    assert outcome(native.scan, memory, shape, dialect, **options, threads=2) == expected
    expected = outcome(reference.histogram, memory, shape, **options)
    assert outcome(native.histogram, memory, shape, **options, threads=2) == expected


@pytest.mark.parametrize(("target", "source"), share(itertools.product(LAYOUTS, LAYOUTS), every=5))
def test_transcode_between_layouts(kernel_set: str, source: str, target: str) -> None:
    for args, back, expected in transcoded(source, target):
        assert (outcome(native.transcode, *args), outcome(native.transcode, *back, threads=2)) == expected


@cache
def transcoded(source: str, target: str) -> list[tuple[Any, Any, Any]]:
    """Calls in both directions with the definition's results: the same for every set of kernels."""
    random, found = np.random.default_rng(1), []
    for shape in ((4, 128), (8, 384), (12, 64), (16, 640), (4, 96), (20, 256), (8, 16), (64, 2560), (4, 32), (2, 192)):
        data = random.integers(0, 256, int(np.prod(shape)) // 4 + 32, dtype=np.uint8).tobytes()
        for maps in ("offset-1", "zero-first", "offset-2"):
            args = (data, shape, source, f"{target}/{maps}")
            back = (data, shape, f"{source}/{maps}", target)
            found.append((args, back, (outcome(reference.transcode, *args), outcome(reference.transcode, *back))))
    return found


@given(
    shape=shapes,
    source=st.sampled_from(DIALECTS),
    target=st.sampled_from(DIALECTS),
    order=st.sampled_from(["little", "big"]),
    strict=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@examples(150)
def test_transcode(module_set: str, shape: Any, source: Dialect, target: Dialect, order: Any, strict: bool,
                   seed: int) -> None:  # fmt: skip
    n = int(np.prod(shape))
    data = np.random.default_rng(seed).integers(0, 256, n // 4 + 28, dtype=np.uint8).tobytes() + bytes(4)
    data = data[: n // 4] + data[n // 4 : n // 4 + 4] * 8
    options = {"byte_order": order, "strict": strict}
    expected = outcome(reference.transcode, data, shape, source, target, **options)
    assert outcome(native.transcode, data, shape, source, target, **options) == expected


@pytest.mark.requirement("R5.4-2")
def test_all_bytes_at_all_places(kernel_set: str) -> None:
    """Every byte value at every place of a vector, in every layout and map."""
    values = np.arange(256, dtype=np.uint8)
    payload = np.concatenate([np.roll(values, shift) for shift in range(64)])
    shape = (4, payload.size)
    for name, layout in LAYOUTS.items():
        if not kernels.is_runs(layout):
            continue
        codes = reference.unpack_codes(payload, shape, layout)
        where = kernels.run_layout(layout, *shape)
        out = np.empty(codes.size, dtype=np.uint8)
        kernels.unpack(payload, where, None, out, 1)
        assert np.array_equal(out, codes.reshape(-1)), name
        packed = np.empty_like(payload)
        assert kernels.pack(out, where, None, packed, 1)
        assert np.array_equal(packed, payload), name


@pytest.mark.parametrize("value", [2, 3, 126, 127, -2, -128])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_wrong_value_is_found(kernel_set: str, layout: str, value: int) -> None:
    trits = np.zeros((8, 160), dtype=np.int8)
    strict = layout.startswith(("rows", "row-"))
    for at in (0, 1, 31, 32, 700, 1279):
        trits.reshape(-1)[at] = value
        with pytest.raises(ValueError, match=f"the first is {value} at element {at:,}"):
            native.pack(trits, 1.0, layout, strict=strict or layout.startswith("seq"))
        trits.reshape(-1)[at] = 0


def test_unsigned_values_that_int8_would_wrap() -> None:
    with pytest.raises(ValueError, match="the first is 255"):
        native.pack(np.full((1, 128), 255, dtype=np.uint8), 1.0)
    with pytest.raises(ValueError, match="the first is 256"):
        native.pack(np.full((1, 128), 256, dtype=np.int32), 1.0)


WAYS = {"plain": (False, 1 << 60), "past": (False, 1 << 12), "owned": (True, 1 << 12)}


@pytest.mark.parametrize("way", WAYS)
def test_results_are_the_same_however_they_are_stored(
    kernel_set: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By plain stores, past the cache, and after prefetching the lines for writing, as on another processor."""
    owns, stream_from = WAYS[way]
    monkeypatch.setattr(kernels, "OWNS", owns)
    monkeypatch.setattr(kernels, "STREAM_FROM", stream_from)
    monkeypatch.setattr(kernels, "THREAD_BYTES", 1 << 10)
    random = np.random.default_rng(2)
    shape = (64, 1152)
    trits = random.integers(-1, 2, shape).astype(np.int8)
    for name in LAYOUTS:
        packed = reference.pack(trits, -0.5, name)
        assert native.pack(trits, -0.5, name, threads=3) == packed
        found, scale = native.unpack(packed, shape, name, threads=3)
        assert np.array_equal(found, trits)
        assert scale == np.float32(-0.5)
        weights = native.dequantize(packed, shape, name, threads=3)
        assert weights.tobytes() == reference.dequantize(packed, shape, name).tobytes()
        for other in LAYOUTS:
            assert native.transcode(packed, shape, name, other, threads=3) == reference.pack(trits, -0.5, other)
        for address in (1, 8, 16):  # addresses at which streaming stores are impossible
            buffer = bytearray(len(packed) + 16)
            native.pack(trits, -0.5, name, out=memoryview(buffer)[address % 16 : address % 16 + len(packed)])
            assert buffer[address % 16 : address % 16 + len(packed)] == packed


@pytest.mark.parametrize("way", [kernels.PLAIN, kernels.PAST, kernels.OWNED])
@pytest.mark.parametrize("group", [1, 16, 32, 33, 48, 64, 80, 96, 1000, 4096, 4160, 8250])
def test_runs_of_every_length_are_stored_in_every_way(kernel_set: str, group: int, way: int) -> None:
    """At any address, and without writing a byte before or after the result."""
    row, blocks = chosen().row, 3 if group > 64 else 13
    payload = np.random.default_rng(group).integers(0, 256, blocks * group, dtype=np.uint8)
    fields = (payload.reshape(blocks, 1, group) >> np.array([6, 4, 2, 0], dtype=np.uint8)[:, None]) & 3
    weights = np.array([-0.75, 0, 0.75, 1.5], dtype=np.float32)
    for lsb in (False, True):
        codes = fields[:, ::-1] if lsb else fields
        codes = (codes.transpose(0, 2, 1) if group == 1 else codes).reshape(-1)
        for offset in (0, 16, 3):
            room = np.full(codes.size + 192, 0xEE, dtype=np.uint8)
            start = -room.ctypes.data % 64 + 64 + offset
            kernels._codec.unpack(
                row, payload, blocks, group, lsb, kernels.CODES, room[start : start + codes.size], way
            )
            assert np.array_equal(room[start : start + codes.size], codes)
            assert (room[:start] == 0xEE).all()
            assert (room[start + codes.size :] == 0xEE).all()
        for offset in (0, 16, 4):
            space = np.full(4 * codes.size + 192, 0xEE, dtype=np.uint8)
            start = -space.ctypes.data % 64 + 64 + offset
            floats = space[start : start + 4 * codes.size].view(np.float32)
            meaning = kernels.MAP_IDS[CODE_MAPS["offset-1"]]
            kernels._codec.floats(row, payload, blocks, group, lsb, meaning, 0.75, floats, way)
            assert np.array_equal(floats, weights[codes])
            assert (space[:start] == 0xEE).all()
            assert (space[start + 4 * codes.size :] == 0xEE).all()


@pytest.mark.parametrize(("owns", "threads", "size", "address", "way"), [
    (False, 1, 1 << 12, 0, kernels.PAST), (False, 64, 1 << 12, 16, kernels.PAST), (False, 1, 1 << 12, 8, kernels.PLAIN),
    (False, 1, 1 << 11, 0, kernels.PLAIN), (True, 1, 1 << 11, 8, kernels.OWNED), (True, 7, 1 << 12, 0, kernels.OWNED),
    (True, 8, 1 << 12, 0, kernels.PAST), (True, 8, 1 << 11, 0, kernels.PLAIN),
])  # fmt: skip
def test_how_a_result_is_stored_depends_on_processor_threads_size_and_address(
    owns: bool, threads: int, size: int, address: int, way: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "OWNS", owns)
    monkeypatch.setattr(kernels, "STREAM_FROM", 1 << 12)
    room = np.empty(size + 128, dtype=np.uint8)
    start = -room.ctypes.data % 64 + address
    assert kernels.way_of(room[start : start + size], kernels.RunLayout(32, False), threads) == way


@pytest.mark.parametrize(
    "size", [0, 1, 255, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 31 * 1024, 31 * 2048, 32 * 2048 + 100, 63 * 2048]
)
def test_histograms_count_every_byte(kernel_set: str, size: int) -> None:
    for payload in (np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8), *(
        np.full(size, value, dtype=np.uint8) for value in (0, 0x55, 0xAA, 0xFF)
    )):  # fmt: skip
        codes = (payload[:, None] >> np.array([0, 2, 4, 6], dtype=np.uint8)) & 3
        assert kernels.histogram(payload, 1) == tuple(np.bincount(codes.reshape(-1), minlength=4).tolist())


def test_results_fill_out_exactly() -> None:
    trits = np.zeros((4, 128), dtype=np.int8)
    packed = native.pack(trits, 1.0)
    out = bytearray(160)
    assert native.pack(trits, 1.0, out=out) is out
    assert bytes(out) == packed
    array = np.empty((4, 128), dtype=np.int8)
    assert native.unpack(packed, (4, 128), out=array)[0] is array
    floats = np.empty((4, 128), dtype=np.float32)
    assert native.dequantize(packed, (4, 128), out=floats) is floats
    again = bytearray(160)
    assert native.transcode(packed, (4, 128), target="interleave-64", out=again) is again
    for wrong in (bytearray(159), bytearray(161)):
        with pytest.raises(ValueError, match="the result takes 160 bytes"):
            native.pack(trits, 1.0, out=wrong)
    with pytest.raises(ValueError, match="cannot be written"):
        native.pack(trits, 1.0, out=bytes(160))
    for bad in (np.empty((128, 4), np.int8), np.empty((4, 128), np.uint8), np.empty((4, 256), np.int8)[:, ::2]):
        with pytest.raises(ValueError, match=r"out is"):
            native.unpack(packed, (4, 128), out=bad)
    with pytest.raises(ValueError, match="its own bytes"):
        native.transcode(out, (4, 128), target="interleave-64", out=out)


def test_buffers_of_every_kind() -> None:
    trits = np.random.default_rng(3).integers(-1, 2, (4, 128)).astype(np.int8)
    packed = native.pack(trits, 1.0)
    mapped = mmap.mmap(-1, len(packed))
    mapped[:] = packed
    kinds = (bytes(packed), bytearray(packed), memoryview(packed), np.frombuffer(packed, np.uint8), mapped)
    for data in kinds:
        assert np.array_equal(native.unpack(data, (4, 128))[0], trits)
    del data, kinds


def test_sizes_are_refused_before_anything_is_allocated() -> None:
    for shape in ((1 << 40, 1 << 40), (1 << 31, 128), (0, 4), (-4, 128)):
        for call in (native.unpack, native.dequantize, native.histogram, native.scan, native.transcode):
            with pytest.raises(ValueError, match=r"."):
                call(bytes(160), shape)


def test_kernel_set_is_forced_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETS:
        monkeypatch.setenv(isa.VARIABLE, name)
        assert isa.chosen().name == name
    monkeypatch.setenv(isa.VARIABLE, "mmx")
    with pytest.raises(ValueError, match="I2S_ISA is 'mmx'; there are portable"):
        isa.chosen()
    monkeypatch.delenv(isa.VARIABLE)
    assert isa.chosen().name == SETS[-1]


def test_zero_threads_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        native.histogram(bytes(160), (4, 128), threads=0)


@pytest.mark.parametrize("bits", [0x7FC00000, 0xFFC00000, 0x7FC12345, 0xFF800000, 0x80000000, 0x00000001])
def test_odd_scales_multiply_as_floats_do(kernel_set: str, bits: int) -> None:
    """NaN keeps its sign and payload, zero takes the sign of the product."""
    shape = (4, 128)
    packed = bytearray(reference.pack(np.tile(np.array([-1, 0, 1, 0], dtype=np.int8), (4, 32)), 1.0))
    packed[128:132] = bits.to_bytes(4, "little")
    for layout in LAYOUTS:
        data = reference.transcode(packed, shape, target=layout)
        assert native.dequantize(data, shape, layout).tobytes() == reference.dequantize(data, shape, layout).tobytes()


# --- boundaries between threads, windows and kernel sets; the end of one long run ---


IN_FILES = [name for name, layout in LAYOUTS.items() if layout.in_gguf]


def trits(rows: int, cols: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-1, 2, (rows, cols)).astype(np.int8)


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("shape", share([((4, 128),), ((12, 896),), ((4, 8320),), ((20, 128),)], every=2))
def test_threads_share_the_work_completely(
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
def test_a_fault_in_one_thread_stops_the_call(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
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
@pytest.mark.parametrize("at", share([0, (1 << 20) - 1, 1 << 20, (1 << 20) + 4711], every=2))
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


def test_a_table_takes_the_next_set_below_the_one_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor with AVX-512, but neither AVX-VNNI nor what one of the tables wants."""
    every = (("portable", True), ("avx2", True), ("avxvnni", False), ("avx512vl", True), ("avx512", True))
    monkeypatch.setattr(isa, "names", lambda: every)
    codec = (KernelSet(0, "portable", True), KernelSet(1, "avx2", True), KernelSet(2, "avx512", False))
    products = (*codec[:2], KernelSet(2, "avx512vl", True), KernelSet(3, "avx512", True))
    for name, of_codec, of_products in [
        ("portable", "portable", "portable"), ("avx2", "avx2", "avx2"), ("avx512vl", "avx2", "avx512vl"),
        ("avx512", "avx2", "avx512"), ("", "avx2", "avx512"),
    ]:  # fmt: skip
        monkeypatch.setenv(isa.VARIABLE, name)
        assert (chosen(codec).name, chosen(products).name) == (of_codec, of_products)
        isa.check()
    for name, message in [("avxvnni", "I2S_ISA is avxvnni, which this processor cannot run"),
                          ("mmx", "I2S_ISA is 'mmx'; there are portable, avx2, avxvnni, avx512vl, avx512")]:  # fmt: skip
        monkeypatch.setenv(isa.VARIABLE, name)
        for call in (isa.check, lambda: chosen(codec), lambda: chosen(products)):
            with pytest.raises(SettingError, match=f"^{message}$"):
                call()


def test_kernels_are_numbered_from_the_portable_ones() -> None:
    first, *others = isa.kernel_sets()
    assert first == KernelSet(0, "portable", True)
    assert [each.row for each in others] == list(range(1, len(others) + 1))


@pytest.mark.parametrize("value", [-257, -256, -255, -2, 2, 255, 257, 1 << 20, -(1 << 20)])
@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
def test_values_that_truncation_to_int8_would_make_trits_are_refused(value: int, dtype: type[np.signedinteger]) -> None:
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
                results.append(getattr(codec, name)(data, shape, dialect, unused_code=policy))
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
    """Also in the remainder after the last 32 whole bytes of payload, whatever the length of a run."""
    weights = trits(*shape)
    data = reference.pack(weights, 0.5, layout, strict=False)
    out = bytearray(b"\xa5" * len(data))
    for code_map in CODE_MAPS:
        target = f"{layout}/{code_map}"
        native.transcode(data, shape, layout, target, strict=False, out=out)
        assert out == reference.pack(weights, 0.5, target, strict=False)
