"""What the harnesses share: their stored inputs, the search with Atheris, and runs of the command line.

Each `fuzz_*.py` has `one_input(data)`, which checks properties that must hold for any bytes. Pytest calls it with all
files in `corpus/` and `regressions/`; run as a program, it searches (`search`). Where the bytes are a GGUF file, the
mutator of `i2s_spec.testing` makes new ones. No input may make a command end with the exit code of a bug in this
package: harnesses call functions, and `require_answers` passes a share of their inputs through the command line too.
"""

from __future__ import annotations

import atexit
import gc
import io
import operator
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from hashlib import sha1
from itertools import count
from pathlib import Path
from types import FunctionType
from typing import Any, Final
from zlib import crc32

import pytest

from i2s_spec.cli import main
from i2s_spec.errors import EXIT_BUG, EXIT_FINDINGS, EXIT_INPUT, EXIT_USAGE
from i2s_spec.testing.malformed import malformed
from i2s_spec.testing.mutator import custom_crossover, custom_mutator, mutate
from i2s_spec.testing.sample import Draft

#: In the order of Python's numbers for them.
COMPARISONS: Final = (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge)

HERE = Path(__file__).resolve().parent


def inputs(name: str) -> list[Path]:
    """The stored inputs of a harness: its corpus and its regressions."""
    folders = (HERE / "corpus" / name, HERE / "regressions" / name)
    return sorted(path for folder in folders if folder.is_dir() for path in folder.iterdir())


def replayed(*names: str) -> pytest.MarkDecorator:
    """Parametrize a test by the stored inputs of harnesses, as `path`: regressions and a third of the corpus; in the
    thorough tier all."""
    paths = [path for name in names for path in inputs(name)]
    quick = {path for path in paths if "corpus" not in path.parts[-3:]} | {*paths[::3]}
    marks = [() if path in quick else pytest.mark.thorough for path in paths]
    given = [pytest.param(path, marks=mark, id=path.name) for path, mark in zip(paths, marks, strict=True)]
    return pytest.mark.parametrize("path", given)


#: A sixth of some inputs, as `sixth`; a quick run takes the first one.
SIXTHS = pytest.mark.parametrize("sixth", [0, *(pytest.param(i, marks=pytest.mark.thorough) for i in range(1, 6))])


def broken(most: int = 20_000, every: int = 1) -> list[bytes]:
    """The malformed files up to a size, or one in `every` of them."""
    return [case.data for case in malformed() if not case.large and len(case.data) <= most][::every]


@cache
def changed(count: int, seed: int = 0) -> tuple[bytes, ...]:
    """Files that the mutator derives from sound ones: the same each time."""
    bases = [Draft().data, Draft("big").data, Draft(last="f32").data, b""]
    made: list[bytes] = []
    for i in range(count):
        base = bases[i % 4] if i % 3 else (made or bases)[-1]
        made.append(mutate(base, f"{seed}/{i}", 1 << 14))
    return tuple(made)


def sentence(error: BaseException) -> str:
    """The message of a refusal; it is safe to print."""
    message = str(error)
    assert message.isprintable(), message
    return message


# --- the search ---


def search(one_input: Callable[[bytes], None], gguf: bool = True, behind: bytes | None = None) -> None:
    """Search with Atheris until a failure, with the arguments of libFuzzer.

    :param gguf: whether the bytes are a GGUF file, whose fields can be changed
    :param behind: the text that precedes the file; bytes before the file are changed as bytes
    """
    import atheris

    global EVERY  # noqa: PLW0603 - a search looks at more than a replay
    EVERY = EVERY_FOUND
    gc.unfreeze()  # the command line freezes its imports, and the collector would skip them
    # Use `type`, since `isinstance` asks an object for its class, and objects of some packages warn about that.
    for function in [each for each in gc.get_objects() if type(each) is FunctionType]:
        if str(function.__module__).startswith("i2s_spec"):  # all of Python would take minutes
            atheris.instrument_func(function)
    atheris.instrument_imports(include=["i2s_spec"]).__enter__()  # permanently: the linter imports its rules late

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        """Changes of fields nine times of ten, otherwise libFuzzer's changes of bytes."""
        head, mark, file = data.partition(behind) if behind else (b"", b"", data)
        if mark and seed & 1:
            head = bytes(atheris.Mutate(head, len(head) + 64)).replace(mark, b"")
        else:
            room = max(most - len(head) - len(mark), 1)
            file = atheris.Mutate(file, room) if seed // 2 % 10 == 0 else custom_mutator(file, room, seed)
        return (head + mark + bytes(file))[:most]

    def target(data: bytes) -> None:
        """The harness; Atheris 3.0.0 may end a busy process before libFuzzer has written the input of a failure."""
        if atheris._trace_cmp is not compared:  # not earlier, because `Fuzz` installs its own
            nonlocal traced
            traced, atheris._trace_cmp = atheris._trace_cmp, compared
        try:
            one_input(data)
        except BaseException:
            Path(f"{prefix}crash-{sha1(data).hexdigest()}").write_bytes(data)
            raise

    def compared(left: Any, right: Any, number: int, counter: int, constant: bool) -> Any:
        """A traced comparison: Atheris 3.0.0 keeps results that are arrays, until the memory is full."""
        if type(left) in (int, str, bytes) and type(right) in (int, str, bytes):
            return traced(left, right, number, counter, constant)
        return COMPARISONS[number](left, right)

    traced = atheris._trace_cmp
    prefix = next((word[17:] for word in reversed(sys.argv) if word.startswith("-artifact_prefix=")), "./")
    crossover = {} if behind else {"custom_crossover": custom_crossover}
    atheris.Setup(sys.argv, target, **({"custom_mutator": mutated, **crossover} if gguf else {}))
    atheris.Fuzz()


# --- the command line ---

#: The permitted exit codes of a verb for any input.
ANSWERS = (0, EXIT_FINDINGS, EXIT_USAGE, EXIT_INPUT)

_CALLS = count(1)

#: One in so many inputs, chosen by its bytes, runs through the verbs, which take longer than functions: in a replay, and
#: in a search.
EVERY, EVERY_FOUND = 16, 4


def require_answers(data: bytes, *lines: str, **files: bytes) -> None:
    """Run verbs on files, one after another: none may exit with the code of a bug in this package.

    :param data: the input of the harness, which decides whether it is used
    :param lines: the words of each call, separated by spaces
    :param files: the initial files of the folder, by names in which `__` stands for a dot
    """
    if crc32(data) % EVERY:
        return
    folder = emptied()
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    for line in lines:
        answered(line.split(" "), folder)


def answered(words: list[str], folder: Path, stdin: bytes = b"") -> tuple[int, str, str]:
    """Run the command line in this process with captured streams: its exit code, and its output to both."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape", write_through=True) for _ in range(2))
    saved = sys.stdout, sys.stderr, sys.stdin, os.getcwd()
    sys.stdout, sys.stderr, sys.stdin = out, err, io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    os.chdir(folder)
    status = 0
    try:
        main(words)
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 0
    finally:
        sys.stdout, sys.stderr, sys.stdin = saved[:3]
        os.chdir(saved[3])
        gc.unfreeze()  # `main` expects the process to end, and freezes garbage here
        if next(_CALLS) % 256 == 0:
            gc.collect()  # unfrozen objects count as old and are seldom collected: a search had 2 GB of them
    printed, complained = (stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err))
    assert status != EXIT_BUG, f"{words} ended as a bug of this package: {complained or printed[-500:]}"
    assert status in ANSWERS, (words, status, complained)
    assert "Traceback" not in complained, complained
    return status, printed, complained


def emptied() -> Path:
    """An empty folder for the files of one input."""
    folder = _folder()
    for path in folder.iterdir():
        path.unlink() if path.is_file() or path.is_symlink() else shutil.rmtree(path)
    return folder


@cache
def _folder() -> Path:
    folder = tempfile.mkdtemp(prefix="i2s-verbs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
