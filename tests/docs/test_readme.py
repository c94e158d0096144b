"""The README shows the real output of commands, is short, and has the current picture; the site has every command."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import click
import pytest
from transcripts_runner import run

from i2s_spec._version import __version__
from i2s_spec.cli import cli, main
from i2s_spec.cli.replay import without_counts

ROOT = Path(__file__).resolve().parent.parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SESSIONS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    with pytest.raises(SystemExit):
        main(["demo", "--keep", str(folder / "demo")])
    return folder


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.split("\n")[0][:40])
def test_sessions_are_what_is_printed(session: str, folder: Path) -> None:
    """`...` stands for lines that are left out."""
    for command, wanted in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE):
        output = "".join(
            line for line in run(command, folder).splitlines(True) if not line.startswith(("stderr: ", "[exit "))
        )
        printed, shown = map(without_counts, (output, wanted))
        expression = ".*".join(re.escape(part) for part in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE))
        assert re.fullmatch(expression, printed, re.DOTALL), output


def test_a_reader_can_type_everything_from_top_to_bottom(tmp_path: Path) -> None:
    """In one folder: a name that an earlier command took would be refused."""
    (block,) = (text for text in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if text.startswith("i2s "))
    commands = [command for session in SESSIONS for command in re.findall(r"(?m)^\$ (.*)$", session)]
    for command in [*commands, *(line.partition("#")[0].strip() for line in block.splitlines())]:
        assert "[exit 2]" not in run(command, tmp_path), command


def test_every_verb_is_on_the_page_of_commands() -> None:
    from i2s_site import commands

    headings = re.findall(r"(?m)^### i2s (\w+)$", commands.page())
    assert sorted(headings) == sorted(cli.list_commands(click.Context(cli)))
    assert "the worst counts: 4, 3, 5, 1, 0." in commands.page()


def test_the_readme_is_short() -> None:
    """A newcomer reads it in three minutes; `i2s --help` and the site have the rest."""
    assert len(README.encode()) <= 6000


def test_commands_that_are_named_exist() -> None:
    verbs = set(cli.list_commands(click.Context(cli)))
    assert set(re.findall(r"\bi2s ([a-z]+)", README)) <= verbs


def test_the_picture_is_there() -> None:
    assert (ROOT / "spec" / "assets" / "front.svg").is_file()
    assert re.search(r"!\[[^]]{40,}\]\(spec/assets/front\.svg\)", README)


def test_the_citation_has_the_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    head = re.search(r"(?m)^## (\S+)( \(unreleased\))?$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert head is not None
    assert project["version"] == __version__ == head[1] + (".dev0" if head[2] else "")
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
