"""On a full disk, commands that write name the file in their message, leave no file behind, and change nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from i2s_spec.cli import main
from i2s_spec.errors import EXIT_INPUT
from i2s_spec.gguf import atomic_file

CALLS = (
    "new TARGET",
    "convert m.gguf TARGET --to interleave-64",
    "fix odd.gguf -o TARGET --unsafe",
    "fix m.gguf -o TARGET --set general.name=x",
    "convert p-00001-of-00002.gguf -o TARGET",
    "sanitize m.gguf -o TARGET",
    "decode m.gguf blk.0.attn_q.weight TARGET",
    "encode w.npy TARGET --scale 0.5",
    "encode w.npy TARGET --scale 0.5 --into m.gguf --tensor blk.0.attn_q.weight",
    "golden record m.gguf --tokens 1,2 -o TARGET",
    "golden compare g g -o TARGET --format html",
    "diff m.gguf n.gguf --lineage --format html -o TARGET",
    "lint m.gguf --report html=TARGET",
    "schema --format json -o TARGET",
    "perplexity m.gguf --tokens 1,5,9,20,33,64,100,200 -c 4 --kl-divergence-base TARGET",
    "embed e.gguf --text x -o TARGET",
)


def called(line: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for words in ("m.gguf", "n.gguf --seed 1", "odd.gguf", "e.gguf --arch qwen3"):
        called(f"new {folder}/{words} --layers 1")
    called(f"convert {folder}/m.gguf --split 2 -o {folder}/p")
    np.save(folder / "w.npy", np.resize(np.array([-1, 0, 1], np.int8), (128, 128)))
    called(f"golden record {folder}/m.gguf --tokens 1,2 -o {folder}/g")
    return folder


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("disk")
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("nobody here may make a file system")
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("free", [0, 4096])
@pytest.mark.parametrize("line", CALLS)
def test_a_full_disk(
    place: Path, disk: Path, line: str, free: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setattr(atomic_file, "_refuse_without_room", lambda *ignored: None)  # must not fail before the writes
    filling = disk / "filling"
    for path in disk.iterdir():
        path.unlink()
    with filling.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(os.fstat(file.fileno()).st_size - free)
    status = called(line.replace("TARGET", str(disk / "t")))
    said = capsys.readouterr().err
    written = (disk / "t").exists()
    assert written == (status != EXIT_INPUT), said
    if not written:
        assert "No space left on device" in said
        assert str(disk / "t") in said
        assert list(disk.iterdir()) == [filling]
    assert not written or free, "there was no room for a byte"
