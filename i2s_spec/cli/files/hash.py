"""`i2s hash FILE`: identities of a file, of its metadata, and of its weights whatever their layout."""

from __future__ import annotations

import os
import sys

import click

from i2s_spec.cli.files.target import reading
from i2s_spec.cli.progress import progress_bar
from i2s_spec.draw.text import json_document, json_string, visible
from i2s_spec.errors import FormatError

SCHEMA_VERSION = 1


@click.command(
    "hash",
    epilog="Example:  i2s new tiny.gguf && i2s hash tiny.gguf --tensors",
    short_help="Identities of file, metadata and weights.",
)
@click.argument("file", type=click.Path())
@click.option("--dialect", default="canonical", show_default=True, help="How FILE's I2_S tensors are packed.")
@click.option("--tensors", "each", is_flag=True, help="The digest of every tensor, too.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, with every tensor.")
@click.option("--threads", type=click.IntRange(1), help="Threads that decode. [default: one for each processor]")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
def command(file: str, dialect: str, each: bool, as_json: bool, threads: int | None, quiet: bool) -> None:
    """Print the SHA-256 of a GGUF file, of its metadata, and of its weights.

    Two files have the same metadata where keys, types and values are the same, in any order and byte order. They
    have the same weights where tensors of the same names and shapes hold the same trits and scales, or the same data:
    layout, tail bytes, padding, order, byte order and metadata do not count, and a matrix of floats that is exactly
    ternary is the same as I2_S with its scale.

    The module i2s_spec.inspect.compare.identity says exactly what is hashed, so that others can do it.
    """
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.inspect.compare.identity import identity

    try:
        with reading(file), open_file(file) as opened, progress_bar("hashing", quiet) as progress:
            found = identity(opened, dialect, threads or os.cpu_count() or 1, progress)
    except FormatError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        rows = [
            {"name": json_string(t.name), "shape": t.shape, "kind": t.kind, "scale": t.scale, "sha256": t.digest}
            for t in found.tensors
        ]
        about = {
            "schema_version": SCHEMA_VERSION, "path": json_string(file), "dialect": dialect, "file": found.file,
            "metadata": found.metadata, "weights": found.weights, "tensors": rows,
        }  # fmt: skip
        sys.stdout.writelines(json_document(about))
        return
    click.echo(f"file      {found.file}\nmetadata  {found.metadata}\nweights   {found.weights}")
    if each:
        for tensor in found.tensors:
            click.echo(f"{tensor.digest}  {tensor.kind:<8} {visible(tensor.name, 200, bare=True)}")
