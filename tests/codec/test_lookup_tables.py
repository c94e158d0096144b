"""TL1 and TL2 for the tiles of a kernel, compared with the output of BitNet's own converter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from i2s_spec.codec.lookup_tables import Tiles, unpack_tl1, unpack_tl2

FOLDER = Path(__file__).parent / "lookup_tables"
UNPACK = {"tl1": unpack_tl1, "tl2": unpack_tl2}

#: File, seed of its trits, shape, and tile sizes.
CASES = [
    ("tl1", 0, (64, 128), Tiles(32, 64, 32)),
    ("tl1", 2, (256, 64), Tiles(128, 32, 32)),
    ("tl2", 3, (32, 352), Tiles(32, 96, 32)),
    ("tl2", 4, (64, 448), Tiles(32, 192, 32)),
]


def trits(seed: int, shape: tuple[int, int]) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Trits by a formula, so that no library's random numbers matter."""
    k = np.arange(shape[0] * shape[1], dtype=np.int64) + seed * 7919
    return ((k * k % 1009 * 7 + k) % 3 - 1).astype(np.int8).reshape(shape)


def packed(kind: str, shape: tuple[int, int]) -> bytes:
    return (FOLDER / f"{kind}_{shape[0]}x{shape[1]}.bin").read_bytes()


@pytest.mark.parametrize(("kind", "seed", "shape", "tiles"), CASES)
def test_packed_files_of_the_converter_are_unpacked(kind: str, seed: int, shape: tuple[int, int], tiles: Tiles) -> None:
    found, scale = UNPACK[kind](packed(kind, shape), shape, tiles)
    assert np.array_equal(found, trits(seed, shape))
    assert found.dtype == np.int8
    assert scale == 0.5


def test_other_tiles_give_other_weights() -> None:
    data = packed("tl1", (64, 128))
    for other in (Tiles(64, 64, 32), Tiles(64, 64, 64)):
        assert not np.array_equal(unpack_tl1(data, (64, 128), other)[0], trits(0, (64, 128)))


def test_wrong_sizes_and_tiles_are_refused() -> None:
    data = packed("tl1", (64, 128))
    with pytest.raises(ValueError, match=r"64 x 128 elements of TL1 take 2,080 bytes; there are 2,079 bytes"):
        unpack_tl1(data[1:], (64, 128), Tiles(32, 64, 32))
    with pytest.raises(ValueError, match="groups of TL1 have 32 or 64 rows, not 16"):
        unpack_tl1(data, (64, 128), Tiles(32, 64, 16))
    with pytest.raises(ValueError, match="groups of TL2 have 32 rows, not 64"):
        unpack_tl2(packed("tl2", (32, 352)), (32, 352), Tiles(32, 96, 64))
    with pytest.raises(ValueError, match="128 columns are not whole groups of 48"):
        unpack_tl1(data, (64, 128), Tiles(32, 48, 32))
    with pytest.raises(ValueError, match="64 rows are not whole groups of 0"):
        unpack_tl1(data, (64, 128), Tiles(0, 64, 32))
    with pytest.raises(ValueError, match="the number 15 stands for no two weights"):
        unpack_tl1(b"\xff" * (len(data) - 32) + bytes(32), (64, 128), Tiles(32, 64, 32))
