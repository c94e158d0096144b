"""llama.cpp's library, node by node, and its tool llama-perplexity, both of the release in npm.

`dump` returns what the library computes for a file: every value whole, and the text of the library's own printer.
`perplexity_tool` builds llama-perplexity from the sources that node-llama-cpp contains (a git bundle), with the built
libraries beside them: two files to compile. None of this code is in this repository.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from i2s_spec.fuzzing.bounded_process import Bounds, Command, run
from peers.child import SECONDS, cleaned
from peers.programs import PROGRAM

_LIBRARY: Final = PROGRAM["@node-llama-cpp/linux-x64"]
_SOURCES: Final = PROGRAM["node-llama-cpp"]

#: The source folders that are compiled or included.
_FOLDERS: Final = ("include", "common", "ggml/include", "vendor", "tools/perplexity")


class Dumped(NamedTuple):
    """What the library dumped: a .npz of values by name, and a text as llama-eval-callback prints it."""

    values: Path
    text: Path


def missing() -> str | None:
    """Why nothing can be dumped, or None if it can."""
    return _LIBRARY.missing()


#: Seconds for one dump: the library's threads wait for each other by spinning, which takes minutes on a busy processor.
PATIENCE: Final = 4 * SECONDS


def _package() -> Path:
    return _LIBRARY.folder / "node_modules" / _LIBRARY.name


def _libraries() -> Path:
    return _package() / "bins" / "linux-x64"


def dump(path: Path, tokens: Sequence[int], folder: Path, callback: Path | None = None) -> Dumped:
    """Run the library on a file, in a separate process with one thread, without flash attention.

    :param folder: the existing folder for the dumps
    :param callback: a compiled library whose `dump_npy` is called with the folder, for each node of one more run
    :raises RuntimeError: if the library is missing or does not load the file, with its output
    """
    reason = missing()
    if reason is not None:
        raise RuntimeError(reason)
    script = Path(__file__).parent / "children" / "run_llama_library.py"
    answer = folder / "answer.json"
    words = [sys.executable, str(script), str(_package()), str(answer), "{}", json.dumps(list(tokens)), str(folder)]
    words += [] if callback is None else [str(callback)]
    outcome = run(Command(words), path.resolve(), Bounds(PATIENCE, _LIBRARY.memory))
    if not answer.is_file():
        printed = "\n".join(cleaned(outcome.stderr_tail, path))
        raise RuntimeError(f"llama.cpp's library does not compute {path.name} ({outcome.name}):\n{printed}")
    return Dumped(folder / "values.npz", folder / "eval-callback.txt")


def perplexity_missing() -> str | None:
    """Why llama-perplexity cannot be built, or None if it can."""
    for command in ("git", "g++"):
        if shutil.which(command) is None:
            return f"llama-perplexity is compiled with {command}, which is not installed"
    return _LIBRARY.missing() or (
        None if _bundle().is_file() else f"{_SOURCES.name} {_SOURCES.version} is not installed"
    )


def sources(place: Path, folders: Sequence[str]) -> Path:
    """Folders of llama.cpp's sources, as in npm's package.

    :param place: a folder, which is created
    :raises RuntimeError: if git fails
    """
    _done(["git", "clone", "--quiet", "--no-checkout", str(_bundle()), str(place)])
    _done(["git", "-C", str(place), "checkout", "--quiet", "HEAD", "--", *folders])
    return place


def _bundle() -> Path:
    return _SOURCES.folder / "node_modules" / _SOURCES.name / "llama" / "gitRelease.bundle"


def perplexity_tool() -> Path:
    """llama-perplexity; it is built if necessary.

    :raises RuntimeError: if the build fails
    """
    reason = perplexity_missing()
    if reason is not None:
        raise RuntimeError(reason)
    home = _SOURCES.folder.with_name(f"llama-tools-{_SOURCES.version}")
    tool = home / "llama-perplexity"
    if tool.is_file():
        return tool
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as folder:
        source, built = Path(folder) / "llama.cpp", Path(folder) / tool.name
        sources(source, _FOLDERS)
        libraries = [next(_libraries().glob(f"{name}*.so")) for name in
                     ("libllama-common", "libllama.v", "libggml.v", "libggml-base")]  # fmt: skip
        _done(["g++", "-O1", "-std=c++17", *(f"-I{source / each}" for each in _FOLDERS[:4]),
               *map(str, sorted((source / _FOLDERS[4]).glob("*.cpp"))), *map(str, libraries),
               f"-Wl,-rpath,{_libraries()}", "-pthread", "-o", str(built)])  # fmt: skip
        for backend in _libraries().glob("libggml-cpu-*.so"):  # the program searches for them in its folder
            (home / backend.name).unlink(missing_ok=True)
            (home / backend.name).symlink_to(backend)
        built.rename(tool)
    return tool


def _done(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False, timeout=900)
    if done.returncode:
        raise RuntimeError(f"{words[0]} ended with status {done.returncode}:\n{done.stderr[-2000:]}")


def perplexity(path: Path, *options: str) -> str:
    """The log of llama-perplexity for a file: one thread, chunks of 128 tokens, without flash attention.

    :raises RuntimeError: if the build or the run fails
    """
    tool = perplexity_tool()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"  # standard output lacks the last lines
        _done([str(tool), "-m", str(path), "-c", "128", "-b", "128", "-t", "1", "-fa", "off", "--log-file", str(log),
               *options])  # fmt: skip
        return log.read_text(encoding="utf-8", errors="replace")
