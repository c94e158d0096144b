"""The threads that do parts of a product: they take part, also after they slept, and in a child process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from c_compiler import WARNINGS

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent.parent / "pyx" / "matmul_pool.h"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="on Windows products use one thread")


def test_threads_take_part(tmp_path: Path) -> None:
    done = run_pool(tmp_path, HEADER)
    assert (done.returncode, done.stdout) == (0, "all threads met\n")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("pthread_cond_broadcast(&i2s_pool.wake);", "threads that slept did nothing\n"),
        ("if (i2s_pool.started < helpers) i2s_pool_start(helpers);", "new threads did nothing\n"),
        ("i2s_pool.started = 0;", "threads of a child did nothing\n"),
    ],
)
def test_threads_that_do_nothing_are_noticed(tmp_path: Path, statement: str, said: str) -> None:
    text = HEADER.read_text(encoding="utf-8")
    assert text.count(statement) == 1
    broken = tmp_path / HEADER.name
    broken.write_text(text.replace(statement, ""), encoding="utf-8")
    done = run_pool(tmp_path, broken)
    if "broadcast" in statement:  # on a loaded machine a new thread may sleep before its first job
        assert done.stdout in (said, "new threads did nothing\n")
    else:
        assert done.stdout == said
    assert done.returncode == 1


def run_pool(folder: Path, header: Path) -> subprocess.CompletedProcess[str]:
    """Compile and run `driver/pool.c` with a header of the pool."""
    compiler = os.environ.get("CC") or "cc"
    if shutil.which(compiler) is None:
        pytest.skip(f"no C compiler: {compiler} is not there")
    program = folder / "pool"
    flags = [*WARNINGS, "-Wno-unused-function", "-O1", "-pthread", f"-I{header.parent}"]
    source = str(HERE / "driver" / "pool.c")
    built = subprocess.run(
        [compiler, *flags, source, "-o", str(program)], capture_output=True, encoding="utf-8", check=False
    )
    assert built.returncode == 0, built.stderr
    return subprocess.run([program], capture_output=True, encoding="utf-8", check=False, timeout=60)
