"""Weights that are read in the background: what is read, when, and that nothing is left behind."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model.test_fast_compile import model_file

import i2s_spec as i2s
from i2s_spec import FormatError
from i2s_spec.gguf.source import FileSource
from i2s_spec.gguf.writer import Writer
from i2s_spec.model import read_ahead
from i2s_spec.model.load import load_model
from i2s_spec.model.read_ahead import ReadAhead
from i2s_spec.schema.dialect import CANONICAL, parse


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(model_file())
    return path


class Slow(FileSource):
    """A file whose reads into memory wait for a gate once it is armed, and can fail."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate, self.begun = threading.Event(), threading.Event()
        self.armed = self.fails = False

    def readinto(self, start: int, buffer: memoryview) -> None:
        if not self.armed:
            super().readinto(start, buffer)
            return
        self.begun.set()
        assert self.gate.wait(60)
        if self.fails:
            raise FormatError(i2s.schema.faults.UNREADABLE, i2s.Span(start, start + 1), reason="made up")
        super().readinto(start, buffer)


def workers() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("read-ahead")]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_every_tensor_has_its_bytes(path: Path, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "PIECE", 1000)  # tensors in several pieces
    seen: list[tuple[int, int]] = []
    with i2s.open(path) as file:
        found = ReadAhead(file, CANONICAL, threads).finish(lambda *each: seen.append(each))
        assert list(found) == list(file.tensors)
        for name, data in found.items():
            span = file.tensors[name].span
            assert data.tobytes() == path.read_bytes()[span.start : span.stop]
            assert data.ctypes.data % read_ahead.CACHE_LINE == 0
        total = sum(each.nbytes for each in file.tensors.values())
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert not workers()


def test_a_local_file_is_read_while_it_is_checked(path: Path) -> None:
    source = Slow(path)
    with i2s.open(source) as file:
        source.armed = bool(file.tensors)
        ahead = ReadAhead(file, CANONICAL, 2)
        assert source.begun.wait(60)
        source.gate.set()
        assert len(ahead.finish()) == len(file.tensors)


def test_one_thread_reads_only_when_it_is_waited_for(path: Path) -> None:
    source = Slow(path)
    source.gate.set()
    with i2s.open(source) as file:
        source.armed = bool(file.tensors)
        ahead = ReadAhead(file, CANONICAL, 1)
        assert not source.begun.is_set()
        assert len(ahead.finish()) == len(file.tensors)


def test_what_is_fetched_or_has_one_position_is_not_read_before_the_checks(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[24:32] = b"\xff" * 8  # the size of the first key
    stream = io.BytesIO(data)
    with pytest.raises(FormatError, match="G"):
        load_model(stream, "fast", threads=2)
    read: list[int] = []

    class Counted(io.BytesIO):
        def readinto(self, buffer: Any) -> int:
            read.append(len(buffer))
            return super().readinto(buffer)

    with i2s.open(Counted(path.read_bytes())) as file:
        before = len(read)
        ahead = ReadAhead(file, CANONICAL, 2)
        assert len(read) == before
        assert len(ahead.finish()) == len(file.tensors)


def test_a_refused_file_leaves_no_thread(path: Path, tmp_path: Path) -> None:
    from i2s_spec.convert.rewrite import rewrite

    broken = tmp_path / "broken.gguf"
    with i2s.open(path) as file:
        rewrite(path, broken, drop_keys=[next(key for key in file.metadata if key.endswith(".block_count"))])
    with pytest.raises(FormatError, match="M002"):
        load_model(broken, "fast", threads=2)
    assert not workers()


def test_a_failed_read_is_the_error_of_loading(path: Path) -> None:
    source = Slow(path)
    source.gate.set()
    file = i2s.open(source)
    source.armed = source.fails = bool(file.tensors)
    with pytest.raises(FormatError, match="made up"):
        load_model(file, "fast", threads=2)
    assert not workers()


def test_a_file_that_shrinks(path: Path) -> None:
    source = Slow(path)
    file = i2s.open(source)
    source.armed = bool(file.tensors)
    ahead = ReadAhead(file, CANONICAL, 2)
    assert source.begun.wait(60)
    with path.open("r+b") as shortened:
        shortened.truncate(source.size // 2)
    source.gate.set()
    with pytest.raises(FormatError, match="S9"):
        ahead.finish()
    ahead.close()
    file.close()
    assert not workers()


def test_no_more_is_read_than_the_file_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tensors may claim the same bytes, or bytes behind the end; and there may be too many."""
    path = tmp_path / "many.gguf"
    with Writer(path) as writer:
        writer.add("general.architecture", "llama")
        for i in range(3):
            writer.add_tensor(f"t{i}", (64,), "F32", np.float32([i] * 64).tobytes())
    with i2s.open(path) as file:
        assert len(ReadAhead(file, CANONICAL, 2).finish()) == 3
        monkeypatch.setattr(read_ahead, "MOST_TENSORS", 2)
        assert ReadAhead(file, CANONICAL, 2).finish() == {}
        monkeypatch.undo()
        infos = [each.info for each in file.tensors.values()]
        offsets = [each.offset_span for each in infos]
    data = bytearray(path.read_bytes())
    for span in offsets:
        data[span.start : span.stop] = bytes(8)
    path.write_bytes(data[: len(data) - 512])
    with i2s.open(path) as file:
        assert ReadAhead(file, CANONICAL, 2).finish() == {}
    path.write_bytes(data[: len(data) - 600])
    with i2s.open(path) as file:
        assert ReadAhead(file, CANONICAL, 2).finish() == {}


def test_tensors_that_are_converted_are_left_out(path: Path) -> None:
    with i2s.open(path) as file:
        found = ReadAhead(file, parse("interleave-64"), 2).finish()
        kinds = {each.kind for each in file.tensors.values()}
        assert "I2_S" in kinds
        assert set(found) == {name for name, each in file.tensors.items() if each.kind != "I2_S"}


def test_a_map_is_not_copied(path: Path) -> None:
    """Its pages are looked up; then the model reads them in their place."""
    seen: list[tuple[int, int]] = []
    with i2s.open(path, trusted=True) as mapped:
        assert ReadAhead(mapped, CANONICAL, 2).finish(lambda *each: seen.append(each)) == {}
    assert seen[-1][0] == seen[-1][1] > 0
    assert ReadAhead(i2s.open(path.read_bytes()), CANONICAL, 2).finish(lambda *each: seen.clear()) == {}
    assert seen
    assert not workers()


@pytest.mark.parametrize("started", [0, 1])
def test_what_no_thread_can_read_the_caller_reads(path: Path, started: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a system permits no more threads: all bytes are there, and nothing is left behind."""
    left, start = [started], threading.Thread.start

    def limited(self: threading.Thread) -> None:
        if self.name.startswith("read-ahead"):
            if not left[0]:
                raise RuntimeError("can't start new thread")
            left[0] -= 1
        start(self)

    expected = load_model(path, "fast", threads=1).forward([1, 2, 3]).logits
    monkeypatch.setattr(read_ahead, "PIECE", 1000)
    monkeypatch.setattr(threading.Thread, "start", limited)
    seen: list[tuple[int, int]] = []
    for trusted in (False, True):
        left[0] = started
        with load_model(path, "fast", threads=3, trusted=trusted, progress=lambda *each: seen.append(each)) as model:
            assert model.forward([1, 2, 3]).logits.tobytes() == expected.tobytes()
        assert not left[0]
        assert seen[-1][0] == seen[-1][1]
        assert not workers()


def test_an_interrupt_while_threads_are_started_leaves_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit, left = read_ahead.ThreadPoolExecutor.submit, [2]

    def interrupted(self: Any, *job: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return submit(self, *job)

    monkeypatch.setattr(read_ahead.ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        load_model(path, "fast", threads=2)
    assert not workers()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_file_that_is_written_to_after_it_was_checked(path: Path, threads: int) -> None:
    """The last bytes that are read may be others than those that were checked."""

    def write(done: int, total: int) -> None:
        if done == total:
            with path.open("r+b") as file:
                file.seek(-64, 2)
                file.write(bytes(64))

    with pytest.raises(FormatError, match="S903"):
        load_model(path, "fast", threads=threads, progress=write)
    assert not workers()


@pytest.mark.parametrize("trusted", [False, True])
def test_weights_that_a_closed_model_has_not_read(path: Path, trusted: bool) -> None:
    """Those that were read stay usable."""
    read = load_model(path, "fast", threads=2, trusted=trusted)
    expected = read.forward([1, 2, 3]).logits
    read.close()
    assert read.forward([1, 2, 3]).logits.tobytes() == expected.tobytes()
    model = load_model(path, trusted=trusted)
    model.close()
    with pytest.raises(ValueError, match="is closed"):
        model.forward([1, 2, 3])
