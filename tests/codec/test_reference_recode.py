from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec.observation import write_tail
from i2s_spec.codec.reference import pack_codes, transcode, unpack_codes
from i2s_spec.codec.shape import UndefinedElementsWarning
from i2s_spec.schema.dialect import CODE_MAPS, LAYOUTS, TAILS, Dialect

DIALECTS = [Dialect(*parts) for parts in itertools.product(LAYOUTS.values(), CODE_MAPS.values(), TAILS.values())]
SHAPES = [(4, 128), (8, 384), (12, 256), (512,), (20, 128)]


def tensor(seed: int, shape: tuple[int, ...], dialect: Dialect) -> tuple[bytes, np.ndarray[Any, np.dtype[np.uint8]]]:
    """The bytes of random codes, the one that stands for nothing among them, with a signalling NaN for a scale."""
    rows, cols = shape if len(shape) == 2 else (1, shape[0])
    codes = np.random.default_rng(seed).integers(0, 4, (rows, cols), dtype=np.uint8)
    word = bytes.fromhex("0100a0ff")
    return pack_codes(codes, dialect.layout) + (word * dialect.tail.copies).ljust(32, b"\0"), codes


@examples(60)
@given(
    path=st.lists(st.sampled_from(DIALECTS), min_size=1, max_size=4),
    shape=st.sampled_from(SHAPES[:3]),
    seed=st.integers(0, 2**32),
)
def test_any_cycle_of_dialects_restores_the_bytes(
    codec: Any, path: list[Dialect], shape: tuple[int, int], seed: int
) -> None:
    """Codes that stand for nothing and every bit of the scale included."""
    start = path[0]
    data, codes = tensor(seed, shape, start)
    current = data
    for source, target in zip(path, [*path[1:], start], strict=True):
        current = codec.transcode(current, shape, source, target)
        where = current[: codes.size // 4], shape, target.layout
        trit_of = {code: start.code_map.trits[code] for code in range(4)}
        expected = [
            target.code_map.unused if trit is None else target.code_map.code_of(trit) for trit in trit_of.values()
        ]
        assert (unpack_codes(*where) == np.array(expected, np.uint8)[codes]).all()
        word = bytes.fromhex("0100a0ff")
        assert current[-32:] == (word * target.tail.copies).ljust(32, b"\0")
    assert current == data


@examples(40)
@given(source=st.sampled_from(DIALECTS), target=st.sampled_from(DIALECTS), shape=st.sampled_from(SHAPES[:3]),
       seed=st.integers(0, 2**32), scale=st.floats(width=32, allow_nan=False),
       order=st.sampled_from(["little", "big"]))  # fmt: skip
def test_transcoding_is_unpacking_and_packing(
    codec: Any, source: Dialect, target: Dialect, shape: tuple[int, int], seed: int, scale: float, order: Any
) -> None:
    trits = np.random.default_rng(seed).integers(-1, 2, shape)
    data = codec.pack(trits, scale, source, byte_order=order)
    assert codec.transcode(data, shape, source, target, byte_order=order) == codec.pack(
        trits, scale, target, byte_order=order
    )


@pytest.mark.requirement("R6.1-4")
def test_meaningless_bytes_of_a_tail_become_zero(codec: Any) -> None:
    data = codec.pack(np.ones((4, 128), np.int8), 0.75)
    stale = data[:132] + b"\xaa" * 28
    assert codec.transcode(stale, (4, 128)) == data
    assert codec.transcode(stale, (4, 128), target="interleave-128/offset-1/replicated-8")[-32:] == data[128:132] * 8


def test_copies_of_the_scale_that_differ_are_refused(codec: Any) -> None:
    data = bytearray(codec.pack([0] * 128, 1.5, "interleave-128/offset-1/replicated-8"))
    data[-1] ^= 1
    with pytest.raises(ValueError, match="copy 7 is 0000c03e and copy 0 0000c03f"):
        codec.transcode(data, (128,), "interleave-128/offset-1/replicated-8")


def test_elements_that_the_source_does_not_hold_are_0_in_the_target(codec: Any) -> None:
    """From interleave-128 to a layout that holds all 132; the other way round the last 4 are lost."""
    trits = np.resize([1, -1, 0, 1, 1], (4, 33)).astype(np.int8)
    whole = codec.pack(trits, 2.0, "rows-1x4")
    with pytest.warns(UndefinedElementsWarning, match="elements 128 to 131 .* they are lost"):
        cut = codec.transcode(whole, trits.shape, "rows-1x4", strict=False)
    assert cut[32:33] == b"\0"
    with pytest.warns(UndefinedElementsWarning, match="elements 128 to 131 .* they are read as 0"):
        back = codec.transcode(cut, trits.shape, target="rows-1x4/zero-first", strict=False)
    with pytest.warns(UndefinedElementsWarning):
        same = codec.transcode(cut, trits.shape, target="rows-1x4", strict=False)
    trits.reshape(-1)[128:] = 0
    assert same == codec.pack(trits, 2.0, "rows-1x4")
    assert back == codec.pack(trits, 2.0, "rows-1x4/zero-first")
    with pytest.raises(ValueError, match="element"):
        codec.transcode(whole, trits.shape, "rows-1x4")
    with pytest.raises(ValueError, match="element"):
        codec.transcode(cut, trits.shape, target="rows-1x4")


def test_rows_inside_blocks_may_be_read_and_not_be_written(codec: Any) -> None:
    trits = np.resize([1, -1, 0], (4, 64)).astype(np.int8)
    data = codec.pack(trits, 1.0, strict=False)
    assert codec.transcode(data, trits.shape, target="interleave-64") == codec.pack(trits, 1.0, "interleave-64")
    with pytest.raises(ValueError, match="row 1 begins inside one"):
        codec.transcode(data, trits.shape)
    assert codec.transcode(data, trits.shape, strict=False) == data


@pytest.mark.requirement("R5.5-3")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_histogram_does_not_depend_on_the_layout(codec: Any, shape: tuple[int, ...]) -> None:
    codes = np.random.default_rng(1).choice(4, shape, p=[0.2, 0.5, 0.2, 0.1]).astype(np.uint8)
    matrix = codes.reshape(codes.shape if codes.ndim == 2 else (1, -1))
    expected = tuple(np.bincount(codes.reshape(-1), minlength=4).tolist())
    for layout in LAYOUTS.values():
        if len(matrix) % layout.row_block == 0:
            data = pack_codes(matrix, layout) + bytes(32)
            assert codec.histogram(data, shape) == expected
            found = codec.scan(data, shape, layout.name)
            assert (found.count, found.first) == (expected[3], int(np.argmax(codes.reshape(-1) == 3)))


def test_a_histogram_counts_every_byte_of_payload(codec: Any) -> None:
    """Including elements after the last whole block, and on request those that do not fill a byte."""
    data = codec.pack(np.zeros(128, np.int8), 1.0)[:32] + bytes(1) + bytes(32)
    assert codec.histogram(data, (4, 33)) == (4, 128, 0, 0)
    with pytest.raises(ValueError, match="135 elements leave 3 over"):
        codec.histogram(data, (5, 27))
    assert codec.histogram(data, (5, 27), strict=False) == (4, 128, 0, 0)
    with pytest.raises(ValueError, match="take 33 bytes of payload and 32 of tail; there are 64"):
        codec.histogram(data[:-1], (4, 33))


@pytest.mark.parametrize("code_map", CODE_MAPS.values(), ids=str)
def test_scan_looks_for_the_code_of_the_map(codec: Any, code_map: Any) -> None:
    codes = np.full((4, 128), code_map.code_of(0), np.uint8)
    dialect = f"interleave-128/{code_map}"
    tail = write_tail(1.0, TAILS["first-float"])
    found = codec.scan(pack_codes(codes, LAYOUTS["interleave-128"]) + tail, codes.shape, dialect)
    assert (found.count, found.first) == (0, None)
    codes[2, 5] = codes[3, 1] = code_map.unused
    found = codec.scan(pack_codes(codes, LAYOUTS["interleave-128"]) + tail, codes.shape, dialect)
    assert (found.count, found.first) == (2, 2 * 128 + 5)


def test_memory_is_bounded_by_the_tensor() -> None:
    data = bytes(1 << 21) + bytes(32)
    tracemalloc.start()
    try:
        transcode(data, (512, 16384), target="sequential-lsb/zero-first")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * (1 << 23) + 24e6
