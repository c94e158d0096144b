"""`i2s encode IN.npy OUT`: an array as I2_S, alone or in the place of a tensor of a model."""

from __future__ import annotations

import warnings

import click

from i2s_spec.cli.arguments.target import out_argument, shown, writing
from i2s_spec.cli.progress import progress_bar
from i2s_spec.draw.text import visible
from i2s_spec.errors import counted


@click.command(
    "encode",
    epilog="Example:  i2s new tiny.gguf && i2s decode tiny.gguf blk.0.attn_q.weight q.npy && "
    "i2s encode q.npy new.gguf --scale 0.125 --into tiny.gguf --tensor blk.0.attn_q.weight",
    short_help="Write a .npy file as I2_S.",
)
@click.argument("array", metavar="IN.npy", type=click.Path(readable=False))
@click.option(
    "--into", "model", metavar="MODEL", type=click.Path(readable=False), help="A GGUF file; OUT is a copy of it."
)
@click.option("--tensor", metavar="NAME", help="The tensor of MODEL to replace with the array.")
@click.option(
    "--rule",
    type=click.Choice(["absmax", "hf-first", "embedding-mean", "given", "convert-ms", "c-article"]),
    help="How floats become trits. [default: absmax; given with --scale]",
)
@click.option(
    "--scale", type=float, metavar="S", help="The weight that +1 stands for: for trits, and for the rule given."
)
@click.option("--dialect", default="canonical", show_default=True, help="How the tensor is packed.")
@click.option(
    "--endian",
    type=click.Choice(["little", "big"]),
    help="Byte order of the scale. [default: little, or MODEL's]",
)
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@out_argument("out")
def command(
    array: str,
    out: str,
    model: str | None,
    tensor: str | None,
    rule: str | None,
    scale: float | None,
    dialect: str,
    endian: str | None,
    force: bool,
    quiet: bool,
) -> None:
    """Write the array of IN.npy as I2_S into the file OUT: payload and tail, n/4 + 32 bytes.

    IN.npy holds trits (integers -1, 0, +1; --scale says what +1 stands for) or floats, which --rule makes ternary as the
    released quantizer (absmax) or the Python converters (hf-first, embedding-mean, given) do. With --into and --tensor,
    OUT is a copy of a GGUF file with the array in the place of a tensor of the same shape.
    """
    from i2s_spec.convert.tensors.npy import read_npy
    from i2s_spec.convert.tensors.tensor_io import encode_array, replace_tensor
    from i2s_spec.gguf.atomic_file import OutputFile, refuse_taken
    from i2s_spec.gguf.reader import open as open_file

    if (model is None) != (tensor is None):
        raise click.UsageError("--into and --tensor belong together")
    if model is not None and endian is not None:
        raise click.UsageError("the byte order is MODEL's; --endian is for a tensor alone")
    with writing(out, array, model), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        refuse_taken(out, force)
        weights = read_npy(array)
        if model is None:
            order = "big" if endian == "big" else "little"
            data = encode_array(weights, rule=rule, scale=scale, dialect=dialect, byte_order=order)  # type: ignore[arg-type]
            with OutputFile(out, force=force, size=len(data)) as output:
                output.write(data)
            size = len(data)
        else:
            assert tensor is not None
            with open_file(model) as opened, progress_bar("writing", quiet) as progress:
                size = replace_tensor(
                    opened, tensor, weights, out, rule=rule, scale=scale, dialect=dialect, force=force,
                    progress=progress,
                )  # fmt: skip
    for warning in warned:
        click.echo(f"i2s: {warning.message}", err=True)
    if not quiet:
        shape = " x ".join(map(str, weights.shape))
        where = f", in the place of {visible(tensor, 200, bare=True)}" if tensor is not None else ""
        by = "" if weights.dtype.kind == "i" else f", rule {rule or ('absmax' if scale is None else 'given')}"
        click.echo(f"{shown(out)}: I2_S {shape}, {counted(size, 'byte')}{where}{by}")
