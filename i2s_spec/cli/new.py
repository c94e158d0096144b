"""`i2s new TARGET`: make a small complete model with random ternary weights."""

from __future__ import annotations

from typing import Any

import click

from i2s_spec.cli.progress import progress_bar
from i2s_spec.cli.target import shown, writing
from i2s_spec.convert.recipes import SHAPES
from i2s_spec.schema.architecture import ARCHITECTURES


@click.command(epilog="Example:  i2s new tiny.gguf --arch llama --layers 3 --seed 7")
@click.argument("target", type=click.Path())
@click.option(
    "--arch",
    type=click.Choice(list(ARCHITECTURES)),
    default="bitnet-b1.58",
    show_default=True,
    help="The architecture; qwen3 and gemma3 are embedding models.",
)
@click.option("--layers", type=int, metavar="N", help="Layers.")
@click.option("--embd", type=int, metavar="N", help="Width of the hidden state, a multiple of 128.")
@click.option("--ff", type=int, metavar="N", help="Width of the feed-forward, a multiple of 128.")
@click.option("--heads", type=int, metavar="N", help="Query heads, a divisor of --embd.")
@click.option("--heads-kv", type=int, metavar="N", help="Key and value heads, a divisor of --heads.")
@click.option("--head-dim", type=int, metavar="N", help="Width of a head (embedding models only).")
@click.option("--vocab", type=int, metavar="N", help="Tokens, 259 or more.")
@click.option("--context", type=int, metavar="N", help="What context_length says.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Of the random weights.")
@click.option(
    "--shape",
    type=click.Choice(list(SHAPES)),
    help="All sizes of BitNet-b1.58-2B-4T instead: 332 tensors, 1.19 GB.",
)
@click.option("--alignment", type=int, metavar="N", help="Of tensor data, in bytes. [default: 32]")
@click.option(
    "--endian",
    type=click.Choice(["little", "big"]),
    default="little",
    show_default=True,
    help="Byte order of the file.",
)
@click.option(
    "--as-published", is_flag=True, help="Only the keys of published files, which lack some; implied by --shape."
)
@click.option("--force", is_flag=True, help="Replace TARGET if there is one.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing.")
def command(target: str, arch: str, endian: Any, force: bool, quiet: bool, **options: Any) -> None:
    """Make a small complete model in the file TARGET.

    It has the keys and tensors that real files of the architecture have, in their order and with their types (and the
    keys that these should have, unless --as-published), a vocabulary that works, and random weights: a quarter -1, a
    half 0, a quarter +1, packed as canonical I2_S. The same options give the same bytes on every machine. Sizes that
    are not given are small: the file has less than 200 KB.
    """
    from i2s_spec.convert.new import new

    with writing(target), progress_bar("writing", quiet) as progress:
        written = new(target, arch, byte_order=endian, force=force, progress=progress, **options)
    if not quiet:
        click.echo(f"{shown(target)}: {arch}, {written.size:,} bytes, {written.keys} keys, {written.tensors} tensors")
