"""`i2s demo`: the first minute. A model is made, shown, checked, broken in several ways, and checked again."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import click

from i2s_spec.convert.synthetic.new import new
from i2s_spec.draw import terminal
from i2s_spec.errors import counted, quote
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.inspect.show import describe
from i2s_spec.inspect.show_text import page
from i2s_spec.linter.engine import lint
from i2s_spec.linter.report import make
from i2s_spec.linter.report.examined import examined
from i2s_spec.linter.report_data import Report
from i2s_spec.testing.mishaps import mishaps

#: Findings of a broken copy that are shown; the rest are counted.
SHOWN = 3


@click.command(
    "demo", epilog="Example:  i2s demo", short_help="Make a small model, show it, check it, break copies, check them."
)
@click.option("--keep", type=click.Path(file_okay=False), help="Write the files into this folder and leave them there.")
@click.option("--force", is_flag=True, help="Overwrite files of these names in the folder.")
def command(keep: str | None, force: bool) -> None:
    """Make a small model, show it, check it, break copies of it as models break in real life, and check those.

    Needs no file and no network.
    """
    if keep is not None:
        folder = Path(keep)
        taken = [
            name for name in ["model", *(mishap.name for mishap in mishaps())] if (folder / f"{name}.gguf").exists()
        ]
        if taken and not force:
            path = quote(str(folder / f"{taken[0]}.gguf"), limit=4096, bare=True)
            raise click.UsageError(f"{path} already exists; use --force to overwrite it, or name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        _run(folder, retained=True)
        return
    with tempfile.TemporaryDirectory(prefix="i2s-demo-") as temporary:
        _run(Path(temporary), retained=False)


def _run(folder: Path, retained: bool) -> None:
    colour = sys.stdout.isatty()
    model = folder / "model.gguf"

    _say("1. A small BitNet model, made from a seed: random ternary weights in I2_S, its own vocabulary.")
    _command("i2s new model.gguf")
    new(model, force=retained)
    click.echo(f"model.gguf: {counted(model.stat().st_size, 'byte')}\n")

    _say("2. What is in it.")
    _command("i2s show model.gguf")
    with open_file(model) as file:
        lines = page({**describe(file), "path": "model.gguf"}, terminal.columns(sys.stdout))
        terminal.write(lines, sys.stdout)
    click.echo()

    _say("3. What the linter reports.")
    _command("i2s lint model.gguf")
    _report(replace(lint(model, details=examined), path="model.gguf"), colour)

    _say("4. Copies of it with typical faults.")
    sound = model.read_bytes()
    codes = []
    for mishap in mishaps():
        name = f"{mishap.name}.gguf"
        (folder / name).write_bytes(mishap.apply(sound))
        click.echo(click.style(mishap.story, bold=True) if colour else mishap.story)
        _command(f"i2s lint {name}")
        _report(replace(lint(folder / name, details=examined), path=name), colour, mishap.code)
        codes.append(mishap.code)

    _say("5. Where to go from here.")
    click.echo(f"  i2s explain {codes[2]}        what a rule means, why it matters, what to do")
    click.echo("  i2s doctor FILE         a summary of your own file on one screen")
    click.echo("  i2s dump FILE           the bytes of a file and their meaning")
    if retained:
        click.echo(f"\nThe files are in {quote(str(folder), limit=4096, bare=True)}.")
    else:
        click.echo("\nThe files are gone again; `i2s demo --keep FOLDER` leaves them.")


def _report(report: Report, colour: bool, first: str = "") -> None:
    """A report in short: what the story is about first."""
    report = replace(report, findings=tuple(sorted(report.findings, key=lambda finding: finding.code != first)))
    more = len(report.findings) - SHOWN
    text = make("text", colour=colour).file(replace(report, findings=report.findings[:SHOWN]) if more > 0 else report)
    lines = text.splitlines()
    if more > 0:
        lines = [*lines[: _verdict(lines, report.path)], f"{report.path}: ... and {more:,} more"]
        whole = make("text", colour=colour).file(report).splitlines()
        lines += whole[_verdict(whole, report.path) :]
    click.echo("\n".join(lines) + "\n")


def _verdict(lines: list[str], path: str) -> int:
    """Which line is the verdict: the last that begins with the path; what is counted by code comes after it."""
    return max(i for i, line in enumerate(lines) if line.startswith(f"{path}: "))


def _command(line: str) -> None:
    click.echo(f"$ {line}")


def _say(text: str) -> None:
    click.secho(text, bold=True)
