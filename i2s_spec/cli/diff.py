"""`i2s diff A B`: what differs between two files, by meaning."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from i2s_spec.cli import EXIT_FINDINGS
from i2s_spec.cli.progress import progress_bar
from i2s_spec.draw.text import json_document
from i2s_spec.errors import FormatError


@click.command(
    "diff",
    epilog="Example:  i2s new a.gguf && i2s new b.gguf --seed 1 && i2s diff a.gguf b.gguf",
    short_help="Compare two files by meaning.",
)
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@click.option("--dialect-a", default="canonical", show_default=True, help="How A's I2_S tensors are packed.")
@click.option("--dialect-b", default="canonical", show_default=True, help="How B's I2_S tensors are packed.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--threads", type=click.IntRange(1), help="Threads that decode. [default: one for each processor]")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code says it.")
def command(a: str, b: str, dialect_a: str, dialect_b: str, as_json: bool, threads: int | None, quiet: bool) -> int:
    """Compare the GGUF files A and B by meaning: keys, inventory, trits, scales, data of other tensors.

    Order, padding, alignment, byte order, dialect and the bytes of a tail that mean nothing make no difference; where
    they differ, that is told below the rest.

    Exit code: 0 if the files mean the same, 1 if not.
    """
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.inspect.difference import difference
    from i2s_spec.inspect.difference_page import document, lines

    try:
        with open_file(a) as one, open_file(b) as other, progress_bar("comparing", quiet) as progress:
            found = difference(one, other, dialect_a, dialect_b, threads or os.cpu_count() or 1, progress)
    except FormatError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        about: dict[str, Any] = document(found, a, b)
        sys.stdout.writelines(json_document(about))
    elif not quiet:
        for line in lines(found):
            click.echo(line)
    return 0 if found.same else EXIT_FINDINGS
