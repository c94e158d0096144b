"""Sizes of tensors whose type has a special rule, computed by hand; and the definition of padding."""

from __future__ import annotations

import pytest

from i2s_spec.schema.types import BY_NAME, READINGS, padded, reading


@pytest.mark.parametrize(
    ("ne", "size"), [((4,), 33), ((5,), 33), ((7,), 33), ((8,), 34), ((129, 3), 128), ((128, 4), 160), ((3, 1, 1), 32)]
)
def test_sizes_of_partial_bytes(ne: tuple[int, ...], size: int) -> None:
    assert BY_NAME["I2_S"].nbytes(ne) == BY_NAME["TL1"].nbytes(ne) == size


def test_a_scale_for_each_row() -> None:
    assert BY_NAME["I2_SR"].nbytes((128, 4)) == 128 + 16 + 32


@pytest.mark.parametrize(
    ("ne", "size"), [((256, 1), 96), ((257, 5), 352), ((261, 1), 96), ((380, 5), 480), ((640, 2), 320), ((128, 4), 192)]
)
def test_three_divisions_one_after_another(ne: tuple[int, int], size: int) -> None:
    """As integers of C divide: (5 x 1) / 3 * 5 / 8 is 0, not 1; and (128 - 256) * 4 / 3 * 5 / 8 is -106, not -107."""
    assert BY_NAME["TL2"].nbytes(ne) == size


def test_padding() -> None:
    assert [padded(size, 32) for size in (0, 1, 31, 32, 33, 64)] == [0, 32, 32, 32, 64, 64]
    assert padded(1 << 70, 64) == 1 << 70


def test_a_type_is_told_by_its_room_with_or_without_padding() -> None:
    ne = (512, 7)
    for number in (39, 40, 42):
        for kind in READINGS[number]:
            size = kind.nbytes(ne)
            for alignment in (8, 32, 4096):
                assert reading(number, ne, size, alignment) == kind
                assert reading(number, ne, padded(size, 32), 32) == kind
