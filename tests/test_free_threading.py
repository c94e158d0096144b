"""The extensions declare that they work without the interpreter lock; otherwise free-threaded CPython turns it on."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import i2s_spec as i2s

PACKAGE = Path(i2s.__file__).resolve().parent
SOURCES = Path(__file__).resolve().parent.parent / "pyx"
#: A module that is used where it is not compiled stands beside each extension.
EXTENSIONS = sorted(path for path in PACKAGE.rglob("_[a-z]*.py") if path.stem != "_version")

LOAD = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    assert not sys._is_gil_enabled(), name
"""


@pytest.mark.skipif(not SOURCES.is_dir(), reason="the sources of the extensions are not here")
def test_each_extension_declares_free_threading() -> None:
    sources = sorted(SOURCES.glob("*.pyx"))
    assert [path.stem for path in sources] == sorted(path.stem for path in EXTENSIONS)
    for path in sources:
        assert "# cython: freethreading_compatible=True\n" in path.read_text(encoding="utf-8"), path.name


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this CPython is not free-threaded")
def test_the_lock_stays_off() -> None:
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in EXTENSIONS]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-P", "-W", "error", "-c", LOAD, "i2s_spec._cyutility", *names]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, env=plain, cwd=SOURCES.parent)
    assert run.returncode == 0, run.stderr


def test_threads_that_read_lint_and_compute_at_once(tmp_path: Path) -> None:
    """One file and one model of each profile, from eight threads: what one thread finds."""
    path = tmp_path / "model.gguf"
    i2s.new(path)
    tensor = "blk.0.attn_q.weight"
    with i2s.open(path) as file:
        models = [i2s.load_model(path, numerics=numerics) for numerics in ("bitnet-golden-1", "fast")]
        work = [
            lambda: file.tensors[tensor].trits().tobytes(),
            lambda: file.tensors[tensor].dequantize().tobytes(),
            lambda: [each.code for each in i2s.lint(path).findings],
            *(lambda model=model: model.forward([1, 2, 3]).logits.tobytes() for model in models),
        ]
        wanted = [each() for each in work]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda i: work[i % len(work)]() == wanted[i % len(work)], range(60)))
    assert all(found)
