"""The compiled survey equals its definition, with every instruction set, however the payload is split."""

from __future__ import annotations

import platform
import random
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from c_compiler import WARNINGS
from examples import examples, share
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import _survey
from i2s_spec.codec.observation import BLOCK, LEAST_RUN, PayloadObservation
from i2s_spec.codec.reference import observe
from i2s_spec.inspect.survey_reader import FLOATS
from i2s_spec.schema.types import NUMBER_FORMS

SETS = [name for name, available in _survey.kernel_sets() if available]
EXPONENTS = {name: (NUMBER_FORMS[name].bytes, NUMBER_FORMS[name].mask) for name in FLOATS}
KINDS = [(0, 0), (1, 0), *EXPONENTS.values(), (2, 0x007C), (4, 0x0000807F)]


def seen(name: str, data: bytes, pos: int = 0, width: int = 0, mask: int = 0) -> PayloadObservation:
    parts = _survey.Parts(name)
    parts.add(0, pos, len(data), 0, width, mask)
    parts.feed(0, data, b"")
    return PayloadObservation(*parts.found(0))


def random_codes(size: int, seed: int, unused: bool = False) -> bytes:
    """Random bytes; without code 3 unless `unused`."""
    raw = np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)
    return bytes(raw if unused else raw & ~((raw & raw >> 1 & 0x55) << 1).astype(np.uint8))


def with_runs(size: int, seed: int) -> bytes:
    """Random bytes with runs of many lengths, some beside each other, some over the ends of blocks."""
    drawn = random.Random(seed)
    data = bytearray(random_codes(size, seed, unused=bool(seed % 2)))
    for _ in range(drawn.randrange(6)):
        length = drawn.choice([1, 31, 32, 33, 63, 64, 127, 128, 129, 254, 255, 256, 257, 300, 511, 4096, 5000])
        edge = drawn.randrange(size // BLOCK + 1) * BLOCK
        at = drawn.choice(
            [drawn.randrange(size + 1), max(0, edge - drawn.randrange(length + 1)), 0, max(0, size - length)]
        )
        data[at : at + length] = bytes([drawn.choice([0, 0x55, 0xAA, 0xFF, 7])]) * len(data[at : at + length])
    return bytes(data[:size])


def test_constants_agree() -> None:
    assert (_survey.BLOCK, _survey.LEAST_RUN) == (BLOCK, LEAST_RUN)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(
    "size", share([0, 1, 7, 8, 31, 32, 63, 64, 100, 255, 256, 4095, 4096, 4097, 8192, 12_345], every=3)
)
@pytest.mark.parametrize(("width", "mask"), KINDS)
def test_sizes(name: str, size: int, width: int, mask: int) -> None:
    for unused in (False, True):
        data = random_codes(size, size, unused)
        got, want = seen(name, data, 0, width, mask), observe(data, 0, width, mask)
        assert got._replace(counts=want.counts if width else got.counts) == want


@pytest.mark.parametrize("name", SETS)
def test_the_largest_counts_of_a_block(name: str) -> None:
    """No inner sum overflows: blocks in which every code is 1, 2 or 3, also with one bit changed."""
    for value in (0x55, 0xAA, 0xFF):
        data = bytearray([value]) * (2 * BLOCK)
        for at in (None, 0, BLOCK - 1, BLOCK + 777):
            if at is not None:
                data[at] ^= 0x10
            assert seen(name, bytes(data)) == observe(bytes(data))


@examples(60)
@given(st.integers(0, 5 * BLOCK), st.integers(0, 2**32), st.integers(0, 1000))
def test_runs_and_places(size: int, seed: int, block: int) -> None:
    data = with_runs(size, seed)
    want = observe(data, block * BLOCK)
    for name in SETS:
        assert seen(name, data, block * BLOCK) == want


@examples(40)
@given(st.integers(1, 9 * BLOCK), st.integers(0, 2**32), st.lists(st.integers(1, 8), max_size=4), st.data())
def test_joined_parts_equal_the_whole(size: int, seed: int, cuts: list[int], data: st.DataObject) -> None:
    """However a payload is cut, its parts together are the whole."""
    payload = with_runs(size, seed)
    name = data.draw(st.sampled_from(SETS))
    edges = sorted({0, size, *(cut * BLOCK for cut in cuts if cut * BLOCK < size)})
    parts = _survey.Parts(name)
    for start, stop in pairwise(edges):
        parts.add(start, start, stop - start, 32 if stop == size else 0)
    tail = bytes(range(32))
    parts.of_memory(payload + tail)
    while parts.work(BLOCK, 1):
        pass
    parts.join(0, len(parts))
    assert PayloadObservation(*parts.found(0)) == observe(payload)
    assert parts.tail(0) == tail
    assert parts.done == size + 32


@pytest.mark.parametrize("where", [10, BLOCK + 10, 2 * BLOCK + 10])
def test_findings_of_a_single_part(where: int) -> None:
    """A run, a code 3 and a NaN in the first, the middle or the last of three parts."""
    payload = bytearray(random_codes(3 * BLOCK, 2))
    payload[where : where + 300] = b"\x55" * 300
    payload[where + 1000 : where + 1002] = b"\xff\xff"
    for width, mask in ((0, 0), EXPONENTS["F16"]):
        parts = _survey.Parts(SETS[-1])
        for start in range(0, len(payload), BLOCK):
            parts.add(start, start, BLOCK, 0, width, mask)
        parts.of_memory(bytes(payload))
        while parts.work(BLOCK, 1):
            pass
        parts.join(0, 3)
        got, want = PayloadObservation(*parts.found(0)), observe(bytes(payload), 0, width, mask)
        assert got._replace(counts=want.counts if width else got.counts) == want
        assert (want.run_at, want.run) == (where, 300)
        assert (want.first_non_finite if width else want.first_unused) == where + 1000


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(("kind", "dtype"), [("F16", "e"), ("F32", "f"), ("F64", "d")])
@pytest.mark.parametrize("mark", "<>")
def test_values_that_are_not_finite(name: str, kind: str, dtype: str, mark: str) -> None:
    width, mask = EXPONENTS[kind]
    if mark == ">":
        mask = int.from_bytes(mask.to_bytes(width, "little"), "big")
    drawn = np.random.default_rng(3)
    values = drawn.normal(size=5000).astype(mark + dtype)
    largest = np.finfo(values.dtype).max
    values[:2] = largest, -largest
    assert seen(name, values.tobytes(), 0, width, mask).non_finite == 0
    for at in (0, 17, 4095, 4999):
        broken = values.copy()
        broken[at] = drawn.choice([np.nan, np.inf, -np.inf])
        broken[4999] = np.nan
        got = seen(name, broken.tobytes(), 0, width, mask)
        assert got == observe(broken.tobytes(), 0, width, mask)._replace(counts=got.counts)
        assert (got.non_finite, got.first_non_finite) == (2 if at < 4999 else 1, at * width)


def test_fingerprints_tell_payloads_apart() -> None:
    """One bit changed anywhere, or two blocks exchanged, gives another fingerprint than that of the whole."""
    payload = random_codes(3 * BLOCK + 100, 1)
    drawn = random.Random(5)
    for width in (0, 1):
        whole = observe(payload, width=width).digest
        for _ in range(100):
            at, bit = drawn.randrange(len(payload)), 1 << drawn.randrange(8)
            changed = payload[:at] + bytes([payload[at] ^ bit]) + payload[at + 1 :]
            assert seen(SETS[-1], changed, width=width).digest != whole
        assert observe(payload[BLOCK : 2 * BLOCK] + payload[:BLOCK] + payload[2 * BLOCK :], width=width).digest != whole


@pytest.fixture
def parts() -> _survey.Parts:
    made = _survey.Parts("portable")
    made.add(0, 0, 100, 32)
    return made


def test_reads_of_a_file(parts: _survey.Parts, tmp_path: Path) -> None:
    data = random_codes(100, 4) + bytes(32)
    path = tmp_path / "payload"
    path.write_bytes(data)
    with path.open("rb") as file:
        parts.of_file(file.fileno())
        assert not parts.work(BLOCK, 1 << 20)
        assert PayloadObservation(*parts.found(0)) == observe(data[:100])
        parts.again()
        for turns in (0, 1, 3):
            assert parts.probe(_survey.Buffer(BLOCK, turns))
            parts.again()
        path.write_bytes(data[:50])
        parts.again()
        assert not parts.work(BLOCK, 1 << 20)
        assert parts.failed == 0
    parts.release()


def test_invalid_parts_are_refused(parts: _survey.Parts) -> None:
    for wrong in [(-1, 0, 1), (0, 1, 1), (0, 0, -1)]:
        with pytest.raises(ValueError, match="no such part"):
            parts.add(*wrong)
    with pytest.raises(ValueError, match="no such part"):
        parts.add(0, 0, 1, 33)
    with pytest.raises(ValueError, match="outside"):
        parts.of_memory(bytes(131))
    with pytest.raises(ValueError, match="whole blocks"):
        parts.work(100, 1)
    with pytest.raises(ValueError, match="nothing to read"):
        parts.work(BLOCK, 1)
    with pytest.raises(ValueError, match="no such buffer"):
        _survey.Buffer(0)
    with pytest.raises(ValueError, match="no such buffer"):
        _survey.Buffer(BLOCK, -1)
    with pytest.raises(ValueError, match="too many"):
        parts.feed(0, bytes(101), b"")
    for wrong_size, wrong_step in [(0, 1), (1, 0), (-1, 1)]:
        with pytest.raises(ValueError, match="no such part"):
            parts.add_pieces(0, wrong_size, wrong_step)
    for call in (parts.found, parts.counts, parts.fingerprint, parts.tail, parts.where, parts.width, parts.tail_bytes):
        with pytest.raises(IndexError):
            call(1)
    with pytest.raises(IndexError):
        parts.join(0, 2)


@pytest.mark.parametrize(("size", "step"), [(1, BLOCK), (BLOCK, BLOCK), (3 * BLOCK + 5, BLOCK), (5 * BLOCK, 2 * BLOCK)])
@pytest.mark.parametrize("room", [BLOCK, 2 * BLOCK])
def test_a_payload_that_is_added_whole(size: int, step: int, room: int, tmp_path: Path) -> None:
    data = b"before" + random_codes(size, 3) + bytes(range(32))
    path = tmp_path / "file"
    path.write_bytes(data)
    by_hand, whole = _survey.Parts(SETS[-1]), _survey.Parts(SETS[-1])
    starts = range(0, size, step)
    for start in starts:
        by_hand.add(6 + start, start, min(step, size - start), 32 if start == starts[-1] else 0)
    assert whole.add_pieces(6, size, step, 32) == len(starts) == len(whole)
    buffer = _survey.Buffer(room)  # used by both, one after the other
    with path.open("rb") as file:
        for parts in (by_hand, whole):
            parts.of_file(file.fileno())
            while parts.work(buffer, 1):
                pass
    for number in range(len(starts)):
        found = PayloadObservation(*whole.found(number))
        assert found == PayloadObservation(*by_hand.found(number))
        assert (whole.where(number), whole.tail(number)) == (by_hand.where(number), by_hand.tail(number))
        assert (whole.counts(number), whole.fingerprint(number)) == (found.counts, (found.seen, found.digest))
    whole.join(0, len(starts))
    assert PayloadObservation(*whole.found(0)) == observe(data[6:-32])


# --- boundaries between reads: a tail across two reads, a hole that ends inside a read ---


def payload_of(size: int) -> bytes:
    return bytes((7 * i + i // 256) % 251 for i in range(size))


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("size", [BLOCK - 40, BLOCK - 32, BLOCK - 31, BLOCK - 5, BLOCK, 3 * BLOCK - 1, 3 * BLOCK + 1])
def test_a_tail_in_two_reads(name: str, size: int, tmp_path: Path) -> None:
    payload, tail = payload_of(size), bytes(range(100, 132))
    path = tmp_path / "file"
    path.write_bytes(b"before" + payload + tail + b"after")
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
            assert PayloadObservation(*parts.found(0)) == observe(payload)
            assert (parts.tail(0), parts.done, parts.failed) == (tail, size + 32, -1)
            parts.release()


@pytest.mark.parametrize("holes", [0, 1, 3, 4])
def test_a_hole_that_ends_inside_a_part(holes: int, tmp_path: Path) -> None:
    """Only a part in which no byte was written is skipped, and its tail is still read."""
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
        found = PayloadObservation(*parts.found(0))
        assert parts.tail(0) == tail
        assert parts.done == size + 32
        if written:
            assert found == observe(bytes(size - len(written)) + written)
        else:
            assert found.seen in (0, size)  # 0 if the file system supports holes
        parts.release()


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("run", [256, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 300, 3 * BLOCK, 5 * BLOCK])
@pytest.mark.parametrize("before", share([0, 1, 300, BLOCK], every=2))
def test_a_run_over_many_blocks_of_many_parts(name: str, run: int, before: int) -> None:
    """The run begins in one part, covers blocks of the next one, and ends anywhere."""
    data = payload_of(2 * BLOCK - before) + b"\x55" * (before + run) + b"\x11" + payload_of(BLOCK // 2)
    parts = _survey.Parts(name)
    for start, stop in ((0, 2 * BLOCK), (2 * BLOCK, len(data))):
        parts.add(start, start, stop - start, 0)
    parts.of_memory(data)
    while parts.work(BLOCK, 1 << 20):
        pass
    parts.join(0, 2)
    found = PayloadObservation(*parts.found(0))
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
        assert PayloadObservation(*parts.found(0))[3:6] == (100, 300, 0x55)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("field", [0xC0, 0x30, 0x0C, 0x03])
def test_one_unused_code_anywhere(name: str, field: int) -> None:
    for at in (*range(256), *range(BLOCK - 128, BLOCK + 3)):
        data = bytearray(b"\x55" * (BLOCK + 3))
        data[at] |= field
        parts = _survey.Parts(name)
        parts.add(0, 0, len(data), 0)
        parts.feed(0, data, b"")
        found = PayloadObservation(*parts.found(0))
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
        found = PayloadObservation(*parts.found(0))
        assert (found.first_non_finite, found.non_finite) == (at, 1), at


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["here", "neon"])
def test_blocks_without_python(how: str, tmp_path: Path) -> None:
    """Every set gives the same results for blocks as plain C, also on an emulated processor."""
    emulator = next(filter(shutil.which, ("qemu-aarch64", "qemu-aarch64-static")), None)
    compiler = "aarch64-linux-gnu-gcc" if how == "neon" else "cc"
    if shutil.which(compiler) is None or (how == "neon" and (emulator is None or platform.machine() == "aarch64")):
        pytest.skip(f"{compiler} or the emulator is not there, or not needed")
    here = Path(__file__).resolve().parent
    source, driver = here / "driver" / "survey_blocks.c", tmp_path / "driver"
    command = [compiler, "-O3", *WARNINGS, "-Wno-unused-function", "-static"]
    headers = here.parent.parent / "pyx"
    subprocess.run([*command, f"-I{headers}", str(source), "-o", str(driver)], check=True)
    run = [str(emulator), str(driver)] if how == "neon" else [str(driver)]
    done = subprocess.run(run, capture_output=True, encoding="utf-8", check=False)
    *sets, verdict = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert sets == (["portable: runs", "neon: runs"] if how == "neon" else sets)
    passed, failed = (int(each.split()[0]) for each in verdict.split(", "))
    assert passed >= 8000 * sum(each.endswith(": runs") for each in sets)
    assert failed == 0
