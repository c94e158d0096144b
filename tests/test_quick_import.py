"""The finder of this package's modules finds the same modules as Python, and leaves unusual cases to Python."""

from __future__ import annotations

import importlib
import importlib.util
import os
import py_compile
import subprocess
import sys
from importlib.machinery import ExtensionFileLoader, PathFinder
from pathlib import Path

import pytest

from i2s_spec import quick_import
from i2s_spec.quick_import import QuickFinder

LOADED = "import sys; sys.path[:0] = [{where!r}]; import i2s_spec; from i2s_spec import quick_import; {before}; "
ASK = (
    "quick_import.install(); import i2s_spec.{name} as found; "
    "print(type(found.__loader__).__name__, getattr(found, 'SAID', None))"
)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of the same name with a module, a package in it, and the finder itself."""
    folder = tmp_path / "i2s_spec"
    (folder / "inner").mkdir(parents=True)
    for name in ("__init__", "light_typing", "quick_import"):
        real = Path(quick_import.__file__).with_name(f"{name}.py").read_text()
        (folder / f"{name}.py").write_text(real if name != "__init__" else "")
    (folder / "said.py").write_text("SAID = 'once'\n")
    (folder / "inner" / "__init__.py").write_text("SAID = 'inside'\n")
    return tmp_path


def ask(package: Path, name: str, before: str = "pass", *flags: str, **more: str) -> str:
    """Which loader a module of the package has, and what it says."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")} | more
    code = LOADED.format(where=str(package), before=before) + ASK.format(name=name)
    run = subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=package
    )
    return run.stdout.strip()


def test_modules_with_current_byte_code_are_found(package: Path) -> None:
    assert ask(package, "said") == "SourceFileLoader once", "the first time, Python writes byte code"
    assert ask(package, "said") == "_Loader once"
    ask(package, "inner")
    assert ask(package, "inner") == "_Loader inside"


def test_a_changed_source_is_read(package: Path) -> None:
    ask(package, "said")
    path = package / "i2s_spec" / "said.py"
    path.write_text("SAID = 'more than once'\n")
    assert ask(package, "said") == "SourceFileLoader more than once"
    before = path.stat()
    assert ask(package, "said") == "_Loader more than once"
    path.write_text("SAID = 'less than once'\n")  # the same size, another time stamp
    os.utime(path, (before.st_atime, before.st_mtime + 2))
    assert ask(package, "said") == "SourceFileLoader less than once"


def test_other_byte_code_is_left_to_python(package: Path) -> None:
    folder = package / "i2s_spec"
    ask(package, "said")
    assert ask(package, "said", "pass", "-O") == "SourceFileLoader once"
    subprocess.run(
        [sys.executable, "-m", "compileall", "-qf", "--invalidation-mode", "checked-hash", folder], check=True
    )
    assert ask(package, "said") == "SourceFileLoader once"
    for path in folder.rglob("said*.pyc"):
        path.write_bytes(path.read_bytes()[:10])
    assert ask(package, "said") == "SourceFileLoader once"
    (folder / "long.py").write_text("SAID = 'long'\nREST = " + repr("x" * (1 << 16)) + "\n")
    ask(package, "long")
    assert ask(package, "long") == "SourceFileLoader long"


def test_a_prefix_for_byte_code_is_followed(package: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    ask(package, "said", PYTHONPYCACHEPREFIX=cache)
    assert not list((package / "i2s_spec").rglob("*.pyc"))
    assert ask(package, "said", PYTHONPYCACHEPREFIX=cache) == "_Loader once"


def test_hooks_that_stand_first_are_asked_first(package: Path) -> None:
    ask(package, "said")
    hook = (
        "from importlib.machinery import PathFinder; "
        "sys.meta_path.insert(0, type('H', (), {'find_spec': staticmethod(lambda n, p=None, t=None: "
        "PathFinder.find_spec(n, p, t) if n == 'i2s_spec.said' else None)}))"
    )
    assert ask(package, "said", hook) == "SourceFileLoader once"


def test_specs_are_those_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    finder = QuickFinder(str(Path(quick_import.__file__).parent))
    for name in ("i2s_spec.errors", "i2s_spec.linter.rule", "i2s_spec.linter", "i2s_spec.linter.report"):
        importlib.import_module(name)
        parent = importlib.import_module(name.rpartition(".")[0])
        theirs = PathFinder.find_spec(name, parent.__path__)
        assert theirs is not None
        assert theirs.cached is not None
        assert theirs.origin is not None
        py_compile.compile(theirs.origin, theirs.cached, doraise=True)
        ours = finder.find_spec(name)
        assert ours is not None
        for fact in ("name", "origin", "cached", "has_location", "parent"):
            assert getattr(ours, fact) == getattr(theirs, fact), (name, fact)
        assert ours.submodule_search_locations == theirs.submodule_search_locations
        assert ours.loader.get_source(name) == theirs.loader.get_source(name)  # type: ignore[union-attr,attr-defined]
        first, second = ours.loader.get_code(name), ours.loader.get_code(name)
        assert first == second
        assert first.co_filename == theirs.origin
        module = importlib.util.module_from_spec(ours)
        assert module.__file__ == theirs.origin
        if sys.version_info < (3, 15):
            assert module.__cached__ == theirs.cached


def test_other_modules_are_not_found() -> None:
    finder = QuickFinder(str(Path(quick_import.__file__).parent))
    for name in ("json", "i2s_spec", "i2s_specs.errors", "i2s_spec.no_such", "i2s_spec.gguf._no_such"):
        assert finder.find_spec(name) is None


def test_extensions_are_found_as_python_finds_them() -> None:
    finder = QuickFinder(str(Path(quick_import.__file__).parent))
    for name in ("i2s_spec.gguf._scanner", "i2s_spec.codec._survey"):
        theirs = PathFinder.find_spec(name, importlib.import_module(name.rpartition(".")[0]).__path__)
        ours = finder.find_spec(name)
        assert theirs is not None
        assert isinstance(theirs.loader, ExtensionFileLoader)
        assert type(ours.loader) is type(theirs.loader)
        assert ours.loader.path == theirs.loader.path
        for fact in ("name", "origin", "cached", "has_location", "parent", "submodule_search_locations"):
            assert getattr(ours, fact) == getattr(theirs, fact), (name, fact)


def test_memory_is_used_again_once_code_was_read(package: Path) -> None:
    ask(package, "said")
    count = "quick_import.install(); import i2s_spec.said; print(len(quick_import._spare), end=' ')"
    assert ask(package, "said", count).startswith("1 ")


def test_a_call_from_python_leaves_the_finders_alone(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from i2s_spec.cli import main

    before = list(sys.meta_path)
    with pytest.raises(SystemExit):
        main(["lint", str(package / "none.gguf")])
    capsys.readouterr()
    assert sys.meta_path == before
