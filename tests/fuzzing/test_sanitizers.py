"""The script for sanitizers detects faults; a whole run (`python fuzz/sanitize.py`) takes minutes and is part of CI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

FUZZ = Path(__file__).resolve().parents[2] / "fuzz"
sys.path.insert(0, str(FUZZ))

import sanitize  # noqa: E402

sys.path.remove(str(FUZZ))

#: A kernel that reads four bytes at a time, and so past the end of other sizes; and one that shifts too far.
KERNELS = """
#include <stdint.h>
#include <string.h>
int words(const uint8_t *p, int64_t n) {
    uint32_t sum = 0, four;
    for (int64_t i = 0; i < n; i += 4) {
        memcpy(&four, p + i, 4);
        sum += four;
    }
    return (int)sum;
}
int shifted(const uint8_t *p, int64_t n) { return p[0] << n; }
"""

#: The part of a larger buffer, behind which there are more bytes.
CALL = """
import ctypes, sys
import numpy as np
from sanitize import own_memory
kernel = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])
kernel.argtypes = [ctypes.c_void_p, ctypes.c_int64]
file = np.ones(64, dtype=np.uint8)
file.flags.writeable = False
own_memory(lambda part: kernel(part.ctypes.data, part.size))(file[20:20 + int(sys.argv[3])])
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kernel", "size", "report"),
    [("words", 8, None), ("words", 7, "heap-buffer-overflow"), ("shifted", 1, None), ("shifted", 40, "shift exponent")],
)
def test_faults_are_noticed(kernel: str, size: int, report: str | None, tmp_path: Path) -> None:
    try:
        runtimes = [sanitize.runtime(name) for name in ("libasan.so", "libubsan.so")]
    except sanitize.CannotRunError as error:
        pytest.skip(str(error))
    library = tmp_path / "kernels.so"
    (tmp_path / "kernels.c").write_text(KERNELS)
    sanitize.command(
        ["gcc", "-shared", "-fPIC", *sanitize.FLAGS.split(), str(tmp_path / "kernels.c"), "-o", str(library)]
    )
    environment = os.environ | {
        "LD_PRELOAD": " ".join(runtimes), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONPATH": str(FUZZ),
        "PYTHONMALLOC": "malloc",
    }  # fmt: skip
    words = [sys.executable, "-c", CALL, str(library), kernel, str(size)]
    done = subprocess.run(words, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode == 0) is (report is None), done.stderr
    assert (report or "") in done.stderr


def test_buffers_that_are_only_read_get_memory_of_their_own() -> None:
    def seen(*args: Any) -> list[Any]:
        return list(args)

    array = np.arange(40, dtype=np.int16)
    part = array[3:9]
    part.flags.writeable = False
    text, copy, same, number = sanitize.own_memory(seen)(b"abc", part, array, 5)
    assert (text.tobytes(), copy.tolist(), number) == (b"abc", part.tolist(), 5)
    assert not np.shares_memory(copy, array)
    assert (copy.ctypes.data - part.ctypes.data) % 16 == 0
    assert copy.ctypes.data + copy.nbytes == copy.base.ctypes.data + copy.base.nbytes
    assert same is array


@pytest.mark.parametrize(
    ("kind", "library", "function", "counts"),
    [
        ("UninitCondition", "/x/i2s_spec/gguf/_scanner.so", "scan", True),
        ("UninitCondition", "/x/libpython.so", "scan", False),
        ("UninitValue", "/x/i2s_spec/gguf/_scanner.so", "_PyLong_New", False),
        ("Leak_PossiblyLost", "/x/i2s_spec/gguf/_scanner.so", "scan", False),
    ],
)
def test_errors_of_valgrind_that_count(kind: str, library: str, function: str, counts: bool) -> None:
    frame = f"<frame><obj>{library}</obj><fn>{function}</fn></frame>"
    error = ElementTree.fromstring(f"<error><kind>{kind}</kind><stack>{frame}</stack></error>")
    assert sanitize.counts(error) is counts


def test_what_cannot_run_here_says_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    assert sanitize.main(["valgrind"]) == 2
    assert capsys.readouterr().err == "sanitize: there is no valgrind\n"
    with pytest.raises(sanitize.CannotRunError, match="there is no gcc"):
        sanitize.runtime("libasan.so")


def test_every_test_that_is_run_exists() -> None:
    root = FUZZ.parent
    assert [path for path in sanitize.TESTS if not (root / path).is_file()] == []
    path, _, name = sanitize.FORKS.partition("::")
    assert f"def {name}(" in (root / path).read_text(encoding="utf-8")
