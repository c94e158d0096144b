"""`i2s sanitize FILE -o OUT`: write a file anew from what is understood of it, and list what was left out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.arguments.target import check_target, reading, shown, whole_file, writing
from i2s_spec.cli.progress import progress_bar
from i2s_spec.draw.text import json_document, json_string, visible
from i2s_spec.errors import FormatError, counted
from i2s_spec.schema import faults

if TYPE_CHECKING:
    from i2s_spec.linter.sanitize.sanitize import Sanitized

SCHEMA_VERSION = 1

#: Lines of one kind that are shown; the rest are counted.
SHOWN = 20


@click.command(
    "sanitize",
    epilog="Example:  i2s new tiny.gguf && i2s sanitize tiny.gguf -o clean.gguf",
    short_help="Write a copy with only the known parts of a file.",
)
@whole_file("The new file.", "Write nothing; list what would be left out.")
@click.option("--keep-unknown", is_flag=True, help="Keep keys that the specification does not know.")
@click.option("--drop-template", is_flag=True, help="Leave the chat template out, which is a program.")
def command(
    file: str,
    target: str | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    threads: int | None,
    **options: Any,
) -> int:
    """Write OUT with only the known parts of FILE: keys that the specification knows, and tensors.

    It leaves out and lists unknown keys, bytes that belong to no tensor, bytes after the scales of I2_S tensors, and
    control characters. A proof shows that the weights are the same. The same FILE gives the same OUT on every machine.

    Exit code 1: FILE has a part that is ambiguous, such as tensors that share bytes; nothing is written. `i2s fix`
    repairs some of those.
    """
    check_target(target, dry_run)
    from i2s_spec.linter.sanitize.sanitize import sanitize

    try:
        with reading(file), writing(target), progress_bar("sanitising", quiet) as progress:
            done = sanitize(file, target, threads=threads or os.cpu_count() or 1, progress=progress, **options)
    except FormatError as error:
        if error.code in faults.NO_INPUT or error.code == faults.CHANGED.code:
            raise
        click.echo(f"i2s: {shown(file)}: not understood, nothing was written: {error}", err=True)
        return 1
    if as_json:
        sys.stdout.writelines(json_document(_document(done, target)))
    elif not quiet:
        for line in _lines(done, target):
            click.echo(line)
    return 0


def _document(done: Sanitized, target: str | None) -> dict[str, Any]:
    """What was left out, as plain data that JSON can carry."""
    return {
        "schema_version": SCHEMA_VERSION,
        "path": json_string(done.path),
        "output": None if target is None else json_string(target),
        "written": done.written,
        "size_before": done.size_before,
        "size": done.size,
        "keys": done.keys,
        "tensors": done.tensors,
        "renamed": done.renamed,
        "weights": done.weights,
        "left_out": (
            {"span": {"start": each.span.start, "stop": each.span.stop, "path": visible(each.span.path, bare=True)},
             "what": each.what, "bytes": each.size}
            for each in done.left_out
        ),
    }  # fmt: skip


def _lines(done: Sanitized, target: str | None) -> Iterator[str]:
    """What was left out, for a person."""
    path = shown(done.path)
    counts: dict[str, int] = {}
    for each in done.left_out:
        kind = each.what.partition(" ")[0]
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= SHOWN:
            size = counted(each.size, "byte")
            yield f"{path}:0x{each.span.start:x}..0x{each.span.stop:x}: left out: {each.what} ({size})"
    left = sum(count - SHOWN for count in counts.values() if count > SHOWN)
    if left:
        yield f"{path}: left out: {left:,} more"
    if done.renamed:
        yield (
            f"proof: the weights were {done.weights}; "
            f"{counted(done.renamed, 'tensor has', 'tensors have')} other names now"
        )
    else:
        yield f"proof: the weights are the same, {done.weights}" if done.written else f"weights: {done.weights}"
    what = (
        f"{counted(done.keys, 'key')} and {counted(done.tensors, 'tensor')} kept, "
        f"{done.size_before:,} -> {counted(done.size, 'byte')}"
    )
    yield (f"{shown(target)}: {what}" if target is not None else f"dry run, nothing was written: {what}")
