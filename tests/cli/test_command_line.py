"""Messages repeat a command as it was typed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from builders import model_bytes
from click.testing import CliRunner

from i2s_spec.cli import cli
from i2s_spec.cli.lint import lint_command as lint
from i2s_spec.cli.verbs import command_line


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["a.gguf"], "i2s lint a.gguf"),
        (["--format", "json", "b c.gguf", "a.gguf"], "i2s lint --format json 'b c.gguf' a.gguf"),
        (["-q", "--header-only", "a.gguf"], "i2s lint --header-only --quiet a.gguf"),
        (["--report", "html=x.html", "--report", "sarif=y", "a"], "i2s lint --report html=x.html --report sarif=y a"),
        (["--select", "I1", "--select", "G2", "a"], "i2s lint --select I1 --select G2 a"),
    ],
)
def test_the_command_line_is_reconstructed(typed: list[str], said: str) -> None:
    spoken = command_line(lint.make_context("lint", [*typed]))
    assert sorted(spoken.split()) == sorted(said.split())
    assert command_line(lint.make_context("lint", shlex.split(spoken)[2:])) == spoken


def test_a_report_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(model_bytes())
    page = tmp_path / "x.html"
    assert CliRunner().invoke(cli, ["lint", "-q", "--report", f"html={page}", str(tmp_path / "a.gguf")]).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert f"<code>i2s lint --report html={page} --quiet {tmp_path}/a.gguf</code>" in text
