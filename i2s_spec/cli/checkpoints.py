"""`i2s import`, `i2s export` and `i2s verify`: folders of safetensors to GGUF and back, with receipts.

A folder to import is on this machine or on a hub.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.options import INPUT, OUTPUT, reading, remote_options, shown, warn_of_programs, writing
from i2s_spec.cli.process import progress_bar
from i2s_spec.draw.text import json_document, json_string, visible
from i2s_spec.errors import EXIT_FINDINGS, counted

if TYPE_CHECKING:
    from i2s_spec.checkpoints.import_checkpoint import Imported

SCHEMA_VERSION = 1

_FLOATS = ["F16", "F32", "BF16"]


@click.command(
    "import",
    epilog="Example:  i2s new tiny.gguf && i2s export tiny.gguf -o tiny && "
    "i2s import tiny -o again.gguf --receipt again.json",
    short_help="Make a GGUF file from a Hugging Face checkpoint.",
)
@click.argument("checkpoint", type=INPUT)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="OUT",
    type=OUTPUT,
    required=True,
    help="The GGUF file to write.",
)
@click.option("--to", metavar="TYPE", default="I2_S", show_default=True,
              help="Type of the ternary matrices: I2_S, Q2_0, TQ1_0, TQ2_0 and others, F16, F32, BF16.")  # fmt: skip
@click.option("--embedding", type=click.Choice(_FLOATS), default="F16", show_default=True,
              help="Type of the embedding and the head.")  # fmt: skip
@click.option("--fallback", metavar="TYPE", help="Type of matrices whose rows are not whole blocks of --to.")
@click.option("--family", metavar="NAME", help="The family, for a checkpoint that is not recognized.")
@click.option(
    "--rule",
    type=click.Choice(["absmean", "ternary"]),
    help="How floats become trits, if the checkpoint does not determine it.",
)
@click.option(
    "--weight-scale", type=click.Choice(["multiply", "divide"]), help="How the weight_scale of packed matrices is used."
)
@click.option("--pre", metavar="NAME", help="The pre-tokenizer. [default: found by what the tokenizer does]")
@click.option("--name", metavar="TEXT", help="The model's name. [default: the folder's or the repository's]")
@click.option(
    "--source",
    metavar="REPOSITORY|URL",
    help="Where the checkpoint came from, as a key of OUT.  [default: the hub's repository]",
)
@click.option(
    "--receipt",
    metavar="JSON",
    type=OUTPUT,
    help="Check OUT against CHECKPOINT, and write what was checked.",
)
@click.option("--receipt-in-file", is_flag=True, help="Also store the receipt in OUT, under the key i2s.receipt.")
@click.option("--base", metavar="GGUF", type=INPUT, help="The model this was tuned from: trits must differ.")
@click.option(
    "--latent",
    metavar="CHECKPOINT",
    type=INPUT,
    help="A float revision, to prove what weight_scale does.",
)
@click.option("--force", is_flag=True, help="Overwrite OUT and the receipt if they exist.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.option("--threads", type=click.IntRange(1), metavar="N", help="Number of threads. [default: one per processor]")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@remote_options
def import_command(
    checkpoint: str,
    target: str,
    receipt: str | None,
    receipt_in_file: bool,
    base: str | None,
    latent: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Write the GGUF file OUT from the folder CHECKPOINT: config.json, safetensors, the files of the tokenizer.

    The family is recognized by config.json and the tensors; it decides the names, the rule by which weights become
    trits, what weight_scale does, and the order of rows. An unknown family is refused; the message says what was found.
    Weights are copied a tensor at a time, and OUT gets its name when it is complete.

    CHECKPOINT may be a repository of a hub, as hf://ORG/REPO@REVISION: the files that are needed are read from there by
    ranges, all of one commit, which is printed; nothing but OUT is written. This needs the extra [remote].

    With --receipt, CHECKPOINT is then imported again, and tensors, scales, token ids and logits are compared with those
    of OUT; the exit code is 1 if a check fails. --receipt-in-file stores the receipt in OUT itself, where
    `i2s verify OUT` finds it; OUT then gets its name when it contains the receipt.
    """
    from i2s_spec.checkpoints.import_checkpoint import import_checkpoint

    wanted = receipt is not None or receipt_in_file
    if not wanted and (base is not None or latent is not None):
        raise click.UsageError("--base and --latent are for --receipt and --receipt-in-file")
    if receipt is not None:
        from i2s_spec.gguf.atomic_file import refuse_taken

        with writing(receipt):
            refuse_taken(receipt, options["force"])
    with writing(target), reading(checkpoint), progress_bar("importing", quiet or as_json) as progress:
        checks: dict[str, Any] | None = None
        if receipt_in_file:
            from i2s_spec.checkpoints.receipt import import_with_receipt

            result, checks = import_with_receipt(
                checkpoint, target, base=base, latent=latent, progress=progress, **options
            )
        else:
            result = import_checkpoint(checkpoint, target, progress=progress, **options)
    if receipt is not None:
        checks = _receipt(checkpoint, target, receipt, checks, options, base, latent)
    warnings = warn_of_programs(target, quiet, as_json)
    if as_json:
        document = {**_document(target, result, checks), "warnings": warnings}
        sys.stdout.writelines(json_document({"schema_version": SCHEMA_VERSION, **document}))
    elif not quiet:
        _print(target, result)
        if checks is not None:
            print_checks(checks)
    if checks is not None and any(check["status"] == "failed" for check in checks["checks"]):
        sys.exit(EXIT_FINDINGS)


def _receipt(
    checkpoint: str,
    target: str,
    receipt: str,
    checks: dict[str, Any] | None,
    options: dict[str, Any],
    base: str | None,
    latent: str | None,
) -> dict[str, Any]:
    """Write the receipt, which is made here where the file has none in its keys."""
    from i2s_spec.checkpoints.receipt import make_receipt, write_receipt

    with writing(receipt), reading(checkpoint):
        checks = checks or make_receipt(
            checkpoint, target, family=options["family"], rule=options["rule"], weight_scale=options["weight_scale"],
            base=base, latent=latent,
        )  # fmt: skip
        write_receipt(checks, receipt, force=options["force"])
    return checks


def _document(target: str, result: Imported, checks: dict[str, Any] | None) -> dict[str, Any]:
    recognized = result.recognized
    return {
        "path": json_string(target), "size": result.size, "family": recognized.family.name, "why": recognized.why,
        "architecture": recognized.family.architecture, "types": dict(result.types), "rules": dict(result.rules),
        "tied": result.tied, "notes": list(result.notes),
        "checks": None if checks is None else checks["checks"],
    }  # fmt: skip


def _print(target: str, result: Imported) -> None:
    family = result.recognized.family
    click.echo(f"{shown(target)}: {counted(result.size, 'byte')}, architecture {family.architecture}")
    click.echo(f"family: {family.name} ({visible(result.recognized.why, 200, bare=True)})")
    tensors = ", ".join(f"{count} {type}" for type, count in sorted(result.types.items()))
    rules = ", ".join(f"{count} by the rule {rule}" for rule, count in sorted(result.rules.items()))
    click.echo(f"tensors: {tensors}; matrices: {rules}")
    for note in result.notes:
        click.echo(f"note: {visible(note, 400, bare=True)}")


# --- export ----------------------------------------------------------------------------------------------------------
# A GGUF file as a folder that transformers loads.


@click.command(
    "export",
    epilog="Example:  i2s new tiny.gguf && i2s export tiny.gguf -o tiny-checkpoint",
    short_help="Make a Hugging Face checkpoint from a GGUF file.",
)
@click.argument("file", type=INPUT)
@click.option("-o", "--output", "target", metavar="DIR", type=OUTPUT, required=True,
              help="The folder to make; it must not exist.")  # fmt: skip
@click.option("--form", type=click.Choice(["packed", "F32", "F16", "BF16"]), default="packed", show_default=True,
              help="The matrices: packed trits with a scale, or floats.")  # fmt: skip
@click.option("--for-absmean", is_flag=True,
              help="Floats for programs that quantize them by their mean magnitude: weights divided by the share that is "
                   "not 0.")  # fmt: skip
@click.option("--weight-scale", type=click.Choice(["multiply", "divide"]), default="multiply", show_default=True,
              help="The scale beside packed matrices; it divides in Falcon3, Falcon-E and Llama3-8B-1.58.")  # fmt: skip
@click.option("--embedding", type=click.Choice(_FLOATS),
              help="Type of the embedding and the head.  [default: that of --form; F32 beside packed matrices]")  # fmt: skip
@click.option("--names", type=click.Choice(["transformers", "1bitllm"]), default="transformers", show_default=True,
              help="Class and tensor names; llama.cpp's converter reads those of 1bitLLM.")  # fmt: skip
@click.option("--mode", type=click.Choice(["offline", "online"]), default="offline", show_default=True,
              help="quantization_mode; online quantizes again, and needs --for-absmean, which sets it.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@remote_options
def export_command(file: str, target: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Write the folder DIR from the GGUF file FILE: config.json, model.safetensors, the files of the tokenizer.

    Packed matrices have a weight_scale in F32 that multiplies, and config.json says so (`autobitlinear`, `offline`), or one
    that divides (`bitlinear`). Floats have no quantization_config: some programs, such as loom, quantize them again by
    their mean magnitude, which multiplies each scale by the share of weights that are not 0. --for-absmean makes floats of
    which that rule gives the trits and the scale back. The folder appears only when it is complete.
    """
    from i2s_spec.checkpoints.export_checkpoint import export_checkpoint
    from i2s_spec.gguf.reader import open as open_file

    if os.path.lexists(target):
        raise click.UsageError(f"{shown(target)} already exists; the checkpoint needs a new name")
    with (
        writing(target),
        reading(file),
        open_file(file) as opened,
        progress_bar("exporting", quiet or as_json) as progress,
    ):
        result = export_checkpoint(opened, target, progress=progress, **options)
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION, "path": json_string(target), "size": result.size, "class": result.class_name,
            "matrices": result.matrices, "others": result.others, "notes": list(result.notes),
        }  # fmt: skip
        sys.stdout.writelines(json_document(document))
    elif not quiet:
        click.echo(f"{shown(target)}: {result.class_name}, {counted(result.size, 'byte')} of "
                   f"weights, {counted(result.matrices, 'matrix', 'matrices')} "
                   f"{'packed' if options['form'] == 'packed' else 'in ' + options['form']}, "
                   f"{counted(result.others, 'other tensor')}")  # fmt: skip
        for note in result.notes:
            click.echo(f"note: {note}")


# --- verify ----------------------------------------------------------------------------------------------------------
# The checks of an imported file once more.


@click.command(
    "verify",
    epilog="Example:  i2s new tiny.gguf && i2s export tiny.gguf -o tiny && i2s import tiny -o new.gguf --receipt r.json && "
    "i2s verify new.gguf --receipt r.json --against tiny",
    short_help="Repeat the checks of a receipt on an imported file.",
)
@click.argument("file", type=INPUT)
@click.option("--receipt", metavar="JSON", type=INPUT,
              help="The receipt that `i2s import --receipt` wrote.  [default: the key i2s.receipt of FILE]")  # fmt: skip
@click.option(
    "--against",
    metavar="CHECKPOINT",
    type=INPUT,
    help="The checkpoint, to repeat every check: a folder, or hf://ORG/REPO@REVISION.",
)
@click.option(
    "--positions",
    type=click.IntRange(1),
    default=32,
    show_default=True,
    metavar="N",
    help="Tokens whose logits are compared.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the new receipt as JSON, with what changed.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code shows the result.")
@remote_options
def verify_command(
    file: str, receipt: str | None, against: str | None, positions: int, as_json: bool, quiet: bool
) -> None:
    """Compare FILE with its receipt, and repeat the checks.

    Without --against the tensors are compared with the hashes of the receipt, and checks that need the checkpoint are
    skipped. With it the checkpoint is imported again, to a temporary file of the same size: FILE must be what this
    version makes of it, with the types of FILE. The exit code is 1 if something changed or a check fails.
    """
    from i2s_spec.checkpoints.receipt import failed, verify_receipt

    with reading(file):
        now = verify_receipt(file, receipt, against, positions)
    if as_json:
        sys.stdout.writelines(json_document(now))
    elif not quiet:
        print_checks(now)
        for sentence in now["changed"]:
            click.echo(f"changed: {visible(sentence, 400, bare=True)}")
        if not now["changed"]:
            count = len(now["tensors"])
            click.echo(f"{counted(count, 'tensor matches', 'tensors match')} the receipt")
    if now["changed"] or failed(now):
        sys.exit(EXIT_FINDINGS)


def print_checks(receipt: Mapping[str, Any]) -> None:
    """Print the checks of a receipt, a line each."""
    for check in receipt["checks"]:
        click.echo(f"{check['id']}  {check['status']:<9}{check['checks']}: {visible(check['detail'], 600, bare=True)}")
