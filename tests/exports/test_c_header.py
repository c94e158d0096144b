"""The C header compiles without warnings, and runs under the sanitizers on real and on broken files."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_compiler import STRICT, WARNINGS
from malformed_cases import CASES
from peers.exported_files import expected_walk as expected

from i2s_spec.codec.reference import unpack
from i2s_spec.errors import FormatError
from i2s_spec.exports import export
from i2s_spec.gguf.reader import open as opened
from i2s_spec.schema import container
from i2s_spec.schema.dialect import parse
from i2s_spec.testing.sample import ByteOrder, Draft

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="no gcc on the path")

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("c")
    (folder / "i2s.h").write_text(export("c"))
    program = folder / "walk"
    subprocess.run([GCC, *STRICT, "-I", folder, HERE / "walk.c", "-o", program], check=True)
    return program


def run(walk: Path, path: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([walk, path], capture_output=True, text=True, timeout=600, check=False, errors="replace")
    assert done.returncode in (0, 1), done.stderr
    assert not done.stderr
    return done


def test_header_is_also_cpp(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ on the path")
    (tmp_path / "i2s.h").write_text(export("c"))
    (tmp_path / "a.cc").write_text('#include "i2s.h"\nint main() { return i2s_tensor_bytes(128) == 64 ? 0 : 1; }\n')
    subprocess.run([compiler, "-std=c++17", *WARNINGS, tmp_path / "a.cc", "-o", tmp_path / "a"], check=True)
    subprocess.run([tmp_path / "a"], check=True)


@pytest.mark.parametrize(
    ("compiler", "options", "prefix"), [("gcc", ["-std=c99"], ""), ("g++", ["-std=c++17"], 'extern "C"')]
)
def test_a_shared_library_of_the_header_alone(tmp_path: Path, compiler: str, options: list[str], prefix: str) -> None:
    """Through ctypes, which knows nothing but names, sizes and the order of arguments: every function is a symbol."""
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler} on the path")
    text = export("c")
    (tmp_path / "i2s.h").write_text(text)
    source = tmp_path / ("library.c" if compiler == "gcc" else "library.cc")
    source.write_text(f'#define I2S_API {prefix}\n#include "i2s.h"\n')
    library = tmp_path / "library.so"
    command = [compiler, *options, *WARNINGS, "-O1", "-shared", "-fPIC", source, "-o", library]
    subprocess.run(command, check=True)
    called = ctypes.CDLL(str(library))
    names = re.findall(r"^I2S_API .*?(\w+)\(", text, re.M)
    assert "i2s_decode" in names
    assert all(hasattr(called, name) for name in names)
    if ctypes.sizeof(ctypes.c_void_p) == 8:  # as the page on exports says
        assert (called.gguf_file_bytes(), called.gguf_tensor_info_bytes()) == (136, 72)
    for order in ("little", "big"):
        data = Draft(order).data
        file, info = (
            ctypes.create_string_buffer(size) for size in (called.gguf_file_bytes(), called.gguf_tensor_info_bytes())
        )
        assert called.gguf_open(data, ctypes.c_size_t(len(data)), file) == 0
        with opened(data) as wanted:
            for tensor in wanted.tensors.values():
                assert called.gguf_find(file, tensor.name.encode(), info) == 0
                if tensor.number == 36:
                    trits = decoded(called, file, info)
                    reference, _ = unpack(tensor.read(), tensor.shape, parse("canonical"))
                    assert trits == np.asarray(reference).astype(np.int8).tobytes()
        assert called.gguf_open(data[:40], ctypes.c_size_t(40), file) == 1


def decoded(called: ctypes.CDLL, file: Any, info: Any) -> bytes:
    """The trits of a tensor, canonical in layout and code map."""
    at, size, rows, cols, where = ctypes.c_void_p(), ctypes.c_size_t(), *(ctypes.c_uint64() for _ in range(3))
    found = called.i2s_find(file, info, *(ctypes.byref(each) for each in (at, size, rows, cols)))
    assert found == 0
    trits = ctypes.create_string_buffer(rows.value * cols.value)
    assert called.i2s_decode(at, size, rows, cols, 0, 0, trits, ctypes.byref(where)) == 0
    return trits.raw


@pytest.mark.parametrize("order", ["little", "big"])
def test_small_file(walk: Path, tmp_path: Path, order: ByteOrder) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(Draft(order).data)
    assert run(walk, path).stdout.splitlines() == expected(path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["bitnet.i2_s.gguf", "bitnet-25.i2_s.gguf", "bitnet.i2_s.arm64block.gguf"])
def test_real_files(walk: Path, shared: Path, name: str) -> None:
    path = shared / "vectors" / "gguf" / name
    found, wanted = run(walk, path), expected(path)
    assert found.returncode == 0
    assert found.stdout.splitlines() == wanted
    assert sum(" 36 " in line for line in wanted) > 10


def test_other_files(walk: Path, shared: Path) -> None:
    for path in sorted((shared / "real").glob("*.gguf")):
        done = run(walk, path)
        try:
            wanted = expected(path)
        except FormatError:
            assert done.returncode == 1, path
        else:
            assert done.stdout.splitlines() == wanted, path


@pytest.mark.thorough
def test_broken_files(walk: Path, tmp_path: Path) -> None:
    """What the definition of the container refuses, the header refuses, and nothing makes it read beyond its bytes."""
    path = tmp_path / "a.gguf"
    for case in CASES.values():
        if case.code[0] not in "GI" or case.large:
            continue
        data = case.data
        path.write_bytes(data)
        done = run(walk, path)
        try:
            container.parse(data)
        except FormatError:
            assert done.returncode == 1, case.name
        else:
            assert done.stdout.startswith("version "), case.name


@pytest.mark.requirement("R2.1-3")
def test_every_shorter_file(walk: Path, tmp_path: Path) -> None:
    data = Draft().data
    path = tmp_path / "a.gguf"
    for size in [*range(0, 200, 7), *range(200, len(data), 97)]:
        path.write_bytes(data[:size])
        run(walk, path)
