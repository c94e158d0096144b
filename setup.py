"""Builds the extensions that pyproject.toml declares: in parallel, and with one copy of Cython's own code.

Cython's code for typed memoryviews is as long as the C code of one of our modules. It is compiled once, as
`i2s_spec._cyutility`, which the extensions import, except those of short commands. Cython runs when extensions are built,
not when a tool reads metadata.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SHARED = "i2s_spec._cyutility"
#: What short commands import: it has no typed memoryviews, needs little of that code, and has a copy of what it needs.
ALONE = {"i2s_spec.codec._cpu", "i2s_spec.codec._survey", "i2s_spec.gguf._scanner", "i2s_spec.gguf._strings"}


def processors() -> int:
    """Return number of processors that the build may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


class BuildExtensions(build_ext):
    """Compiles extensions on all processors, in the order of their declarations."""

    def finalize_options(self) -> None:
        declared = self.distribution.ext_modules
        if not any(extension.name == SHARED for extension in declared):
            declared.append(Extension(SHARED, ["_cyutility.c"], extra_compile_args=["-O1", "-g0"]))
        super().finalize_options()
        if self.parallel is None:
            self.parallel = processors()

    def build_extensions(self) -> None:
        """Translate the `.pyx` files, then compile."""
        from Cython.Build import cythonize

        folder = Path(self.build_temp)
        folder.mkdir(parents=True, exist_ok=True)
        for extension in self.extensions:
            if extension.name == SHARED:
                extension.sources = [str(folder / "_cyutility.c")]  # Cython writes this file
            if "pyx" not in extension.include_dirs:
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
    setup(cmdclass={"build_ext": BuildExtensions})
