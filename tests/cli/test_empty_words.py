"""An empty argument, such as a script's unset variable gives, gets a clear error message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from i2s_spec.cli import cli, main
from i2s_spec.errors import EXIT_BUG
from i2s_spec.testing.sample import Draft


def _calls(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every call of a verb with one empty word, in the place of an argument or of an option's value."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            verb = command.get_command(context, name)
            assert verb is not None
            yield from _calls(verb, (*words, name))
        return
    files = ["sample.gguf" for each in command.params if isinstance(each, click.Argument)]
    for i in range(len(files)):
        yield (*words, *files[:i], "", *files[i + 1 :])
    for each in command.params:
        if isinstance(each, click.Option) and not each.is_flag and not each.count:
            yield (*words, *files, each.opts[-1], "")


@pytest.mark.thorough
def test_empty_arguments_get_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = [*_calls(cli)]
    assert len(calls) > 200  # enough verbs and options were found
    assert ("lint", "sample.gguf", "--config", "") in calls
    (tmp_path / "sample.gguf").write_bytes(Draft().data)
    monkeypatch.chdir(tmp_path)
    for words in calls:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        assert ended.value.code != EXIT_BUG, (words, capfd.readouterr().err)
        assert (tmp_path / "sample.gguf").read_bytes() == Draft().data, words
