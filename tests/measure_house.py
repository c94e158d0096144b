"""Prints figures of the house: `python tests/measure_house.py [sizes|functions|imports|lint|start|batch]...`.

Each section can be run by itself. `start` needs valgrind, and takes half a minute for each command. The figures are
compared with those of an earlier commit; no test asserts them.
"""

from __future__ import annotations

import ast
import compileall
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import i2s_spec

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = Path(i2s_spec.__file__).parent

#: Modules that do the work of a module of the standard library, and what they stand for. Buffers stay.
TWINS = {
    "light_typing.py": "typing", "light_enum.py": "enum", "light_functools.py": "functools", "pattern.py": "re",
    "light_contexts.py": "contextlib", "light_numbers.py": "math, struct, array", "quick_import.py": "importlib",
    "light_arrays.py": "numpy (buffers)", "plain_call.py": "click", "starting.py": "click", "deprecation.py": "warnings",
}  # fmt: skip

#: The same inside modules: a text that only the twin has.
TWINS_INSIDE = {
    r"def _by_row\(": "heapq.merge", r"def _percent\(path": "urllib.parse.quote", r"\b_thread import": "threading.Lock",
    r"def _deep\(": "glob", r"^_NEW\b.* = tuple\.__new__": "NamedTuple",
    r"def replaced\(self, \*\*changes": "dataclass", r"^TYPE_CHECKING = False": "typing.TYPE_CHECKING",
}  # fmt: skip

#: The plainest program with click, to which starts are compared.
BARE = """
import click
@click.group()
def cli(): pass
@cli.command()
@click.argument("path", type=click.Path())
@click.option("--form", type=click.Choice(["text", "json"]), default="text")
def lint(path, form): pass
cli(["lint", "x.gguf"])
"""


@cache
def modules(root: Path) -> tuple[Path, ...]:
    """The Python files below a folder, without caches and environments."""
    return tuple(path for path in sorted(root.rglob("*.py")) if ".venv" not in path.parts)


def lines(path: Path) -> int:
    """The number of lines of a file."""
    return path.read_bytes().count(b"\n")


def sizes() -> Iterator[tuple[str, object]]:
    """Modules, folders and lines."""
    counts = [lines(path) for path in modules(PACKAGE)]
    yield "modules of the package", len(counts)
    content = [path for path in modules(PACKAGE) if path.name != "__init__.py" or lines(path) > 12]
    yield "modules with content (no __init__ of 12 lines or less)", len(content)
    folders = Counter(path.parent for path in modules(PACKAGE))
    yield "folders of the package", len(folders)
    yield "folders with one module or more than 25", sum(count < 2 or count > 25 for count in folders.values())
    yield "lines of the package", sum(counts)
    yield "median lines of a module", int(statistics.median(counts))
    yield "modules under 60 lines", sum(count < 60 for count in counts)
    yield "of them without __init__", sum(lines(path) < 60 for path in modules(PACKAGE) if path.name != "__init__.py")
    yield "modules over 800 lines", sum(count > 800 for count in counts)
    for name in ("tests", "fuzz", "bench", "runs", "conformance", "training", "spec", ".ci"):
        yield (
            f"modules and lines of {name}",
            f"{len(modules(CHECKOUT / name))} {sum(map(lines, modules(CHECKOUT / name)))}",
        )
    pyx = [path for path in (CHECKOUT / "pyx").glob("*") if path.suffix in (".h", ".pyx", ".pxi", ".pxd")]
    yield "modules and lines of pyx", f"{len(pyx)} {sum(map(lines, pyx))}"
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=CHECKOUT, capture_output=True, check=True).stdout.split(
        b"\0"
    )[:-1]
    yield "files in git", len(tracked)
    paths = [CHECKOUT / os.fsdecode(name) for name in tracked]
    yield "MB in git", round(sum(path.lstat().st_size for path in paths if path.exists()) / 1e6, 1)
    yield "entries at the top", len({name.split(b"/")[0] for name in tracked})
    yield "bytes of README.md", (CHECKOUT / "README.md").stat().st_size
    yield "bytes of CONTRIBUTING.md", (CHECKOUT / "CONTRIBUTING.md").stat().st_size


def statements(body: list[ast.stmt]) -> int:
    """The statements of a function, those inside others included; its docstring and functions in it are not counted."""
    count = 0
    for node in body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            continue
        count += 1
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for name in ("body", "orelse", "finalbody"):
                count += statements(getattr(node, name, []))
            for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
                count += statements(handler.body)
    return count


def functions() -> Iterator[tuple[str, object]]:
    """How long functions are."""
    trees = [ast.parse(path.read_bytes()) for path in modules(PACKAGE)]
    found = [
        node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    counts = [statements(node.body) for node in found]
    yield "functions", len(counts)
    yield "statements in functions", sum(counts)
    yield "mean statements of a function", round(statistics.mean(counts), 2)
    tops = [sum(statements([line]) > 0 for line in node.body) for node in found]
    yield "functions whose body is one statement, with what is inside it", tops.count(1)
    for number in (1, 2, 3):
        yield f"functions of {number} statement{'s'[: number > 1]}", counts.count(number)
    yield "functions over 25 statements", sum(count > 25 for count in counts)
    yield "longest function in lines", max((node.end_lineno or 0) - node.lineno + 1 for node in found)


def imports() -> Iterator[tuple[str, object]]:
    """Imports inside functions, and own twins of the standard library."""
    late: Counter[Path] = Counter()
    names: Counter[str] = Counter()
    for path in modules(PACKAGE):
        for function in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for node in own_nodes(function):
                    if isinstance(node, ast.Import | ast.ImportFrom):
                        late[path] += 1
                        module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
                        names[(module or ".").split(".")[0]] += 1
    yield "late imports in functions", sum(late.values())
    yield "modules with late imports", len(late)
    yield "late imports of", ", ".join(f"{name} {count}" for name, count in names.most_common(12))
    found = [f"{path.name} ({TWINS[path.name]})" for path in modules(PACKAGE) if path.name in TWINS]
    texts = [(path, path.read_text("utf-8")) for path in modules(PACKAGE)]
    for pattern, name in TWINS_INSIDE.items():
        found += [f"{name} in {path.name}" for path, text in texts if re.search(pattern, text, re.M)]
    yield "own twins of the standard library", len(found)
    yield "which", "; ".join(found)


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions inside it."""
    for node in ast.iter_child_nodes(function):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from own_nodes(node)


def walk(call: Callable[[], object]) -> tuple[int, int, int]:
    """The modules of the package that a call enters, how often it moves between them, and its calls in all."""
    entered: set[str] = set()
    at, moves, calls = "", 0, 0
    package = str(PACKAGE) + os.sep

    def see(frame: FrameType, event: str, _: Any) -> None:
        nonlocal at, moves, calls
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(package):
            calls += 1
            entered.add(name)
            moves += name != at
            at = name

    sys.setprofile(see)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(entered), moves, calls


def lint() -> Iterator[tuple[str, object]]:
    """The ways inside the house: one lint of a small sound file, when everything is imported, and others."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/tiny.gguf"
        i2s_spec.new(path)
        tensor = next(each for each in i2s_spec.open(path).tensors.values() if str(each.kind) == "I2_S")
        ways: dict[str, Callable[[], object]] = {
            "lint() of a small sound file": lambda: i2s_spec.lint(path),
            "tensor.trits()": tensor.trits,
            "identify()": lambda: i2s_spec.identify(path),
        }
        model = i2s_spec.load_model(path)
        ways["forward()"] = lambda: model.forward([1, 2, 3])
        for name in ("one", "two"):
            i2s_spec.golden.record(model, [1, 2, 3], f"{folder}/{name}")
        ways["golden.compare()"] = lambda: i2s_spec.golden.compare(f"{folder}/one", f"{folder}/two", model=model)
        for name, way in ways.items():
            first = walk(way)[0]
            entered, moves, calls = walk(way)
            yield f"{name}: modules entered, moves, calls", f"{entered} {moves} {calls} ({first} with imports)"


def instructions(command: list[str], folder: str, runs: int = 2) -> int:
    """The instructions of a process, which valgrind counts; the first of two runs compiles byte code."""
    words = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", *command]
    environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "HOME": folder, "LC_ALL": "C.UTF-8"}
    for _ in range(runs):
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False)
    found = re.search(r"I +refs: +([\d,]+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1].replace(",", ""))


def start() -> Iterator[tuple[str, object]]:
    """Instructions of whole processes, in millions and in bare click programs; by `python -c`, without pip's script."""
    compileall.compile_dir(PACKAGE, quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        i2s_spec.new(f"{folder}/tiny.gguf")
        Path(folder, "bare.py").write_text(BARE, encoding="utf-8")
        nothing = instructions([sys.executable, "-c", "pass"], folder)
        yield "python -c pass", f"{nothing / 1e6:.1f} M"
        Path(folder, "run.py").write_text(
            "import bare", encoding="utf-8"
        )  # so that the byte code of the program is compiled, too
        bare = instructions([sys.executable, "run.py"], folder)
        yield "bare click program", f"{bare / 1e6:.1f} M"
        program = "import sys; sys.argv[0] = 'i2s'; from i2s_spec.cli import main; main()"
        for words in (
            "--version",
            "--help",
            "lint --header-only tiny.gguf",
            "lint tiny.gguf",
            "show tiny.gguf",
            "explain I104",
        ):
            count = instructions([sys.executable, "-c", program, *words.split()], folder)
            yield f"i2s {words}", f"{count / 1e6:.1f} M = {count / bare:.2f} bare = {count / nothing:.2f} python"


def batch() -> Iterator[tuple[str, object]]:
    """The time of linting 200 small files in one process: the best of five."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(200):
            i2s_spec.new(f"{folder}/{number}.gguf", seed=number)
        names = [f"{folder}/{number}.gguf" for number in range(200)]
        times = []
        for _ in range(5):
            begun = time.process_time()
            for name in names:
                i2s_spec.lint(name)
            times.append(time.process_time() - begun)
        yield "seconds of processor time for lint() of 200 small files", round(min(times), 3)
        program = "import sys; sys.argv[0] = 'i2s'; from i2s_spec.cli import main; main()"
        count = instructions([sys.executable, "-c", program, "lint", "-q", *names], folder, runs=1)
        yield "instructions of `i2s lint -q` of 200 small files", f"{count / 1e6:.0f} M"


SECTIONS = {each.__name__: each for each in (sizes, functions, imports, lint, start, batch)}

if __name__ == "__main__":
    for section in sys.argv[1:] or SECTIONS:
        print(f"== {section}")
        for name, figure in SECTIONS[section]():
            print(f"{name}: {figure}", flush=True)
