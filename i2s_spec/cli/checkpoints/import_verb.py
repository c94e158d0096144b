"""`i2s import CHECKPOINT -o OUT`: a folder of safetensors as a GGUF file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.files.target import reading, shown, writing
from i2s_spec.cli.progress import progress_bar
from i2s_spec.draw.text import json_document, json_string, visible

if TYPE_CHECKING:
    from i2s_spec.checkpoints.writing.import_checkpoint import Imported

SCHEMA_VERSION = 1

_FLOATS = ["F16", "F32", "BF16"]


@click.command(
    "import",
    epilog="Example:  i2s import BitNet-b1.58-2B-4T -o model.gguf --receipt model.json",
    short_help="Make a GGUF file of a Hugging Face checkpoint.",
)
@click.argument("checkpoint", type=click.Path())
@click.option(
    "-o", "--output", "target", metavar="OUT", type=click.Path(), required=True, help="The GGUF file to write."
)
@click.option("--to", metavar="TYPE", default="I2_S", show_default=True,
              help="Type of the ternary matrices: I2_S, Q2_0, TQ1_0, TQ2_0 and others, F16, F32, BF16.")  # fmt: skip
@click.option("--embedding", type=click.Choice(_FLOATS), default="F16", show_default=True,
              help="Type of the embedding and the head.")  # fmt: skip
@click.option("--fallback", metavar="TYPE", help="Type of matrices whose rows are no whole blocks of --to.")
@click.option("--family", metavar="NAME", help="The family, for a checkpoint that is not recognised.")
@click.option("--rule", type=click.Choice(["absmean", "ternary"]), help="How floats that leave it open become trits.")
@click.option(
    "--weight-scale", type=click.Choice(["multiply", "divide"]), help="What weight_scale of packed matrices does."
)
@click.option("--pre", metavar="NAME", help="The pre-tokenizer. [default: found by what the tokenizer does]")
@click.option("--name", metavar="TEXT", help="The model's name. [default: the folder's]")
@click.option("--source", metavar="REPOSITORY|URL", help="Where the checkpoint came from, as a key of OUT.")
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.option("--threads", type=click.IntRange(1), help="Number of threads. [default: one per processor]")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
def command(checkpoint: str, target: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Write the GGUF file OUT from the folder CHECKPOINT: config.json, safetensors, the files of the tokenizer.

    The family is recognised by config.json and the tensors; it decides the names, the rule by which weights become trits,
    what weight_scale does, and the order of rows. What is not known is refused, with what was seen. Weights are copied a
    tensor at a time, and OUT gets its name when it is complete.
    """
    from i2s_spec.checkpoints.writing.import_checkpoint import import_checkpoint

    with writing(target), reading(checkpoint), progress_bar("importing", quiet or as_json) as progress:
        result = import_checkpoint(checkpoint, target, progress=progress, **options)
    if as_json:
        sys.stdout.writelines(json_document({"schema_version": SCHEMA_VERSION, **_document(target, result)}))
    elif not quiet:
        _print(target, result)


def _document(target: str, result: Imported) -> dict[str, Any]:
    recognized = result.recognized
    return {
        "path": json_string(target), "size": result.size, "family": recognized.family.name, "why": recognized.why,
        "architecture": recognized.family.architecture, "types": dict(result.types), "rules": dict(result.rules),
        "tied": result.tied, "notes": list(result.notes),
    }  # fmt: skip


def _print(target: str, result: Imported) -> None:
    family = result.recognized.family
    click.echo(f"{shown(target)}: {result.size:,} bytes, architecture {family.architecture}")
    click.echo(f"family: {family.name} ({visible(result.recognized.why, 200, bare=True)})")
    tensors = ", ".join(f"{count} {type}" for type, count in sorted(result.types.items()))
    rules = ", ".join(f"{count} by the rule {rule}" for rule, count in sorted(result.rules.items()))
    click.echo(f"tensors: {tensors}; matrices: {rules}")
    for note in result.notes:
        click.echo(f"note: {visible(note, 400, bare=True)}")
