"""Manual pages: one for each command, generated from its help, without a warning from groff or man."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import click
import pytest

from i2s_spec.cli import cli, main
from i2s_spec.cli.shell.man import _escaped


def called(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    return ended.value.code, capsys.readouterr().out


def test_a_page_says_what_the_help_says(capsys: pytest.CaptureFixture[str]) -> None:
    code, page = called(capsys, "man", "lint")
    assert code == 0
    assert page.startswith('.TH "I2S\\-LINT" "1" ')
    assert "\\fB\\-\\-fail\\-on [error|warning|note|never]\\fR\n" in page
    assert called(capsys, "man", "golden", "record")[1].count(".SH SYNOPSIS\n\\fBi2s golden record\\fR ") == 1
    assert called(capsys, "man", "nothing")[0] == 2
    assert called(capsys, "man", "lint", "--write", "x")[0] == 2


def test_text_is_escaped_for_roff() -> None:
    assert _escaped("\\fB-x 'a' \"b\" `c`") == "\\efB\\-x \\(aqa\\(aq \\(dqb\\(dq \\(gac\\(ga"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("man")
    with pytest.raises(SystemExit):
        main(["man", "--write", str(folder)])
    return sorted((folder / "man1").iterdir())


def test_every_verb_has_a_page(pages: list[Path]) -> None:
    names = {path.name for path in pages}
    assert {"i2s.1", "i2s-golden-compare.1"} <= names
    assert {f"i2s-{verb}.1" for verb in cli.list_commands(click.Context(cli))} <= names


def test_pages_render_without_warnings(pages: list[Path]) -> None:
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", *map(str, pages)], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "i2s-golden-compare" in done.stdout


def test_man_reads_a_page(pages: list[Path]) -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man is not installed")
    page = next(path for path in pages if path.name == "i2s-lint.1")
    done = subprocess.run(
        ["man", "--warnings", "-l", str(page)], capture_output=True, text=True, check=False, timeout=600
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--baseline" in done.stdout.replace("‐", "-").replace("−", "-")
