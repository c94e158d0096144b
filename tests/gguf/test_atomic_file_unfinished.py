"""A failed block leaves no file, a killed run leaves one that the next run removes, and a record is replaced atomically."""

from __future__ import annotations

import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from examples import share

from i2s_spec.convert.new import new
from i2s_spec.gguf import atomic_file
from i2s_spec.gguf.atomic_file import OutputFile
from i2s_spec.golden.store import HEADER, NewRecord, read_header

TAKEN = {"taps": {}, "token_ids": [1], "profile": "x"}


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def killed(folder: Path, code: str) -> None:
    """Run a program that kills itself."""
    begin = "import os, signal; from pathlib import Path; import numpy as np\n"
    end = "\nos.kill(os.getpid(), signal.SIGKILL)"
    done = subprocess.run([sys.executable, "-c", begin + code + end], cwd=folder, check=False, timeout=600)
    assert done.returncode == -signal.SIGKILL


def record(folder: Path, value: int, force: bool = False) -> None:
    with NewRecord(folder, force=force) as new:
        new.add("a", np.full(4, value, dtype=np.int32))
        new.finish({**TAKEN, "token_ids": [value]})


def test_the_next_run_removes_files_of_a_killed_run(tmp_path: Path) -> None:
    for _ in range(3):
        killed(tmp_path, "from i2s_spec.gguf.atomic_file import OutputFile\nOutputFile('a.gguf').write(b'x')")
        assert len(names(tmp_path)) == 1  # its own; the one of the earlier run was deleted
    (tmp_path / ".a.gguf.xyz.part").write_bytes(b"not ours")
    (tmp_path / ".b.gguf.0123456789abcdef.part").write_bytes(b"another's")
    with OutputFile(tmp_path / "a.gguf") as output:
        output.write(b"GGUF")
    assert names(tmp_path) == [".a.gguf.xyz.part", ".b.gguf.0123456789abcdef.part", "a.gguf"]


def test_files_being_written_are_not_removed(tmp_path: Path) -> None:
    with OutputFile(tmp_path / "a.gguf", force=True) as one:
        one.write(b"one")
        with OutputFile(tmp_path / "a.gguf", force=True) as other:
            other.write(b"other")
            assert len(names(tmp_path)) == 2
        assert (tmp_path / "a.gguf").read_bytes() == b"other"
    assert (tmp_path / "a.gguf").read_bytes() == b"one"
    assert names(tmp_path) == ["a.gguf"]


def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    failed = []

    def write(number: int) -> None:
        try:
            for _ in range(20):
                with OutputFile(tmp_path / "a.gguf", force=True) as output:
                    output.write(b"%d" % number * 100)
        except OSError as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert names(tmp_path) == ["a.gguf"]
    assert len(set((tmp_path / "a.gguf").read_bytes())) == 1


def test_a_killed_record_is_removed_by_the_next(tmp_path: Path) -> None:
    killed(tmp_path, "from i2s_spec.golden.store import NewRecord\nnew = NewRecord('g')\n"
           "new.add('a', np.zeros(4, dtype=np.int32))")  # fmt: skip
    assert len(names(tmp_path)) == 1
    record(tmp_path / "g", 1)
    assert names(tmp_path) == ["g"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_record_is_replaced(tmp_path: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exchanges:
        monkeypatch.setattr(atomic_file, "_exchange", lambda one, other: False)
    record(tmp_path / "g", 1)
    record(tmp_path / "g", 2, force=True)
    assert read_header(tmp_path / "g")["token_ids"] == [2]
    assert names(tmp_path) == ["g"]


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("call", [0, 1, 2])
def test_a_record_is_there_whenever_the_run_is_killed(tmp_path: Path, exchanges: bool, call: int) -> None:
    """Killed at each of its renames: the old record exists, or the new one, or the next run restores the old one."""
    record(tmp_path / "g", 1)
    code = f"""
import i2s_spec.gguf.atomic_file as unfinished, shutil
from i2s_spec.golden.store import NewRecord
calls, rename, remove, swap = [], os.rename, shutil.rmtree, unfinished._exchange
def counted(real):
    def run(*args, **more):
        if len(calls) == {call}: os.kill(os.getpid(), signal.SIGKILL)
        calls.append(real)
        return real(*args, **more)
    return run
os.rename, shutil.rmtree = counted(rename), counted(remove)
unfinished._exchange = counted(swap) if {exchanges} else lambda one, other: False
with NewRecord("g", force=True) as new:
    new.finish({{"taps": {{}}, "token_ids": [2], "profile": "x"}})
"""
    killed(tmp_path, code)
    if exchanges:
        assert read_header(tmp_path / "g")["token_ids"] in ([1], [2])
    record(tmp_path / "g", 3, force=True)
    assert read_header(tmp_path / "g")["token_ids"] == [3]
    assert names(tmp_path) == ["g"]


def test_a_moved_old_record_is_restored(tmp_path: Path) -> None:
    record(tmp_path / "g", 1)
    os.rename(tmp_path / "g", tmp_path / ".g.0123456789abcdef.old")
    assert atomic_file.recover(tmp_path / "g")
    assert read_header(tmp_path / "g")["token_ids"] == [1]
    assert not atomic_file.recover(tmp_path / "g")


def fill(folder: Path) -> None:
    with NewRecord(folder) as new:
        new.add("a", np.ones(1 << 12, dtype=np.float32))
        new.add("b", np.ones(1 << 16, dtype=np.float32))
        new.finish(TAKEN)


def test_a_full_disk_leaves_no_record(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(OSError, match="too large") as error:
            fill(tmp_path / "g")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert error.value.filename == str(tmp_path / "g")
    assert names(tmp_path) == []


def test_a_folder_without_a_header_is_not_a_record(tmp_path: Path) -> None:
    record(tmp_path / "g", 1)
    shutil.copytree(tmp_path / "g", tmp_path / "h")
    (tmp_path / "h" / HEADER).unlink()
    with pytest.raises(FileExistsError):
        NewRecord(tmp_path / "h", force=True)
    assert names(tmp_path) == ["g", "h"]


#: Calls that make a folder: the module, its function at which the process is killed, the call, and the result.
FOLDERS = {
    "export": (
        "i2s_spec.checkpoints.export_checkpoint",
        "write_checkpoint",
        "m.export_checkpoint('m.gguf', 'out')",
        ["config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"],
    ),
    "vectors": (
        "i2s_spec.conformance.vectors.all_vectors",
        "publish_folder",
        "m.suite_files, m.suite = lambda: iter([('files/a', b'1'), ('manifest.json', b'{}')]), list\n"
        "m.write_suite('out', force=True)",
        ["files", "manifest.json"],
    ),
    "package": (
        "i2s_spec.conformance.packages",
        "publish_folder",
        "m.REGISTRIES, m._unpacked = {'x': lambda files: {'a/b': b'1'}}, lambda data: {}\n"
        "m.write_package('out', 'x', b'')",
        ["a"],
    ),
    "malformed": (
        "i2s_spec.conformance.malformed_suite",
        "_publish",
        "m.malformed, small = list, next(each for each in m.sound() if len(each.data) < 9999)\n"
        "m.sound = lambda: [small]\n"
        "m.export('out')",
        ["malformed", "manifest.json", "sound"],
    ),
}


@pytest.mark.parametrize("made", share(FOLDERS, every=2))
def test_a_killed_folder_is_removed_by_the_next(tmp_path: Path, made: str) -> None:
    module, last, call, inside = FOLDERS[made]
    if made == "export":
        new(tmp_path / "m.gguf", "bitnet-b1.58", layers=1)
    before = names(tmp_path)
    begin = f"import importlib\nm = importlib.import_module({module!r})\n"
    for _ in range(2):
        killed(tmp_path, f"{begin}m.{last} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n{call}")
        assert len(names(tmp_path)) == len(before) + 1
    done = subprocess.run([sys.executable, "-c", begin + call], cwd=tmp_path, check=False, timeout=600)
    assert done.returncode == 0
    assert names(tmp_path) == sorted([*before, "out"])
    assert names(tmp_path / "out") == inside


def test_a_fault_of_the_disk_names_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    target = str(tmp_path / "a")
    for number, names in ((errno.ENOSPC, ()), (errno.EACCES, ("x",))):
        with pytest.raises(OSError, match=re.escape(target) + "'$"), atomic_file.unfinished_folder(target) as part:
            raise OSError(number, "no", *(f"{part}/{name}" for name in names))
    with pytest.raises(OSError, match="other"), atomic_file.unfinished_folder(target):
        raise OSError(errno.ENOENT, "gone", "other")


def test_a_folder_takes_the_place_of_another_only_by_force(tmp_path: Path) -> None:
    def write(force: bool, content: bytes) -> None:
        with atomic_file.unfinished_folder(tmp_path / "a") as part:
            Path(part, "x").write_bytes(content)
            atomic_file.publish_folder(part, tmp_path / "a", force)

    (tmp_path / "a").mkdir()
    write(False, b"one")
    with pytest.raises(OSError, match=r"not empty|exist"):
        write(False, b"two")
    assert (tmp_path / "a" / "x").read_bytes() == b"one"
    write(True, b"three")
    assert (tmp_path / "a" / "x").read_bytes() == b"three"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_link_to_a_folder_is_replaced_and_not_followed(
    tmp_path: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:
        monkeypatch.setattr(atomic_file, "_exchange", lambda one, other: False)
    record(tmp_path / "g", 1)
    (tmp_path / "link").symlink_to("g")
    record(tmp_path / "link", 2, force=True)
    assert names(tmp_path) == ["g", "link"]
    assert [read_header(tmp_path / name)["token_ids"] for name in ("g", "link")] == [[1], [2]]
