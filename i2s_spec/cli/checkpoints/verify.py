"""`i2s verify FILE --receipt R`: the checks of an imported file once more."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from i2s_spec.cli.arguments.target import reading
from i2s_spec.cli.remote_options import remote_options
from i2s_spec.draw.text import json_document, visible
from i2s_spec.errors import counted

EXIT_FINDINGS = 1


@click.command(
    "verify",
    epilog="Example:  i2s new tiny.gguf && i2s export tiny.gguf -o tiny && i2s import tiny -o new.gguf --receipt r.json && "
    "i2s verify new.gguf --receipt r.json --against tiny",
    short_help="Repeat the checks of a receipt on an imported file.",
)
@click.argument("file", type=click.Path(readable=False))
@click.option("--receipt", metavar="JSON", type=click.Path(readable=False),
              help="The receipt that `i2s import --receipt` wrote.  [default: the key i2s.receipt of FILE]")  # fmt: skip
@click.option(
    "--against",
    metavar="CHECKPOINT",
    type=click.Path(readable=False),
    help="The checkpoint, to repeat every check: a folder, or hf://ORG/REPO@REVISION.",
)
@click.option(
    "--positions", type=click.IntRange(1), default=32, show_default=True, help="Tokens whose logits are compared."
)
@click.option("--json", "as_json", is_flag=True, help="Print the new receipt as JSON, with what changed.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing; the exit code shows the result.")
@remote_options
def command(file: str, receipt: str | None, against: str | None, positions: int, as_json: bool, quiet: bool) -> None:
    """Compare FILE with its receipt, and repeat the checks.

    Without --against the tensors are compared with the hashes of the receipt, and checks that need the checkpoint are
    skipped. The exit code is 1 if something changed or a check fails.
    """
    from i2s_spec.checkpoints.receipt.make_receipt import failed, verify_receipt

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
    """The checks of a receipt, a line each."""
    for check in receipt["checks"]:
        click.echo(f"{check['id']}  {check['status']:<9}{check['checks']}: {visible(check['detail'], 600, bare=True)}")
