"""llama.cpp's sources with their commit, from the source distribution of llama-cpp-python, which carries a checkout."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

PACKAGE: Final = "llama-cpp-python"

#: The tree in the distribution, and where git keeps its commit.
_TREE: Final = "vendor/llama.cpp"
_GIT: Final = ".git/modules/vendor/llama.cpp"

#: What the table is made of.
FOLDERS: Final = ("src", "include")


class Origin(NamedTuple):
    """A commit, and its date as YYYY-MM-DD."""

    commit: str
    date: str


def download(version: str | None, folder: Path) -> Path:
    """The archive of a version, by pip.

    :param version: the newest if it is None, :param folder: for the archive
    :raises RuntimeError: if pip fails, with its output
    """
    wanted = PACKAGE if version is None else f"{PACKAGE}=={version}"
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    words = [*pip, "--no-deps", "--no-binary", PACKAGE, "--dest", str(folder), wanted]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    found = sorted(folder.glob("llama_cpp_python-*.tar.gz"))
    if done.returncode or not found:
        raise RuntimeError(f"pip does not download {wanted}: {done.stderr.strip()[-1000:]}")
    return found[-1]


def unpack(archive: Path, folder: Path, parts: Sequence[str] = FOLDERS) -> Path:
    """Unpack parts of the tree and what git needs to name its commit; returns the tree's folder.

    :param parts: files and folders of the tree
    """
    name = archive.name.removesuffix(".tar.gz")
    wanted = tuple(f"{name}/{each}" for each in (_GIT, f"{_TREE}/.git", *(f"{_TREE}/{part}" for part in parts)))
    with tarfile.open(archive) as packed:
        members = [
            each for each in packed if each.name in wanted or each.name.startswith(tuple(f"{w}/" for w in wanted))
        ]
        packed.extractall(folder, members, filter="data")
    return folder / name / _TREE


def origin(tree: Path) -> Origin:
    """The commit of a tree.

    :raises RuntimeError: if git does not know it
    """
    plain = ["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*"]
    words = ["git", *plain, "-C", str(tree), "--no-pager", "log", "-1", "--format=%H %cs"]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError(f"git knows no commit of {tree}: {done.stderr.strip()}")
    return Origin(*done.stdout.split())
