"""Products by table lookup equal those by multiplication, bit for bit: the definition, and every set of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import isa
from i2s_spec.model.reference import bitlinear
from i2s_spec.model.reference.table_lookup import LookupMatrix, lookup_dot, lookup_sets, lookup_tables

SETS: Final = [each.name for each in lookup_sets() if each.available]


@pytest.fixture(params=SETS, autouse=True, scope="module")
def kernel_set(request: pytest.FixtureRequest) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(isa.VARIABLE, request.param)
        yield request.param


def codes_of(rng: np.random.Generator, shape: tuple[int, int], kind: str) -> np.ndarray[Any, Any]:
    if kind == "any":
        return rng.integers(-128, 128, shape).astype(np.int8)
    return np.full(shape, {"least": -128, "most": 127}[kind], dtype=np.int8)


@pytest.mark.requirement("R9.8-4")
@given(
    rows=st.integers(0, 140), blocks=st.integers(1, 12), tokens=st.integers(0, 3),
    ends=st.sampled_from(["any", "least", "most"]), threes=st.booleans(), seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
@examples(60)
def test_looked_up_sums_are_those_of_the_product(
    rows: int, blocks: int, tokens: int, ends: str, threes: bool, seed: int
) -> None:
    rng, columns = np.random.default_rng(seed), 128 * blocks
    payload = b"\xff" * (rows * columns // 4) if threes else rng.bytes(rows * columns // 4)
    codes = codes_of(rng, (tokens, columns), ends)
    want = bitlinear.dot(payload, rows, columns, codes)
    assert np.array_equal(lookup_dot(payload, rows, columns, codes), want)
    got = LookupMatrix(payload, rows, columns).dot(codes)
    assert got.dtype == np.int32
    assert np.array_equal(got, want)


@pytest.mark.parametrize("ends", ["least", "most"])
def test_sums_as_large_as_they_get(ends: str) -> None:
    """Pairs of a row fit 16 bits only for so long, and sums of a long row fit 32."""
    columns = 65_536
    codes = codes_of(np.random.default_rng(0), (1, columns), ends)
    payload = b"\xff" * (70 * columns // 4)
    got = LookupMatrix(payload, 70, columns).dot(codes)
    assert (got == 3 * columns * int(codes[0, 0])).all()


def test_a_table_contains_the_sums_of_its_pairs() -> None:
    codes = codes_of(np.random.default_rng(1), (2, 256), "any")
    tables = lookup_tables(codes)
    assert tables.dtype == np.int16
    for token, byte, half, pair in [(0, 0, 0, 0b1110), (1, 31, 1, 0b0011), (1, 40, 0, 0b0101), (0, 63, 1, 0b1111)]:
        block, j = divmod(byte, 32)
        first, second = (int(codes[token, 128 * block + 64 * half + 32 * i + j]) for i in (0, 1))
        assert tables[token, byte, half, pair] == (pair >> 2) * first + (pair & 3) * second


def test_wrong_sizes_are_refused() -> None:
    codes = np.zeros((1, 128), dtype=np.int8)
    with pytest.raises(ValueError, match="codes take 64 bytes; there are 32 bytes"):
        LookupMatrix(bytes(32), 2, 128)
    with pytest.raises(ValueError, match="not whole blocks"):
        lookup_dot(bytes(64), 4, 64, codes[:, :64])
    with pytest.raises(ValueError, match="not whole blocks"):
        lookup_tables(codes[:, :64])
    with pytest.raises(ValueError, match="activation codes must have the shape"):
        LookupMatrix(bytes(64), 2, 128).dot(np.zeros((1, 256), dtype=np.int8))
    with pytest.raises(TypeError, match="int8"):
        LookupMatrix(bytes(64), 2, 128).dot(codes.astype(np.int16))
