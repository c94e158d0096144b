"""`i2s vectors export`: files for other people's test suites."""

from __future__ import annotations

import sys

import click

from i2s_spec.errors import quote


@click.group(
    short_help="Write test files for other decoders.",
    epilog="Example:  i2s vectors export --malformed broken-files",
)
def command() -> None:
    """Write files for other people's test suites, with what is expected of each."""


@command.command(epilog="Example:  i2s vectors export --malformed broken-files")
@click.option("--malformed", "target", required=True, type=click.Path(), metavar="DIR",
              help="Write the malformed files to the folder DIR, which is new or empty.")  # fmt: skip
@click.option("--huge", is_flag=True, help="Write also the largest; without, those above 4 MiB are only described.")
@click.option("--no-i2s", is_flag=True,
              help="F32 tensors in place of I2_S ones, for readers that do not know type 36.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace files of the same names where DIR is not empty.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def export(target: str, huge: bool, no_i2s: bool, force: bool, quiet: bool) -> None:
    """Write one file for each fault that the rules know, and a manifest.

    manifest.json says of each file its rule and clause, the field that is wrong, and by when a reader has to have rejected
    it: after the header, the metadata, the table, the data section, the payload, or never. It also says which programs have
    to reject it: those that read headers, tensors, or models. Sound files come with them. With --no-i2s a fault of the
    container stays what it is, and faults of I2_S tensors are left out. The same version writes the same bytes each time.
    Files that are almost all zeros are written with holes.
    """
    from i2s_spec.conformance.export import export as write

    shown = quote(target, limit=4096, bare=True)
    try:
        if quiet or not sys.stderr.isatty():
            done = write(target, huge=huge, force=force, i2s=not no_i2s)
        else:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            columns = (TextColumn("writing"), BarColumn(), MofNCompleteColumn())
            with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task("", total=None)
                done = write(target, huge=huge, force=force, i2s=not no_i2s,
                             progress=lambda count, total: bar.update(task, completed=count, total=total))  # fmt: skip
    except FileExistsError as error:
        raise click.UsageError(f"{shown}: {str(error.strerror).replace('force', '--force')}") from None
    if not quiet:
        more = f", {done.described} larger ones described" if done.described else ""
        left = f", {done.left_out} faults need I2_S and are left out" if done.left_out else ""
        click.echo(f"{shown}: {done.written} malformed files{more}, {done.sound} sound ones, {done.size:,} bytes{left}")
