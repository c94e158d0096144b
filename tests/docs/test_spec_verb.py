"""`i2s spec` and mkdocs use the text of the clone, however the package was installed; the verb says what it needs."""

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
from click.testing import CliRunner
from small_checkout import small_checkout

from i2s_site import checkout, generated
from i2s_spec._version import __version__
from i2s_spec.cli import rule_pages, rules
from i2s_spec.errors import SettingError
from i2s_spec.linter.explain import as_markdown

ROOT = Path(__file__).resolve().parents[2]
needs_mkdocs = pytest.mark.skipif(find_spec("material") is None, reason="no mkdocs-material: pip install -e '.[docs]'")


def clone(folder: Path, version: str = __version__) -> Path:
    """A clone with one page that was never built: its package cannot be imported."""
    small_checkout(folder, "# Title\n\n```i2s-source\nnote.mjs\n```\n")
    (folder / "i2s_spec" / "__init__.py").write_text("raise ImportError('not built')\n")
    (folder / "i2s_spec" / "_version.py").write_text(f'__version__ = "{version}"\n')
    (folder / "spec" / "note.mjs").write_text("let first;\n")
    return folder


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder of installed packages that holds a copy of this one, away from any checkout."""
    folder = tmp_path / "packages"
    shutil.copytree(ROOT / "i2s_spec", folder / "i2s_spec", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As if the package were installed in a folder that is no checkout, and that folder were the current one."""
    monkeypatch.setattr(rules, "__file__", str(tmp_path / "a" / "b" / "c" / "d.py"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_clone_around_the_current_folder_is_taken(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone(elsewhere / "clone") / "spec")
    assert rules.checkout() == elsewhere / "clone"
    assert sys.path[-1] == str(elsewhere / "clone" / "spec" / "build")
    monkeypatch.chdir(clone(elsewhere / "other", "9.9.9"))
    with pytest.raises(SettingError, match=r"is of version 9\.9\.9, and the installed package of"):
        rules.checkout()


def test_an_editable_install_has_its_own_checkout() -> None:
    assert rules.checkout() == checkout.root() == ROOT


def test_without_a_checkout_the_verb_says_so(elsewhere: Path) -> None:
    for arguments in (["build"], ["serve"], ["test"], ["write"], ["write", "--check"]):
        assert "clone the repository" in str(CliRunner().invoke(rules.spec_command, arguments).exception)


def test_serve_opens_and_rebuilds(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(rules, "_mkdocs", lambda *arguments: asked.append(arguments) or 0)
    rules.serve.main(["--port", "8123"], standalone_mode=False)
    rules.serve.main(["--no-open"], standalone_mode=False)
    assert asked == [
        ("serve", "--dev-addr", "127.0.0.1:8123", "--livereload", "--open"),
        ("serve", "--dev-addr", "127.0.0.1:8000", "--livereload"),
    ]


def test_generated_pages_are_written_to_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule_pages, "words", as_markdown)  # skips the commands of the pages of rules

    def write(*options: str) -> tuple[int, list[str]]:
        done = CliRunner().invoke(
            rules.spec_command, ["write", str(tmp_path / "pages"), *options], standalone_mode=False
        )
        assert done.exception is None
        return done.return_value, done.stdout.splitlines()

    made = {
        *generated.pages(),
        *generated.rules(),
        "05-payload.md",
        "03-metadata.md",
        "04-inventories.md",
        "07-dialects.md",
        "09-inference.md",
        "11-conformance.md",
        "12-security.md",
        "exports.md",
        "integration.md",
    }
    status, said = write("--check")
    assert (status, set(said[:-1])) == (1, made)
    assert not (tmp_path / "pages").exists()
    status, said = write()
    assert (status, set(said[:-1])) == (0, made)
    assert {path.relative_to(tmp_path / "pages").as_posix() for path in (tmp_path / "pages").rglob("*.*")} == made
    assert "| advisory | program |" in (tmp_path / "pages" / "12-security.md").read_text(encoding="utf-8")
    (tmp_path / "pages" / "runtimes.md").write_text("old")
    assert write("--check") == (1, ["runtimes.md", f"1 file in {tmp_path / 'pages'} out of date or missing"])
    assert write()[1][0] == "runtimes.md"
    assert write("--check") == (0, [f"0 files in {tmp_path / 'pages'} out of date or missing"])


def test_building_deletes_nothing_but_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_require_mkdocs", lambda: None)
    monkeypatch.setattr(rules, "_mkdocs", lambda *arguments: 0)
    monkeypatch.setattr(rules, "checkout", lambda: ROOT)  # an installed package searches from the current folder
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.gguf").write_bytes(b"GGUF")
    for name in (".", "", str(tmp_path)):
        answer = CliRunner().invoke(rules.spec_command, ["build", "--output", name])
        assert (answer.exit_code, "would delete them" in answer.output) == (2, True)
    (tmp_path / "new").mkdir()
    assert CliRunner().invoke(rules.spec_command, ["build", "--output", "new"]).exit_code == 0
    (tmp_path / "new" / "search").mkdir()
    for name in rules.SITE:
        (tmp_path / "new" / name).write_text("")
    assert CliRunner().invoke(rules.spec_command, ["build", "--output", "new"]).exit_code == 0


def test_only_this_verb_imports_the_builder() -> None:
    """What is installed runs without a checkout."""
    importing = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "i2s_spec").rglob("*.py")
        if re.search(r"^\s*(?:from|import) i2s_site", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert importing == ["i2s_spec/cli/rules.py"]


@needs_mkdocs
@pytest.mark.thorough
def test_mkdocs_builds_a_clone_with_an_installed_package(installed: Path, tmp_path: Path) -> None:
    folder = clone(tmp_path / "clone")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(installed)}
    for where, more in ((folder, []), (tmp_path, ["-f", str(folder / "mkdocs.yml")])):
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mkdocs", "build", *more, "--site-dir", str(tmp_path / "site")],
            cwd=where, env=environment, capture_output=True, encoding="utf-8", timeout=600, check=False,
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
