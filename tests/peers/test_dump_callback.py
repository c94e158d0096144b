"""The tutorial's callback: it compiles with the headers of three generations of llama.cpp, and writes what one computes."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest

import i2s_spec as i2s
from i2s_spec.convert.convert_file import convert_file
from i2s_spec.convert.new import new
from i2s_spec.golden import compare, record
from peers import llama_tools

CALLBACK = Path(__file__).resolve().parents[2] / "spec" / "tutorials" / "dump_npy.cpp"
TOKENS = [3, 51, 130, 7]

#: Source distributions of llama-cpp-python: October 2024 (bitnet.cpp's fork is of that month), May 2025, 2026.
SDISTS = ("0.3.1", "0.3.9", "0.3.36")
HEADERS = ("vendor/llama.cpp/ggml/include/", "vendor/llama.cpp/include/")

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="the callback is compiled with g++")


def compiled(includes: list[Path], *options: str) -> None:
    words = ["g++", "-std=c++11", "-Wall", "-Wextra", "-Werror", *(f"-I{each}" for each in includes), *options]
    done = subprocess.run([*words, str(CALLBACK)], capture_output=True, encoding="utf-8", check=False, timeout=300)
    assert not done.returncode, done.stderr


def test_it_is_short() -> None:
    assert len(CALLBACK.read_text(encoding="utf-8").splitlines()) <= 45


@needs_compiler
@pytest.mark.thorough
@pytest.mark.parametrize("version", SDISTS)
def test_it_compiles_with_every_generation(version: str, tmp_path: Path) -> None:
    """`I2S_LLAMA_CPP_SDISTS` names a folder with the archives."""
    folder = os.environ.get("I2S_LLAMA_CPP_SDISTS")
    archive = Path(folder or "") / f"llama_cpp_python-{version}.tar.gz"
    if not folder or not archive.is_file():
        pytest.skip(f"I2S_LLAMA_CPP_SDISTS names no folder with {archive.name}")
    with tarfile.open(archive) as opened:
        members = [each for each in opened if any(place in each.name for place in HEADERS) and each.isfile()]
        opened.extractall(tmp_path, members, filter="data")
    root = tmp_path / f"llama_cpp_python-{version}"
    compiled([root / each for each in HEADERS], "-fsyntax-only")


@needs_compiler
@pytest.mark.skipif(llama_tools.perplexity_missing() is not None, reason=str(llama_tools.perplexity_missing()))
def test_it_writes_what_llama_cpp_computes(tmp_path: Path) -> None:
    """With the headers of npm's release, in its library: each array, and `golden compare` on the folder."""
    source, library = llama_tools.sources(tmp_path / "llama.cpp", ["ggml/include"]), tmp_path / "dump_npy.so"
    compiled([source / "ggml/include"], "-O1", "-shared", "-fPIC", "-o", str(library))
    ours, theirs, folder = tmp_path / "ours.gguf", tmp_path / "theirs.gguf", tmp_path / "dumped"
    new(ours, "llama", embd=256, ff=256, layers=1)
    with i2s.open(ours) as file:
        convert_file(file, theirs, to="Q2_0")
    folder.mkdir()
    dumped = llama_tools.dump(theirs, TOKENS, folder, library)
    with np.load(dumped.values) as values:
        assert {each.stem for each in folder.glob("*.npy")} >= set(values)
        for name, want in values.items():
            assert np.array_equal(np.load(folder / f"{name}.npy").reshape(want.shape), want), name
    for each in (dumped.values, dumped.text, folder / "answer.json"):
        each.unlink()
    record(theirs, TOKENS, tmp_path / "golden")
    result = compare(tmp_path / "golden", folder, model=theirs)
    assert result.ok, result.verdict
    assert result.counted("ok", "flips") > 15
