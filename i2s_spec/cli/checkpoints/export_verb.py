"""`i2s export FILE -o DIR`: a GGUF file as a folder that transformers loads."""

from __future__ import annotations

import os
import sys

import click

from i2s_spec.cli.arguments.target import reading, shown, writing
from i2s_spec.cli.progress import progress_bar
from i2s_spec.draw.text import json_document, json_string
from i2s_spec.errors import counted

SCHEMA_VERSION = 1


@click.command(
    "export",
    epilog="Example:  i2s new tiny.gguf && i2s export tiny.gguf -o tiny-checkpoint",
    short_help="Make a Hugging Face checkpoint from a GGUF file.",
)
@click.argument("file", type=click.Path(readable=False))
@click.option("-o", "--output", "target", metavar="DIR", type=click.Path(readable=False), required=True,
              help="The folder to make; it must not exist.")  # fmt: skip
@click.option("--form", type=click.Choice(["packed", "F32", "F16", "BF16"]), default="packed", show_default=True,
              help="The matrices: packed trits with a scale, or floats.")  # fmt: skip
@click.option("--mode", type=click.Choice(["offline", "online"]), default="offline", show_default=True,
              help="quantization_mode; online is refused, because it would quantize ternary weights again.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
def command(file: str, target: str, form: str, mode: str, as_json: bool, quiet: bool) -> None:
    """Write the folder DIR from the GGUF file FILE: config.json, model.safetensors, the files of the tokenizer.

    Packed matrices have a weight_scale in F32 that multiplies, and config.json says so (`autobitlinear`, `offline`). Floats
    have no quantization_config. The folder appears only when it is complete.
    """
    from i2s_spec.checkpoints.export.export_checkpoint import export_checkpoint
    from i2s_spec.gguf.reader import open as open_file

    if os.path.lexists(target):
        raise click.UsageError(f"{shown(target)} already exists; the checkpoint needs a new name")
    with (
        writing(target),
        reading(file),
        open_file(file) as opened,
        progress_bar("exporting", quiet or as_json) as progress,
    ):
        result = export_checkpoint(opened, target, form=form, mode=mode, progress=progress)
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION, "path": json_string(target), "size": result.size, "class": result.class_name,
            "matrices": result.matrices, "others": result.others, "notes": list(result.notes),
        }  # fmt: skip
        sys.stdout.writelines(json_document(document))
    elif not quiet:
        click.echo(f"{shown(target)}: {result.class_name}, {counted(result.size, 'byte')} of "
                   f"weights, {counted(result.matrices, 'matrix', 'matrices')} "
                   f"{'packed' if form == 'packed' else 'in ' + form}, "
                   f"{counted(result.others, 'other tensor')}")  # fmt: skip
        for note in result.notes:
            click.echo(f"note: {note}")
