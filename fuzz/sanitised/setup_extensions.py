"""Builds the extensions that pyproject.toml declares, beside their sources, with other compiler flags.

Run it in a copy of the project, with setuptools and Cython on the path: the flags are the arguments; the number of
parallel builds comes from the environment.
"""

from __future__ import annotations

import os
import sys

import setuptools  # type: ignore[import-untyped, unused-ignore]  # it may come without types
from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped, unused-ignore]


class BuildExt(build_ext):  # type: ignore[misc, unused-ignore]
    def build_extension(self, ext: setuptools.Extension) -> None:
        """What decides over results (-ffp-contract) stays; what decides over speed and names goes."""
        other_flags = [flag for flag in ext.extra_compile_args if not flag.startswith(("-O", "-g"))]
        ext.extra_compile_args = [*other_flags, *sys.argv[1:]]
        ext.extra_link_args = [*ext.extra_link_args, *sys.argv[1:]]
        super().build_extension(ext)


if __name__ == "__main__":
    jobs = os.environ.get("I2S_BUILD_JOBS", "1")
    setuptools.setup(
        script_name="setup.py",
        script_args=["-q", "build_ext", "--inplace", "--build-lib", "../lib", "--build-temp", "../objects", "-j", jobs],
        cmdclass={"build_ext": BuildExt},
    )
