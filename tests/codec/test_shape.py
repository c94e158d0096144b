from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from i2s_spec.codec.shape import Payloads, matrix, octets, payloads, place, windows


@pytest.mark.parametrize(
    ("shape", "slices", "expected"),
    [
        ((4, 128), None, (1, 4, 128)),
        ((512,), None, (1, 1, 512)),
        ((1, 4, 128), None, (1, 4, 128)),
        ((1, 1, 1, 128), None, (1, 1, 128)),
        ((4, 128), "each", (1, 4, 128)),
        ((3, 4, 128), "each", (3, 4, 128)),
        ((3, 4, 128), "one", (1, 12, 128)),
        ((2, 3, 4, 128), "each", (6, 4, 128)),
    ],
)
def test_payloads(shape: tuple[int, ...], slices: Any, expected: tuple[int, int, int]) -> None:
    tensor = payloads(shape, strict=False, slices=slices)
    assert tensor == Payloads(*expected)
    assert tensor.nbytes == expected[0] * (expected[1] * expected[2] // 4 + 32)


def test_sizes_beyond_64_bits_are_exact() -> None:
    assert payloads((2**40, 2**40)).nbytes == 2**78 + 32
    with pytest.raises(ValueError, match="302,231,454,903,657,293,676,544 bytes of payload"):
        payloads((2**40, 2**40)).split(bytes(64))


@pytest.mark.parametrize("shape", [(0,), (4, 0), (-4, -128), (0, 4, 128), (-1, -1, 4, 128)])
def test_no_elements(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="holds no elements"):
        payloads(shape, strict=False, slices="one")


def test_no_dimensions() -> None:
    with pytest.raises(ValueError, match="1 or 2 dimensions, not 0"):
        payloads(())
    with pytest.raises(ValueError, match="1 or 2 dimensions, not 3"):
        matrix((1, 2, 3))
    with pytest.raises(TypeError):
        payloads((4.0, 128))  # type: ignore[arg-type]


def test_split_gives_views() -> None:
    data = np.arange(160, dtype=np.uint8)
    parts = payloads((2, 2, 96), strict=False, slices="each").split(data)
    assert [(len(payload), len(tail)) for payload, tail in parts] == [(48, 32), (48, 32)]
    assert all(np.shares_memory(part, data) for pair in parts for part in pair)
    assert [int(pair[1][0]) for pair in parts] == [48, 128]


def test_octets() -> None:
    assert octets(np.arange(3, dtype="<u2")).tolist() == [0, 0, 1, 0, 2, 0]
    assert octets(b"").size == 0
    with pytest.raises(ValueError, match="follow each other"):
        octets(memoryview(bytes(8))[::2])
    with pytest.raises(TypeError):
        octets(None)


def test_windows_cover_everything_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("i2s_spec.codec.shape.WINDOW", 4)
    assert list(windows(9)) == [(0, 4), (4, 8), (8, 9)]
    assert list(windows(0)) == []


def test_place() -> None:
    assert place(4097, 2048) == "at element 4,097 (row 2, column 1)"
