"""This module finds the peers of the benchmarks, says how to install them, and runs the one in node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from importlib import metadata, util
from pathlib import Path
from types import TracebackType
from typing import Any

HERE = Path(__file__).resolve().parent


def default_folder() -> Path:
    """The default folder of npm packages, outside the checkout."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "i2s-spec" / "peers"


def wanted() -> tuple[str, str]:
    """Name and version of the npm package, as package.json pins it."""
    ((name, version),) = json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"].items()
    return name, version


def gguf_missing() -> str | None:
    """How to install the Python package `gguf`, if it is missing."""
    return None if util.find_spec("gguf") else "not installed: pip install -e '.[gguf]'"


def gguf_version() -> str:
    """The version of the Python package."""
    return metadata.version("gguf")


def huggingface_missing(folder: Path) -> str | None:
    """How to install @huggingface/gguf, if it is missing."""
    name, _ = wanted()
    if shutil.which("node") is None:
        return "not installed: node is missing; install Node.js 20 or newer, then python -m bench --install"
    if not (folder / "node_modules" / name / "package.json").is_file():
        return "not installed: python -m bench --install"
    return None


def install(folder: Path) -> None:
    """Install the npm package into `folder` with npm, as package.json pins it.

    :raises RuntimeError: if npm is missing or fails, with its output
    """
    if shutil.which("npm") is None:
        raise RuntimeError("npm is missing; install Node.js 20 or newer")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", folder)
    arguments = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"npm install failed: {done.stderr.strip()}")


class HuggingFace:
    """@huggingface/gguf in a persistent node process, so that its compiler has warmed up before the measurement."""

    def __init__(self, folder: Path, path: Path) -> None:
        arguments = ["node", str(HERE / "huggingface.mjs"), str(folder.resolve()), str(path)]
        self._node = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        versions = self._answer()
        self.version = versions["version"]
        self.node = versions["node"]

    def parse(self) -> dict[str, Any]:
        """Parse the file once: `seconds`, `grown` bytes of peak memory, `digest` of the result."""
        assert self._node.stdin is not None
        self._node.stdin.write("parse\n")
        self._node.stdin.flush()
        return self._answer()

    def seconds(self) -> float:
        """Parse the file once; returns the seconds."""
        return float(self.parse()["seconds"])

    def _answer(self) -> dict[str, Any]:
        assert self._node.stdout is not None
        line = self._node.stdout.readline()
        if not line:
            raise RuntimeError(f"node ended with status {self._node.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> HuggingFace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.close()
        self._node.stdout.close()
        self._node.wait()
