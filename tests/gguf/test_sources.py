"""Every source returns exactly the requested bytes, or reports why it cannot."""

from __future__ import annotations

import io
import os
import socket
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from i2s_spec.errors import FormatError
from i2s_spec.gguf.source import (
    BufferSource,
    FileSource,
    MapSource,
    PathSource,
    SeekingSource,
    Source,
    StreamSource,
    chunks,
    source_of,
)

DATA = bytes(range(200))

KINDS: dict[str, Callable[[Path], Source]] = {
    "buffer": lambda path: BufferSource(DATA),
    "words": lambda path: BufferSource(array("I", DATA)),
    "file": FileSource,
    "seeking": SeekingSource,
    "stream": lambda path: StreamSource(io.BytesIO(DATA)),
    "map": MapSource,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "data"
    path.write_bytes(DATA)
    return path


@pytest.fixture(params=list(KINDS))
def source(request: pytest.FixtureRequest, path: Path) -> Iterator[Source]:
    made = KINDS[request.param](path)
    yield made
    made.close()


class Sips(io.BytesIO):
    """A stream that gives three bytes at a time."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(3 if size is None or size < 0 else min(size, 3))


@pytest.mark.parametrize("start", [0, 1, 7, 199, 200])
def test_ranges(source: Source, start: int) -> None:
    assert source.size == 200
    for length in {0, 1, 10, 200 - start} & set(range(200 - start + 1)):
        assert source.read(start, length) == DATA[start : start + length]
        buffer = bytearray(length)
        source.readinto(start, memoryview(buffer))
        assert buffer == DATA[start : start + length]
    assert source.read(0, 4) == DATA[:4]  # independent of where the last read ended


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (-5, 5), (0, 201), (200, 1), (201, 0), (10, -1)])
def test_ranges_outside(source: Source, start: int, length: int) -> None:
    with pytest.raises(FormatError) as error:
        source.read(start, length)
    assert error.value.code == "S903"
    if length >= 0:
        with pytest.raises(FormatError):
            source.readinto(start, memoryview(bytearray(length)))


def test_chunks(source: Source) -> None:
    assert list(chunks(source, 10, 31, 10)) == [DATA[10:20], DATA[20:30], DATA[30:31]]
    assert list(chunks(source, 180, 200, 10)) == [DATA[180:190], DATA[190:]]
    assert not list(chunks(source, 5, 5))


def test_reads_that_give_less_than_was_asked_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pread, preadv, read = os.pread, os.preadv, os.read
    monkeypatch.setattr(os, "read", lambda fd, length: read(fd, min(length, 3)))
    monkeypatch.setattr(os, "pread", lambda fd, length, at: pread(fd, min(length, 3), at))
    monkeypatch.setattr(os, "preadv", lambda fd, buffers, at: preadv(fd, [buffers[0][:3]], at))
    for source in (FileSource(path), SeekingSource(path), StreamSource(Sips(DATA))):
        assert source.read(5, 17) == DATA[5:22]
        buffer = bytearray(17)
        source.readinto(5, memoryview(buffer))
        assert buffer == DATA[5:22]
        source.close()


def test_a_system_without_reading_at_an_offset(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows: paths are read by seeking, lint finds the same, and threads do not change each other's position."""
    from concurrent.futures import ThreadPoolExecutor

    from i2s_spec.gguf import source as module
    from i2s_spec.linter.engine import lint
    from i2s_spec.testing.sample import Draft

    assert PathSource is FileSource
    monkeypatch.setattr(module, "PathSource", SeekingSource)
    monkeypatch.delattr(os, "pread")
    monkeypatch.delattr(os, "preadv")
    with ThreadPoolExecutor(4) as pool:
        source = source_of(path)
        assert type(source) is SeekingSource
        found = pool.map(lambda i: source.read(i % 190, 10), range(2000))
        assert all(data == DATA[i % 190 : i % 190 + 10] for i, data in enumerate(found))
        source.close()
    for data in (Draft().data, Draft().data[:-20]):
        path.write_bytes(data)
        assert lint(path).as_dict()["findings"] == lint(data).as_dict()["findings"]


@pytest.mark.requirement("R12.4-2")
def test_inputs_that_became_shorter(path: Path) -> None:
    stream = io.BytesIO(DATA)
    for source in (FileSource(path), SeekingSource(path), StreamSource(stream)):
        path.write_bytes(DATA[:50])
        stream.truncate(50)
        for read in (lambda s: s.read(45, 20), lambda s: s.readinto(45, memoryview(bytearray(20)))):
            with pytest.raises(FormatError, match="it ends at byte 50 now, and had 200 bytes") as error:
                read(source)
            assert (error.value.code, error.value.span[:2]) == ("S903", (50, 200))
        assert source.changed() == "its size went from 200 to 50 bytes"
        source.close()
        path.write_bytes(DATA)


@pytest.mark.requirement("R12.4-2")
def test_inputs_that_were_written_to(path: Path) -> None:
    os.utime(path, ns=(10**18, 10**18))
    source = FileSource(path)
    assert source.changed() is None
    os.utime(path, ns=(10**18, 10**18 + 1))
    assert source.changed() == "it was written to"
    path.write_bytes(DATA + b"more")
    assert source.changed() == "its size went from 200 to 204 bytes"
    source.close()
    assert BufferSource(DATA).changed() is None
    assert StreamSource(io.BytesIO(DATA)).changed() is None


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.touch()
    for trusted in (False, True):
        source = source_of(path, trusted)
        assert (source.size, source.read(0, 0)) == (0, b"")
        source.close()


@pytest.mark.requirement("R12.4-1")
def test_paths_that_are_not_regular_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket"))
        for name, code, word in [
            ("", "S902", "a directory"), ("fifo", "S902", "a FIFO"), ("/dev/null", "S902", "a character device"),
            ("socket", "S901", "cannot be read"), ("missing", "S901", "cannot be read"),
        ]:  # fmt: skip
            for trusted in (False, True):
                with pytest.raises(FormatError, match=word) as error:
                    source_of(tmp_path / name, trusted)
                assert error.value.code == code, name


@pytest.mark.requirement("R12.4-3")
def test_every_kind_of_source_can_be_opened(path: Path) -> None:
    mine = BufferSource(b"")
    assert source_of(mine) is mine
    with path.open("rb") as stream:
        opened: list[tuple[Any, type]] = [
            (str(path), FileSource), (DATA, BufferSource), (memoryview(DATA), BufferSource), (stream, StreamSource),
        ]  # fmt: skip
        for origin, kind in opened:
            source = source_of(origin)
            assert type(source) is kind
            assert source.read(0, source.size) == DATA
            source.close()
    with pytest.raises(TypeError, match="from int"):
        source_of(7)


@pytest.mark.parametrize("kind", [FileSource, MapSource, lambda path: BufferSource(path.read_bytes())])
def test_a_closed_source_says_so(path: Path, kind: Callable[[Path], Source]) -> None:
    """And gives no fewer bytes than it was asked for."""
    source = kind(path)
    source.close()
    source.close()
    for read in (lambda: source.read(0, 2), lambda: source.readinto(0, memoryview(bytearray(2)))):
        with pytest.raises(ValueError, match="is closed"):
            read()
    if not isinstance(source, FileSource):
        with pytest.raises(ValueError, match="is closed"):
            _ = source.view
