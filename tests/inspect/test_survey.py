"""A survey reads every tensor once, whatever the source, the threads and the sizes, and releases all resources."""

from __future__ import annotations

import gc
import io
import os
import struct
import threading
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.codec import reference
from i2s_spec.codec.observation import BLOCK
from i2s_spec.codec.reference import observe
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import FileSource, MapSource, Source, StreamSource, source_of
from i2s_spec.inspect import survey_reader
from i2s_spec.inspect.survey import ByteRun, Reading, Survey, leftovers
from i2s_spec.inspect.survey_reader import survey
from i2s_spec.testing.malformed.payload import matrix, model, scaled, trits
from i2s_spec.testing.sample import Draft


def seen(data: Any, reading: Reading | None = None) -> Survey:
    found = survey(File(source_of(data)), reading)
    assert found is not None
    return found


def plain(found: Survey) -> tuple[list[Any], list[Any]]:
    """Everything that a survey says, NaN scales included."""
    return [(*t._replace(scale=0.0), t.tail) for t in found], [tuple(o) for o in found.others]


def several(sizes: list[int], seed: int = 0) -> bytes:
    """A file of I2_S tensors with payloads of these sizes."""
    return model(*(
        matrix((trits(4096, seed + i) * (size // 4096 + 1))[:size], b"t%d" % i, cols=128, tail=scaled(i + 0.5))
        for i, size in enumerate(sizes)
    ))  # fmt: skip


def test_fields() -> None:
    payload = trits(64 * 128)
    data = model(matrix(payload, b"one", cols=256, tail=scaled(0.75, b"\x01" * 28)))
    [tensor] = seen(data)
    assert (tensor.row, tensor.name, tensor.ne) == (0, b"one", (256, 128))
    assert data[tensor.start : tensor.start + tensor.payload_bytes] == payload
    assert (tensor.read, tensor.complete, tensor.first_unused, tensor.longest_run) == (8192, True, None, None)
    assert tensor.counts == reference.histogram(data[tensor.start :][: 8192 + 32], (128, 256))
    assert tensor.digest == observe(payload).digest
    assert (tensor.scale, tensor.tail_class) == (0.75, "stale")
    assert tensor.tail == scaled(0.75, b"\x01" * 28)
    assert sum(tensor.shares) == pytest.approx(1)
    assert data[tensor.scale_span.start : tensor.scale_span.stop] == struct.pack("<f", 0.75)
    assert data[tensor.unused_span.start : tensor.unused_span.stop] == b"\x01" * 28
    assert tensor.constant is None


def test_runs_and_code_3() -> None:
    payload = bytearray(trits(8192))
    payload[1000:1300] = b"\x55" * 300
    payload[999] = payload[1300] = 0
    payload[4000] = 0xC0
    payload[-3:] = bytes(3)
    payload[-4] = 0x55
    [tensor] = seen(model(matrix(bytes(payload))))
    assert tensor.longest_run == ByteRun(1000, 300, 0x55)
    assert tensor.last_run == ByteRun(8189, 3, 0)
    assert tensor.first_unused == 4000
    [constant] = seen(model(matrix(b"\xaa" * 128)))
    assert constant.constant == 0xAA


@pytest.mark.parametrize("order", ["little", "big"])
def test_byte_order(order: Any) -> None:
    found = seen(Draft(order).data)
    assert [tensor.scale for tensor in found] == [0.75, 1.25]
    [other] = found.others
    assert (other.name, other.type, other.width, other.non_finite, other.first_non_finite) == (
        b"embedding.weight", "F32", 4, 0, None,
    )  # fmt: skip


@pytest.mark.parametrize("order", ["little", "big"])
def test_values_that_are_not_finite(order: Any) -> None:
    draft = Draft(order)
    start, _ = draft.span("data")
    broken = bytearray(draft.data)
    broken[start + 12 : start + 16] = struct.pack(("<" if order == "little" else ">") + "f", float("-inf"))
    [other] = seen(bytes(broken)).others
    assert (other.non_finite, other.first_non_finite) == (1, 12)


def sources(path: Path) -> dict[str, Callable[[], Source]]:
    data = path.read_bytes()
    return {
        "file": lambda: FileSource(path),
        "map": lambda: MapSource(path),
        "buffer": lambda: source_of(data),
        "stream": lambda: StreamSource(io.BytesIO(data)),
    }


@examples(25)
@given(st.lists(st.sampled_from([32, 64, 4096, 4128, 8192, 20_480, 300_032]), max_size=6), st.integers(1, 3), st.data())
def test_every_source_and_split_gives_the_same_survey(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], threads: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("survey") / "model.gguf"
    path.write_bytes(several(sizes))
    part, thread = data.draw(st.sampled_from([BLOCK, 5 * BLOCK, 1 << 22])), data.draw(st.sampled_from([1, 1 << 22]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(survey_reader, "PART", part)
        patch.setattr(survey_reader, "THREAD_BYTES", thread)
        patch.setattr(survey_reader, "BUFFER", data.draw(st.sampled_from([BLOCK, 1 << 18])))
        found = {name: make() for name, make in sources(path).items()}
        shown = [plain(seen(source, Reading("full", threads))) for source in found.values()]
    for source in found.values():
        source.close()
    assert all(other == shown[0] for other in shown)
    assert [tensor[4] for tensor in shown[0][0]] == sizes
    whole = path.read_bytes()
    for tensor in shown[0][0]:
        assert tensor[11] == observe(whole[tensor[3] : tensor[3] + tensor[4]]).digest


def test_sample_is_a_part_and_says_so(tmp_path: Path) -> None:
    size = 4_000_000
    payload = bytearray(trits(128) * (size // 128))
    payload[size // 2 + 5] = 0xFF
    payload[-9:] = bytes(9)
    data = model(matrix(bytes(payload), cols=128), matrix(trits(1024), b"small", cols=128))
    found = seen(data, Reading("sample"))
    assert not found.complete
    large, small = found
    assert large.read < 16 * (survey_reader.WINDOW + BLOCK)
    assert (large.complete, large.digest, sum(large.counts)) == (False, None, 4 * large.read)
    assert large.last_run is not None
    assert large.last_run.stop == size
    assert large.scale == 0.5
    assert small.complete
    assert found.read == large.read + small.read + 64
    assert seen(data)[0].first_unused == size // 2 + 5


@pytest.mark.parametrize("size", [262_144, 262_145, 262_176, 300_000, 1 << 22, (1 << 22) + 4095, 10_000_001])
@pytest.mark.parametrize("cut", [BLOCK, 7 * BLOCK, 33 * BLOCK])
def test_windows(size: int, cut: int) -> None:
    windows = list(survey_reader._windows(size, cut))
    assert windows[0][0] == 0
    assert windows[-1][1] == size
    assert all(start % BLOCK == 0 and start < stop for start, stop in windows)
    assert all(start % cut == 0 for start, _ in windows[:-1])
    assert all(one[1] <= other[0] for one, other in pairwise(windows))
    assert len(windows) in (1, survey_reader.WINDOWS) or (cut > BLOCK and len(windows) < survey_reader.WINDOWS)


def test_payload_none_reads_nothing() -> None:
    assert survey(File(source_of(Draft().data)), Reading("none")) is None
    assert survey(File(source_of(b"GGUF"))) is None


def test_tensors_that_do_not_lie_in_the_file_are_left_out() -> None:
    whole = several([4096, 4096, 4096])
    assert [tensor.row for tensor in seen(whole[:-1])] == [0, 1]
    draft = Draft()
    file = draft.records()
    file.tensor_infos[2].offset = file.tensor_infos[1].offset
    assert [tensor.row for tensor in seen(draft.built(file))] == [1]


def test_many_tensors_at_one_place_are_read_once() -> None:
    draft = Draft()
    file = draft.records()
    file.tensor_infos = [file.tensor_infos[1].copy() for _ in range(50)]
    for i, info in enumerate(file.tensor_infos):
        info.name = b"t%d" % i
        info.offset = 0
    found = seen(draft.built(file))
    assert found.read <= 128 + 32


def test_progress_grows_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(several([300_032] * 40))
    told: list[tuple[int, int]] = []
    found = seen(path, Reading("full", 2, lambda done, total: told.append((done, total))))
    assert told == sorted(told)
    assert told[-1] == (found.read, found.read)
    assert found.read == 40 * 300_064


def test_a_file_that_shrinks_is_an_answer(tmp_path: Path) -> None:
    running = set(threading.enumerate())
    path = tmp_path / "model.gguf"
    path.write_bytes(several([300_032] * 40))
    for threads in (1, 2):
        path.write_bytes(several([300_032] * 40))
        file = File(FileSource(path))
        os.truncate(path, 1_000_000)
        with pytest.raises(FormatError, match="S903"):
            survey(file, Reading("full", threads))
        file.close()
    assert set(threading.enumerate()) <= running


def test_an_interrupted_survey_leaves_nothing_behind(tmp_path: Path) -> None:
    running = set(threading.enumerate())
    gc.collect()  # garbage of other tests must not be collected during the measurement
    path = tmp_path / "model.gguf"
    path.write_bytes(several([300_032] * 60))
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    file = File(FileSource(path))
    with pytest.raises(KeyboardInterrupt):
        survey(file, Reading("full", 2, interrupt))
    with survey_reader.SurveyReader(file, Reading("full", 2)) as begun:
        begun.begin()
    file.close()
    assert set(threading.enumerate()) <= running
    if before:
        assert len(os.listdir("/proc/self/fd")) <= before


def test_wrong_arguments() -> None:
    file = File(source_of(Draft().data))
    with pytest.raises(ValueError, match="unknown mode 'all'"):
        survey(file, Reading("all"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="0 threads"):
        survey(file, Reading("full", 0))


def test_a_survey_is_a_sequence() -> None:
    found = seen(several([4096, 8192, 4096]))
    assert [tensor.name for tensor in found[1:]] == [b"t1", b"t2"]
    assert found[-1] == found[2]
    assert [tensor.row for tensor in found] == [0, 1, 2]
    assert [(row, size, place) for row, _, size, place in found.extents()] == [
        (0, 4128, 0), (1, 8224, 1), (2, 4128, 2),
    ]  # fmt: skip
    with pytest.raises(IndexError):
        found[3]


def hole(path: Path, size: int, written: dict[int, bytes]) -> Path:
    """A file with one I2_S tensor of `size` bytes of payload, of which only some were written."""
    draft = Draft()
    file = draft.records()
    file.tensor_infos = file.tensor_infos[1:2]
    file.tensor_infos[0].ne, file.tensor_infos[0].offset = [1 << 14, size >> 12], 0
    file.data = b""
    path.write_bytes(draft.built(file))
    start = path.stat().st_size
    os.truncate(path, start + size + 32)
    with path.open("r+b") as out:
        for at, data in written.items():
            out.seek(start + at)
            out.write(data)
    return path


def test_holes_are_not_read(tmp_path: Path) -> None:
    """A terabyte that was never written takes no time; what was written in it is seen."""
    size = 1 << 40
    data = trits(1 << 16)
    path = hole(tmp_path / "hole.gguf", size, {1 << 39: data, size - 1000: b"\x55" * 1000 + struct.pack("<f", 0.5)})
    if 512 * path.stat().st_blocks >= size:
        pytest.skip("this file system has no holes")
    [tensor] = seen(path, Reading("full", 2))
    assert tensor.read < 1 << 28
    assert (tensor.complete, tensor.digest, tensor.scale) == (False, None, 0.5)
    assert tensor.counts[2] == reference.histogram(data + bytes(32), (128, 2048))[2]
    assert tensor.last_run == ByteRun(size - 1000, 1000, 0x55)


def test_memory_does_not_grow_with_the_tensors(tmp_path: Path) -> None:
    """What is kept of a large tensor is what is kept of a small one."""
    size = 1 << 26
    path = hole(tmp_path / "large.gguf", size, {0: bytes(size)})
    tracemalloc.start()
    [tensor] = seen(path, Reading("full", 2))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
    assert tensor.constant == 0
    assert tensor.counts == (4 * size, 0, 0, 0)


# --- bytes after the scale ---


def test_leftovers(shared: Path) -> None:
    """Files of llama-quantize have bytes of earlier tensors there, and files of the Python converter zeros."""
    folder = shared / "vectors" / "gguf"
    for name, known, zero in (
        ("bitnet.i2_s.gguf", 14, 0),
        ("bitnet.i2_s.arm64block.gguf", 14, 0),
        ("bitnet-b1.58.i2_s.via_llama_quantize.gguf", 14, 0),
        ("bitnet-25.i2_s.gguf", 8, 6),
        ("bitnet-b1.58.packed.i2_s.direct.gguf", 0, 14),
    ):
        with File(FileSource(folder / name)) as file:
            found = survey(file)
            assert found is not None
            left = leftovers(file, found)
            assert (len(left.known), len(left.unknown), len(left.replicated)) == (known, 0, 0)
            assert sum(tensor.tail_class == "zero" for tensor in found) == zero


def test_kinds_of_leftovers() -> None:
    large = trits(16_384, 4)
    rest = large[8192 + 4 : 8192 + 32]
    one = matrix(large, b"one")
    cases = {
        "known": scaled(0.5, rest),
        "unknown": scaled(0.5, rest[::-1]),
        "replicated": struct.pack("<f", 0.5) * 8,
        "zero": scaled(0.5),
    }
    for kind, tail in cases.items():
        file = File(source_of(model(one, matrix(trits(8192), b"two", tail=tail))))
        found = survey(file)
        assert found is not None
        left = leftovers(file, found)
        assert {name: list(getattr(left, name)) for name in ("known", "unknown", "replicated")} == {
            name: [1] if name == kind else [] for name in ("known", "unknown", "replicated")
        }
        assert leftovers(file, found, [0]) == leftovers(file, found, [])
