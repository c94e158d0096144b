#!/usr/bin/env python3
"""A wrapper of the C compiler that compiles each file once in a run of `.ci/run`, which builds the package four times.

It keeps object files in the folder `CI_OBJECTS`, under a hash of the preprocessed text, the flags and the compiler's
version. The folder of a source differs between builds, and is kept out of the object file (`__FILE__`). Only compilations
without debug information (`-g0`) are kept, because debug information contains paths.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

COMPILER = "gcc"


def main(words: list[str]) -> int:
    """Compile, or copy an earlier object file; pass all other calls on to the compiler."""
    if "-c" not in words or "-o" not in words or "-g0" not in words:
        return subprocess.run([COMPILER, *words], check=False).returncode
    target = Path(words[words.index("-o") + 1])
    words = [*words, *(f"-fmacro-prefix-map={word}={Path(word).name}" for word in words if word.endswith(".c"))]
    flags = [word for word in words if word not in ("-c", "-o", str(target))]
    text = subprocess.run([COMPILER, *flags, "-E", "-P"], capture_output=True, check=False)
    version = subprocess.run([COMPILER, "-v"], capture_output=True, check=False).stderr
    of_the_text = ("-I", "-fmacro-prefix-map=")
    kinds = [word for word in flags if not word.startswith(of_the_text) and not word.endswith(".c")]  # of compilation
    kept = Path(os.environ["CI_OBJECTS"]) / hashlib.sha256(repr((text.stdout, kinds, version)).encode()).hexdigest()
    if text.returncode == 0 and kept.is_file():
        shutil.copyfile(kept, target)
        return 0
    status = subprocess.run([COMPILER, *words], check=False).returncode
    if status == 0 and text.returncode == 0:
        made = kept.with_suffix(f".{os.getpid()}")
        shutil.copyfile(target, made)
        made.replace(kept)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
