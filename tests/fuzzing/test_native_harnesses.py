"""The harnesses in C: they compile, pass on the stored inputs, and detect an injected fault."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(shutil.which("clang") is None, reason="there is no clang")]


@pytest.fixture(scope="module")
def native() -> ModuleType:
    spec = importlib.util.spec_from_file_location("native_fuzzing", ROOT / "fuzz" / "native" / "__main__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.path.remove(str(ROOT / "fuzz"))
    return module


def built(native: ModuleType, name: str, folder: Path) -> Path:
    try:
        program: Path = native.BUILDERS[name](folder)
    except native.CannotRunError as error:
        if "cannot find" in str(error) and "libclang_rt" in str(error):
            pytest.skip("clang has no libFuzzer")
        raise
    return program


@pytest.mark.parametrize("name", ["survey", "walker", "scanner"])
def test_stored_inputs_and_a_short_search(native: ModuleType, name: str, tmp_path: Path) -> None:
    program = built(native, name, tmp_path)
    assert native._searched(name, program, tmp_path / "found", ["-runs=400", "-seed=1", "-max_len=9000"]) == 0


@pytest.mark.parametrize(
    ("name", "path", "right", "wrong"),
    [
        ("survey", "survey.h", "part->boths += next->boths;", "part->boths += 0;"),
        ("survey", "survey.h", "memset(filled + n, 0, (size_t)(I2S_BLOCK - n));", "memset(filled + n, 0, 4096);"),
    ],
)
def test_an_injected_fault_is_found(
    native: ModuleType, name: str, path: str, right: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(ROOT / "pyx", tmp_path / "pyx")
    source = tmp_path / "pyx" / path
    text = source.read_text(encoding="utf-8")
    assert text.count(right) == 1
    source.write_text(text.replace(right, wrong), encoding="utf-8")
    monkeypatch.setattr(native, "ROOT", tmp_path)
    program = built(native, name, tmp_path)
    search = ["-runs=60000", "-seed=1", "-max_len=9000", "-len_control=0"]
    assert native._searched(name, program, tmp_path / "found", search) == 1
