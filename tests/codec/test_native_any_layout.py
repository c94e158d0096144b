"""A layout is its two formulas: layouts that are no runs, and that nobody has, are packed and read by the definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from i2s_spec.codec import kernels, native, reference
from i2s_spec.codec import native as payload_native
from i2s_spec.codec import reference as payload
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS, Dialect, Formula, Layout

#: Made-up layouts: runs of another length; two groups exchanged; runs at the start of a matrix and none further on.
MADE_UP = {
    "pairs": Layout("pairs", Formula("k // 8 * 2 + k % 2"), Formula("6 - k % 8 // 2 * 2"), 8, "nobody"),
    "exchanged": Layout("exchanged", Formula("k // 4"), Formula("6 - (k % 4 // 2 + k % 2 * 2) * 2"), 4, "nobody"),
    "mixed": Layout("mixed", Formula("k // 4"), Formula("(6 - k % 4 * 2 + k // 64 * 2) % 8"), 128, "nobody"),
}
RUNS = {"pairs"}
EVERY = [*MADE_UP.values(), *LAYOUTS.values()]


def dialect(layout: Layout) -> Dialect:
    return Dialect(layout, CANONICAL.code_map, CANONICAL.tail)


@pytest.mark.parametrize("layout", EVERY, ids=str)
def test_which_layouts_are_runs(layout: Layout) -> None:
    if layout.name in MADE_UP:
        assert kernels.is_runs(layout) == (layout.name in RUNS)
    elif layout.name in (
        "interleave-128",
        "interleave-64",
        "rows-1x4",
        "sequential-msb",
        "sequential-lsb",
        "row-blocks-4",
    ):
        assert kernels.is_runs(layout), "the compiled kernels are not used for it"


@pytest.mark.parametrize("layout", MADE_UP.values(), ids=str)
def test_the_fast_path_is_the_definition(layout: Layout) -> None:
    shape = (8, 256)
    trits = np.random.default_rng(3).integers(-1, 2, shape).astype(np.int8)
    wanted = reference.pack(trits, 0.5, dialect(layout))
    assert native.pack(trits, 0.5, dialect(layout)) == wanted
    assert native.pack(trits, 0.5, dialect(layout), out=bytearray(len(wanted))) == wanted
    read, scale = native.unpack(wanted, shape, dialect(layout))
    assert np.array_equal(read, trits)
    assert scale == np.float32(0.5)
    assert np.array_equal(native.dequantize(wanted, shape, dialect(layout)), trits * np.float32(0.5))
    assert native.histogram(wanted, shape) == reference.histogram(wanted, shape)
    holed = bytes([0xFF]) + wanted[1:]
    assert native.scan(holed, shape, dialect(layout)) == reference.scan(holed, shape, dialect(layout))


@pytest.mark.parametrize(
    ("source", "target"), [pair for pair in product(EVERY, EVERY) if pair[0].name in MADE_UP], ids=str
)
def test_payloads_from_and_to_any_other_layout(source: Layout, target: Layout) -> None:
    shape = (8, 256)
    codes = np.random.default_rng(4).integers(0, 4, shape).astype(np.uint8)
    packed = payload.pack_codes(codes, source)
    assert payload_native.pack_codes(codes, source) == packed
    assert np.array_equal(payload_native.unpack_codes(packed, shape, source), codes)
    there = payload_native.recode(packed, shape, dialect(source), dialect(target))
    assert there == payload.recode(packed, shape, dialect(source), dialect(target))
    assert payload_native.recode(there, shape, dialect(target), dialect(source)) == packed
