"""The compiled code under sanitizers and valgrind: `python fuzz/sanitize.py [run | valgrind] [ARGUMENTS OF PYTEST]`.

`run` builds all extensions with AddressSanitizer and UndefinedBehaviorSanitizer from a copy of the sources, and runs the
tests and harness replays that call them, each with every set of kernels that the processor supports. `valgrind` runs the
installed scanner under memcheck, which detects uses of uninitialized bytes, which the sanitizers do not. Both need a
checkout. This file is also the plug-in of pytest that gives buffers memory of their own (`own_memory`).

Exit codes: 0 no fault; 1 a fault; 2 it cannot run here, with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

#: CPython is compiled with -fwrapv and hands it on; without it, sums that overflow are found as well.
FLAGS: Final = (
    "-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer -fno-wrapv"
)

#: Tests and replays that call compiled code. Programs in C under tests/ have sanitizers of their own.
TESTS: Final = (
    "fuzz/fuzz_container.py", "fuzz/fuzz_command_line.py", "fuzz/fuzz_lint.py", "fuzz/fuzz_round_trips.py",
    "fuzz/fuzz_payload.py", "tests/gguf/test_scanner.py", "tests/gguf/test_strings.py",
    "tests/codec/test_reference_recode.py", "tests/codec/test_quantize_vectors.py",
    "tests/codec/test_reference_survey_kernels.py", "tests/codec/test_native.py",
    "tests/inspect/test_survey.py", "tests/fuzzing/test_addresses.py", "tests/model/test_matmul.py",
    "tests/model/test_panels.py", "tests/model/test_fast_compile.py", "tests/model/test_numerics_profiles.py",
    "tests/model/test_screened_head.py",
)  # fmt: skip

#: A fork while threads start may inherit a lock of AddressSanitizer that is never released.
FORKS: Final = "tests/model/test_matmul.py::test_a_child_process_has_threads_of_its_own"


class CannotRunError(Exception):
    """Something that a run needs is missing, or does not compile."""


def sanitized(folder: Path, arguments: list[str]) -> int:
    """Build the extensions with sanitizers, and run tests: 1 if a test fails or a sanitizer reports something."""
    installed = built(folder)
    settings = {
        "print_stacktrace": 1,
        "halt_on_error": 1,
        "log_path": folder / "report",
        "detect_leaks": 0,  # Python keeps much to its end
        "allocator_may_return_null": 1,  # too much memory is an answer: MemoryError
        "detect_stack_use_after_return": 0,
    }  # otherwise GCC before 14 misaligns vectors of 64 bytes (110027)
    options = ":".join(f"{name}={value}" for name, value in settings.items())
    environment = os.environ | {
        "LD_PRELOAD": " ".join(runtime(name) for name in ("libasan.so", "libubsan.so")),
        "ASAN_OPTIONS": options, "UBSAN_OPTIONS": options, "PYTHONPATH": os.pathsep.join([str(installed), str(HERE)]),
        "PYTHONSAFEPATH": "1", "PYTHONMALLOC": "malloc",  # an allocation for each object
        "PYTHONDONTWRITEBYTECODE": "1", "I2S_SANITIZED": str(installed),
    }  # fmt: skip
    words = [sys.executable, "-m", "pytest", "-p", "sanitize", "-p", "no:cacheprovider", "-q", "--deselect", FORKS]
    done = subprocess.run(
        [*words, *(arguments or ["-n", "auto", "-m", "", *TESTS])], cwd=ROOT, env=environment, check=False
    )
    reports = sorted(folder.glob("report.*"))
    for report in reports:
        print(report.read_text(errors="replace")[:6000])
    return 1 if done.returncode or reports else 0


def built(folder: Path) -> Path:
    """The package with sanitized extensions, installed in a folder."""
    source, target = folder / "source", folder / "installed"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    for name in ("i2s_spec", "pyx"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    # What decides over results (-ffp-contract) stays; -g1 names functions and lines in reports.
    project = re.sub(r'"-O\d"', '"-Og"', (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (source / "pyproject.toml").write_text(project.replace('"-g0"', '"-g1"'), encoding="utf-8")
    command([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target",
             str(target), str(source)], {"CC": "gcc", "CFLAGS": FLAGS})  # fmt: skip
    return target


def runtime(name: str) -> str:
    """The path of a library of gcc's sanitizers; the interpreter must load it first."""
    path = Path(command(["gcc", f"-print-file-name={name}"]).strip()).resolve()
    if path.read_bytes()[:4] != b"\x7fELF" if path.is_file() else True:
        raise CannotRunError(f"gcc has no {name}")
    return str(path)


def command(words: list[str], more: dict[str, str] | None = None) -> str:
    """The output of a tool of the build."""
    if shutil.which(words[0]) is None:
        raise CannotRunError(f"there is no {words[0]}")
    done = subprocess.run(words, env=os.environ | (more or {}), capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        raise CannotRunError(f"{words[0]} failed:\n{done.stderr[-4000:]}")
    return done.stdout


# --- the plug-in of pytest ---


def pytest_configure() -> None:
    """Check that the extensions are the built ones, and give them buffers in memory of their own."""
    for declared in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]:
        module = import_module(declared["name"])
        assert str(module.__file__).startswith(os.environ["I2S_SANITIZED"]), f"not sanitized: {module.__file__}"
        for name, value in list(vars(module).items()):
            if callable(value) and not isinstance(value, type) and not name.startswith("_"):
                setattr(module, name, own_memory(value))


def own_memory(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of an extension that gets copies of bytes and of read-only arrays.

    A payload is part of a file, and a bytes object ends with a zero: a kernel that reads past the end of either would go
    unnoticed. The copy ends where its allocation ends, and has the same address modulo 16.
    """
    import numpy as np

    def copied(value: Any) -> Any:
        if not isinstance(value, bytes | np.ndarray) or not len(value):
            return value
        given = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else value
        if given.flags.writeable or not given.flags.c_contiguous:
            return value
        spare = given.ctypes.data % 16
        made = np.empty(spare + given.nbytes, np.uint8)[spare:]
        made[:] = given.reshape(-1).view(np.uint8)
        made.flags.writeable = False
        return made.view(given.dtype).reshape(given.shape)

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        return function(*map(copied, args), **options)

    return called


# --- valgrind ---


def memcheck(folder: Path) -> int:
    """Replay the stored inputs in the installed scanner under memcheck: 1 if it reports an error in our code."""
    if (valgrind := shutil.which("valgrind")) is None:
        raise CannotRunError("there is no valgrind")
    log = folder / "valgrind.xml"
    words = [
        valgrind,
        "-q",
        "--leak-check=no",
        "--track-origins=yes",
        "--num-callers=40",
        "--xml=yes",
        f"--xml-file={log}",
    ]
    environment = os.environ | {"PYTHONMALLOC": "malloc", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*words, sys.executable, __file__, "replay", str(folder)], env=environment, check=False)
    if done.returncode:
        return 1
    errors = [error for error in ElementTree.parse(log).getroot().iter("error") if counts(error)]
    for error in errors:
        print(ElementTree.tostring(error, encoding="unicode"))
    print(f"valgrind: {len(errors)} errors")
    return 1 if errors else 0


def counts(error: ElementTree.Element) -> bool:
    """Whether an error is in our code, and not about memory that Python frees at no time."""
    frames = list(error.iter("frame"))
    if str(error.findtext("kind")) in ("Leak_PossiblyLost", "Leak_StillReachable", "Leak_IndirectlyLost"):
        return False
    # Python's creation of an int reads the digit of a zero, which is uninitialized, and multiplies it by 0.
    return any("/i2s_spec/gguf/" in str(frame.findtext("obj")) for frame in frames) and all(
        frame.findtext("fn") != "_PyLong_New" for frame in frames
    )


def replay(folder: Path) -> int:
    """Make all requests to the scanner for each stored input, in memory and through a window."""
    sys.path.insert(0, str(HERE / "native"))
    from target import check

    from i2s_spec.gguf.source import BufferSource, FileSource

    path = folder / "input.gguf"
    for data in replayed():
        path.write_bytes(data)
        for source in (BufferSource(data), FileSource(path)):
            check(source, data)
            source.close()
    return 0


def replayed() -> Iterator[bytes]:
    """The stored inputs of all harnesses, the small malformed files, and arrays that span the ends of windows."""
    from i2s_spec.schema.types import ValueType
    from i2s_spec.testing.malformed import malformed
    from i2s_spec.testing.sample import Draft, array, key_value

    yield from (path.read_bytes() for path in sorted(HERE.glob("[cr]*s/*/*")))  # corpus, regressions
    yield from (case.data for case in malformed() if len(case.data) <= 50_000)
    for order in ("little", "big"):
        draft = Draft(order)  # type: ignore[arg-type]
        file = draft.records()
        strings = [b"", b"\xe2\x82\xac" * 700, b"\xff", b"a b", b"\xed\xa0\x80"] * 600 + [b"x" * 70_000]
        file.key_values += [
            key_value(b"long.strings", ValueType.ARRAY, array(ValueType.STRING, strings)),
            key_value(b"long.bools", ValueType.ARRAY, array(ValueType.BOOL, [1] * 70_001)),
            key_value(b"long.text", ValueType.STRING, b"\xf0\x9f\x98\x80" * 400_000),
        ]
        yield draft.built(file)


def main(arguments: list[str]) -> int:
    """Run the requested command; tests instead of the usual ones may follow `run`."""
    what = arguments[0] if arguments else "run"
    if what == "replay":
        return replay(Path(arguments[1]))
    if what not in ("run", "valgrind"):
        print(__doc__)
        return 0 if what == "--help" else 2
    with tempfile.TemporaryDirectory(prefix="i2s-sanitize-") as folder:
        try:
            return memcheck(Path(folder)) if what == "valgrind" else sanitized(Path(folder), arguments[1:])
        except CannotRunError as error:
            print(f"sanitize: {error}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
