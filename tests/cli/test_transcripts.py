"""Output of commands, word for word: the golden transcripts of commands that need no model in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from transcripts_runner import check, transcripts, workshop


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return workshop(tmp_path_factory.mktemp("transcripts"))


READING = ("dump-", "explain", "identify-", "lint-", "show-")
WRITING = ("fix-", "sanitize-")


@pytest.mark.parametrize("transcript", transcripts(*READING), ids=lambda path: path.stem)
def test_reading(transcript: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    check(transcript, folder, write=request.config.getoption("--write-transcripts", default=False))


@pytest.mark.parametrize("transcript", transcripts(*WRITING), ids=lambda path: path.stem)
def test_writing(transcript: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    check(transcript, workshop(tmp_path), write=request.config.getoption("--write-transcripts", default=False))
