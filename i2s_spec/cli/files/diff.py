"""`i2s diff A B`: what differs between two files, by meaning."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from i2s_spec.cli.arguments.target import keep_inputs, reading, shown, writing
from i2s_spec.cli.form_option import form_option
from i2s_spec.cli.progress import progress_bar
from i2s_spec.cli.remote_options import remote_options
from i2s_spec.draw.text import json_document
from i2s_spec.errors import EXIT_FINDINGS, FormatError, counted

if TYPE_CHECKING:
    from i2s_spec.inspect.compare.diff import Difference
    from i2s_spec.inspect.compare.other_dialect import OtherDialect


@click.command(
    "diff",
    epilog="Example:  i2s new a.gguf && i2s new b.gguf --seed 1 && i2s diff a.gguf b.gguf",
    short_help="Compare two files by meaning.",
)
@click.argument("a", type=click.Path(readable=False))
@click.argument("b", type=click.Path(readable=False))
@click.option("--dialect-a", default="canonical", show_default=True, help="How A's I2_S tensors are packed.")
@click.option("--dialect-b", default="canonical", show_default=True, help="How B's I2_S tensors are packed.")
@click.option(
    "--lineage", is_flag=True, help="Of a base model A and its fine-tune B: changed trits by layer, all-zero rows."
)
@click.option("--all", "everything", is_flag=True, help="List every tensor, even if many differ in the same way.")
@form_option(
    ["text", "json", "html"], help="html draws the changed trits by layer and tensor.", schema="diff.schema.json"
)
@click.option("-o", "--output", type=click.Path(readable=False), metavar="FILE", help="Write the answer to FILE.")
@click.option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@click.option("--threads", type=click.IntRange(1), help="Threads that decode. [default: one for each processor]")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code shows the result.")
@remote_options
def command(
    a: str,
    b: str,
    dialect_a: str,
    dialect_b: str,
    lineage: bool,
    everything: bool,
    form: str,
    output: str | None,
    force: bool,
    threads: int | None,
    quiet: bool,
) -> int:
    """Compare the GGUF files A and B by meaning: keys, inventory, trits, scales, data of other tensors.

    Order, padding, alignment, byte order, dialect and the meaningless bytes of a tail do not count as differences; they
    are listed last. If many tensors differ in the same way, the first five are listed and the others counted; --all and
    --json list every tensor. With --lineage a table says how many trits of each layer changed from A to B: where that
    is 0.0 %, a fine-tune was lost. Rows that are all zero in a base model stay so in its fine-tunes.

    Exit code: 0 if the files mean the same, 1 if not.
    """
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.inspect.compare.diff import difference
    from i2s_spec.inspect.compare.other_dialect import other_dialect

    output = None if output == "-" else output
    keep_inputs(output, a, b)
    try:
        with (
            reading(None, form == "json"),
            open_file(a) as one,
            open_file(b) as other,
            progress_bar("comparing", quiet) as progress,
        ):
            found = difference(one, other, dialect_a, dialect_b, threads or os.cpu_count() or 1, progress)
            packed = None
            if not quiet and form == "text":
                packed = other_dialect(one, other, found, dialect_a, dialect_b, threads or os.cpu_count() or 1)
    except FormatError:
        raise
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    parts = _answer(found, a, b, form, lineage, everything, packed)
    if output is not None:
        from i2s_spec.gguf.atomic_file import OutputFile

        with writing(output), OutputFile(output, force=force) as target:
            for part in parts:
                target.write(part.encode("utf-8"))
    elif not quiet or form != "text":
        sys.stdout.writelines(parts)
    return 0 if found.same else EXIT_FINDINGS


def _answer(
    found: Difference, a: str, b: str, form: str, lineage: bool, everything: bool, packed: OtherDialect | None
) -> Iterator[str]:
    from i2s_spec.cli.command_line import command_line
    from i2s_spec.inspect.compare.diff_text import document, lines
    from i2s_spec.inspect.compare.lineage_text import lineage_lines, lineage_page

    if form == "json":
        yield from json_document(document(found, a, b))
    elif form == "html":
        typed = command_line(click.get_current_context())
        yield lineage_page(found.lineage, list(lines(found, everything)), a, b, typed)
    else:
        yield from (
            f"{line}\n" for line in (*(lineage_lines(found.lineage) if lineage else ()), *lines(found, everything))
        )
        if packed is not None:
            yield from _advice(packed, a, b)


def _advice(packed: OtherDialect, a: str, b: str) -> Iterator[str]:
    """What one of the files must be packed as for the weights to be the same, and what to type."""
    from i2s_spec.linter.next_step import on_command_line

    name, path = ("A", a) if packed.side == "a" else ("B", b)
    one, other, odd = (on_command_line(shown(each)) for each in (a, b, path))
    what = (
        "the trits of all tensors are equal"
        if packed.left == 0
        else f"{counted(packed.left, 'tensor differs', 'tensors differ')} in trits"
    )
    yield f"if {name} is {packed.dialect}, {what}: i2s diff {one} {other} --dialect-{packed.side} {packed.dialect}\n"
    yield f"next: i2s convert {odd} OUT.gguf --from {packed.dialect} --to canonical\n"
