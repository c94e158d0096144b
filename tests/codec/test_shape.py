from __future__ import annotations

import numpy as np
import pytest

from i2s_spec.codec.shape import PayloadShape, matrix, octets, payload_shape, place, windows


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((4, 128), (4, 128)), ((512,), (1, 512)), ((1, 4, 128), (4, 128)), ((1, 1, 1, 128), (1, 128))],
)
def test_shape_of_the_payload(shape: tuple[int, ...], expected: tuple[int, int]) -> None:
    tensor = payload_shape(shape)
    assert tensor == PayloadShape(*expected)
    assert tensor.nbytes == expected[0] * expected[1] // 4 + 32


@pytest.mark.parametrize(("shape", "count"), [((3, 4, 128), 3), ((2, 3, 4, 128), 6), ((2, 1, 128), 2)])
def test_several_matrices_are_refused(shape: tuple[int, ...], count: int) -> None:
    with pytest.raises(ValueError, match=f"is {count} slices, and programs disagree .* store every slice as a matrix"):
        payload_shape(shape)


@pytest.mark.requirement("R12.2-5")
def test_sizes_beyond_64_bits_are_exact() -> None:
    assert payload_shape((2**40, 2**40)).nbytes == 2**78 + 32
    with pytest.raises(ValueError, match="302,231,454,903,657,293,676,544 bytes of payload"):
        payload_shape((2**40, 2**40)).split(bytes(64))


@pytest.mark.parametrize("shape", [(0,), (4, 0), (-4, -128), (0, 4, 128), (-1, -1, 4, 128)])
def test_no_elements(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="holds no elements"):
        payload_shape(shape)


def test_no_dimensions() -> None:
    with pytest.raises(ValueError, match="1 or 2 dimensions, not 0"):
        payload_shape(())
    with pytest.raises(ValueError, match="1 or 2 dimensions, not 3"):
        matrix((1, 2, 3))
    with pytest.raises(TypeError):
        payload_shape((4.0, 128))  # type: ignore[arg-type]


def test_split_gives_views() -> None:
    data = np.arange(80, dtype=np.uint8)
    payload, tail = payload_shape((2, 96)).split(data)
    assert (len(payload), len(tail)) == (48, 32)
    assert all(np.shares_memory(part, data) for part in (payload, tail))
    assert int(tail[0]) == 48


def test_buffers_become_arrays_of_bytes() -> None:
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


def test_the_position_in_messages() -> None:
    assert place(4097, 2048) == "at element 4,097 (row 2, column 1)"
