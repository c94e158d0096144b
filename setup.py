"""Builds the extensions that pyproject.toml declares: in parallel, and with one copy of Cython's own code.

Cython's code for typed memoryviews is as long as the C code of one of our modules. It is compiled once, as
`i2s_spec._cyutility`, which the extensions import, except those of short commands. Cython runs when extensions are built,
not when a tool reads metadata.

Where there is no C compiler, or Python has no headers, nothing is compiled: beside each extension is a Python module of the
same name, which Python imports where the extension is missing. I2S_BUILD decides instead, where it is set: `plain`, to
compile nothing, or `compiled`. A compiler that fails is an error.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import Distribution, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import OptionError

SHARED = "i2s_spec._cyutility"
#: What short commands import: it has no typed memoryviews, needs little of that code, and has a copy of what it needs.
ALONE = {"i2s_spec.codec._cpu", "i2s_spec.codec._survey", "i2s_spec.gguf._scanner", "i2s_spec.gguf._strings"}
BUILD = "I2S_BUILD"


def processors() -> int:
    """Return the number of processors that the build may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def why_plain() -> str:
    """Return why nothing is compiled; empty where extensions are.

    :raises OptionError: for another value of I2S_BUILD
    """
    asked = os.environ.get(BUILD, "")
    if asked not in ("", "plain", "compiled"):
        raise OptionError(f"{BUILD} is {asked!r}; it can be plain or compiled")
    if asked:
        return f"{BUILD} is plain" if asked == "plain" else ""
    windows = sys.platform == "win32"
    compiler = os.environ.get("I2S_CLANG_CL", "clang-cl.exe") if windows else os.environ.get("CC", "")
    compiler = compiler or sysconfig.get_config_var("CC") or "cc"
    if not any(shutil.which(word) for word in (compiler, *shlex.split(compiler, posix=not windows)[:1])):
        return f"there is no C compiler ({compiler})"
    folders = [
        sysconfig.get_path("include"),
        sysconfig.get_path("platinclude"),
        os.path.join(sys.exec_prefix, "include"),
    ]
    folders += [folder for name in ("CPATH", "C_INCLUDE_PATH") for folder in os.environ.get(name, "").split(os.pathsep)]
    if not any(folder and os.path.isfile(os.path.join(folder, "Python.h")) for folder in folders):
        return f"Python's headers are not installed ({os.path.join(folders[0], 'Python.h')})"
    return ""


class Package(Distribution):
    """The package with its extensions, or without them."""

    plain = ""

    def parse_config_files(self, *arguments: Any, **options: Any) -> None:
        """Read pyproject.toml; a distribution without extensions is pure, as the name of its wheel says."""
        super().parse_config_files(*arguments, **options)
        self.plain = why_plain()
        if self.plain:
            self.ext_modules = []

    def run_commands(self) -> None:
        """Run all commands, and say at the end where nothing was compiled."""
        super().run_commands()
        if self.plain and self.have_run.get("build_py"):
            print(
                f"i2s-spec: nothing was compiled, since {self.plain}: the definitions in NumPy and Python are used, which "
                "are slower; `i2s info` says so",
                file=sys.stderr,
            )


class BuildExtensions(build_ext):
    """Compiles extensions on all processors, in the order of their declarations."""

    def finalize_options(self) -> None:
        """Add what all extensions share."""
        declared = self.distribution.ext_modules
        if declared and not any(extension.name == SHARED for extension in declared):
            declared.append(Extension(SHARED, ["_cyutility.c"], extra_compile_args=["-O1", "-g0"]))
        super().finalize_options()
        if self.parallel is None:
            self.parallel = processors()

    def build_extensions(self) -> None:
        """Translate the `.pyx` files, then compile."""
        from Cython.Build import cythonize

        folder = Path(self.build_temp)
        folder.mkdir(parents=True, exist_ok=True)
        headers = sorted(path.as_posix() for path in Path("pyx").iterdir() if path.suffix in (".h", ".pxi"))
        for extension in self.extensions:
            if extension.name == SHARED:
                extension.sources = [str(folder / "_cyutility.c")]  # Cython writes this file
            else:
                extension.depends = headers
            extension.include_dirs.append("pyx")
            extension.extra_compile_args = compile_flags(self.compiler.compiler_type, extension.extra_compile_args)
        # Fork a process for each processor; without fork, each would run this file again.
        workers = min(processors(), len(self.extensions)) if sys.platform == "linux" else 0
        made: list[Any] = []
        for shared in (None, SHARED):
            made += cythonize(
                [extension for extension in self.extensions if (extension.name in ALONE) == (shared is None)],
                build_dir=str(folder),
                force=bool(self.force),
                nthreads=workers if workers > 1 else 0,
                language_level=3,
                shared_utility_qualified_name=shared,
                quiet=True,
            )
        # Cython copies headers beside its output, and an outdated copy would be found before those in pyx/.
        for copy in folder.rglob("*.h"):
            copy.unlink()
        sources = {extension.name: extension.sources for extension in made}
        for extension in self.extensions:  # these objects have the attributes that setuptools set
            extension.sources = sources[extension.name]
        if self.compiler.compiler_type == "msvc":
            use_clang(self.compiler, self.extensions)
        super().build_extensions()


def compile_flags(compiler: str, declared: list[str]) -> list[str]:
    """Return the declared flags in the form of a compiler: clang-cl takes those of GCC and Clang after `/clang:`."""
    if compiler != "msvc":
        return declared
    return [f"/clang:{flag}" if flag.startswith(("-O", "-f")) else flag for flag in declared if flag != "-g0"]


def use_clang(compiler: Any, extensions: list[Extension]) -> None:
    """Compile with clang-cl instead of cl, because the kernels use the vector types of GCC and Clang.

    The functions that query processor features are in Clang's own library, which Microsoft's linker needs as an argument.
    """
    if not compiler.initialized:
        compiler.initialize()
    compiler.cc = os.environ.get("I2S_CLANG_CL", "clang-cl.exe")
    asked = subprocess.run([compiler.cc, "-print-resource-dir"], capture_output=True, text=True, check=True)
    builtins = sorted(Path(asked.stdout.strip()).glob("lib/**/clang_rt.builtins*x86_64*.lib"))
    for extension in extensions:
        extension.extra_link_args = [str(each) for each in builtins[:1]]


if __name__ == "__main__":
    setup(cmdclass={"build_ext": BuildExtensions}, distclass=Package)
