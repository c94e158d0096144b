"""A copy of the package whose extensions are built with AddressSanitizer and UndefinedBehaviorSanitizer, out of tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

#: CPython is compiled with -fwrapv and hands it on; without it, sums that overflow are found as well.
#: -g1 names functions and lines in reports; with -g, data about variables takes a quarter of the time of a build.
FLAGS: Final = (
    "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer",
    "-fno-wrapv", "-g1", "-Og",
)  # fmt: skip

#: What an extension that was built so asks the run-time libraries for.
MARKS: Final = (b"__asan_init", b"__ubsan_handle")


class BuildError(Exception):
    """The extensions, or the libraries that they need, are not to be had; with the reason."""


def build(folder: Path, isolated: bool = True) -> Path:
    """Copy the package into a folder and build its extensions there; what has not changed since the last time is kept.

    :param isolated: with setuptools and Cython of their own, as pip does it, not with those of this environment
    :returns: what goes first on PYTHONPATH
    :raises BuildError: where there is no gcc, or something does not compile
    """
    if shutil.which("gcc") is None:
        raise BuildError("there is no gcc")
    project, stamp = folder / "project", folder / "flags"
    if not stamp.is_file() or stamp.read_text(encoding="utf-8") != " ".join(FLAGS):
        for made in (project, folder / "objects", folder / "lib"):
            shutil.rmtree(made, ignore_errors=True)
    project.mkdir(parents=True, exist_ok=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "pyx", "i2s_spec"):
        _copy(ROOT / name, project / name)
    stamp.write_text(" ".join(FLAGS), encoding="utf-8")

    more = {"CC": "gcc", "I2S_BUILD_JOBS": str(os.cpu_count() or 1)}
    if isolated:
        more |= build_tools(folder)
    run([sys.executable, str(HERE / "setup_extensions.py"), *FLAGS], more, project)
    for name, path in extensions(project).items():
        content = path.read_bytes()
        if not all(mark in content for mark in MARKS):
            raise BuildError(f"{name} was not built with the sanitizers")
    return project


def extensions(project: Path) -> dict[str, Path]:
    """The extensions that pyproject.toml declares, and where each was built.

    :raises BuildError: where one is missing
    """
    found = {}
    for declared in _configuration(project)["tool"]["setuptools"]["ext-modules"]:
        name = declared["name"]
        built = list(project.glob(name.replace(".", "/") + ".*.so"))
        if len(built) != 1:
            raise BuildError(f"{name} was not built")
        found[name] = built[0]
    return found


def libraries() -> str:
    """The run-time libraries of gcc's sanitizers, as LD_PRELOAD takes them: the interpreter has to load them first.

    :raises BuildError: where they are not installed
    """
    found = []
    for name in ("libasan.so", "libubsan.so"):
        words = ["gcc", f"-print-file-name={name}"]
        path = Path(subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()).resolve()
        if not path.is_absolute() or not path.is_file() or path.read_bytes()[:4] != b"\x7fELF":
            raise BuildError(f"gcc has no {name}")
        found.append(str(path))
    return " ".join(found)


def compile_library(source: Path, into: Path) -> Path:
    """A C file as a shared library, with the flags of the extensions."""
    made = into / f"{source.stem}.so"
    run(["gcc", "-shared", "-fPIC", *FLAGS, str(source), "-o", str(made)], {}, into)
    return made


def _copy(source: Path, target: Path) -> None:
    """A file, or a folder without what was compiled; times are kept, so that what is up to date is known."""
    if source.is_file():
        shutil.copy2(source, target)
        return
    ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)
    for path in [path for path in target.rglob("*.py") if not (source / path.relative_to(target)).is_file()]:
        path.unlink()  # a module that is gone


def build_tools(folder: Path) -> dict[str, str]:
    """What pyproject.toml requires for building, in a folder of its own; the environment in which it is found."""
    tools = folder / "tools"
    if not tools.is_dir():
        requires = _configuration(ROOT)["build-system"]["requires"]
        words = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(tools)]
        run([*words, *requires], {}, folder)
    return {"PYTHONPATH": str(tools)}


def _configuration(project: Path) -> dict[str, Any]:
    return tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))


def run(words: list[str], more: dict[str, str], folder: Path) -> None:
    """Run a tool of the build.

    :raises BuildError: where it fails, with the end of what it printed
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("CFLAGS", "LDFLAGS", "LDSHARED")}
    done = subprocess.run(
        words, cwd=folder, env=environment | more, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", check=False,
    )  # fmt: skip
    if done.returncode:
        raise BuildError(f"{Path(words[0]).name} failed:\n{done.stdout[-6000:]}")
