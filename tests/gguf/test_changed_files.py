"""Every command that reads reports if a file changes while it is read."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from i2s_spec.cli import main
from i2s_spec.convert.new import new
from i2s_spec.errors import FormatError
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.gguf.source import FileSource, StreamSource
from i2s_spec.golden import dumps
from i2s_spec.testing.sample import Draft


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("changed") / "model.gguf"
    new(path, "bitnet-b1.58", layers=1)
    return path


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(32))


def overwritten(path: Path) -> None:
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(1, 1))


def restored(path: Path) -> None:
    """As `overwritten`, but only the time of the last status change (ctime) reveals it."""
    before = path.stat()
    overwritten(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


VERBS: dict[str, Callable[[Path, Path], list[str]]] = {
    "hash": lambda path, out: ["hash", str(path)],
    "diff": lambda path, out: ["diff", str(path), str(path)],
    "identify": lambda path, out: ["identify", str(path)],
    "show": lambda path, out: ["show", str(path)],
    "dump": lambda path, out: ["dump", str(path)],
    "decode": lambda path, out: ["decode", str(path), "blk.0.attn_q.weight", str(out / "a.npy")],
    "run": lambda path, out: ["run", str(path), "--tokens", "1,2", "-n", "1"],
    "golden": lambda path, out: ["golden", "record", str(path), "--tokens", "1,2", "-o", str(out / "g")],
    "convert": lambda path, out: ["convert", str(path), str(out / "b.gguf"), "--to", "F16"],
    "convert to safetensors": lambda path, out: ["convert", str(path), str(out / "b.safetensors")],
    "export": lambda path, out: ["export", str(path), "-o", str(out / "b")],
    "perplexity": lambda path, out: ["perplexity", str(path), "--tokens", "1,2,3,4,5,6,7,8", "-c", "4"],
    "doctor": lambda path, out: ["doctor", str(path)],
    "fix": lambda path, out: ["fix", str(path), "-o", str(out / "c.gguf")],
    "sanitize": lambda path, out: ["sanitize", str(path), "-o", str(out / "d.gguf")],
    "lint": lambda path, out: ["lint", str(path)],
}


@pytest.mark.requirement("R12.4-2")
@pytest.mark.parametrize("change", [grown, overwritten, restored])
@pytest.mark.parametrize("verb", VERBS)
def test_a_change_while_reading_is_said(
    verb: str, change: Callable[[Path], None], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "model.gguf"
    path.write_bytes(model.read_bytes())
    opened, done = FileSource.__init__, list[None]()

    def opening(self: FileSource, place: Any) -> None:
        opened(self, place)
        if not done and Path(place) == path:
            done.append(None)
            change(path)

    monkeypatch.setattr(FileSource, "__init__", opening)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(VERBS[verb](path, tmp_path))
    said = capsys.readouterr()
    assert done
    assert ended.value.code == (1 if verb in ("lint", "doctor") else 3), said  # the linter reports it as a finding
    assert "S903" in said.err + said.out
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.gguf"]


def test_an_error_in_the_block_is_not_hidden(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(Draft().data)

    def failing() -> None:
        with open_file(path):
            grown(path)
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    with pytest.raises(FormatError, match="S903"), open_file(path):
        grown(path)


class Slow(io.BytesIO):
    """A stream that lets other threads run between its `seek` and its `read`."""

    def read(self, size: int | None = -1, /) -> bytes:
        event.wait(0.0005)
        return super().read(size)


event = threading.Event()


def test_threads_share_a_stream() -> None:
    data = bytes(range(256)) * 16
    source, wrong = StreamSource(Slow(data)), list[int]()

    def reading(start: int) -> None:
        wrong.extend(at for at in range(start, len(data), 8 * 64) if source.read(at, 40) != data[at : at + 40])

    threads = [threading.Thread(target=reading, args=(64 * i + i,)) for i in range(8)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


# --- files that are not GGUF files -----------------------------------------------------------------------------------

#: Calls that read a file of another format, or a second file: the file that changes, at which opening, and the exit
#: code.
OTHERS: dict[str, tuple[str, str, int, int]] = {
    "import": ("import C -o o.gguf", "C/model.safetensors", 1, 3),
    "import with its receipt": ("import C -o o.gguf --receipt r.json", "C/model.safetensors", 1, 3),
    "verify": ("verify I.gguf --receipt I.json --against C", "C/model.safetensors", 1, 3),
    "doctor, after its linter": ("doctor M.gguf", "M.gguf", 2, 1),
    "lint of a checkpoint": ("lint C", "C/model.safetensors", 1, 1),
    "lint with a checkpoint": ("lint M.gguf --reference C", "C/model.safetensors", 1, 1),
    "lint with a model": ("lint M.gguf --reference N.gguf", "N.gguf", 2, 1),  # the first opening detects the format
    "convert": ("convert P.safetensors o.gguf --into M.gguf --weight-scale multiply", "P.safetensors", 1, 3),
    "encode": ("encode A.npy o.i2s --scale 1", "A.npy", 1, 3),
    "identify": ("identify M.gguf --reference A.npy --tensor blk.0.attn_q.weight", "A.npy", 1, 3),
    "compare": ("golden compare G T.safetensors", "T.safetensors", 0, 3),
    "compare with an archive": ("golden compare G Z/taps.npz", "Z/taps.npz", 0, 3),
    "compare with a record": ("golden compare G Z", "Z/taps.npz", 0, 3),
    "compare with a folder": ("golden compare G F", "F/result_output.npy", 0, 3),
    "compare with a text": ("golden compare G G/eval-callback.txt", "G/eval-callback.txt", 0, 3),
}


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("others")
    with contextlib.chdir(folder):
        for words in (
            "new M.gguf --layers 1", "new N.gguf --layers 1", "export M.gguf -o C",
            "import C -o I.gguf --receipt I.json", "decode M.gguf blk.0.attn_q.weight A.npy",
            "convert M.gguf P.safetensors", "golden record M.gguf --tokens 1,2 -o G --callback-text all",
            "golden record M.gguf --tokens 1,2 -o Z --npz",
        ):  # fmt: skip
            with pytest.raises(SystemExit) as ended:
                main(words.split())
            assert not ended.value.code, words
    shutil.copy(folder / "G" / "taps.safetensors", folder / "T.safetensors")
    (folder / "F").mkdir()
    with zipfile.ZipFile(folder / "Z" / "taps.npz") as archive:
        archive.extract("result_output.npy", folder / "F")
    return folder


@pytest.mark.parametrize("call", OTHERS)
def test_a_change_of_another_file_is_said(
    call: str, others: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bytes were read before and after the change: nothing is written from them, and no verdict is given."""
    words, changing, number, code = OTHERS[call]
    folder = tmp_path / "others"
    shutil.copytree(others, folder)
    monkeypatch.chdir(folder)
    left, opened, state = [number], FileSource.__init__, dumps._state

    def opening(self: FileSource, place: Any, name: str | None = None) -> None:
        opened(self, place, name)
        if os.path.realpath(place) == os.path.realpath(changing):
            left[0] -= 1
            if left[0] == 0:
                restored(Path(changing))

    def seen(path: Path) -> list[tuple[int, ...]]:
        found = state(path)
        if not number and left[0] == 0 and path == Path(words.split()[-1]):
            left[0] -= 1
            restored(Path(changing))
        return found

    monkeypatch.setattr(FileSource, "__init__", opening)
    monkeypatch.setattr(dumps, "_state", seen)
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    said = capsys.readouterr()
    assert left[0] < 1  # the file did change
    assert "S903" in said.err + said.out
    assert ended.value.code == code, said
    assert {path.name for path in folder.iterdir()} == before
