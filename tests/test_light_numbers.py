"""`light_numbers` gives what `math`, `struct` and `array` give, to the modules that start without them."""

from __future__ import annotations

import math
import struct
import sys
from array import array
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.light_numbers import FEW, isfinite, numbers, prod, series
from tests.examples import examples

KINDS = "bBhHiIqQfd"


@examples(60)
@given(st.lists(st.integers(0, 1 << 64), max_size=5))
def test_product(values: list[int]) -> None:
    assert prod(values) == prod(tuple(values)) == prod(iter(values)) == math.prod(values)


@examples(60)
@given(st.floats() | st.integers())
def test_finite(value: float) -> None:
    assert isfinite(value) is math.isfinite(value)


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers(kind: str, order: Literal["little", "big"]) -> None:
    size = struct.calcsize(f"={kind}")
    data = bytes((7 * i + 62) % 256 for i in range(3 * size))
    expected = struct.unpack(f"{'<' if order == 'little' else '>'}3{kind}", data)
    assert tuple(numbers(kind, data, order)) == expected
    assert numbers(kind, data[:size], order)[0] == expected[0]
    assert tuple(numbers(kind, b"", order)) == ()


@pytest.mark.parametrize("order", ["little", "big"])
def test_bytes_that_are_not_whole_numbers_are_an_error(order: Literal["little", "big"]) -> None:
    with pytest.raises((TypeError, struct.error)):
        numbers("f", bytes(5), order)


@pytest.mark.parametrize("kind", ["q", "Q", "d"])
def test_series(kind: str) -> None:
    few, many = series(kind, FEW, [3, 4]), series(kind, FEW + 1, [3, 4])
    for made in (few, many):
        made.append(5)
        made.extend([6])
        assert (len(made), made[0], made[-1], sum(made), list(made)) == (4, 3, 6, 18, [3, 4, 5, 6])
    assert isinstance(few, list)
    assert sys.getsizeof(many) < sys.getsizeof(few) + 64
    assert isinstance(many, array)
    assert many.typecode == kind
