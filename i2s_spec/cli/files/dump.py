"""`i2s dump FILE [WHAT]`: the bytes of a file on the left, what they mean on the right."""

from __future__ import annotations

import sys

import click

from i2s_spec.cli.remote_options import remote_options
from i2s_spec.draw import terminal
from i2s_spec.draw.text import fault_words, json_document, visible
from i2s_spec.errors import EXIT_FINDINGS, FormatError
from i2s_spec.gguf.reader import File
from i2s_spec.gguf.source import source_of
from i2s_spec.schema import faults

#: A terminal that is narrower than this gets eight bytes in a line.
WIDE = 132


@click.command(
    "dump",
    epilog="Example:  i2s new tiny.gguf && i2s dump tiny.gguf blk.0.attn_q.weight",
    short_help="Show a file or a part of it as hex, ASCII and tree.",
)
@click.argument("file", type=click.Path(readable=False))
@click.argument("what", required=False)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Maximum number of array elements and of lines of bytes."
)
@click.option("--all", "everything", is_flag=True, help="No limit.")
@click.option("--json", "as_json", is_flag=True, help="As JSON: one document, with a node on each line.")
@click.option(
    "--line-bytes", type=click.Choice(["8", "16", "32"]), help="Bytes per line; 16, or 8 on a narrow terminal."
)
@remote_options
def command(
    file: str, what: str | None, limit: int | None, everything: bool, as_json: bool, line_bytes: str | None
) -> int:
    """Dump a GGUF file, or one part of it, as hex, ASCII and tree.

    WHAT is a byte range (0x1000..0x1040, 0x1000+64, 4096:64), an address, the name of a key or of a tensor, or a path of
    the tree (header, key_values[3].value, data[2].tail). Without it the whole structure is shown, arrays and data
    elided. Codes of an I2_S payload are shown with their bits, trits and elements in the canonical layout, those of types
    with a scale for each group (Q2_0, PTQ1_0, TQ2_0 ...) with their weights and elements, block by block.

    Exit code: 0; 1 if a fault stops the reading (the part before it is shown); 3 if FILE is not a GGUF file.
    """
    from i2s_spec.inspect.dump.dump import document, lines
    from i2s_spec.inspect.dump.selector import Unknown, target

    name = visible(file, 4096, bare=True)
    try:
        opened = File(source_of(file))
    except FormatError as error:
        click.echo(f"i2s: {name}: {fault_words(error)}", err=True)
        return faults.exit_code_of(error.code)
    with opened:
        try:
            wanted = target(opened, what, limit, everything)
        except Unknown as error:
            raise click.UsageError(str(error)) from error
        if as_json:
            sys.stdout.writelines(json_document(document(opened, wanted)))
        else:
            columns = terminal.columns(sys.stdout)
            width = int(line_bytes) if line_bytes else 8 if columns is not None and columns < WIDE else 16
            terminal.write(lines(opened, wanted, width, columns), sys.stdout)
        if opened.fault is None:
            return 0
        sys.stdout.flush()
        click.echo(f"i2s: {name}: {fault_words(opened.fault)}", err=True)
        return faults.exit_code_of(opened.fault.code) if opened.fault.code in faults.NO_INPUT else EXIT_FINDINGS
