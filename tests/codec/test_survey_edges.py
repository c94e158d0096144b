"""The compiled survey at the seams between reads: a tail that two of them share, a hole that ends inside a part."""

from __future__ import annotations

from pathlib import Path

import pytest

from i2s_spec.codec import _survey
from i2s_spec.codec.observation import BLOCK, Observation, observe
from i2s_spec.inspect.surveying import EXPONENTS

SETS = [name for name, available in _survey.kernel_sets() if available]


def payload_of(size: int) -> bytes:
    return bytes((7 * i + i // 256) % 251 for i in range(size))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("size", [BLOCK - 40, BLOCK - 32, BLOCK - 31, BLOCK - 5, BLOCK, 3 * BLOCK - 1, 3 * BLOCK + 1])
def test_a_tail_in_two_reads(name: str, size: int, tmp_path: Path) -> None:
    payload, tail = payload_of(size), bytes(range(100, 132))
    path = tmp_path / "file"
    path.write_bytes(b"before" + payload + tail + b"behind")
    with path.open("rb") as file:
        for of_memory in (True, False):
            parts = _survey.Parts(name)
            parts.add(6, 0, size, 32)
            if of_memory:
                parts.of_memory(path.read_bytes())
            else:
                parts.of_file(file.fileno())
            while parts.work(BLOCK, 1):
                pass
            assert Observation(*parts.found(0)) == observe(payload)
            assert (parts.tail(0), parts.done, parts.failed) == (tail, size + 32, -1)
            parts.release()


@pytest.mark.parametrize("holes", [0, 1, 3, 4])
def test_a_hole_that_ends_inside_a_part(holes: int, tmp_path: Path) -> None:
    """Only a part without any byte that was written is passed over, and its tail is read all the same."""
    size, tail = 4 * 16 * BLOCK, bytes(range(32))
    path = tmp_path / "sparse"
    written = payload_of((4 - holes) * 16 * BLOCK)
    with path.open("wb") as file:
        file.seek(size - len(written))
        file.write(written)
        file.seek(size)
        file.write(tail)
    with path.open("rb") as file:
        parts = _survey.Parts(SETS[-1])
        parts.add(0, 0, size, 32)
        parts.of_file(file.fileno(), True)
        while parts.work(BLOCK, 1 << 20):
            pass
        found = Observation(*parts.found(0))
        assert parts.tail(0) == tail
        assert parts.done == size + 32
        if written:
            assert found == observe(bytes(size - len(written)) + written)
        else:
            assert found.seen in (0, size)  # nothing, where the file system has holes
        parts.release()


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("run", [256, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 300, 3 * BLOCK, 5 * BLOCK])
@pytest.mark.parametrize("before", [0, 1, 300, BLOCK])
def test_a_run_over_many_blocks_of_many_parts(name: str, run: int, before: int) -> None:
    """It begins in one part, goes through blocks of the next one, and ends anywhere."""
    data = payload_of(2 * BLOCK - before) + b"\x55" * (before + run) + b"\x11" + payload_of(BLOCK // 2)
    parts = _survey.Parts(name)
    for start, stop in ((0, 2 * BLOCK), (2 * BLOCK, len(data))):
        parts.add(start, start, stop - start, 0)
    parts.of_memory(data)
    while parts.work(BLOCK, 1 << 20):
        pass
    parts.join(0, 2)
    found = Observation(*parts.found(0))
    assert found == observe(data)
    assert (found.run_at, found.run, found.run_value) == (2 * BLOCK - before, before + run, 0x55)


@pytest.mark.parametrize("name", SETS)
def test_of_two_runs_of_one_length_the_first_counts(name: str) -> None:
    data = bytearray(payload_of(3 * BLOCK))
    for at in (100, 2 * BLOCK + 100):
        data[at : at + 300] = b"\x55" * 300
    for cut in (len(data), BLOCK):
        parts = _survey.Parts(name)
        for start in range(0, len(data), cut):
            parts.add(start, start, cut, 0)
        parts.of_memory(data)
        while parts.work(BLOCK, 1 << 20):
            pass
        parts.join(0, len(parts))
        assert Observation(*parts.found(0))[3:6] == (100, 300, 0x55)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("field", [0xC0, 0x30, 0x0C, 0x03])
def test_one_unused_code_anywhere(name: str, field: int) -> None:
    for at in (*range(256), *range(BLOCK - 128, BLOCK + 3)):
        data = bytearray(b"\x55" * (BLOCK + 3))
        data[at] |= field
        parts = _survey.Parts(name)
        parts.add(0, 0, len(data), 0)
        parts.feed(0, data, b"")
        found = Observation(*parts.found(0))
        assert (found.first_unused, found.counts) == (at, (0, 4 * len(data) - 1, 0, 1)), at


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("kind", "width"), [("F16", 2), ("F32", 4), ("F64", 8)])
def test_one_infinity_anywhere(name: str, kind: str, width: int) -> None:
    _, mask = EXPONENTS[kind]
    for at in (*range(0, 256, width), *range(BLOCK - 128, BLOCK + 24, width)):
        data = bytearray(BLOCK + 24)
        data[at : at + width] = mask.to_bytes(width, "little")
        parts = _survey.Parts(name)
        parts.add(0, 0, len(data), 0, width, mask)
        parts.feed(0, data, b"")
        found = Observation(*parts.found(0))
        assert (found.first_non_finite, found.non_finite) == (at, 1), at
