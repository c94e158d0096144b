from __future__ import annotations

import struct

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.schema import i2s
from i2s_spec.schema.dialect import CANONICAL, LAYOUTS


@given(st.integers(0, 300), st.sampled_from(["little", "big"]), st.data())
@examples(60)
def test_build_undoes_parse(elements: int, order: str, draw: st.DataObject) -> None:
    data = draw.draw(st.binary(min_size=elements // 4 + 32, max_size=elements // 4 + 32))
    tensor = i2s.parse(data, elements, order)
    assert i2s.build(tensor, order) == data
    assert tensor.payload == data[: elements // 4]
    assert tensor.tail.unused == data[elements // 4 + 4 :]


def test_the_scale_is_in_the_byte_order_of_the_file() -> None:
    assert i2s.parse(struct.pack(">f", 1.25) + bytes(28), 0, "big").tail.scale == 1.25


@pytest.mark.parametrize("length", [0, 31, 63, 65])
def test_another_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="takes 64 bytes"):
        i2s.parse(bytes(length), 128)


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS.values() if layout.row_block == 1], ids=str)
def test_elements_are_where_the_layout_says(layout: object) -> None:
    assert layout in LAYOUTS.values()
    for byte in range(70):
        for shift, element in zip(i2s.SHIFTS, i2s.elements_of(byte, layout), strict=True):  # type: ignore[arg-type]
            assert layout.byte_of(element, 1, 4096) == byte  # type: ignore[attr-defined]
            assert layout.shift_of(element, 1, 4096) == shift  # type: ignore[attr-defined]


def test_layouts_by_rows_have_no_answer() -> None:
    with pytest.raises(ValueError, match="shape"):
        i2s.elements_of(0, LAYOUTS["rows-1x4"])


def test_canonical_places() -> None:
    """The formula in full, independent of the tables."""
    for k in range(1024):
        byte, shift = k // 128 * 32 + k % 32, 6 - 2 * (k % 128 // 32)
        assert i2s.elements_of(byte)[i2s.SHIFTS.index(shift)] == k


def test_codes_of_a_byte() -> None:
    for byte in range(256):
        assert sum(code << shift for code, shift in zip(i2s.codes_of(byte), i2s.SHIFTS, strict=True)) == byte
    assert CANONICAL.code_map.trits == (-1, 0, 1, None)
