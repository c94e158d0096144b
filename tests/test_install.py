"""The README's first commands work as typed: the first makes an environment, and then each of the others works.

This takes minutes and a package index, so it runs only on request, as in CI: `I2S_INSTALL=1 pytest
tests/test_install.py`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
#: pip's messages when it cannot reach an index.
OFFLINE = re.compile(
    r"No matching distribution|Temporary failure|Connection|Could not find a version|timed out|Max retries"
)

pytestmark = [
    pytest.mark.install,
    pytest.mark.skipif(
        not os.environ.get("I2S_INSTALL"), reason="takes minutes and a package index: set I2S_INSTALL=1"
    ),
]


def blocks() -> list[list[str]]:
    """The lines of every block of shell commands, without their comments."""
    found = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    return [[line.partition(" # ")[0].strip() for line in block.splitlines() if line.strip()] for block in found]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout without what was built, with the environment that the README's first command makes."""
    copy = tmp_path_factory.mktemp("install") / "checkout"
    left_out = shutil.ignore_patterns(
        ".git", ".venv", "build", "*.so", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis", "fuzz", "bench"
    )
    shutil.copytree(ROOT, copy, ignore=left_out)
    (first,) = blocks()[0]
    done = subprocess.run(
        ["bash", "-c", first], cwd=copy, capture_output=True, encoding="utf-8", check=False, env=plain()
    )
    if done.returncode != 0 and OFFLINE.search(done.stderr):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    assert "model.gguf: ok" in done.stdout  # the demo
    return copy


def plain() -> dict[str, str]:
    """The environment without settings of this run, and without this run's own packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("I2S_", "PYTHON", "VIRTUAL_ENV"))}


def test_each_line_works_as_typed(checkout: Path, tmp_path: Path) -> None:
    """In their order, with `.venv/bin` on the PATH."""
    (lines,) = [block for block in blocks() if len(block) > 1]
    assert len(lines) >= 10
    environment = plain() | {"PATH": f"{checkout}/.venv/bin{os.pathsep}{os.environ['PATH']}"}
    said = {}
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, env=environment
        )
        assert done.returncode == 0, f"{line}: {done.returncode}: {done.stdout[-500:]}{done.stderr[-1000:]}"
        said[line] = done.stdout
    assert any(line.startswith("i2s run") and "--prompt" in line and output.strip() for line, output in said.items())


def test_the_plain_install_has_none_of_the_extras(checkout: Path) -> None:
    code = "import importlib.util as u; print([n for n in ('tokenizers', 'jinja2', 'gguf', 'hypothesis') if u.find_spec(n)])"
    run = subprocess.run(
        [checkout / ".venv/bin/python", "-c", code],
        cwd="/",
        capture_output=True,
        encoding="utf-8",
        check=True,
        env=plain(),
    )
    assert run.stdout == "[]\n"
