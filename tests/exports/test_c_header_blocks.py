"""The C header decodes every type with a scale for each group like the codec's definition, bit for bit."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from block_files import TYPES, file_of_blocks, files_of_small_tensors
from c_compiler import program_with_header

from i2s_spec.codec import blocks as block_reference
from i2s_spec.codec.blocks import blocks_of
from i2s_spec.gguf.reader import open as opened
from i2s_spec.schema.blocks import GROUP_LAYOUTS
from i2s_spec.schema.types import reading

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program_with_header(HERE / "blocks.c", tmp_path_factory.mktemp("c"))


def run(program: Path, *arguments: object) -> tuple[bytes, list[str]]:
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.decode().splitlines()


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("name", TYPES)
def test_random_blocks(program: Path, tmp_path: Path, name: str, order: str) -> None:
    """Any bytes at all: every value of a byte, every half, infinities, NaN and subnormals among the scales."""
    layout, random = GROUP_LAYOUTS[name], np.random.default_rng(len(name))
    rows, cols = 37, 7 * layout.block
    shape = rows, cols
    data = np.frombuffer(random.bytes(blocks_of(shape, name).nbytes), np.uint8).copy()
    if layout.fourth == "reserved":  # a code of 3 loses one bit
        blocks = blocks_of(shape, name).rows_of(data)[1]  # a view
        codes = blocks[..., : layout.block // 4]
        codes &= ~((codes & codes >> 1 & 0x55) << 1)
    path = tmp_path / "a.bin"
    path.write_bytes(data.tobytes())
    values, scales = block_reference.unpack(data, shape, name, byte_order=order)  # type: ignore[arg-type]
    found, (line,) = run(program, path, name, rows, cols, int(order == "big"))
    assert line == f"{name} 0 {rows} {cols} 0"
    assert found[: rows * cols] == values.tobytes()
    stored = np.frombuffer(found[rows * cols :], np.float32)
    assert np.array_equal(stored, scales, equal_nan=True)
    assert stored[~np.isnan(stored)].tobytes() == scales[~np.isnan(scales)].tobytes()  # including the sign of zero


def test_every_float16_is_read(program: Path, tmp_path: Path) -> None:
    halves = np.arange(1 << 16, dtype="<u2")
    raw = np.zeros((halves.size, 18), np.uint8)
    raw[:, :2] = halves.view(np.uint8).reshape(-1, 2)
    path = tmp_path / "a.bin"
    path.write_bytes(raw.tobytes())
    found, _ = run(program, path, "Q2_0", halves.size, 64, 0)
    stored, wanted = np.frombuffer(found[64 * halves.size :], np.float32), halves.view("<f2").astype(np.float32)
    assert np.array_equal(stored, wanted, equal_nan=True)
    assert np.array_equal(np.signbit(stored), np.signbit(wanted))


@pytest.mark.parametrize("name", [name for name in TYPES if GROUP_LAYOUTS[name].fourth == "reserved"])
def test_a_reserved_code_stops_the_decoder(program: Path, tmp_path: Path, name: str) -> None:
    layout = GROUP_LAYOUTS[name]
    shape = 3, 2 * layout.block
    data = bytearray(block_reference.pack(np.zeros(shape, np.int8), 1.0, name))
    k = layout.block - 7
    byte, place = layout.find(k)
    blocks_of(shape, name).rows_of(np.frombuffer(data, np.uint8))[1][2, 1, byte] |= 3 << place
    path = tmp_path / "a.bin"
    path.write_bytes(data)
    found, (line,) = run(program, path, name, *shape, 0)
    assert (found, line) == (b"", f"{name} 6 {shape[0]} {shape[1]} {5 * layout.block + k}")


@pytest.mark.parametrize("order", ["little", "big"])
def test_tensors_of_a_file(program: Path, tmp_path: Path, order: str) -> None:
    """Sizes distinguish the two meanings of 42, each in a separate file; other types are neither."""
    for names in (TYPES, [name for name in TYPES if name != "Q2_0"], ["Q2_0", "TL2"]):
        path = tmp_path / "a.gguf"
        path.write_bytes(file_of_blocks(names, order))
        found, lines = run(program, path)
        wanted, at = [], 0
        with opened(path) as file:
            for tensor in file.tensors.values():
                if tensor.kind not in GROUP_LAYOUTS:
                    wanted.append(f"{tensor.name} status 3")
                    continue
                rows, cols = tensor.elements // tensor.shape[-1], tensor.shape[-1]
                wanted.append(f"{tensor.name} {tensor.kind} 0 {rows} {cols} 0")
                values, scales = block_reference.unpack(tensor.read(), tensor.shape, tensor.kind, byte_order=order)  # type: ignore[arg-type]
                both = values.tobytes() + scales.tobytes()
                assert found[at : at + len(both)] == both, tensor.name
                at += len(both)
        assert lines == wanted
        assert at == len(found)


@pytest.mark.parametrize("order", ["little", "big"])
def test_small_tensors_get_the_type_of_others_in_the_file(program: Path, tmp_path: Path, order: str) -> None:
    """Where several types fit, the type is the library's, or the first that fits where tensors are out of order."""
    path, decided = tmp_path / "a.gguf", set()
    for data in files_of_small_tensors(order, 24):
        path.write_bytes(data)
        _, lines = run(program, path)
        found = [line.split()[1] for line in lines]
        with opened(path) as file:
            rows = list(file.tensors.values())
            if any(tensor.type is None for tensor in rows):  # one block alone, in which nothing decides
                continue
            in_order = all(a.offset < b.offset for a, b in pairwise(rows))
            for tensor, kind in zip(rows, found, strict=True):
                room = file.tensors.allotted_bytes(tensor.offset)
                likeliest = reading(tensor.number, tensor.ne, room, file.alignment)
                wanted = tensor.kind if in_order else str(likeliest)
                assert kind == (wanted if wanted in GROUP_LAYOUTS else "status")
                if in_order and tensor.kind != str(likeliest):
                    decided.add(tensor.kind)
    assert decided == {"I2_SR", "Q2_0_G128", "TL2"}


def test_cut_files(program: Path, tmp_path: Path) -> None:
    data = file_of_blocks(TYPES, "little")
    path = tmp_path / "a.gguf"
    for size in range(len(data) // 2, len(data) - 16, 977):
        path.write_bytes(data[:size])
        _, lines = run(program, path)
        status = [line.rpartition(" ")[2] for line in lines if " status " in line]
        assert status[-1] == "3"  # the last tensor is F32
        assert set(status[:-1]) <= {"1", "5"}
        assert len(status) > 1
