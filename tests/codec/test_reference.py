from __future__ import annotations

import array
import hashlib
import json
import mmap
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from i2s_spec.codec import reference, shape
from i2s_spec.codec import shape as shapes
from i2s_spec.codec.quantize import torch_mean
from i2s_spec.codec.reference import (
    UnusedCodeError,
    dequantize,
    pack,
    pack_codes,
    read_tail,
    unpack,
    unpack_codes,
    write_tail,
)
from i2s_spec.schema.dialect import CANONICAL, CODE_MAPS, LAYOUTS, TAILS, Dialect, parse

K = np.arange(512)
GOLDEN = ((K * K + 3 * K + K // 5) % 3 - 1).reshape(4, 128)


@pytest.mark.parametrize(
    ("dialect", "sign", "sha256", "first"),
    [
        (
            "interleave-128", 1, "042ea0e8130f0f4e21436db2b51cb1fd2e7e4508d180c06e107d90783b517ff7",
            "154a562958a4629088402101840512154a562958a4629088402101840512154a",
        ),
        (
            "interleave-64", 1, "4356c10cee2e8053e86c9bebe247e37cde52f5a223709cab4eec7368c38c637e",
            "14514619669a69a49042082080010514669a69a4904208208001051451461966",
        ),
        (
            "rows-1x4", 1, "55975494ebfa9bd3d991c4c79f9e07a2941b6810b924822e8cd8fb7209426f63",
            "25544006688448899550011aa1122225544006688448899550011aa112222554",
        ),
        ("sequential-msb", 1, "3d9d79df348a0b31996d78c13ecf3cc09db756cf7ad7a7405eddc4f8c6642f28", "14669080519a4201"),
        ("sequential-lsb", 1, "60fbaca7d7a307a4e33f1b7ff1d8cee0e52cbe0e74bb76254e72cf847689ae23", "1499060245a68140"),
        # The scale of these files is the last nonzero weight, with its sign; codes are relative to it.
        (
            "sequential-msb/twos-complement", -1, "9f4675f4e8373a5906424326dac1483602ab350de1de65d1f1dfbf7190539356",
            "4133c5d504cf1754",
        ),
    ],
)  # fmt: skip
def test_packed_bytes_are_the_recorded_ones(dialect: str, sign: int, sha256: str, first: str) -> None:
    data = pack(sign * GOLDEN, sign * 0.75, dialect)
    assert data[: len(first) // 2].hex() == first
    assert hashlib.sha256(data[:128]).hexdigest() == sha256
    assert data[128:] == struct.pack("<f", sign * 0.75) + bytes(28)
    trits, scale = unpack(data, GOLDEN.shape, dialect)
    assert (trits == sign * GOLDEN).all()
    assert trits.dtype == np.int8
    assert scale == sign * 0.75
    assert type(scale) is np.float32


dialects = st.builds(
    Dialect,
    st.sampled_from(list(LAYOUTS.values())),
    st.sampled_from(list(CODE_MAPS.values())),
    st.sampled_from(list(TAILS.values())),
)


@examples(60)
@given(
    dialect=dialects,
    rows=st.integers(1, 3),
    cols=st.integers(1, 3),
    seed=st.integers(0, 2**32),
    scale=st.floats(width=32),
    order=st.sampled_from(["little", "big"]),
    window=st.integers(1, 700),
)
def test_unpack_undoes_pack(
    codec: Any, dialect: Dialect, rows: int, cols: int, seed: int, scale: float, order: Any, window: int
) -> None:
    shape = (4 * rows, 64 * cols)
    if shape[0] * shape[1] % 128:
        shape = (shape[0], 2 * shape[1])
    trits = np.random.default_rng(seed).integers(-1, 2, shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "WINDOW", window)
        data = codec.pack(trits, scale, dialect, byte_order=order, strict=False)
        got, read = codec.unpack(data, shape, dialect, byte_order=order)
        weights = codec.dequantize(data, shape, dialect, byte_order=order)
    assert len(data) == trits.size // 4 + 32
    assert data == codec.pack(trits.tolist(), scale, dialect.name, byte_order=order, strict=False)
    assert (got == trits).all()
    word = struct.pack("<f" if order == "little" else ">f", scale)
    assert data[-32:] == (word * dialect.tail.copies).ljust(32, b"\0")
    assert read.tobytes() == struct.pack("=f", scale)
    with np.errstate(all="ignore"):
        assert weights.tobytes() == (trits.astype(np.float32) * read).tobytes()
    assert weights.shape == shape


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=str)
@examples(20)
@given(seed=st.integers(0, 2**32))
def test_any_payload_is_its_codes(layout: Any, seed: int) -> None:
    payload = np.random.default_rng(seed).bytes(4 * 96 // 4 * 2)
    codes = unpack_codes(payload, (4, 192), layout)
    assert codes.dtype == np.uint8
    assert codes.max() <= 3
    assert pack_codes(codes, layout) == payload


@pytest.mark.parametrize(
    ("folder", "dialect"),
    [("out_blk128", "interleave-128"), ("out_blk64", "interleave-64"), ("out_row4", "rows-1x4")],
)
@pytest.mark.parametrize(
    "case",
    ["tern_1x128", "tern_4x128", "tern_7x128", "tern_8x256", "tern_12x384", "tern_16x512", "c64_2x192", "zeros_4x128"],
)
def test_files_of_the_reference_quantizer_are_unpacked(shared: Path, folder: str, dialect: str, case: str) -> None:
    weights = np.load(shared / "vectors/quant/in" / f"{case}.npy")
    data = (shared / "vectors/quant" / folder / f"{case}.bin").read_bytes()
    layout = parse(dialect).layout
    if weights.shape[0] % layout.row_block:  # the quantizer drops the remaining rows; this package does not
        with pytest.raises(ValueError, match="whole groups"):
            unpack(data, weights.shape, dialect)
        return
    trits = np.sign(weights).astype(np.int8)
    got, scale = unpack(data, weights.shape, dialect)
    assert (got == trits).all()
    assert scale == np.abs(weights).max()
    ours = pack(trits, scale, dialect, strict=False)
    assert ours[:-28] == data[:-28]
    assert ours[-28:] == bytes(28)


@pytest.mark.parametrize("case", ["tern_4x128", "tern_16x512"])
def test_files_of_the_python_converters_are_unpacked(shared: Path, case: str) -> None:
    weights = np.load(shared / "vectors/quant/in" / f"{case}.npy")
    data = np.load(shared / "vectors/pyconv" / f"{case}.hf_i2s.npy")
    got, scale = unpack(data, weights.shape)
    assert (got == np.sign(weights)).all()
    assert pack(got, scale) == data.tobytes()


def test_packed_checkpoints_of_hugging_face(shared: Path) -> None:
    """`row-blocks-4` is what transformers' own packing wrote."""
    raw = (shared / "vectors/hf/b158_packed/model.safetensors").read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    checked = 0
    with np.load(shared / "vectors/hf/b158_packed_ternary.npz") as ternary:
        for name in ternary.files:
            start, stop = (8 + length + at for at in header[f"{name}.weight"]["data_offsets"])
            codes = unpack_codes(raw[start:stop], ternary[name].shape, LAYOUTS["row-blocks-4"])
            assert (codes.astype(np.int8) - 1 == ternary[name]).all()
            assert pack(ternary[name], 1.0, "row-blocks-4")[:-32] == raw[start:stop]
            checked += 1
    assert checked == 14


@pytest.mark.parametrize(
    ("trits", "said"),
    [
        ([[0, 1, 2, 0] * 32], r"^32 values are not -1, 0 or \+1; the first is 2 at element 2 \(row 0, column 2\)$"),
        (np.array([[0] * 128, [0] * 127 + [255]], np.uint8), r"^1 value .* 255 at element 255 \(row 1, column 127\)$"),
        (np.array([-128] * 128, np.int8), "^128 values .* -128 at element 0"),
        (np.array([2**63] * 128, np.uint64), "^128 values"),
        (np.zeros((1, 100), np.int8), "blocks of 128; 1 x 100 = 100 elements leave 100 over"),
        (np.zeros((2, 2, 128), np.int8), r"shape \(2, 2, 128\) is 2 slices, and programs disagree"),
        (np.zeros((4, 64), np.int8), "rows of 64 elements are not whole blocks of 128: row 1 begins inside one"),
        (np.int8(0), "1 or 2 dimensions, not 0"),
        (np.zeros((0, 128), np.int8), r"the shape \(0, 128\) holds no elements"),
    ],
)
def test_pack_refuses_wrong_values(trits: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        pack(trits, 1.0)


@pytest.mark.parametrize("trits", [np.zeros((1, 128)), np.zeros(128, bool), ["-1"] * 128])
def test_pack_refuses_other_types_than_integers(trits: Any) -> None:
    with pytest.raises(TypeError, match="trits are integers"):
        pack(trits, 1.0)


def test_the_first_wrong_value_is_found_across_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shapes, "WINDOW", 100)
    trits = np.zeros((2, 256), np.int8)
    trits[1, 5] = trits[1, 250] = 3
    with pytest.raises(ValueError, match=r"^2 values .* at element 261 \(row 1, column 5\)$"):
        pack(trits, 1.0)


@pytest.mark.parametrize("code_map", CODE_MAPS.values(), ids=str)
def test_the_unused_code_is_refused(code_map: Any) -> None:
    codes = np.full((2, 128), code_map.code_of(0), np.uint8)
    codes[1, 3] = codes[1, 77] = code_map.unused
    data = pack_codes(codes, LAYOUTS["interleave-128"]) + write_tail(1.0, TAILS["first-float"])
    said = rf"code {code_map.unused} has no meaning in {code_map}; it occurs 2 times, first at element 131 \(row 1, "
    for read in (unpack, dequantize):
        with pytest.raises(UnusedCodeError, match=said) as caught:
            read(data, (2, 128), f"interleave-128/{code_map}")
        error = pickle.loads(pickle.dumps(caught.value))
        assert (error.code, error.count, error.first) == (code_map.unused, 2, 131)


@pytest.mark.parametrize(
    ("size", "shape", "said"),
    [
        (63, (1, 128), "1 x 128 elements take 32 bytes of payload and 32 of tail; there are 63 bytes"),
        (65, (128,), "there are 65 bytes"),
        (0, (1, 128), "there are 0 bytes"),
        (64, (2**40, 2**20), "there are 64 bytes"),
        (64, (1, 130), "blocks of 128"),
        (64, (-1, -128), "holds no elements"),
        (64, (2, 1, 128), "2 slices, and programs disagree"),
        (64, (1, 2**63, 2**63), "there are 64 bytes"),
        (64, (0, 1, 128), "holds no elements"),
        (64, (-1, -1, 128), "holds no elements"),
        (64, (), "1 or 2 dimensions, not 0"),
    ],
)
def test_unpack_refuses_wrong_sizes_and_shapes(size: int, shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        unpack(bytes(size), shape)


def test_a_shape_is_made_of_integers() -> None:
    with pytest.raises(TypeError):
        unpack(bytes(64), (1, 128.0))  # type: ignore[arg-type]
    assert unpack(memoryview(pack([0] * 128, 1)), (np.int64(128),))[0].shape == (128,)
    assert unpack(pack([0] * 128, 1), (1, 1, 128))[0].shape == (1, 1, 128)


def test_copies_of_the_scale_that_differ() -> None:
    data = bytearray(pack([0] * 128, 1.5, "interleave-128/offset-1/replicated-8"))
    data[-5] ^= 1
    with pytest.raises(ValueError, match="copy 6 is 0000c03e and copy 0 0000c03f"):
        unpack(data, (128,), "interleave-128/offset-1/replicated-8")
    assert unpack(data, (128,))[1] == 1.5  # the canonical dialect ignores these bytes


@pytest.mark.parametrize("scale", [3.5e38, -1e300, (2 - 2**-24) * 2.0**127])
def test_a_scale_beyond_float32(scale: float) -> None:
    with pytest.raises(ValueError, match="beyond what a float32 holds"):
        pack([0] * 128, scale)


@pytest.mark.parametrize("scale", [0.0, -0.0, float("inf"), float("-inf"), 1e-45, 1e-60, 3.4028235e38])
def test_odd_scales_are_kept(scale: float) -> None:
    assert pack([0] * 128, scale)[-32:-28] == np.float32(scale).tobytes()


def test_a_nan_keeps_its_bits() -> None:
    word = bytes.fromhex("efbeadff")
    nan = read_tail(word.ljust(32, b"\1"), TAILS["first-float"])
    assert write_tail(nan, TAILS["first-float"]) == word.ljust(32, b"\0")


def test_a_tail_has_32_bytes() -> None:
    with pytest.raises(ValueError, match="a tail has 32 bytes; there are 4"):
        read_tail(bytes(4), TAILS["first-float"])
    with pytest.raises(ValueError, match="4 x 32 codes take 32 bytes; there are 31"):
        unpack_codes(bytes(31), (4, 32), LAYOUTS["interleave-128"])


@pytest.mark.parametrize("code_map", CODE_MAPS.values(), ids=str)
def test_policies_for_the_code_that_means_nothing(codec: Any, code_map: Any) -> None:
    """0 wherever asked for; +2 only where programs take the code minus 1 for the trit, for what else would it be."""
    codes = np.arange(512, dtype=np.uint8).reshape(4, 128) % 4
    dialect = f"interleave-128/{code_map}"
    data = pack_codes(codes, LAYOUTS["interleave-128"]) + write_tail(-0.5, TAILS["first-float"])
    zero = np.array([0 if trit is None else trit for trit in code_map.trits], np.int8)
    assert (codec.unpack(data, codes.shape, dialect, unused_code="zero")[0] == zero[codes]).all()
    if code_map.name == "offset-1":
        assert (codec.unpack(data, codes.shape, dialect, unused_code="plus-two")[0] == codes.astype(np.int8) - 1).all()
        weights = codec.dequantize(data, codes.shape, dialect, unused_code="plus-two")
        assert weights[0, :4].tolist() == [0.5, 0, -0.5, -1.0]
    else:
        with pytest.raises(ValueError, match=rf"code {code_map.unused} is \+2 to readers of offset-1 only, not of"):
            codec.unpack(data, codes.shape, dialect, unused_code="plus-two")
    with pytest.raises(ValueError, match="unused_code is one of reject, zero, plus-two, not 'one'"):
        codec.unpack(data, codes.shape, dialect, unused_code="one")


def test_a_policy_changes_nothing_where_the_code_does_not_occur(codec: Any) -> None:
    data = codec.pack(GOLDEN, 0.75)
    for policy in ("reject", "zero", "plus-two"):
        assert (codec.dequantize(data, GOLDEN.shape, unused_code=policy) == np.float32(0.75) * GOLDEN).all()


def test_dequantizing_is_one_multiplication(codec: Any) -> None:
    """0 times a negative scale is -0.0, and NaN and infinities do as IEEE 754 says."""
    trits = np.array([-1, 0, 1] * 128, np.int8)
    negative, nan, infinite, tiny = (
        codec.dequantize(codec.pack(trits, scale), (384,))[:3] for scale in (-0.1, float("nan"), float("inf"), 1e-45)
    )
    assert negative.tobytes() == np.array([0.1, -0.0, -0.1], np.float32).tobytes()
    assert np.isnan(nan).all()
    assert infinite[0] == -np.inf
    assert np.isnan(infinite[1])
    assert infinite[2] == np.inf
    assert tiny.tolist() == [-(2.0**-149), 0.0, 2.0**-149]


@pytest.mark.parametrize("offset", [0, 1, 2, 3, 5, 7])
def test_every_buffer_is_read_from_any_address(codec: Any, offset: int, tmp_path: Path) -> None:
    """Bytes, slices of buffers, arrays of any type, mapped files: wherever the scale comes to lie."""
    trits = np.resize(GOLDEN, (3, 256))
    data = codec.pack(trits, 0.75)
    padded = bytes(offset) + data + b"\xff"
    path = tmp_path / "tensor"
    path.write_bytes(padded)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(padded)[offset:-1]
        window = memoryview(mapped)[offset:-1]
        floats = np.frombuffer(data, np.float32).copy()
        sources: list[Any] = [data, bytearray(data), view, window, array.array("B", data), floats]
        sources += [np.frombuffer(padded, np.uint8)[offset:-1], floats.reshape(2, -1), array.array("H", data)]
        for source in sources:
            got, scale = codec.unpack(source, trits.shape)
            assert (got == trits).all()
            assert scale == 0.75
            assert (codec.dequantize(source, trits.shape) == trits * np.float32(0.75)).all()
            assert codec.transcode(source, trits.shape) == data
            assert sum(codec.histogram(source, trits.shape)) == trits.size
        del window, source, sources


def test_buffers_that_are_not_contiguous_are_refused(codec: Any) -> None:
    data = codec.pack(GOLDEN, 0.75)
    for read in (codec.unpack, codec.dequantize, codec.transcode, codec.histogram):
        with pytest.raises(ValueError, match="follow each other"):
            read(np.frombuffer(data * 2, np.uint8)[::2], GOLDEN.shape)
        with pytest.raises(TypeError):
            read("text", GOLDEN.shape)
        with pytest.raises(TypeError):
            read(list(data), GOLDEN.shape)


def test_slices_are_refused(codec: Any) -> None:
    trits = np.zeros((2, 4, 128), np.int8)
    for wishes in ({}, {"strict": False}):
        with pytest.raises(ValueError, match="is 2 slices, and programs disagree"):
            codec.pack(trits, 1.0, **wishes)
        for read in (codec.unpack, codec.dequantize, codec.transcode, codec.histogram, codec.scan):
            with pytest.raises(ValueError, match="is 2 slices, and programs disagree"):
                read(bytes(320), trits.shape, **wishes)


def test_a_tensor_has_one_scale(codec: Any) -> None:
    trits = np.zeros((4, 128), np.int8)
    assert codec.pack(trits, [0.5]) == codec.pack(trits, np.float32(0.5)) == codec.pack(trits, 0.5)
    with pytest.raises(ValueError, match=r"a tensor has one scale, not an array of shape \(3,\)"):
        codec.pack(trits, [1, 2, 3])


def test_memory_is_bounded_by_the_tensor() -> None:
    trits = np.zeros((512, 16384), np.int8)
    tracemalloc.start()
    try:
        data = pack(trits, 1.0)
        unpack(data, trits.shape)
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 3 * trits.nbytes + 24e6
        tracemalloc.reset_peak()
        dequantize(data, trits.shape)
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 6 * trits.nbytes + 24e6
    finally:
        tracemalloc.stop()


# --- single cases: tails that repeat the scale, the first of several windows, ordered sums ---


@pytest.mark.parametrize("order", ["little", "big"])
def test_eight_copies_of_the_scale(order: str) -> None:
    word = struct.pack("<f" if order == "little" else ">f", 0.75)
    tail = TAILS["replicated-8"]
    assert write_tail(0.75, tail, order) == word * 8  # type: ignore[arg-type]
    for number in range(1, 8):
        odd = bytearray(word * 8)
        odd[4 * number] ^= 1
        with pytest.raises(ValueError, match=f"copy {number} is"):
            read_tail(odd, tail)


def test_the_first_unused_code_is_that_of_the_first_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "WINDOW", 64)
    data = bytearray(reference.pack(np.zeros((4, 128), dtype=np.int8), 0.5))
    for at in (5, 200, 201, 300):
        byte, shift = CANONICAL.layout.byte_of(at, 4, 128), CANONICAL.layout.shift_of(at, 4, 128)
        data[byte] |= 3 << shift
    assert reference.scan(data, (4, 128)) == reference.Scan(4, 5)
    with pytest.raises(reference.UnusedCodeError, match=r"4 times, first at element 5 \(row 0, column 5\)"):
        reference.unpack(data, (4, 128))


def cascade(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Columns added up as PyTorch does (aten, SumKernel.cpp, `multi_row_sum`): four accumulators, each emptied into the
    next one whenever as many rows have been added as its level counts."""
    size, levels = len(rows), 4
    power = max(4, (size - 1).bit_length() // levels)
    step = 1 << power
    sums = np.zeros((levels, rows.shape[1]), np.float32)
    i = 0
    while i + step <= size:
        for _ in range(step):
            sums[0] += rows[i]
            i += 1
        for level in range(1, levels):
            sums[level] += sums[level - 1]
            sums[level - 1] = 0
            if i & ((step - 1) << level * power):
                break
    for row in rows[i:]:
        sums[0] += row
    for level in range(1, levels):
        sums[0] += sums[level]
    return sums[0]


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 255, 257, 300, 4095, 4096, 4500, 9000])
@pytest.mark.parametrize("over", [0, 8, 21])
def test_a_mean_is_a_cascade_of_sums(rows: int, over: int) -> None:
    values = np.abs(np.random.default_rng(rows).normal(size=32 * rows + over)).astype(np.float32) ** 3
    vectors = cascade(values[: 32 * rows].reshape(rows, 32)).reshape(4, 8).copy()
    even = len(values) // 8 * 8
    for vector in values[32 * rows : even].reshape(-1, 8):
        vectors[0] += vector
    total = np.float32(0)
    for value in (*values[even:], *(((vectors[0] + vectors[1]) + vectors[2]) + vectors[3])):
        total += value
    wanted = total / np.float32(len(values))
    assert torch_mean(lambda start, stop: values[start:stop], len(values)).tobytes() == wanted.tobytes()
