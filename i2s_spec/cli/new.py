"""`i2s new` and `i2s demo`: a small complete model with random weights, and the first minute with one."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from i2s_spec.cli.options import OUTPUT, shown, writing
from i2s_spec.cli.process import progress_bar
from i2s_spec.codec import _cpu
from i2s_spec.convert.new import new
from i2s_spec.convert.recipes import SHAPES
from i2s_spec.draw import terminal
from i2s_spec.errors import counted
from i2s_spec.gguf.reader import open as open_file
from i2s_spec.inspect.show import describe
from i2s_spec.inspect.show_text import page
from i2s_spec.linter.engine import lint
from i2s_spec.linter.report import make
from i2s_spec.linter.report.text import examined
from i2s_spec.linter.report_data import Report
from i2s_spec.schema.architectures import ARCHITECTURES
from i2s_spec.testing.common_faults import mishaps


@click.command(epilog="Example:  i2s new tiny.gguf --arch llama --layers 3 --seed 7")
@click.argument("target", type=OUTPUT)
@click.option(
    "--arch",
    metavar="NAME",
    default="bitnet-b1.58",
    show_default=True,
    help=f"The architecture: {', '.join(ARCHITECTURES)} (qwen3 and gemma3 are embedding models, qwen3-lm is Qwen3 as a "
    "language model), or any that llama.cpp loads, such as qwen3next.",
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
@click.option("--sample", is_flag=True, help="Write the file that the examples of the specification read (3 tensors).")
@click.option("--dialect", metavar="NAME", help="With --trained: the dialect, such as interleave-64.")
@click.option(
    "--type",
    "to",
    metavar="TYPE",
    help="Type of the projections, such as Q2_0, TQ2_0 or F16. [default: I2_S, or F16 of other architectures]",
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
def new_command(
    target: str,
    arch: str,
    endian: Any,
    trained: bool,
    sample: bool,
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

    Of any other architecture that llama.cpp loads, it is the smallest file that is sound: the keys and tensors that the
    loader requires, with random weights in F16, or with --type in F32, BF16, Q2_0, TQ1_0 or TQ2_0. Its sizes need not be
    multiples of 128; what the loader does not take is refused with the condition that does not hold.

    Files of --arch qwen3-lm have general.architecture qwen3, like files of --arch qwen3, but not the pooling and the
    norms that only embedding models have.

    With --trained it is a model that has learned to tell short stories, of architecture bitnet-b1.58 (also under the
    names bitnet-25 and bitnet) or llama, in any dialect, type and byte order.
    """
    about = {"byte_order": endian, "force": force}
    if sample:
        _refuse_sizes("--sample", {*options, "rotated", "arch", "dialect", "to", "trained"})
        keys, tensors, size = _write_sample(target, endian, force)
    elif trained:
        _refuse_sizes("--trained", {*options, "rotated"})
        keys, tensors, size = _write_trained(target, arch, {**about, "dialect": dialect, "to": to}, quiet)
    else:
        if dialect is not None:
            raise click.UsageError("--dialect is for --trained; `i2s convert` converts other models")
        with writing(target), progress_bar("writing", quiet) as progress:
            kind = to.upper() if to is not None else None
            size, keys, tensors = new(target, arch, type=kind, rotated=rotated, progress=progress, **about, **options)
    if not quiet:
        what = "the sample of the specification" if sample else f"{arch}, trained" if trained else arch
        click.echo(
            f"{shown(target)}: {what}, {counted(size, 'byte')}, {counted(keys, 'key')}, {counted(tensors, 'tensor')}"
        )


def _write_trained(target: str, arch: str, about: dict[str, Any], quiet: bool) -> tuple[int, int, int]:
    """Write the trained model; return its numbers of keys, tensors and bytes."""
    from i2s_spec.convert.trained import write_trained

    with writing(target), progress_bar("writing", quiet) as progress:
        write_trained(target, arch, progress=progress, **about)
    with open_file(target) as file:
        return len(file.metadata), len(file.tensors), file.size


def _write_sample(target: str, byte_order: Any, force: bool) -> tuple[int, int, int]:
    """Write the sample of the specification; return its numbers of keys, tensors and bytes."""
    from i2s_spec.gguf.atomic_file import OutputFile
    from i2s_spec.testing.sample import Draft

    with writing(target), OutputFile(target, force=force) as output:
        output.write(Draft(byte_order).data)
    with open_file(target) as file:
        return len(file.metadata), len(file.tensors), file.size


def _refuse_sizes(flag: str, options: set[str]) -> None:
    """Refuse options of random weights, which have no meaning for a file that is always the same."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        if name in options and context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"{parameter.opts[0]} is for other files; that of {flag} is always the same")


# --- demo ------------------------------------------------------------------------------------------------------------
# The first minute: a model is made, shown, checked, broken in several ways, and checked again.

#: Findings of a broken copy that are shown; the rest are counted.
SHOWN = 3


@click.command(
    "demo", epilog="Example:  i2s demo", short_help="Make a small model, show it, check it, break copies, check them."
)
@click.option("--keep", type=click.Path(file_okay=False), help="Write the files into this folder and leave them there.")
@click.option("--force", is_flag=True, help="Overwrite files of these names in the folder.")
def demo_command(keep: str | None, force: bool) -> None:
    """Make a small model, show it, check it, break copies of it as models break in real life, and check those.

    Needs no file and no network.
    """
    if keep is not None:
        folder = Path(keep)
        taken = [
            name for name in ["model", *(mishap.name for mishap in mishaps())] if (folder / f"{name}.gguf").exists()
        ]
        if taken and not force:
            path = shown(str(folder / f"{taken[0]}.gguf"))
            raise click.UsageError(f"{path} already exists; use --force to overwrite it, or name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        _run(folder, retained=True)
        return
    with tempfile.TemporaryDirectory(prefix="i2s-demo-") as temporary:
        _run(Path(temporary), retained=False)


def _run(folder: Path, retained: bool) -> None:
    colour = sys.stdout.isatty()
    model = folder / "model.gguf"

    _say("1. A small BitNet model, made from a seed: random ternary weights in I2_S, its own vocabulary.")
    _command("i2s new model.gguf")
    new(model, force=retained)
    click.echo(f"model.gguf: {counted(model.stat().st_size, 'byte')}\n")

    _say("2. What is in it.")
    _command("i2s show model.gguf")
    with open_file(model) as file:
        lines = page({**describe(file), "path": "model.gguf"}, terminal.columns(sys.stdout))
        terminal.write(lines, sys.stdout)
    click.echo()

    _say("3. What the linter reports.")
    _command("i2s lint model.gguf")
    _report(replace(lint(model, details=examined), path="model.gguf"), colour)

    _say("4. Copies of it with typical faults.")
    sound = model.read_bytes()
    codes = []
    for mishap in mishaps():
        name = f"{mishap.name}.gguf"
        (folder / name).write_bytes(mishap.apply(sound))
        click.echo(click.style(mishap.story, bold=True) if colour else mishap.story)
        _command(f"i2s lint {name}")
        _report(replace(lint(folder / name, details=examined), path=name), colour, mishap.code)
        codes.append(mishap.code)

    _say("5. Where to go from here.")
    click.echo(f"  i2s explain {codes[2]}        what a rule means, why it matters, what to do")
    click.echo("  i2s doctor FILE         a summary of your own file on one screen")
    click.echo("  i2s dump FILE           the bytes of a file and their meaning")
    if not _cpu.compiler():
        click.echo("  i2s info                says that no kernels are compiled here, so that large files take long")
    if retained:
        click.echo(f"\nThe files are in {shown(str(folder))}.")
    else:
        click.echo("\nThe files are gone again; `i2s demo --keep FOLDER` leaves them.")


def _report(report: Report, colour: bool, first: str = "") -> None:
    """Print a report in short: what the story is about first."""
    report = replace(report, findings=tuple(sorted(report.findings, key=lambda finding: finding.code != first)))
    more = len(report.findings) - SHOWN
    text = make("text", colour=colour).file(replace(report, findings=report.findings[:SHOWN]) if more > 0 else report)
    lines = text.splitlines()
    if more > 0:
        lines = [*lines[: _verdict(lines, report.path)], f"{report.path}: ... and {more:,} more"]
        whole = make("text", colour=colour).file(report).splitlines()
        lines += whole[_verdict(whole, report.path) :]
    click.echo("\n".join(lines) + "\n")


def _verdict(lines: list[str], path: str) -> int:
    """Return the number of the line with the verdict: the last that begins with the path; what is counted by code comes
    after it."""
    return max(i for i, line in enumerate(lines) if line.startswith(f"{path}: "))


def _command(line: str) -> None:
    click.echo(f"$ {line}")


def _say(text: str) -> None:
    click.secho(text, bold=True)
