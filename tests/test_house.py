"""The house: which room may import which, what a light start loads, and how modules introduce themselves."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "i2s_spec"

#: The rooms from the ground up; a room imports only rooms on floors below its own, and itself.
FLOORS = [
    {"errors"},
    {"schema"},
    {"codec"},
    {"gguf"},
    {"draw"},
    {"inspect", "convert"},
    {"linter"},
    {"model", "testing"},
    {"golden", "fuzzing"},
    {"docs", "conformance"},
    {"cli"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(module: Path) -> set[str]:
    """Rooms that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom) and node.module == "i2s_spec":
            names = [f"i2s_spec.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("i2s_spec.")}
    return found & FLOOR.keys()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE)))
def test_rooms_import_downwards(module: Path) -> None:
    room = room_of(module)
    if room in ("__init__", "__main__"):
        return  # the door: every room, late
    for other in imports(module) - {room}:
        assert FLOOR[other] < FLOOR[room], f"{room} may not import {other}"


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE)))
def test_modules_introduce_themselves(module: Path) -> None:
    docstring = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
    assert docstring, "a module needs a docstring"
    assert docstring.partition("\n")[0].rstrip().endswith((".", ":")) or "\n" in docstring


def test_no_module_is_called_after_nothing() -> None:
    names = {part for module in MODULES for part in module.with_suffix("").parts}
    assert not names & {"utils", "util", "helpers", "helper", "common", "misc", "manager"}


LIGHT = """
import sys
sys.argv = {argv!r}
from i2s_spec.cli import main
try:
    main()
except SystemExit as stop:
    status = stop.code
print(sorted({{"numpy", "construct", "rich"}} & set(sys.modules)), status, file=sys.stderr)
"""


def loaded(*argv: str) -> str:
    """Which of the heavy libraries a command loads, and its exit code."""
    code = LIGHT.format(argv=["i2s", *argv])
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stderr.splitlines()[-1]


def test_version_is_light() -> None:
    assert loaded("--version") == "[] 0"


@pytest.mark.parametrize("options", [[], ["--header-only"], ["--sample"]], ids=["full", "header", "sample"])
@pytest.mark.parametrize("form", ["text", "json", "jsonl", "sarif", "junit", "github", "markdown"])
def test_lint_is_light(tmp_path: Path, form: str, options: list[str]) -> None:
    from i2s_spec.testing.sample import Draft

    path = tmp_path / "sample.gguf"
    path.write_bytes(Draft().data)
    assert loaded("lint", *options, "--format", form, str(path)) == "[] 0"


def test_package_imports_nothing() -> None:
    code = "import sys, i2s_spec; print(sorted(name for name in sys.modules if name.startswith('i2s_spec')))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "['i2s_spec']"


def test_public_names_resolve() -> None:
    import i2s_spec

    for name in i2s_spec.__all__:
        assert getattr(i2s_spec, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        i2s_spec.nothing  # noqa: B018


def test_a_checkout_that_was_not_built_says_so(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(PACKAGE, tmp_path / "i2s_spec", ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    for code in (
        "import i2s_spec; i2s_spec.open",
        "import i2s_spec; i2s_spec.pack",
        "import i2s_spec.__main__ as m; m.main(['info'])",
    ):
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert run.returncode in (1, 4)
        assert "pip install -e ." in run.stderr
