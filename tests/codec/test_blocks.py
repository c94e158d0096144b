"""Types with a scale for each group: the definition follows the formulas, and the compiled twin equals it, bit for bit."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import gguf
import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import _blocks, blocks_native
from i2s_spec.codec import blocks as block_reference
from i2s_spec.codec.blocks import blocks_of, read_scales
from i2s_spec.codec.isa import VARIABLE
from i2s_spec.codec.reference import Scan, UnusedCodeError
from i2s_spec.schema.blocks import BLOCK_LAYOUTS, BlockLayout

NAMES = list(BLOCK_LAYOUTS)
BITS = [name for name, layout in BLOCK_LAYOUTS.items() if layout.coding == "bits"]
SETS = [each.name for each in blocks_native.kernel_sets() if each.available]

shapes = st.tuples(st.integers(1, 5), st.integers(1, 40))


@pytest.fixture(scope="module", params=["blocks", "blocks_native"])
def codec(request: pytest.FixtureRequest) -> Any:
    return import_module(f"i2s_spec.codec.{request.param}")


@pytest.fixture(params=SETS)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(VARIABLE, request.param)
    return str(request.param)


def noise(seed: int, name: str, rows: int, blocks: int) -> tuple[bytes, tuple[int, int]]:
    """Random bytes as a tensor of a type."""
    shape = rows, blocks * BLOCK_LAYOUTS[name].block
    return np.random.default_rng(seed).bytes(blocks_of(shape, name).nbytes), shape


def weights(seed: int, name: str, rows: int, blocks: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Values that the type has codes for, and a scale for each group in its own float type."""
    rng, layout = np.random.default_rng(seed), BLOCK_LAYOUTS[name]
    values = rng.integers(-1, 3 if layout.fourth == "weight" else 2, (rows, blocks * layout.block), dtype=np.int8)
    scales = rng.normal(size=layout.groups(rows, blocks * layout.block))
    return values, scales.astype("f2" if layout.scale.type == "F16" else "f4")


def by_hand(data: bytes, layout: BlockLayout, rows: int, cols: int) -> list[int]:
    """The codes, element by element, by the formulas as the module's text has them."""
    front, width = layout.type.row_bytes, cols // layout.block * layout.nbytes
    codes = []
    for k in range(rows * cols):
        row, column = divmod(k, cols)
        byte, place = layout.find(column % layout.block)
        held = data[row * (front + width) + front + column // layout.block * layout.nbytes + byte]
        codes.append(held >> place & 3 if layout.coding == "bits" else held * 3**place % 256 * 3 >> 8)
    return codes


def same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Bit for bit."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_the_formulas_say_where_each_code_is(name: str, codec: Any) -> None:
    data, shape = noise(1, name, 3, 2)
    codes = by_hand(data, BLOCK_LAYOUTS[name], *shape)
    values, _ = codec.unpack(data, shape, name, unused_code="plus-two")
    assert (values.reshape(-1) + 1).tolist() == codes
    assert codec.histogram(data, shape, name) == tuple(codes.count(code) for code in range(4))


@pytest.mark.parametrize("name", NAMES)
@examples(25)
@given(seed=st.integers(0, 1 << 32), shape=shapes, big=st.booleans(), threads=st.integers(1, 3))
def test_both_decode_any_bytes_alike(name: str, seed: int, shape: tuple[int, int], big: bool, threads: int) -> None:
    data, (rows, cols) = noise(seed, name, *shape)
    order: Any = "big" if big else "little"
    ours, scales = blocks_native.unpack(
        data, (rows, cols), name, byte_order=order, unused_code="plus-two", threads=threads
    )
    theirs, their_scales = block_reference.unpack(data, (rows, cols), name, byte_order=order, unused_code="plus-two")
    assert same(ours, theirs)
    assert same(scales, their_scales)
    assert same(scales, read_scales(data, (rows, cols), name, order))
    assert same(scales, blocks_native.read_scales(data, (rows, cols), name, order))
    assert same(
        blocks_native.dequantize(data, (rows, cols), name, byte_order=order, unused_code="plus-two", threads=threads),
        block_reference.dequantize(data, (rows, cols), name, byte_order=order, unused_code="plus-two"),
    )
    assert blocks_native.histogram(data, (rows, cols), name, threads=threads) == block_reference.histogram(
        data, (rows, cols), name
    )
    assert blocks_native.scan(data, (rows, cols), name) == block_reference.scan(data, (rows, cols), name)


@pytest.mark.parametrize("name", NAMES)
@examples(25)
@given(seed=st.integers(0, 1 << 32), shape=shapes, big=st.booleans(), threads=st.integers(1, 3))
def test_there_and_back(name: str, seed: int, shape: tuple[int, int], big: bool, threads: int) -> None:
    values, scales = weights(seed, name, *shape)
    order: Any = "big" if big else "little"
    data = blocks_native.pack(values, scales, name, byte_order=order, threads=threads)
    assert data == block_reference.pack(values, scales, name, byte_order=order)
    assert len(data) == BLOCK_LAYOUTS[name].type.nbytes(values.shape[::-1])
    back, kept = blocks_native.unpack(data, values.shape, name, byte_order=order)
    assert same(back, values)
    assert same(kept, scales.astype(np.float32))
    assert blocks_native.pack(back, kept, name, byte_order=order) == data


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_set_is_the_definition(name: str, kernels: str) -> None:
    """Over several tiles, with a remainder after the last one."""
    data, shape = noise(5, name, 2, 4 * (2048 // BLOCK_LAYOUTS[name].block) + 3)
    ours, _ = blocks_native.unpack(data, shape, name, unused_code="plus-two")
    theirs, _ = block_reference.unpack(data, shape, name, unused_code="plus-two")
    assert same(ours, theirs)
    floats = blocks_native.dequantize(data, shape, name, unused_code="plus-two")
    assert same(floats, block_reference.dequantize(data, shape, name, unused_code="plus-two"))
    assert blocks_native.histogram(data, shape, name) == block_reference.histogram(data, shape, name)
    values, scales = weights(6, name, *(shape[0], shape[1] // BLOCK_LAYOUTS[name].block))
    assert blocks_native.pack(values, scales, name) == block_reference.pack(values, scales, name)
    for wrong in (-2, 3, 127, -128):
        broken = values.copy()
        broken[1, -1] = wrong
        with pytest.raises(ValueError, match=f"{wrong} is at element {values.size - 1:,}"):
            blocks_native.pack(broken, scales, name)


@pytest.mark.parametrize("name", NAMES)
def test_results_past_the_cache_are_the_same(name: str, kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, shape = noise(7, name, 2, 70)
    values, scales = weights(8, name, 2, 70)

    def results() -> list[bytes]:
        return [
            blocks_native.unpack(data, shape, name, unused_code="plus-two")[0].tobytes(),
            blocks_native.dequantize(data, shape, name, unused_code="plus-two").tobytes(),
            blocks_native.pack(values, scales, name),
        ]

    near = results()
    monkeypatch.setattr(blocks_native, "STREAM_FROM", 0)
    assert results() == near
    # Unaligned results, for which streaming stores are impossible.
    out = np.empty(values.size + 1, dtype=np.int8)[1:].reshape(values.shape)
    assert blocks_native.unpack(data, shape, name, unused_code="plus-two", out=out)[0].tobytes() == near[0]


@pytest.mark.parametrize("name", NAMES)
def test_packing_writes_exactly_its_bytes_wherever_they_begin(
    name: str, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole cache lines are stored past the cache; bytes before the first and after the last line stay unchanged."""
    monkeypatch.setattr(blocks_native, "STREAM_FROM", 0)
    for rows, blocks in ((1, 1), (3, 5), (2, 67)):
        values, scales = weights(11, name, rows, blocks)
        wanted = block_reference.pack(values, scales, name)
        for skip in (0, 1, 16, 48, 63):
            room = np.full(len(wanted) + 192, 0xA5, dtype=np.uint8)
            start = -room.ctypes.data % 64 + skip
            blocks_native.pack(values, scales, name, out=memoryview(room)[start : start + len(wanted)])
            assert room[start : start + len(wanted)].tobytes() == wanted
            assert (room[:start] == 0xA5).all()
            assert (room[start + len(wanted) :] == 0xA5).all()


@pytest.mark.parametrize("name", NAMES)
def test_one_scale_stands_in_every_group(name: str, kernels: str) -> None:
    values, _ = weights(13, name, 3, 41)
    for order in ("little", "big"):
        each = np.full(BLOCK_LAYOUTS[name].groups(*values.shape), 0.3)
        assert blocks_native.pack(values, 0.3, name, byte_order=order) == block_reference.pack(
            values, each, name, byte_order=order
        )


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BITS])
def test_every_number_of_digits_is_packed(name: str, kernels: str) -> None:
    """All 243 numbers of five digits at every position, so that each lane makes every byte that stands for a number."""
    layout = BLOCK_LAYOUTS[name]
    number = (np.arange(243)[:, None] + np.arange(layout.nbytes)) % 243
    byte = (number * 256 + 242) // 243
    data = byte.astype(np.uint8).reshape(243, -1)
    front = layout.type.row_bytes
    data = np.concatenate([np.zeros((243, front), dtype=np.uint8), data], axis=1)
    values, _ = block_reference.unpack(data.reshape(-1), (243, layout.block), name)
    packed = blocks_native.pack(values, 1.0, name)
    assert packed == block_reference.pack(values, 1.0, name)
    same_bytes = (np.frombuffer(packed, np.uint8).reshape(243, -1) == data).all(axis=0)
    assert same_bytes.sum() >= {"TQ1_0": 48, "PTQ1_0": 24, "IQ1_BN": 12}[name]  # bytes that hold five base-3 digits


@pytest.mark.parametrize("name", NAMES)
def test_unusual_scales_are_handled_as_defined(name: str, kernels: str) -> None:
    rows = 8
    values, scales = weights(12, name, rows, 3)
    scales[:5] = [np.nan, np.inf, -np.inf, -0.0, np.finfo(scales.dtype).smallest_subnormal]
    data = blocks_native.pack(values, scales, name)
    assert data == block_reference.pack(values, scales, name)
    with np.errstate(all="ignore"):
        wanted = block_reference.dequantize(data, values.shape, name)
    assert same(blocks_native.dequantize(data, values.shape, name), wanted)


@pytest.mark.parametrize("name", BITS)
def test_code_3_is_handled_by_every_kernel_set(name: str, kernels: str) -> None:
    """Wherever it is: dequantizing and unpacking detect it in the same pass."""
    block = BLOCK_LAYOUTS[name].block
    shape = 3, 40 * block
    sound, scales = weights(13, name, 3, 40)
    sound[sound == 2] = 0
    for at in (0, 1, 5 * block + block // 2, 3 * 40 * block - 1):
        values = sound.copy().reshape(-1)
        values[at] = 2
        data = block_reference.pack(values.reshape(shape), scales, name)
        for answer in ("zero", "plus-two"):
            assert same(
                blocks_native.dequantize(data, shape, name, unused_code=answer),
                block_reference.dequantize(data, shape, name, unused_code=answer),
            )
        for work in (blocks_native.dequantize, blocks_native.unpack):
            with pytest.raises(UnusedCodeError) as caught:
                work(data, shape, name, unused_code="reject")
            assert (caught.value.count, caught.value.first) == (1, at)


@pytest.mark.parametrize("name", NAMES)
def test_threads_share_the_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_native, "THREAD_BLOCKS", 8)
    data, shape = noise(9, name, 67, 5)
    values, scales = weights(10, name, 67, 5)
    for threads in (2, 3, 5):
        assert same(
            blocks_native.dequantize(data, shape, name, unused_code="plus-two", threads=threads),
            block_reference.dequantize(data, shape, name, unused_code="plus-two"),
        )
        assert blocks_native.pack(values, scales, name, threads=threads) == block_reference.pack(values, scales, name)
        assert blocks_native.histogram(data, shape, name, threads=threads) == block_reference.histogram(
            data, shape, name
        )


def test_the_kernels_sizes_are_those_of_the_declarations() -> None:
    for name, kind in blocks_native.KINDS.items():
        layout = BLOCK_LAYOUTS[name]
        place = layout.scale.offset if layout.scale.per == "block" else -1
        assert _blocks.kinds()[kind] == (layout.block, layout.nbytes, place)


def test_every_float16_is_read_exactly() -> None:
    each = np.arange(65536, dtype="<u2")
    data = np.zeros((each.size, 34), dtype=np.uint8)
    data[:, :2] = each.view(np.uint8).reshape(-1, 2)
    scales = blocks_native.read_scales(data.reshape(-1), (each.size, 128), "PQ2_0")
    wanted = each.view("<f2").astype(np.float32)
    number = ~np.isnan(wanted)
    assert same(scales[number], wanted[number])
    assert np.isnan(scales[~number]).all()


# Code 3.


@pytest.mark.parametrize("name", BITS)
def test_code_3_is_a_weight_or_reserved(name: str, codec: Any) -> None:
    layout, shape = BLOCK_LAYOUTS[name], (2, BLOCK_LAYOUTS[name].block)
    values, scales = np.zeros(shape, dtype=np.int8), np.full(2, 0.5, dtype=np.float32)
    values[1, 5] = 2
    data = codec.pack(values, scales, name)
    assert codec.scan(data, shape, name) == Scan(1, layout.block + 5)
    assert codec.unpack(data, shape, name, unused_code="plus-two")[0][1, 5] == 2
    assert codec.unpack(data, shape, name, unused_code="zero")[0].max() == 0
    assert codec.dequantize(data, shape, name, unused_code="plus-two")[1, 5] == 1
    assert codec.dequantize(data, shape, name, unused_code="zero").max() == 0
    with pytest.raises(UnusedCodeError, match=rf"code 3 has no meaning in {name}; it occurs once, at element"):
        codec.unpack(data, shape, name, unused_code="reject")
    if layout.fourth == "weight":
        assert codec.dequantize(data, shape, name)[1, 5] == 1
    else:
        with pytest.raises(UnusedCodeError) as caught:
            codec.dequantize(data, shape, name)
        assert (caught.value.count, caught.value.first) == (1, layout.block + 5)


def test_unknown_policies_for_code_3_are_refused(codec: Any) -> None:
    with pytest.raises(ValueError, match="code 3 can become reject, zero, plus-two, not 'one'"):
        codec.unpack(bytes(18), (1, 64), "Q2_0", unused_code="one")


# Shapes that do not fit.


def test_wrong_shapes_and_sizes_are_refused(codec: Any) -> None:
    zeros = np.zeros((2, 128), dtype=np.int8)
    with pytest.raises(ValueError, match="rows of 130 elements are not whole blocks"):
        codec.pack(np.zeros((2, 130), dtype=np.int8), 1, "PQ2_0")
    with pytest.raises(ValueError, match=r"2 x 128 elements of PTQ1_0 take 56 bytes; there are 55 bytes"):
        codec.unpack(bytes(55), (2, 128), "PTQ1_0")
    with pytest.raises(ValueError, match="I2_S does not pack weights in blocks"):
        codec.pack(zeros, 1, "I2_S")
    with pytest.raises(ValueError, match=r"PTQ1_0 has codes for -1, 0, \+1; 2 is at element 3 \(row 0, column 3\)"):
        codec.pack(np.array([[0, 0, 0, 2] * 32]), 1, "PTQ1_0")
    with pytest.raises(TypeError, match="are integers"):
        codec.pack(zeros.astype(np.float32), 1, "PQ2_0")
    with pytest.raises(ValueError, match="2 groups have one scale, or one each, not an array of shape"):
        codec.pack(zeros, np.ones(3), "PQ2_0")
    with pytest.raises(ValueError, match="the scale 70000 has no float16: it would become inf"):
        codec.pack(zeros, [1, 7e4], "PQ2_0")
    with pytest.raises(ValueError, match=r"the scale 1e-09 has no float16: it would become 0\.0"):
        codec.pack(zeros, 1e-9, "PQ2_0")
    with pytest.raises(ValueError, match="holds no elements"):
        codec.unpack(b"", (0, 128), "PQ2_0")


def test_scales_of_the_types_own_float_are_kept_bit_for_bit() -> None:
    """Files hold infinities and NaN; taking a tensor apart and putting it together changes nothing."""
    scales = np.array([np.inf, np.nan, -0.0, 6e-8], dtype=np.float16)
    data = blocks_native.pack(np.zeros((4, 128), dtype=np.int8), scales, "PQ2_0")
    assert data == block_reference.pack(np.zeros((4, 128), dtype=np.int8), scales, "PQ2_0")
    assert np.frombuffer(data, dtype=np.uint8).reshape(4, 34)[:, :2].tobytes() == scales.tobytes()


def test_results_can_be_written_into_buffers_that_fit() -> None:
    values, scales = weights(3, "Q2_0", 2, 4)
    data = blocks_native.pack(values, scales, "Q2_0")
    out = bytearray(len(data))
    assert blocks_native.pack(values, scales, "Q2_0", out=out) is out
    assert bytes(out) == data
    with pytest.raises(ValueError, match=r"the result takes 144 bytes; out has 143"):
        blocks_native.pack(values, scales, "Q2_0", out=bytearray(143))
    with pytest.raises(ValueError, match="the result is float32"):
        blocks_native.dequantize(data, values.shape, "Q2_0", out=np.empty(4, dtype=np.float32))
    with pytest.raises(ValueError, match="0 threads do nothing"):
        blocks_native.unpack(data, values.shape, "Q2_0", threads=0)
    assert blocks_native.pack(values.astype(np.int64), scales, "Q2_0") == data


# The gguf package, for the types that it supports.


@pytest.mark.parametrize("name", [name for name in NAMES if hasattr(gguf.GGMLQuantizationType, name)])
def test_the_gguf_package_reads_the_same(name: str, codec: Any) -> None:
    kind = getattr(gguf.GGMLQuantizationType, name)
    data, shape = noise(4, name, 3, 4)
    raw = np.frombuffer(data, dtype=np.uint8).reshape(3, -1)
    try:
        with np.errstate(all="ignore"):
            theirs = gguf.quants.dequantize(raw, kind)
    except NotImplementedError:
        pytest.skip(f"gguf {gguf.__name__} does not dequantize {name}")
    assert np.array_equal(codec.dequantize(data, shape, name, unused_code="plus-two"), theirs, equal_nan=True)
