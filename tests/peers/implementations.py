"""The implementations that are run on the test vectors, and how the adapter of each is started.

Adapters written from the text are compiled here; the programs of PyPI and npm are those of `programs`. Sources that no
registry has in a form that can be used as it is lie below the folder `I2S_PEERS`, each under its name and version:

    mlx-kquant-0.5.6    its unpacked sdist; beside it `mlx`, as `pip install --target "$I2S_PEERS" mlx==0.32.3` puts it there
    0xBitNet-f2ab5ec    the repository, with `npm install esbuild webgpu` in it; Dawn needs a driver of Vulkan
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from peers.programs import PROGRAM, Program

#: Crates that are built where cargo and its registry are at hand.
CRATES: Final = {"axonml-quant": "0.6.2", "boostr": "0.10.0", "rlx-gguf": "0.2.19"}

#: Packages of PyPI that read key-values and the tensor table, with one adapter for all.
HEADER_READERS: Final = ("gguf-parser", "gguf-inspect", "quantbenchx", "c4nary")

ADAPTERS: Final = Path(__file__).parent / "adapters"


class MissingError(Exception):
    """Why an implementation cannot be run here."""


class Implementation(NamedTuple):
    """An implementation: its name in the table, the function that makes its command in a build folder, and how long an
    answer may take; shaders on a processor are slow."""

    name: str
    command: Callable[[Path], list[str]]
    third_party: bool = True
    seconds: float = 20


def implementations() -> tuple[Implementation, ...]:
    """Every implementation, those of other projects first."""
    return (
        Implementation("gguf", _gguf),
        Implementation("libggml", _ggml),
        Implementation("huggingface-gguf", lambda _: _node("huggingface.mjs", "@huggingface/gguf")),
        Implementation("hyllama", lambda _: _node("hyllama.mjs", "hyllama")),
        Implementation("node-llama-cpp", lambda _: _node("node_llama_cpp.mjs", "node-llama-cpp")),
        Implementation("xllamacpp", lambda _: _of("xllamacpp", "xllamacpp_python.py")),
        Implementation("ik-llama-cpp-python", lambda _: _of("ik-llama-cpp-python", "ik_llama_cpp_python.py")),
        Implementation("pytritium", lambda _: _of("pytritium", "pytritium_tokens.py")),
        Implementation("transformers", lambda _: _of("transformers", "transformers_exports.py", sys.executable)),
        Implementation("libgguf", lambda _: _of("libgguf", "libgguf_python.py")),
        Implementation("mlx-kquant", _mlx_kquant),
        Implementation("0xBitNet", _oxbitnet, seconds=900),
        *(Implementation(name, lambda to, name=name: _crate(to, name)) for name in CRATES),  # type: ignore[misc]
        *(Implementation(each, lambda _, each=each: _of(each, "python_reader.py", each)) for each in HEADER_READERS),  # type: ignore[misc]
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
    _compile([_tool(words[0]), *words[1:], str(target), _path(source)])
    return [str(target)]


def _gguf(_: Path) -> list[str]:
    try:
        metadata.version("gguf")
    except metadata.PackageNotFoundError:
        raise MissingError("the extra [gguf] is not installed") from None
    return [sys.executable, _path("gguf_python.py")]


def _wgsl(_: Path) -> list[str]:
    # Drivers may end the process that releases a device.
    words = [sys.executable, "-c", "from peers.wgsl_device import require; require()"]
    done = subprocess.run(
        words, cwd=Path(__file__).resolve().parents[1], capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise MissingError(f"no wgpu, or no Vulkan device: {done.stderr.strip().rpartition(chr(10))[2]}")
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


def _of(name: str, adapter: str, *words: str) -> list[str]:
    """An adapter with the Python environment of its program."""
    program = PROGRAM[name]
    _require(program)
    python = program.folder / "bin" / "python"
    return [str(python) if python.is_file() else sys.executable, _path(adapter), *words]


def _sources(name: str) -> Path:
    """What the folder `I2S_PEERS` has under a name."""
    found = Path(os.environ.get("I2S_PEERS", "/nowhere")) / name
    if not found.is_dir():
        raise MissingError(f"I2S_PEERS has no {name}")
    return found


def _oxbitnet(_: Path) -> list[str]:
    commit = "f2ab5ec"
    return [_tool("node"), _path("oxbitnet.mjs"), str(_sources(f"0xBitNet-{commit}")), commit]


def _mlx_kquant(folder: Path) -> list[str]:
    version, target = "0.5.6", folder / "libmlx_kquant.so"
    package = _sources(f"mlx-kquant-{version}") / "src"
    words = ["-std=c++20", "-O1", "-shared", "-fPIC", f"-I{package}", f"-I{_sources('mlx') / 'include'}"]
    parts = [_path("mlx_kquant.cpp"), str(package / "kquant_codec.cpp")]
    _compile([_tool("g++"), *words, *parts, "-o", str(target)])
    return [sys.executable, _path("mlx_kquant.py"), str(target), version]


def _crate(folder: Path, name: str) -> list[str]:
    """A crate of the registry, with the loop of the protocol around it."""
    home = folder / f"crate-{name}"
    (home / "src").mkdir(parents=True)
    about = f'[package]\nname = "adapter"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n{name} = "={CRATES[name]}"\n'
    (home / "Cargo.toml").write_text(about, encoding="utf-8")
    shutil.copy(_path("crate_loop.rs"), home / "src" / "main.rs")
    text = Path(_path(f"crate_{name.replace('-', '_')}.rs")).read_text(encoding="utf-8")
    (home / "src" / "decoder.rs").write_text(text.replace("VERSION", CRATES[name]), encoding="utf-8")
    words = [_tool("cargo"), "build", "--quiet", "--release", "--ignore-rust-version"]
    done = subprocess.run(words, cwd=home, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        reason = next((line for line in done.stderr.splitlines() if line.startswith("error")), "cargo fails")
        raise MissingError(f"the crate does not build here: {reason}")
    return [str(home / "target" / "release" / "adapter")]


def _compile(words: Sequence[str]) -> None:
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise RuntimeError(f"{words[0]}: {done.stderr}")


def _require(program: Program) -> None:
    if reason := program.missing():
        raise MissingError(reason)
