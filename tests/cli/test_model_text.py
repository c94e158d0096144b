"""Text written by a model is harmless: it acts neither on a terminal nor in the log of a CI run."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from i2s_spec.cli.run import ModelText, is_ci_log


def piped(pieces: Iterable[str], escaped: bool | None = None) -> str:
    """The output of a pipe to which pieces of text are written."""
    receiver, sender = os.pipe()
    with os.fdopen(receiver, encoding="utf-8", newline="") as reading, os.fdopen(sender, "w", newline="") as writing:
        shown = ModelText(writing, escaped)
        for piece in pieces:
            shown.write(piece)
        shown.end_line()
        writing.close()
        return reading.read()


def test_a_pipe_gets_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert piped(["::error::x\x1b[2J\n", "##[error]"]) == "::error::x\x1b[2J\n##[error]\n"


def test_the_log_of_a_run_gets_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert piped([":", ":error::x\n", "a::b", "\n \t", "##[error]", "\x1b[2J"]) == (
        "\\x3a:error::x\na::b\n \t\\x23#[error]\\x1b[2J\n"
    )
    assert piped(["::error::x"], escaped=False) == "::error::x\n"


def test_a_regular_file_is_not_a_ci_log(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    with open(f"{tmp_path}/x", "w", encoding="utf-8") as file:
        assert not is_ci_log(file)


@given(st.lists(st.sampled_from([":", "::", "#", "##[", " ", "\t", "\n", "x", "\n\n::set-output", "é"]), max_size=12))
@examples(100)
def test_no_line_begins_as_a_command(pieces: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GITHUB_ACTIONS", "true")
        lines = piped(pieces).split("\n")
    assert not [line for line in lines if line.lstrip().startswith(("::", "##"))]
