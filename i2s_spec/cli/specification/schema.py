"""`i2s schema`: the schema for other languages, as JSON, Kaitai Struct, ImHex pattern or C header; and the registry."""

from __future__ import annotations

from pathlib import Path

import click

from i2s_spec.errors import counted, quote


@click.command(
    "schema",
    epilog="Example:  i2s schema --format c -o i2s.h",
    short_help="Print the schema as JSON, Kaitai Struct, ImHex pattern or C header.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "ksy", "hexpat", "c", "registry", "registry-tsv"]),
    default="json",
    show_default=True,
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
def command(form: str, output: Path | None, force: bool) -> int:
    """Print the schema of GGUF with I2_S tensors in another language.

    \b
    json     every record, type, layout, code map and limit (schema.schema.json)
    ksy      Kaitai Struct: parsers in a dozen languages, and its Web IDE
    hexpat   a pattern of the hex editor ImHex
    c        a C99 header: a bounded walk over a file, a decoder and an encoder for every dialect
    registry, registry-tsv   every meaning of every type number from 30 on, as JSON (registry.schema.json) or TSV

    All are written from the declarations that this package itself reads by.
    """
    from i2s_spec.exports import export

    text = export(form)
    if output is None or str(output) == "-":
        click.echo(text, nl=False)
        return 0
    from i2s_spec.gguf.atomic_file import OutputFile

    with OutputFile(output, force=force) as file:
        file.write(text.encode("utf-8"))
    click.echo(f"{quote(str(output), bare=True)}: {counted(len(text), 'byte')}", err=True)
    return 0
