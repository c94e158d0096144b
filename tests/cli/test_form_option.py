"""Every command that can answer in JSON accepts `--json`, which means the same as `--format json`."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from i2s_spec.cli import cli


def verbs(parent: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in parent.list_commands(click.Context(parent)):
        verb = parent.get_command(click.Context(parent), name)
        assert verb is not None
        if isinstance(verb, click.Group):
            yield from verbs(verb, (*words, name))
        else:
            yield (*words, name), verb


def test_every_format_json_has_the_option_json() -> None:
    found = 0
    for words, verb in verbs(cli):
        options = {option: each for each in verb.params for option in each.opts}
        forms = options.get("--format")
        if forms is None or not isinstance(forms.type, click.Choice) or "json" not in forms.type.choices:
            continue
        found += 1
        assert "--json" in options or forms.default == "json", words
    assert found > 8


@pytest.mark.parametrize("words", [("explain", "I104"), ("rules", "I1"), ("identify",)])
def test_both_options_give_the_same_output(words: tuple[str, ...]) -> None:
    answers = [CliRunner().invoke(cli, [*words, *form]) for form in (("--json",), ("--format", "json"), ())]
    assert [answer.exit_code for answer in answers] == [0, 0, 0], answers
    short, full, text = (answer.stdout for answer in answers)
    assert short == full != text
    assert short[0] in "[{"
