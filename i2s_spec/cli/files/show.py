"""`i2s show FILE`: header, keys, tensors and totals of a GGUF file on one page."""

from __future__ import annotations

import sys
from typing import Any

import click

from i2s_spec.cli.arguments.default_model import named, origin
from i2s_spec.cli.remote_options import remote_options
from i2s_spec.draw import terminal
from i2s_spec.draw.text import fault_words, json_document, visible
from i2s_spec.errors import EXIT_FINDINGS, FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import source_of
from i2s_spec.inspect.show import ELEMENTS, listed, members, unreadable
from i2s_spec.inspect.show_text import page
from i2s_spec.schema import faults

#: Of more than a thousand keys (or tensors), the text shows this many first and last ones.
ENDS = (900, 100)


@click.command(
    "show",
    epilog="Example:  i2s new tiny.gguf && i2s show tiny.gguf",
    short_help="Show header, keys, tensors and totals of a file.",
)
@click.argument("file", type=click.Path(readable=False), required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON (show.schema.json), with every key and tensor.")
@click.option("--all", "everything", is_flag=True, help="Every key and tensor; in JSON, every element of every value.")
@click.option("--no-tensors", is_flag=True, help="Leave out the tensor table; totals are still shown.")
@click.option("--plot", is_flag=True, help="Draw scales by layer and shares of codes instead, in blocks or ASCII.")
@remote_options
def command(file: str | None, as_json: bool, everything: bool, no_tensors: bool, plot: bool) -> int:
    """Show the content of a GGUF file: header, keys, tensors, totals by type.

    Shapes are in NumPy's order (rows x columns); GGUF's own order, `ne`, is the reverse. Offsets count from the start
    of the file. The scale is the float32 at the start of an I2_S tensor's tail. Without FILE it uses the trained model
    that comes with i2s-spec. FILE may be an address (hf://ORG/REPO/PATH, https://, s3://): header and scales are
    fetched. From a server that gives one range at a time, only some scales are fetched: --remote-limit sample=N sets
    how much.

    Exit code: 0; 1 if a fault stops the reading (the part before it is shown); 3 if FILE is not a GGUF file; 5 if its
    server does not give it.
    """
    if plot and (as_json or everything or no_tensors):
        raise click.UsageError("--plot draws scales and codes, and takes no other option of show")
    try:
        opened = File(source_of(origin(file)))
    except FormatError as error:
        return _finish(unreadable(named(file), error), error, as_json, named(file))
    with opened:
        if plot:
            _plot(opened)
            return _exit_code(opened.fault, named(file))
        if as_json:
            about = members(opened, None if everything else ELEMENTS)
        else:
            about = members(opened, ELEMENTS, None if everything else ENDS)
        if no_tensors:
            about["tensors"] = []
        if not as_json:
            about = listed(about)
        return _finish(about, opened.fault, as_json, named(file))


def _finish(about: dict[str, Any], fault: FormatError | None, as_json: bool, name: str) -> int:
    if as_json:
        sys.stdout.writelines(json_document(about))
    else:
        terminal.write(page(about, terminal.columns(sys.stdout)), sys.stdout)
    return _exit_code(fault, name)


def _plot(file: File) -> None:
    from i2s_spec.inspect.show_plot import plots

    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower()
    terminal.write(plots(file, terminal.columns(sys.stdout), blocks=encoding.startswith("utf")), sys.stdout)


def _exit_code(fault: FormatError | None, name: str) -> int:
    """Say the fault that stopped the reading, if there is one, and what the command exits with."""
    if fault is None:
        return 0
    sys.stdout.flush()
    click.echo(f"i2s: {visible(name, 4096, bare=True)}: {fault_words(fault)}", err=True)
    return faults.exit_code_of(fault.code) if fault.code in faults.NO_INPUT else EXIT_FINDINGS
