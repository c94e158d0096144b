"""Kaitai's own compiler compiles the definition, and parsers in JavaScript and Python read files by it, field for field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import npm_packages
import pytest
from peers import exports
from peers.exported_files import expected, malformed_files, sound_files, write

pytest.importorskip("yaml")
pytest.importorskip("kaitaistruct")
LANGUAGES = ("javascript", "python")


class Parsers:
    """The parsers, compiled and run as `python tests/peers exports` does it."""

    def __init__(self, folder: Path) -> None:
        place = exports.Place(folder, None, None, None)
        self.made = {each.name: each.made(place) for each in exports.ALL if each.in_ci and each.export == "Kaitai"}

    def read(self, language: str, paths: list[Path]) -> list[list[str]]:
        """What a parser prints of each file."""
        return exports.read(self.made[language], paths)


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parsers]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KAITAI_HOME", str(npm_packages.home(tmp_path_factory)))
        yield Parsers(tmp_path_factory.mktemp("compiled"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_field_of_sound_files(parsers: Parsers, tmp_path: Path, language: str) -> None:
    files = sound_files()
    found = dict(zip(files, parsers.read(language, write(tmp_path, files)), strict=True))
    for name, data in files.items():
        assert found[name] == [*expected(data), "end"], name


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
        assert lines == [*expected(path.read_bytes()), "end"], path
