"""`mkdocs build`, `mkdocs serve` and the commands use the text of the clone, however the package was installed."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

import pytest

from i2s_spec._version import __version__
from i2s_spec.cli.specification import spec
from i2s_spec.docs import checkout
from i2s_spec.errors import SettingError

ROOT = Path(__file__).resolve().parents[2]
needs_mkdocs = pytest.mark.skipif(find_spec("material") is None, reason="no mkdocs-material: pip install -e '.[docs]'")


def clone(folder: Path, version: str = __version__) -> Path:
    """A small clone that was never built: its package cannot be imported."""
    (folder / "i2s_spec").mkdir(parents=True)
    (folder / "i2s_spec" / "__init__.py").write_text("raise ImportError('not built')\n")
    (folder / "i2s_spec" / "_version.py").write_text(f'__version__ = "{version}"\n')
    (folder / "spec").mkdir()
    (folder / "spec" / "index.md").write_text("# Title\n\n```i2s-source\nnote.mjs\n```\n")
    (folder / "spec" / "note.mjs").write_text("let first;\n")
    shutil.copy(ROOT / "mkdocs_hook.py", folder)
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = re.sub(
        r"^(nav|extra_css|extra_javascript|not_in_nav):.*?(?=^\S)", "", config, flags=re.MULTILINE | re.DOTALL
    )
    (folder / "mkdocs.yml").write_text(config)
    return folder


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder of installed packages that holds a copy of this one, away from any checkout."""
    folder = tmp_path / "packages"
    shutil.copytree(ROOT / "i2s_spec", folder / "i2s_spec", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_the_clone_around_the_current_folder_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checkout.root() == ROOT
    monkeypatch.setattr(checkout, "__file__", str(tmp_path / "a" / "b" / "c.py"))
    monkeypatch.chdir(clone(tmp_path / "clone") / "spec")
    assert checkout.chapters() == tmp_path / "clone" / "spec"
    monkeypatch.chdir(clone(tmp_path / "other", "9.9.9"))
    with pytest.raises(SettingError, match=r"is of version 9\.9\.9, and the installed package of"):
        checkout.root()
    with pytest.raises(SettingError, match="is not a checkout"):
        checkout.use(tmp_path)
    with pytest.raises(SettingError, match=r"of version 9\.9\.9"):
        checkout.use(tmp_path / "other")


def test_a_named_checkout_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkout, "_named", [])
    checkout.use(clone(tmp_path / "clone"))
    assert checkout.root() == tmp_path / "clone"


def test_serve_opens_and_rebuilds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(spec, "_mkdocs", lambda *arguments: asked.append(arguments) or 0)
    spec.serve.main(["--port", "8123"], standalone_mode=False)
    spec.serve.main(["--no-open"], standalone_mode=False)
    assert asked == [
        ("serve", "--dev-addr", "127.0.0.1:8123", "--livereload", "--open"),
        ("serve", "--dev-addr", "127.0.0.1:8000", "--livereload"),
    ]


@needs_mkdocs
@pytest.mark.thorough
def test_mkdocs_builds_a_clone_with_an_installed_package(installed: Path, tmp_path: Path) -> None:
    folder = clone(tmp_path / "clone")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(installed)}
    for where, more in ((folder, []), (tmp_path, ["-f", str(folder / "mkdocs.yml")])):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mkdocs", "build", *more, "--site-dir", str(tmp_path / "site")],
            cwd=where, env=environment, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "first" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
        shutil.rmtree(tmp_path / "site")


@needs_mkdocs
@pytest.mark.thorough
def test_serve_builds_anew_when_a_page_changes(installed: Path, tmp_path: Path) -> None:
    folder = clone(tmp_path / "clone")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    server = subprocess.Popen(
        [sys.executable, "-P", "-m", "i2s_spec", "spec", "serve", "--no-open", "--port", str(port)],
        cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def wait_for(word: bytes) -> None:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            assert server.poll() is None
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/index.html", timeout=10) as page:
                if word in page.read():
                    return
            time.sleep(0.2)
        pytest.fail(f"{word!r} never came")

    try:
        wait_for(b"first")
        (folder / "spec" / "index.md").write_text("# Title\n\nsecond\n")
        wait_for(b"second")
    finally:
        server.terminate()
        server.wait(300)
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/index.html", timeout=10)
