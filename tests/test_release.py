"""A release is refused where its version is of development, files disagree about it, or something is not committed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="no git")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with one commit: what names the version, and the script."""
    files = {"pyproject.toml": '[project]\nversion = "1.2.0"\n', "CHANGELOG.md": "# Changes\n\n## 1.2.0\n\n## 1.1.0\n",
             "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.0\n"}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "release.py", tmp_path / ".ci")
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    for words in (("init", "-q"), ("add", "-A"), (*who, "commit", "-q", "--no-gpg-sign", "--allow-empty", "-m", "x")):
        subprocess.run(["git", *words], cwd=folder, check=True)


def check(folder: Path) -> str:
    """What the check prints; empty where a release can be made."""
    words = [sys.executable, "-B", ".ci/release.py", "--check"]
    done = subprocess.run(words, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == bool(done.stderr)
    return done.stderr


def test_a_clean_checkout_of_a_version_can_be_released(checkout: Path) -> None:
    assert check(checkout) == ""


@pytest.mark.parametrize("name", ["new.txt", "CHANGELOG.md"])
def test_what_is_not_committed_is_named(checkout: Path, name: str) -> None:
    with (checkout / name).open("a", encoding="utf-8") as file:
        file.write("more\n")
    assert check(checkout) == f"not committed: {name}\n"


def test_artefacts_of_another_release_are_not_mixed_with_new_ones(checkout: Path) -> None:
    (checkout / "dist").mkdir()
    assert check(checkout) == "dist is there already\n"


@pytest.mark.parametrize(
    ("name", "old", "new", "refused"),
    [
        ("pyproject.toml", "1.2.0", "1.2.0.dev0", "1.2.0.dev0 is a development version"),
        ("CHANGELOG.md", "## 1.2.0", "## next", "CHANGELOG.md is of version next, pyproject.toml of 1.2.0"),
        ("CITATION.cff", "\nversion: 1.2.0", "\nversion: 1.1.0", "CITATION.cff is of version 1.1.0"),
    ],
)
def test_versions_that_disagree_are_refused(checkout: Path, name: str, old: str, new: str, refused: str) -> None:
    path = checkout / name
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    commit(checkout)
    assert refused in check(checkout)
