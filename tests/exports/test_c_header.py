"""The C header compiles without warnings, and runs under the sanitizers on real and on broken files."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from c_compiler import WARNINGS, program_with_header
from malformed_cases import CASES
from peers import exports
from peers.exported_files import expected_walk as expected
from peers.exported_files import malformed_files, sound_files, write

from i2s_spec.errors import FormatError
from i2s_spec.exports import export
from i2s_spec.schema import container
from i2s_spec.testing.sample import ByteOrder, Draft

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return program_with_header(HERE / "walk.c", tmp_path_factory.mktemp("c"))


def run(walk: Path, path: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [walk, path], capture_output=True, encoding="utf-8", timeout=600, check=False, errors="replace"
    )
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
    """Every function is a symbol, and what callers allocate has the sizes that the page on exports says."""
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
    if ctypes.sizeof(ctypes.c_void_p) == 8:
        assert (called.gguf_file_bytes(), called.gguf_tensor_info_bytes()) == (136, 72)


@pytest.mark.parametrize("name", ["c99", "c++17", "ctypes"])
def test_every_field_of_sound_files(tmp_path: Path, name: str) -> None:
    """As `python tests/peers exports` has it, and some malformed files."""
    (reader,) = (each for each in exports.ALL if each.name == name)
    try:
        made = reader.made(exports.Place(tmp_path, None, None, None))
    except exports.MissingError as reason:
        pytest.skip(str(reason))
    (tmp_path / "files").mkdir()
    sound, malformed = sound_files(), list(malformed_files().items())[:: 1 if name == "c99" else 10]
    found = exports.read(made, write(tmp_path / "files", {**sound, **dict(malformed)}))
    for (title, data), lines in zip(sound.items(), found, strict=False):
        assert lines == [*expected(data), "end"], title
    assert [lines for lines in found[len(sound) :] if lines[-1] == "end"] == []


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
