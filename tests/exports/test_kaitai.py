"""Kaitai's own compiler compiles the definition, and parsers in JavaScript and Python read files by it, field for field."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import npm_packages
import pytest
from peers.exported_files import expected, malformed_files, sound_files, write

from i2s_spec.exports import export

yaml = pytest.importorskip("yaml")
READERS = Path(__file__).resolve().parents[1] / "peers" / "readers"
LANGUAGES = ("javascript", "python")


class Parsers:
    """The compiled parsers, run on files."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.folder = home, folder
        definition = folder / "definition.json"
        definition.write_text(json.dumps(yaml.safe_load(export("ksy"))))
        command = ["node", READERS / "compile.cjs", definition, folder, *LANGUAGES]
        subprocess.run(command, check=True, timeout=600, env={**os.environ, "KAITAI_HOME": str(home)})

    def read(self, language: str, paths: list[Path]) -> list[list[str]]:
        """What a parser prints of each file."""
        if language == "python":
            if find_spec("kaitaistruct") is None:
                pytest.skip("kaitaistruct is not installed")
            command = [sys.executable, READERS / "reader.py"]
            environment = {"PYTHONPATH": str(self.folder / "python")}
        else:
            command = ["node", READERS / "reader.cjs"]
            parser = self.folder / "javascript" / "GgufI2s.js"
            environment = {"PARSER": str(parser), "NODE_PATH": str(self.home / "node_modules")}
        done = subprocess.run(
            [*command, *paths], capture_output=True, text=True, timeout=600, check=False,
            env={**os.environ, **environment},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        found: list[list[str]] = [[]]
        for line in done.stdout.splitlines():
            found[-1].append(line)
            if line == "end" or line.startswith("error "):
                found.append([])
        return found[:-1]


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> Parsers:
    return Parsers(npm_packages.home(tmp_path_factory), tmp_path_factory.mktemp("compiled"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_field_of_sound_files(parsers: Parsers, tmp_path: Path, language: str) -> None:
    files = sound_files()
    found = dict(zip(files, parsers.read(language, write(tmp_path, files)), strict=True))
    for name, data in files.items():
        assert found[name] == expected(data), name


@pytest.mark.parametrize("language", LANGUAGES)
def test_malformed_files_end_in_an_error(parsers: Parsers, tmp_path: Path, language: str) -> None:
    files = malformed_files()
    found = parsers.read(language, write(tmp_path, files))
    assert [name for name, lines in zip(files, found, strict=True) if lines[-1] == "end"] == []


@pytest.mark.thorough
@pytest.mark.parametrize("language", LANGUAGES)
def test_real_files(parsers: Parsers, shared: Path, language: str) -> None:
    paths = sorted((shared / "real").glob("ggml-vocab-*.gguf"), key=lambda path: path.stat().st_size)[:2]
    for path, lines in zip(paths, parsers.read(language, paths), strict=True):
        assert lines == expected(path.read_bytes()), path
