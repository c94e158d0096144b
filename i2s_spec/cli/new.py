"""`i2s new TARGET`: make a small complete model with random ternary weights."""

from __future__ import annotations

from typing import Any

import click

from i2s_spec.cli.arguments.target import shown, writing
from i2s_spec.cli.progress import progress_bar
from i2s_spec.convert.synthetic.recipes import SHAPES
from i2s_spec.errors import counted
from i2s_spec.schema.architectures.architecture import ARCHITECTURES


@click.command(epilog="Example:  i2s new tiny.gguf --arch llama --layers 3 --seed 7")
@click.argument("target", type=click.Path(readable=False))
@click.option(
    "--arch",
    type=click.Choice(list(ARCHITECTURES)),
    default="bitnet-b1.58",
    show_default=True,
    help="The architecture; qwen3 and gemma3 are embedding models, qwen3-lm is Qwen3 as a language model.",
)
@click.option("--layers", type=int, metavar="N", help="Number of layers.")
@click.option("--embd", type=int, metavar="N", help="Width of the hidden state, a multiple of 128.")
@click.option("--ff", type=int, metavar="N", help="Width of the feed-forward, a multiple of 128.")
@click.option("--heads", type=int, metavar="N", help="Number of query heads, a divisor of --embd.")
@click.option("--heads-kv", type=int, metavar="N", help="Number of key and value heads, a divisor of --heads.")
@click.option("--head-dim", type=int, metavar="N", help="Width of a head (qwen3, qwen3-lm and gemma3 only).")
@click.option("--vocab", type=int, metavar="N", help="Number of tokens, 259 or more.")
@click.option("--context", type=int, metavar="N", help="Value of context_length.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Random seed of the weights.")
@click.option(
    "--shape",
    type=click.Choice(list(SHAPES)),
    help="Use all sizes of BitNet-b1.58-2B-4T: 332 tensors, 1.19 GB.",
)
@click.option("--alignment", type=int, metavar="N", help="Alignment of tensor data, in bytes. [default: 32]")
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
@click.option("--trained", is_flag=True, help="Write the trained model that comes with i2s-spec, not random weights.")
@click.option("--dialect", metavar="NAME", help="With --trained: the dialect, such as interleave-64.")
@click.option(
    "--type", "to", metavar="TYPE", help="Type of the projections, such as Q2_0, TQ2_0 or F16. [default: I2_S]"
)
@click.option("--rotated", is_flag=True, help="Fold a Hadamard rotation into the weights, with the keys that say so.")
@click.option(
    "--head",
    type=click.Choice(["tied", "untied"]),
    help="Whether the head is the embedding or an output.weight (llama and qwen3-lm).",
)
@click.option(
    "--unit-tables",
    is_flag=True,
    help="Embedding and head with a deviation of 1, as version 0.1.0 wrote them: logits are then far apart.",
)
@click.option("--force", is_flag=True, help="Overwrite TARGET if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
def command(
    target: str,
    arch: str,
    endian: Any,
    trained: bool,
    dialect: str | None,
    to: str | None,
    rotated: bool,
    force: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Make a small complete model in the file TARGET.

    It has the keys and tensors that real files of the architecture have, in their order and with their types (and the
    keys that these should have, unless --as-published), a vocabulary that works, and random weights: a quarter -1, a
    half 0, a quarter +1, packed as canonical I2_S. The same options give the same bytes on every machine. Sizes that
    are not given are small: a file with I2_S has less than 200 KB.

    With --type the projections have another type: Q2_0, Q2_0_G128, PQ2_0, PTQ1_0, TQ1_0, TQ2_0, IQ1_BN, IQ2_BN and
    I2_SR have a scale for each group or row; F32, F16 and BF16 are floats. --rotated first folds a Hadamard rotation
    into the projections, as in PrismML's models, and into the embedding and the head if these are two tensors (--head
    untied).

    Files of --arch qwen3-lm have general.architecture qwen3, like files of --arch qwen3, but not the pooling and the
    norms that only embedding models have.

    With --trained it is a model that has learned to tell short stories, of architecture bitnet-b1.58 (also under the
    names bitnet-25 and bitnet) or llama, in any dialect, type and byte order.
    """
    about = {"byte_order": endian, "force": force}
    if trained:
        _refuse_sizes({**options, "rotated": rotated})
        keys, tensors, size = _write_trained(target, arch, {**about, "dialect": dialect, "to": to}, quiet)
    else:
        if dialect is not None:
            raise click.UsageError("--dialect is for --trained; `i2s convert` converts other models")
        from i2s_spec.convert.synthetic.new import new

        with writing(target), progress_bar("writing", quiet) as progress:
            kind = (to or "I2_S").upper()
            size, keys, tensors = new(target, arch, type=kind, rotated=rotated, progress=progress, **about, **options)
    if not quiet:
        what = f"{arch}, trained" if trained else arch
        click.echo(
            f"{shown(target)}: {what}, {counted(size, 'byte')}, {counted(keys, 'key')}, {counted(tensors, 'tensor')}"
        )


def _write_trained(target: str, arch: str, about: dict[str, Any], quiet: bool) -> tuple[int, int, int]:
    """Keys, tensors and bytes of what was written."""
    from i2s_spec.convert.trained.model import write_trained
    from i2s_spec.gguf.reader import open as open_file

    with writing(target), progress_bar("writing", quiet) as progress:
        write_trained(target, arch, progress=progress, **about)
    with open_file(target) as file:
        return len(file.metadata), len(file.tensors), file.size


def _refuse_sizes(options: dict[str, Any]) -> None:
    """Whatever was asked of random weights has no meaning for trained ones."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in options and context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"{parameter.opts[0]} is for random weights; --trained has its own")
