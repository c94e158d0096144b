"""The compiler of `.ci/run` compiles nothing twice, and distinguishes all inputs that differ."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parent.parent / ".ci" / "compiler.py"

pytestmark = pytest.mark.skipif(not TOOL.is_file() or shutil.which("gcc") is None, reason="no gcc, or no checkout")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a source, its header, and a folder for what is kept."""
    (tmp_path / "kept").mkdir()
    text = '#include "part.h"\nint part(void) { return PART; }\nconst char *const file = __FILE__;\n'
    (tmp_path / "part.c").write_text(text)
    (tmp_path / "part.h").write_text("#define PART 1\n")
    return tmp_path


def compiled(folder: Path, *flags: str, source: str = "part.c") -> tuple[int, bytes]:
    """The status of a compilation, and the object file that it made."""
    target = folder / "part.o"
    target.unlink(missing_ok=True)
    words = [sys.executable, str(TOOL), *flags, f"-I{folder}", "-c", source, "-o", str(target)]
    environment = os.environ | {"CI_OBJECTS": str(folder / "kept")}
    done = subprocess.run(words, cwd=folder, env=environment, stderr=subprocess.DEVNULL, check=False)
    return done.returncode, target.read_bytes() if target.is_file() else b""


def kept(folder: Path) -> list[Path]:
    return sorted((folder / "kept").iterdir())


def test_object_files_are_reused_from_any_folder(folder: Path, tmp_path: Path) -> None:
    made = compiled(folder, "-O1", "-g0")
    (first,) = kept(folder)
    first.write_bytes(b"kept")
    assert made[0] == 0
    assert made[1] not in (b"", b"kept")
    (tmp_path / "other").mkdir()
    shutil.move(folder / "part.c", tmp_path / "other" / "part.c")
    assert compiled(folder, "-O1", "-g0", source="other/part.c") == (0, b"kept")


def test_different_sources_and_flags_are_compiled(folder: Path) -> None:
    compiled(folder, "-O1", "-g0")
    kept(folder)[0].write_bytes(b"kept")
    assert compiled(folder, "-O2", "-g0")[1] != b"kept"
    assert compiled(folder, "-O1", "-g0", "-DPART=1")[1] != b"kept"
    assert compiled(folder, "-O1")[1] != b"kept"  # the path may be part of the object file
    assert len(kept(folder)) == 3
    (folder / "part.h").write_text("#define PART 2\n")
    assert compiled(folder, "-O1", "-g0")[1] != b"kept"
    assert len(kept(folder)) == 4


def test_failed_compilations_are_not_kept(folder: Path) -> None:
    for text in ("int part(void) { return }\n", '#include "missing.h"\n'):
        (folder / "part.c").write_text(text)
        status, made = compiled(folder, "-g0")
        assert status != 0
        assert made == b""
    assert kept(folder) == []
