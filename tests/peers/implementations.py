"""The implementations that are run on the test vectors, and how the adapter of each is started.

Adapters written from the text are compiled here; the programs of PyPI and npm are those of `programs`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from peers.programs import PROGRAM, READERS, Program

ADAPTERS: Final = Path(__file__).parent / "adapters"


class MissingError(Exception):
    """Why an implementation cannot be run here."""


class Implementation(NamedTuple):
    """An implementation: its name in the table, and the function that makes its command in a build folder."""

    name: str
    command: Callable[[Path], list[str]]
    third_party: bool = True


def implementations() -> tuple[Implementation, ...]:
    """Every implementation, those of other projects first."""
    return (
        Implementation("gguf", _gguf),
        Implementation("libggml", _ggml),
        Implementation("huggingface-gguf", lambda _: _node("huggingface.mjs", "@huggingface/gguf")),
        Implementation("hyllama", lambda _: _node("hyllama.mjs", "hyllama")),
        Implementation("node-llama-cpp", lambda _: _node("node_llama_cpp.mjs", "node-llama-cpp")),
        Implementation("gguf-parser", lambda _: _reader(PROGRAM["gguf-parser"])),
        Implementation("xllamacpp", lambda _: _python("xllamacpp_python.py", PROGRAM["xllamacpp"])),
        *(Implementation(each.name, lambda _, each=each: _reader(each)) for each in READERS),  # type: ignore[misc]
        Implementation("numpy-from-the-text", lambda _: [sys.executable, _path("numpy_from_the_text.py")], False),
        Implementation("javascript-from-the-text", lambda _: [_tool("node"), _path("from_the_text.mjs")], False),
        Implementation("c-from-the-text", lambda to: _built(to, "from_the_text.c", ["cc", "-O2", "-o"]), False),
        Implementation("rust-from-the-text", lambda to: _built(to, "from_the_text.rs", ["rustc", "-O", "-o"]), False),
        Implementation("wgsl-from-the-schema", _wgsl, False),
        Implementation("cuda-from-the-schema", _cuda, False),
        Implementation("go-from-the-text", lambda to: _built(to, "from_the_text.go", ["go", "build", "-o"]), False),
    )


def _path(name: str) -> str:
    return str(ADAPTERS / name)


def _tool(name: str) -> str:
    if shutil.which(name) is None:
        raise MissingError(f"{name} is not installed")
    return name


def _built(folder: Path, source: str, words: Sequence[str]) -> list[str]:
    """A program compiled from a source file."""
    target = folder / source.replace(".", "_")
    done = subprocess.run(
        [_tool(words[0]), *words[1:], str(target), _path(source)], capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(f"{source}: {done.stderr}")
    return [str(target)]


def _gguf(_: Path) -> list[str]:
    try:
        metadata.version("gguf")
    except metadata.PackageNotFoundError:
        raise MissingError("the extra [gguf] is not installed") from None
    return [sys.executable, _path("gguf_python.py")]


def _wgsl(_: Path) -> list[str]:
    from peers.wgsl_device import device

    try:
        device()
    except (ImportError, RuntimeError) as error:
        raise MissingError(f"no wgpu, or no Vulkan device: {error}") from None
    return [sys.executable, _path("wgsl.py")]


def _cuda(_: Path) -> list[str]:
    _tool("g++")
    return [sys.executable, _path("cuda.py"), "--emulate"]


def _ggml(_: Path) -> list[str]:
    program = PROGRAM["@node-llama-cpp/linux-x64"]
    _require(program)
    library = program.folder / "node_modules" / program.name / "bins" / "linux-x64" / "libggml-base.so"
    return [sys.executable, _path("libggml.py"), str(library)]


def _node(adapter: str, package: str) -> list[str]:
    program = PROGRAM[package]
    _require(program)
    return [_tool("node"), _path(adapter), str(program.folder / "node_modules" / program.name)]


def _python(adapter: str, program: Program, *words: str) -> list[str]:
    """An adapter with the Python environment of its program."""
    _require(program)
    python = program.folder / "bin" / "python"
    return [str(python) if python.is_file() else sys.executable, _path(adapter), *words]


def _reader(program: Program) -> list[str]:
    return _python("python_reader.py", program, program.name)


def _require(program: Program) -> None:
    if reason := program.missing():
        raise MissingError(reason)
