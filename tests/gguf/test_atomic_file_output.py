"""Files appear complete or not at all, and never replace another file unless requested."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
from collections import namedtuple
from pathlib import Path

import pytest

from i2s_spec.gguf import atomic_file
from i2s_spec.gguf import atomic_file as unfinished
from i2s_spec.gguf.atomic_file import OutputFile, refuse_inputs, refuse_taken, write_all
from i2s_spec.gguf.source import BufferSource, FileSource, MapSource, StreamSource

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_the_name_appears_with_the_last_byte(target: Path) -> None:
    with OutputFile(target, size=5) as output:
        output.write(b"ab")
        (part,) = names(target.parent)
        assert part.startswith(".model.gguf.")
        assert part.endswith(".part")
        output.write(memoryview(b"cde"))
    assert names(target.parent) == ["model.gguf"]
    assert target.read_bytes() == b"abcde"


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("force", [False, True])
def test_a_failure_leaves_nothing_behind(target: Path, failure: type[BaseException], force: bool) -> None:
    if force:
        target.write_bytes(b"before")

    def fails() -> None:
        with OutputFile(target, force=force) as output:
            output.write(b"half")
            raise failure

    with pytest.raises(failure):
        fails()
    assert names(target.parent) == (["model.gguf"] if force else [])
    assert not force or target.read_bytes() == b"before"


@pytest.mark.parametrize("step", ["fsync", "link", "replace"])
@pytest.mark.parametrize("failure", [OSError(errno.EIO, "input/output error"), KeyboardInterrupt()])
def test_a_failure_of_the_last_step_leaves_nothing_behind(
    target: Path, monkeypatch: pytest.MonkeyPatch, step: str, failure: BaseException
) -> None:
    def fails(*args: object, **kwargs: object) -> None:
        raise failure

    force = step == "replace"
    if force:
        target.write_bytes(b"before")
    monkeypatch.setattr(os, step, fails)
    with pytest.raises(type(failure)), OutputFile(target, force=force) as output:
        output.write(b"whole")
    assert names(target.parent) == (["model.gguf"] if force else [])
    assert not force or target.read_bytes() == b"before"


def test_an_existing_file_is_refused_before_anything_is_written(target: Path) -> None:
    target.write_bytes(b"before")
    with pytest.raises(FileExistsError, match="there is a file of this name already") as error:
        OutputFile(target)
    assert error.value.filename == str(target)
    assert names(target.parent) == ["model.gguf"]
    with OutputFile(target, force=True) as output:
        output.write(b"after")
    assert target.read_bytes() == b"after"


@pytest.mark.parametrize("seen", [True, False], ids=["before the check", "after the check"])
def test_a_file_that_appears_meanwhile_is_not_replaced(
    target: Path, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    output = OutputFile(target)
    output.write(b"ours")
    target.write_bytes(b"theirs")
    if not seen:  # the other file appears just after the check
        monkeypatch.setattr("i2s_spec.gguf.atomic_file.refuse_taken", lambda *args: None)
    with pytest.raises(FileExistsError, match="there is a file of this name already"):
        output.commit()
    assert target.read_bytes() == b"theirs"
    assert names(target.parent) == ["model.gguf"]


class TestWithoutHardLinks:
    @pytest.fixture(autouse=True)
    def no_links(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuses(*args: object) -> None:
            raise OSError(errno.EPERM, "operation not permitted")

        monkeypatch.setattr(os, "link", refuses)

    def test_the_file_is_written(self, target: Path) -> None:
        with OutputFile(target) as output:
            output.write(b"whole")
        assert target.read_bytes() == b"whole"
        assert names(target.parent) == ["model.gguf"]

    def test_another_file_is_not_replaced(self, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        output = OutputFile(target)
        target.write_bytes(b"theirs")
        monkeypatch.setattr("i2s_spec.gguf.atomic_file.refuse_taken", lambda *args: None)
        with pytest.raises(FileExistsError):
            output.commit()
        assert target.read_bytes() == b"theirs"
        assert names(target.parent) == ["model.gguf"]

    def test_a_failure_frees_the_name_again(self, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*args: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(os, "replace", fails)
        with pytest.raises(KeyboardInterrupt), OutputFile(target) as output:
            output.write(b"whole")
        assert names(target.parent) == []


def test_a_full_disk_is_reported_before_anything_is_written(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(10_000, 9_000, 1_000))
    with pytest.raises(OSError, match="the file takes 1,001 bytes and the disk has 1,000 free") as error:
        OutputFile(target, size=1001)
    assert error.value.errno == errno.ENOSPC
    assert names(target.parent) == []
    OutputFile(target, size=1000).discard()


def test_a_file_system_of_unknown_free_space_is_tried(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(0, 0, 0))
    OutputFile(target, size=1000).discard()

    def fails(folder: str) -> Usage:
        raise OSError(errno.ENOSYS, "not implemented")

    monkeypatch.setattr(shutil, "disk_usage", fails)
    OutputFile(target, size=1000).discard()


def test_a_disk_that_fills_up_is_about_the_name_asked_for(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: object) -> int:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="no space left") as error, OutputFile(target) as output:
        output.write(b"x")
    assert error.value.filename == str(target)
    assert names(target.parent) == []


def test_a_write_that_takes_a_part_is_continued(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    with OutputFile(target) as output:
        monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
        output.write(bytes(range(100)))
    assert target.read_bytes() == bytes(range(100))


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_mode_that_the_umask_leaves(target: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with OutputFile(target) as output:
            output.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_a_replaced_file_keeps_its_mode(target: Path) -> None:
    target.write_bytes(b"before")
    target.chmod(0o640)
    with OutputFile(target, force=True) as output:
        output.write(b"after")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_link_is_replaced_and_what_it_points_to_is_not(target: Path) -> None:
    other = target.with_name("blob")
    other.write_bytes(b"blob")
    target.symlink_to(other)
    with pytest.raises(FileExistsError):
        OutputFile(target)
    with OutputFile(target, force=True) as output:
        output.write(b"after")
    assert not target.is_symlink()
    assert (target.read_bytes(), other.read_bytes()) == (b"after", b"blob")


def test_a_dangling_link_counts_as_an_existing_file(target: Path) -> None:
    target.symlink_to(target.with_name("nowhere"))
    with pytest.raises(FileExistsError):
        refuse_taken(target)
    refuse_taken(target, force=True)


@pytest.mark.parametrize("force", [False, True])
def test_folders_devices_and_pipes_are_never_replaced(target: Path, force: bool) -> None:
    with pytest.raises(IsADirectoryError, match="a folder"):
        refuse_taken(target.parent, force)
    with pytest.raises(IsADirectoryError, match="needs a name"):
        refuse_taken("", force)
    with pytest.raises(OSError, match="only a regular file can be replaced"):
        refuse_taken("/dev/null", force)
    os.mkfifo(target)
    with pytest.raises(OSError, match="only a regular file can be replaced"):
        refuse_taken(target, force)
    with pytest.raises(FileNotFoundError, match="the folder for the file does not exist"):
        refuse_taken(target.with_name("none") / "model.gguf", force)


def test_a_pipe_that_appears_meanwhile_is_not_replaced(target: Path) -> None:
    output = OutputFile(target, force=True)
    os.mkfifo(target)
    with pytest.raises(OSError, match="only a regular file can be replaced"):
        output.commit()
    assert names(target.parent) == ["model.gguf"]
    assert stat.S_ISFIFO(target.stat().st_mode)


def test_a_long_name_fits_with_its_ending(target: Path) -> None:
    path = target.with_name("é" * 125 + ".gguf")
    with OutputFile(path) as output:
        output.write(b"x")
    assert names(target.parent) == [path.name]


def test_the_working_folder_may_change(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(target.parent)
    with OutputFile("model.gguf") as output:
        os.chdir("/")
        output.write(b"x")
    assert target.read_bytes() == b"x"


def test_ctrl_c_in_another_process_leaves_nothing_behind(target: Path) -> None:
    program = """
        import sys
        from i2s_spec.gguf.atomic_file import OutputFile
        with OutputFile(sys.argv[1]) as output:
            output.write(b"x" * 1000)
            print("half", flush=True)
            sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        assert len(names(target.parent)) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(20) != 0
    assert names(target.parent) == []


class TestSourceAsTarget:
    @pytest.fixture
    def path(self, target: Path) -> Path:
        target.write_bytes(b"source")
        return target

    @pytest.mark.parametrize("kind", [FileSource, MapSource])
    def test_the_input_file_is_refused_under_every_name(
        self, path: Path, kind: type[FileSource] | type[MapSource]
    ) -> None:
        source = kind(path)
        other = path.with_name("link")
        os.link(path, other)
        for name in (path, other):
            with pytest.raises(FileExistsError, match="this is an input file"):
                refuse_inputs(name, source)
        refuse_inputs(path.with_name("new"), source)
        source.close()

    def test_the_source_stays_readable_until_it_is_replaced(self, path: Path) -> None:
        source = FileSource(path)
        with OutputFile(path, force=True) as output:
            output.write(source.read(0, 3))
            assert path.read_bytes() == b"source"
            output.write(source.read(3, 3).upper())
        assert path.read_bytes() == b"souRCE"
        assert source.read(0, 6) == b"source"
        source.close()

    def test_a_stream_onto_the_source_is_refused_even_with_force(self, path: Path) -> None:
        with path.open("r+b") as stream:
            for source in (FileSource(path), StreamSource(stream)):
                with pytest.raises(ValueError, match="read back half-written"):
                    refuse_inputs(stream, source)
                source.close()
        memory = io.BytesIO(b"source")
        with pytest.raises(ValueError, match="read back half-written"):
            refuse_inputs(memory, StreamSource(memory))
        refuse_inputs(io.BytesIO(), StreamSource(memory))
        refuse_inputs(memory, BufferSource(b"source"))


def test_a_stream_that_takes_parts_gets_everything() -> None:
    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            self.got = b""

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.got += bytes(memoryview(data)[:7])  # type: ignore[arg-type]
            return min(7, len(data))  # type: ignore[arg-type]

    slow = Slow()
    write_all(slow, bytes(range(50)))  # type: ignore[arg-type]
    write_all(slow, b"")  # type: ignore[arg-type]
    assert slow.got == bytes(range(50))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc what is open")
@pytest.mark.parametrize("force", [False, True])
def test_a_system_like_windows(target: Path, monkeypatch: pytest.MonkeyPatch, force: bool) -> None:
    """As on Windows: open files can be neither renamed nor removed, files are text by default, and have no modes."""
    binary, really_open = 1 << 30, os.open
    flags: list[int] = []

    def opened(path: str, flag: int, mode: int = 0o777) -> int:
        flags.append(flag)
        return really_open(path, flag & ~binary, mode)

    def closed_first(name: str) -> None:
        really = getattr(os, name)

        def call(path: str, *rest: str) -> None:
            fds = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
            if os.path.realpath(path) in {os.path.realpath(fd) for fd in fds}:
                raise PermissionError(errno.EACCES, "another process uses the file", path)
            really(path, *rest)

        monkeypatch.setattr(os, name, call)

    for name in ("replace", "link", "unlink"):
        closed_first(name)
    monkeypatch.delattr(os, "fchmod")
    monkeypatch.setattr(os, "O_BINARY", binary, raising=False)
    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(unfinished, "fcntl", None)
    monkeypatch.setattr(atomic_file, "_KEEPS_NAME", True)
    if force:
        target.write_bytes(b"before")
    with OutputFile(target, force=force) as output:
        output.write(b"a\nb")
    assert target.read_bytes() == b"a\nb"
    assert flags[0] & binary
    with pytest.raises(ZeroDivisionError), OutputFile(target, force=True) as output:
        output.write(bytes([1 // 0]))
    assert names(target.parent) == ["model.gguf"]


def test_a_folder_in_a_file_is_refused_for_what_it_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for name in ("file/out", "file/deeper/out"):
        with pytest.raises(NotADirectoryError) as caught:
            atomic_file.refuse_full_folder(tmp_path / name)
        assert not isinstance(caught.value, FileExistsError)
