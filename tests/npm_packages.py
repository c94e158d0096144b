"""Packages of npm that tests run in node: from a folder in the user's cache, or installed afresh."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

#: Kaitai's compiler and its runtime, a validator of JSON schemas; `.ci/run` installs the same.
PACKAGES = {"kaitai-struct-compiler": "0.11.0", "kaitai-struct": "0.11.0", "ajv": "8.20.0"}


#: What installs them where `found` looks.
COMMAND = "npm install --prefix ~/.cache/i2s-spec/exports " + " ".join(map("@".join, PACKAGES.items()))


def found() -> Path | None:
    """The folder of the cache, or `KAITAI_HOME`, if all packages are in its `node_modules`."""
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "i2s-spec" / "exports"
    for folder in (Path(os.environ.get("KAITAI_HOME", cached)), cached):
        if all(_version(folder, name) == version for name, version in PACKAGES.items()) and shutil.which("node"):
            return folder
    return None


def home(factory: pytest.TempPathFactory) -> Path:
    """A folder with all packages in its `node_modules`: that of the cache, or a fresh one.

    A test without node, npm or a registry is skipped.
    """
    if (folder := found()) is not None:
        return folder
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("no node and npm on the path")
    folder = factory.mktemp("npm")
    (folder / "package.json").write_text("{}")
    wanted = [f"{name}@{version}" for name, version in PACKAGES.items()]
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", *wanted]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", timeout=600, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm takes too long")
    if done.returncode:
        pytest.skip(f"npm does not install the packages: {done.stderr.strip()[-200:]}")
    return folder


def _version(folder: Path, name: str) -> str | None:
    try:
        about = json.loads((folder / "node_modules" / name / "package.json").read_text())
    except OSError:
        return None
    return str(about["version"])
