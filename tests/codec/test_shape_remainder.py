from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import reference
from i2s_spec.codec.native import READERS, read_as
from i2s_spec.codec.quantize import quantize
from i2s_spec.codec.reference import pack_codes, unpack_codes
from i2s_spec.codec.shape import (
    Elements,
    PayloadShape,
    UndefinedElementsWarning,
    check_readable,
    check_writable,
    dropped_elements,
    payload_shape,
    split_row,
    whole_blocks,
)
from i2s_spec.errors import counted
from i2s_spec.schema.dialect import LAYOUTS

IN_GGUF = [layout for layout in LAYOUTS.values() if layout.in_gguf]


@pytest.mark.parametrize(
    ("layout", "shape", "gone"),
    [
        ("interleave-128", (4, 128), None),
        ("interleave-128", (4, 32), None),
        ("interleave-128", (4, 33), (128, 132)),
        ("interleave-128", (1, 127), (0, 127)),
        ("interleave-64", (3, 64), None),
        ("interleave-64", (5, 20), (64, 100)),
        ("rows-1x4", (5, 20), (80, 100)),
        ("rows-1x4", (3, 5), (0, 15)),
        ("rows-1x4", (8, 3), None),
        ("sequential-msb", (3, 5), (12, 15)),
        ("sequential-lsb", (1, 3), (0, 3)),
        ("sequential-lsb", (2, 2), None),
    ],
)
def test_dropped_elements_are_known(layout: str, shape: tuple[int, int], gone: tuple[int, int] | None) -> None:
    expected = Elements(*gone, shape[1]) if gone else None
    assert dropped_elements(LAYOUTS[layout], *shape) == expected
    rows, cols = whole_blocks(LAYOUTS[layout], *shape)
    assert rows * cols == (gone[0] if gone else shape[0] * shape[1])
    LAYOUTS[layout].check(rows, cols)


@pytest.mark.parametrize(
    ("elements", "said"),
    [
        ((5, 6, 4), "element 5 (row 1, column 1)"),
        ((5, 7, 4), "elements 5 to 6 (row 1, columns 1 to 2)"),
        ((4, 12, 4), "elements 4 to 11 (rows 1 to 2)"),
        ((4, 8, 4), "elements 4 to 7 (row 1, columns 0 to 3)"),
        ((5, 12, 4), "elements 5 to 11 (row 1, column 1, to row 2, column 3)"),
        ((12800, 12900, 1290), "elements 12,800 to 12,899 (row 9, columns 1,190 to 1,289)"),
    ],
)
def test_elements_are_described_in_words(elements: tuple[int, int, int], said: str) -> None:
    assert str(Elements(*elements)) == said


@examples(60)
@given(layout=st.sampled_from(IN_GGUF), rows=st.integers(1, 9), cols=st.integers(1, 150), seed=st.integers(0, 2**32))
def test_elements_outside_of_whole_blocks(codec: Any, layout: Any, rows: int, cols: int, seed: int) -> None:
    """Refused by default, with the range; otherwise everything before it comes back, and the rest is 0 with a warning."""
    trits = np.random.default_rng(seed).integers(-1, 2, (rows, cols))
    gone = dropped_elements(layout, rows, cols)
    if gone is None:
        data = codec.pack(trits, 0.5, layout.name, strict=False)
        assert (codec.unpack(data, trits.shape, layout.name)[0] == trits).all()
        if split_row(layout, rows, cols) is not None:
            width = counted(cols, "element")
            with pytest.raises(ValueError, match=f"rows of {width} are not whole blocks of {layout.block}: row 1"):
                codec.pack(trits, 0.5, layout.name)
        else:
            assert codec.pack(trits, 0.5, layout.name) == data
        return

    for call in (codec.pack, quantize):
        with pytest.raises(ValueError, match="strict=False writes what released quantizers do") as refused:
            call(trits, *(["given", 0.5] if call is quantize else [0.5]), layout.name)
        assert str(gone) in str(refused.value)
    with pytest.warns(UndefinedElementsWarning, match="they are lost") as caught:
        data = codec.pack(trits, 0.5, layout.name, strict=False)
    assert [str(gone) in str(warning.message) for warning in caught] == [True]
    assert len(data) == trits.size // 4 + 32
    assert not any(data[gone.start // 4 : trits.size // 4])

    for read in (codec.unpack, codec.dequantize, codec.scan):
        with pytest.raises(ValueError, match="strict=False reads the others") as refused:
            read(data, trits.shape, layout.name)
        assert str(gone) in str(refused.value)
        with pytest.warns(UndefinedElementsWarning, match="they are read as 0") as caught:
            read(data, trits.shape, layout.name, strict=False)
        assert [str(gone) in str(warning.message) for warning in caught] == [True]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedElementsWarning)
        got, scale = codec.unpack(data, trits.shape, layout.name, strict=False)
        weights = codec.dequantize(data, trits.shape, layout.name, strict=False)
    assert scale == 0.5
    assert (got.reshape(-1)[: gone.start] == trits.reshape(-1)[: gone.start]).all()
    assert not got.reshape(-1)[gone.start :].any()
    assert (weights == got * np.float32(0.5)).all()


def test_code_3_in_undefined_elements_is_ignored(codec: Any) -> None:
    data = codec.pack(np.zeros(128, np.int8), 1.0)
    data = data[:32] + b"\xff" + data[32:]
    with pytest.warns(UndefinedElementsWarning):
        assert not codec.unpack(data, (4, 33), strict=False)[0].any()
    with pytest.warns(UndefinedElementsWarning):
        assert codec.scan(data, (4, 33), strict=False).count == 0


def test_warnings_name_the_line_of_the_caller() -> None:
    trits = np.zeros((4, 33), np.int8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = reference.pack(trits, 1.0, strict=False)
        reference.unpack(data, trits.shape, strict=False)
        reference.dequantize(data, trits.shape, strict=False)
        reference.transcode(data, trits.shape, strict=False)  # two warnings: one for the input, one for the output
        reference.scan(data, trits.shape, strict=False)
        quantize(trits, "given", 1.0, strict=False)
    assert [warning.filename for warning in caught] == [__file__] * 7


def test_checkpoints_have_no_remainder_to_leave_out(codec: Any) -> None:
    for strict in (True, False):
        with pytest.raises(ValueError, match=r"^row-blocks-4 packs rows in groups of 4; 5 rows are not whole groups$"):
            codec.pack(np.zeros((5, 4), np.int8), 1.0, "row-blocks-4", strict=strict)
        with pytest.raises(ValueError, match=r"^row-blocks-4 packs rows in groups of 4; 3 rows are not whole groups$"):
            codec.unpack(bytes(35), (3, 4), "row-blocks-4", strict=strict)


def test_whole_tensors_are_read_where_rows_begin_inside_blocks() -> None:
    layout = LAYOUTS["interleave-128"]
    check_readable(layout, payload_shape((4, 8640)))
    with pytest.raises(ValueError, match="rows of 8,640 elements are not whole blocks of 128"):
        check_writable(layout, payload_shape((4, 8640)))
    check_writable(layout, payload_shape((4, 8640)), strict=False)
    check_writable(layout, payload_shape((1, 8704)))
    check_writable(layout, PayloadShape(1, 128))
    assert split_row(layout, 4, 8640) == 1
    assert split_row(layout, 1, 8640) is None
    assert split_row(LAYOUTS["rows-1x4"], 4, 33) is None


def test_rows_of_67_and_a_half_blocks() -> None:
    """bitnet_b1_58-3B: a program that begins at rows reads the even ones right, and most of the others wrong."""
    random = np.random.default_rng(5)
    codes = random.choice(3, (4, 8640), p=[0.25, 0.5, 0.25]).astype(np.uint8)
    data = pack_codes(codes, LAYOUTS["interleave-128"]) + bytes(32)
    for reader in ("get-rows", "mul-mat"):
        got, taken = read_as(reader, data, codes.shape)
        end = 8640 if reader == "get-rows" else 8576
        assert taken[:, :end].all()
        assert not taken[:, end:].any()
        wrong = (got[:, :8576] != codes[:, :8576]).mean(axis=1)
        assert wrong[[0, 2]].tolist() == [0, 0]
        assert (abs(wrong[[1, 3]] - 0.63) < 0.06).all()
    for reader in ("dequantize", "ik"):
        assert (read_as(reader, data, codes.shape)[0] == codes).all()


def test_the_released_dequantizer_reads_on_into_the_scale() -> None:
    """132 weights of +0.5, as the released quantizer wrote them: the last four come back as -0.5."""
    with pytest.warns(UndefinedElementsWarning):
        data = quantize(np.full((1, 132), 0.5), strict=False)
    codes, taken = read_as("dequantize", data, (1, 132))
    assert taken.all()
    assert codes[0].tolist() == [2] * 128 + [0] * 4
    with pytest.raises(ValueError, match=r"ik_llama\.cpp's conversion refuses 132 elements"):
        read_as("ik", data, (132,))
    codes, taken = read_as("mul-mat", data, (132,))
    assert taken[0].tolist() == [True] * 128 + [False] * 4


@pytest.mark.parametrize("shape", [(1, 33), (2, 16), (127,), (40, 31), (3, 1), (1, 1), (5, 200)])
def test_reading_on_ends_inside_the_tail(shape: tuple[int, ...]) -> None:
    """A reader that continues after the payload needs no more than the 32 bytes of the tail, whatever the shape."""
    n = int(np.prod(shape))
    for reader in ("get-rows", "dequantize"):
        codes, taken = read_as(reader, b"\xff" * (n // 4 + 32), shape)
        assert taken.all()
        assert (codes == 3).all()


def test_rows_begin_at_rounded_bytes() -> None:
    """Row 3 of 31 columns is looked for at byte 93 // 4 = 23, not at 3 * (31 // 4)."""
    data = np.zeros(4 * 31 // 4 + 32, np.uint8)
    data[23] = 0xC0
    codes, _ = read_as("get-rows", data, (4, 31))
    assert [int(row[0]) for row in codes] == [0, 0, 0, 3]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("rows", [1, 4])
def test_every_reader_is_right_about_whole_blocks_of_its_layout(reader: str, rows: int) -> None:
    payload = np.random.default_rng(2).bytes(rows * 256 // 4)
    codes, taken = read_as(reader, payload + bytes(32), (rows, 256))
    assert taken.all()
    assert (codes == unpack_codes(payload, (rows, 256), READERS[reader].layout)).all()


def test_unknown_readers_are_refused() -> None:
    with pytest.raises(
        ValueError, match="no reader is called 'me'; there are dequantize, get-rows, mul-mat, mul-mat-arm"
    ):
        read_as("me", bytes(64), (128,))
    with pytest.raises(ValueError, match="there are 63 bytes"):
        read_as("ik", bytes(63), (128,))
