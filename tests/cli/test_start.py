"""What a command costs before it works: instructions beside those of a bare click program, and libraries it never loads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from i2s_spec.cli.verbs import VERBS
from i2s_spec.convert.new import new
from i2s_spec.testing.sample import Draft

#: The start of `i2s` as a script starts it.
I2S = "from i2s_spec.cli import main; main()"

#: A program that does nothing, with one group, one verb, one path and one choice.
BARE = """
import click

@click.group()
def cli():
    pass

@cli.command()
@click.argument("path", type=click.Path())
@click.option("--form", type=click.Choice(["text", "json"]), default="text")
def verb(path, form):
    print(path, form)

cli()
"""

#: Large libraries that only some runs of some verbs need.
LARGE = {"numpy", "construct", "rich", "gguf", "tokenizers", "dask", "asyncio", "multiprocessing", "concurrent.futures"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small complete model, whose names and architecture are those of real files."""
    path = tmp_path_factory.mktemp("start") / "tiny.gguf"
    new(path)
    return path


def imported(words: list[str], folder: Path) -> set[str]:
    """The modules that a command imports; it must succeed."""
    code = f"""
import sys
sys.argv[1:] = {words!r}
from i2s_spec.cli import main
try:
    main()
except SystemExit as stop:
    print(stop.code, *sys.modules, file=sys.stderr)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True, cwd=folder)
    status, *modules = run.stderr.splitlines()[-1].split(" ")
    assert status == "0"
    return set(modules)


def test_the_version_needs_no_library(tmp_path: Path) -> None:
    assert not {"click", *LARGE} & imported(["--version"], tmp_path)


@pytest.mark.parametrize(
    "options", [["--header-only"], ["--header-only", "--json"], ["--profile", "security"]], ids=" ".join
)
def test_a_lint_of_the_header_needs_no_large_library(options: list[str], model: Path, tmp_path: Path) -> None:
    assert not LARGE & imported(["lint", *options, str(model)], tmp_path)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_a_verb_describes_itself_without_large_libraries(verb: str, tmp_path: Path) -> None:
    assert not LARGE & imported([verb, "--help"], tmp_path)


def instructions(folder: Path, *argv: str) -> int:
    """How many instructions a process of Python executes, once its byte code is compiled."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    command = [sys.executable, *argv]
    subprocess.run(command, check=True, capture_output=True, env=environment, cwd=folder)
    counted = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
        check=True, capture_output=True, encoding="utf-8", env=environment, cwd=folder,
    )  # fmt: skip
    found = re.search(r"Collected : (\d+)", counted.stderr)
    assert found is not None, counted.stderr
    return int(found[1])


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="needs valgrind, which counts instructions")
def test_a_start_costs_little_more_than_click_itself(model: Path, tmp_path: Path) -> None:
    """The layers of a complete model are examined for their layout, which is work and no start."""
    small = tmp_path / "small.gguf"
    small.write_bytes(Draft().data)
    bare = instructions(tmp_path, "-c", BARE, "verb", "a")
    assert instructions(tmp_path, "-c", I2S, "lint", str(small)) <= 2.5 * bare
    assert instructions(tmp_path, "-c", I2S, "lint", "--header-only", str(model)) <= 2.5 * bare
    assert instructions(tmp_path, "-c", I2S, "lint", str(model)) <= 3 * bare
    assert instructions(tmp_path, "-c", I2S, "--version") <= 1.3 * instructions(tmp_path, "-c", "pass")
