"""Trits and scale of every type that can hold them, read in windows."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import encoding as module
from i2s_spec.codec.change_groups import NotTernaryError, pack_blocks
from i2s_spec.codec.encoding import TERNARY_TYPES, TernaryEncoding, Trits
from i2s_spec.codec.kernels import in_order
from i2s_spec.codec.reference import UnusedCodeError, pack
from i2s_spec.schema.dialect import LAYOUTS, parse

DIALECTS = [name for name, layout in LAYOUTS.items() if layout.in_gguf]


def reader(encoding: TernaryEncoding, data: bytes, **options: Any) -> Trits:
    return encoding.trits(lambda at, size: data[at : at + size], 0, **options)


def floats(values: Any, type: str, order: str = "<") -> bytes:
    array = np.asarray(values, dtype=np.float32)
    if type == "BF16":
        return (array.view(np.uint32) >> np.uint32(16)).astype(f"{order}u2").tobytes()
    return array.astype(order + {"F32": "f4", "F16": "f2"}[type]).tobytes()


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WINDOW", 1000)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("dialect", [*DIALECTS, "interleave-64/twos-complement/replicated-8"])
@pytest.mark.parametrize("threads", [1, 3])
def test_windows_of_every_layout_are_the_tensor(dialect: str, threads: int) -> None:
    trits = np.random.default_rng(1).integers(-1, 2, (12, 640), dtype=np.int8)
    data = pack(trits, 0.25, dialect, byte_order="big")
    found, scale = reader(TernaryEncoding("I2_S", trits.shape, parse(dialect), "big"), data).whole(threads)
    assert np.array_equal(found, trits)
    assert scale == np.float32(0.25)


@pytest.mark.usefixtures("small_windows")
@examples(30)
@given(st.data())
def test_floats_that_are_ternary(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(["F32", "F16", "BF16"]))
    order = data.draw(st.sampled_from(["little", "big"]))
    count = data.draw(st.integers(1, 2500))
    scale = data.draw(st.sampled_from([0.5, 1.25, 2.0**-24 if type_ == "F16" else 2.0**-130]))
    trits = np.random.default_rng(count).integers(-1, 2, (1, count), dtype=np.int8)
    raw = floats(trits * np.float32(scale), type_, "<" if order == "little" else ">")
    found, stored = reader(TernaryEncoding(type_, trits.shape, byte_order=order), raw).whole()
    assert np.array_equal(found, trits)
    assert stored == (np.float32(scale) if trits.any() else 0)


def test_minus_zero_is_zero() -> None:
    found, scale = reader(TernaryEncoding("F32", (1, 4)), floats([-0.0, 0.0, -2.0, 2.0], "F32")).whole()
    assert found.tolist() == [[0, 0, -1, 1]]
    assert scale == 2


@pytest.mark.usefixtures("small_windows")
def test_other_weights_are_counted_and_refused() -> None:
    values = np.zeros(3000, dtype=np.float32)
    values[[5, 1500, 2999]] = 1, -2, 3
    with pytest.raises(NotTernaryError, match=r"there are 3 magnitudes other than 0, from 1 to 3"):
        reader(TernaryEncoding("F32", (1, 3000)), floats(values, "F32")).whole()
    values = np.random.default_rng(0).standard_normal(3000)
    with pytest.raises(NotTernaryError, match=r"more than 1,000 magnitudes"):
        reader(TernaryEncoding("F32", (1, 3000)), floats(values, "F32")).whole()
    for odd in (np.inf, np.nan):
        with pytest.raises(NotTernaryError, match="infinities or NaN"):
            reader(TernaryEncoding("F16", (1, 2)), floats([odd, 1], "F16")).whole()


@pytest.mark.usefixtures("small_windows")
def test_a_second_scale_ends_the_search_for_one() -> None:
    asked: list[int] = []
    data = floats([1.0] * 1500 + [2.0] * 3500, "F32")

    def fetch(start: int, stop: int) -> bytes:
        asked.append(start)
        return data[start:stop]

    assert not Trits(TernaryEncoding("F32", (1, 5000)), fetch).has_one_scale()
    assert len(asked) == 2
    assert reader(TernaryEncoding("F32", (1, 1500)), data[:6000]).has_one_scale()
    assert reader(TernaryEncoding("F32", (1, 4)), bytes(16)).has_one_scale()


def test_weights_that_change_while_they_are_read_are_noticed() -> None:
    answers = iter([floats([1, 0], "F32"), floats([2, 0], "F32")])
    with pytest.raises(NotTernaryError, match="the scale was 1 at first, and now there is 2"):
        Trits(TernaryEncoding("F32", (1, 2)), lambda start, stop: next(answers)).whole()


def test_blocks_share_one_scale_or_are_refused() -> None:
    trits = np.ones((1, 256), dtype=np.int8)
    empty = np.zeros((1, 256), dtype=np.int8)
    one, other = (pack_blocks(trits, scale, "TQ2_0") for scale in (0.5, 0.25))
    nothing = pack_blocks(empty, 0.25, "TQ2_0")  # a block of zeros: its scale is 0 and does not count
    assert reader(TernaryEncoding("TQ2_0", (2, 256)), one + nothing).scale == np.float32(0.5)
    with pytest.raises(NotTernaryError, match=r"there are 2 block scales, from 0.25 to 0.5"):
        _ = reader(TernaryEncoding("TQ2_0", (2, 256)), one + other).scale
    infinite = one[:-2] + np.float16(np.inf).tobytes()
    with pytest.raises(NotTernaryError, match="infinities or NaN"):
        _ = reader(TernaryEncoding("TQ2_0", (1, 256)), infinite).scale


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("threads", [1, 2])
def test_unused_codes_are_counted_over_all_windows(threads: int) -> None:
    data = bytearray(pack(np.zeros((20, 128), dtype=np.int8), 1.0))
    for row in (9, 10, 19):  # element 128 * row + 1
        data[32 * row + 1] |= 3 << 6
    encoding = TernaryEncoding("I2_S", (20, 128))
    with pytest.raises(UnusedCodeError, match=r"3 times, first at element 1,153 \(row 9, column 1\)"):
        reader(encoding, bytes(data)).whole(threads)
    found, _ = reader(encoding, bytes(data), unused="zero").whole(threads)
    assert not found.any()


@pytest.mark.parametrize(
    ("type", "shape", "dialect", "reason"),
    [
        ("Q4_0", (1, 32), "canonical", "hold no trits"),
        ("I2_S", (2, 4, 128), "canonical", "2 slices"),
        ("I2_S", (1, 132), "canonical", "leave 4 over"),
        ("I2_S", (3, 128), "rows-1x4", "not whole groups"),
        ("I2_S", (4, 128), "row-blocks-4", "layout of checkpoints"),
        ("TQ1_0", (2, 128), "canonical", "not whole blocks"),
        ("F32", (0, 128), "canonical", "holds no elements"),
    ],
)
def test_unknown_forms_are_refused(type: str, shape: tuple[int, ...], dialect: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        TernaryEncoding(type, shape, parse(dialect))


def test_every_type_has_a_form() -> None:
    assert {TernaryEncoding(name, (1, 1, 4, 256)).elements for name in TERNARY_TYPES} == {1024}


def test_results_come_in_order_and_few_parts_are_under_way() -> None:
    taken, done = [], []

    def parts() -> Any:
        for part in range(40):
            taken.append(part)
            yield part

    def work(part: int) -> int:
        time.sleep(0.002 * (part % 3))
        return part

    for result in in_order(work, parts(), 3):
        done.append(result)
        assert len(taken) - len(done) <= 2 * 3
    assert done == list(range(40))


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_comes_where_it_belongs_and_threads_end(threads: int) -> None:
    before = set(threading.enumerate())

    def work(part: int) -> int:
        if part == 5:
            raise ValueError("part 5")
        return part

    results = in_order(work, range(100), threads)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="part 5"):
        next(results)
    assert set(threading.enumerate()) <= before
    with pytest.raises(ValueError, match="0 threads"):
        list(in_order(work, [], 0))
