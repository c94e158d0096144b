"""The C code under libFuzzer: `python fuzz/native [replay | NAME [ARGUMENTS OF LIBFUZZER]]`, in a checkout, with clang.

    `survey`   kernels that read payloads: each set against the portable one, pieces against the whole, and plain counts
    `walker`   the C header that `i2s schema --format c` writes: it stays inside the bytes, and encoding reverses decoding
    `scanner`  the compiled scanner inside the interpreter: its records lie inside the bytes, in order

Each is built with AddressSanitizer, UndefinedBehaviorSanitizer and coverage. `replay` runs the stored inputs through
all. New inputs of a search are written to DIR/NAME (`--folder DIR`; by default a temporary folder, so they are lost).

Exit codes: 0 no failure; 1 a failure; 2 it cannot run here, with the reason.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))

from sanitize import CannotRunError, command  # noqa: E402 - of the folder above

SANITIZERS: Final = "address,undefined"
FLAGS: Final = ("-g1", "-O1", "-fno-sanitize-recover=all", "-Wno-unused-function")

#: Initial inputs, from the harnesses in Python.
CORPORA: Final = {
    "survey": ("corpus/payload", "regressions/payload"),
    "walker": ("corpus/container", "regressions/container"),
    "scanner": ("corpus/container", "regressions/container"),
}


def main(arguments: list[str] | None = None) -> int:
    """Build the requested programs, and run them."""
    asked, more = _parser().parse_known_args(arguments)
    names = [*CORPORA] if asked.what == "replay" else [asked.what]
    if asked.what == "replay":
        more = ["-runs=0", *more]
    keep_folder = asked.folder
    with tempfile.TemporaryDirectory(prefix="i2s-native-") as made:
        folder = Path(made)
        try:
            programs = {name: BUILDERS[name](folder) for name in names}
        except CannotRunError as error:
            print(f"native: {error}", file=sys.stderr)
            return 2
        found = 0
        for name, program in programs.items():
            found |= _searched(name, program, (keep_folder.resolve() if keep_folder else folder) / name, more)
        return found


def _parser() -> argparse.ArgumentParser:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python fuzz/native", description=__doc__.partition("\n\n")[0])
    parser.add_argument("what", nargs="?", choices=["replay", *CORPORA], default="replay")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep what is found here")
    return parser


def _searched(name: str, program: Path, found: Path, arguments: list[str]) -> int:
    """Run a libFuzzer program: 1 if it found a failure."""
    found.mkdir(parents=True, exist_ok=True)
    dictionary = HERE.parent / "dictionary" / "gguf.dict"
    words = [str(program), f"-artifact_prefix={found}{os.sep}", "-timeout=20", "-rss_limit_mb=2048", *arguments]
    if name != "survey":
        words.append(f"-dict={dictionary}")
    known = [str(place) for each in CORPORA[name] if (place := HERE.parent / each).is_dir()]
    environment = os.environ | {
        "PYTHONPATH": str(program.parent / "package"),
        "PYTHONHOME": sys.base_prefix,
        "PYTHONMALLOC": "malloc",  # a separate allocation for every object, which AddressSanitizer checks
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # Python frees little at its end
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }
    print(f"+ {name}", flush=True)
    done = subprocess.run([*words, str(found), *known], cwd=found, env=environment, check=False)
    return 1 if done.returncode else 0


def _compiled(folder: Path, name: str, *more: str) -> Path:
    program = folder / f"{name}-program"
    words = ["clang", f"-fsanitize=fuzzer,{SANITIZERS}", *FLAGS, str(HERE / f"{name}.c"), *more, "-o", str(program)]
    command(words)
    return program


def _survey(folder: Path) -> Path:
    return _compiled(folder, "survey", "-I", str(ROOT / "pyx"))


def _walker(folder: Path) -> Path:
    header = subprocess.run(
        [sys.executable, "-m", "i2s_spec", "schema", "--format", "c"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    (folder / "i2s.h").write_bytes(header)
    return _compiled(folder, "walker", "-I", str(folder))


def _scanner(folder: Path) -> Path:
    """The extension for libFuzzer in a copy of the package, and a program that embeds the interpreter."""
    package = folder / "package"
    shutil.copytree(
        ROOT / "i2s_spec", package / "i2s_spec", ignore=shutil.ignore_patterns("_scanner.*.so", "__pycache__")
    )
    shutil.copy(HERE / "target.py", package)
    made = folder / "_scanner.c"
    cython = [sys.executable, "-m", "cython", "-3", "--module-name", "i2s_spec.gguf._scanner", "-I", str(ROOT / "pyx")]
    tools, project = folder / "tools", tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    command(
        [sys.executable, "-m", "pip", "install", "-q", "--target", str(tools), *project["build-system"]["requires"]]
    )
    command([*cython, str(ROOT / "pyx" / "_scanner.pyx"), "-o", str(made)], {"PYTHONPATH": str(tools)})
    include = ["-I", sysconfig.get_paths()["include"], "-I", str(ROOT / "pyx")]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    extension = package / "i2s_spec" / "gguf" / f"_scanner{suffix}"
    # Cython adds 0 to the NULL that stands for no arguments.
    shared = [
        "clang",
        "-shared",
        "-fPIC",
        f"-fsanitize=fuzzer-no-link,{SANITIZERS}",
        "-fno-sanitize=pointer-overflow",
        *FLAGS,
    ]
    command([*shared, *include, str(made), "-o", str(extension)])
    library = str(sysconfig.get_config_var("LIBDIR"))
    version = f"python{sysconfig.get_config_var('LDVERSION')}"
    return _compiled(folder, "scanner", *include, "-rdynamic", f"-L{library}", f"-Wl,-rpath,{library}", f"-l{version}")


BUILDERS: Final[dict[str, Callable[[Path], Path]]] = {"survey": _survey, "walker": _walker, "scanner": _scanner}


if __name__ == "__main__":
    sys.exit(main())
