"""`i2s decode` and `i2s encode`: a tensor as an array, and an array as a tensor."""

from __future__ import annotations

import warnings
from typing import Any

import click

from i2s_spec.cli.options import INPUT, out_argument, remote_options, shown, threads_option, writing
from i2s_spec.cli.process import progress_bar
from i2s_spec.draw.text import float32_words, visible
from i2s_spec.errors import counted


@click.command(
    "decode",
    epilog="Example:  i2s new tiny.gguf && i2s decode tiny.gguf blk.0.attn_q.weight q.npy",
    short_help="Write one tensor as a .npy file.",
)
@click.argument("file", type=INPUT)
@click.argument("tensor")
@click.option(
    "--as",
    "form",
    type=click.Choice(["trits", "float32", "codes"]),
    default="trits",
    show_default=True,
    help="int8 -1, 0, +1; or weights; or uint8 codes 0 to 3 as they stand.",
)
@click.option(
    "--dialect", default="canonical", show_default=True, metavar="DIALECT", help="How FILE's I2_S tensors are packed."
)
@click.option(
    "--code3",
    type=click.Choice(["reject", "zero"]),
    default="reject",
    show_default=True,
    help="The undefined code 3: an error, or 0.",
)
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
@threads_option()
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@remote_options
@out_argument("out")
def decode_command(
    file: str, tensor: str, out: str, form: str, dialect: str, code3: Any, force: bool, threads: int, quiet: bool
) -> None:
    """Write TENSOR of the GGUF file FILE as the NumPy file OUT, in rows and columns.

    Trits are decoded from I2_S tensors, and from tensors of F32, F16, BF16 and block types (Q2_0, TQ2_0 ...) if all
    their weights have one scale. Weights (float32) are decoded from all these types, with any scales, and with the extra
    [gguf] from other quantized types (Q4_K, IQ2_S ...). The scale of the trits is printed: `i2s encode` needs it.
    """
    from i2s_spec.convert.encode import decode_tensor
    from i2s_spec.gguf.reader import open as open_file

    with writing(out), open_file(file) as opened, progress_bar("decoding", quiet) as progress:
        done = decode_tensor(
            opened, tensor, out, form=form, dialect=dialect, unused_code=code3, force=force, progress=progress,
            threads=threads,
        )  # fmt: skip
    if not quiet:
        scale = "" if done.scale is None else f", scale {float32_words(done.scale)}"
        shape = " x ".join(map(str, done.shape))
        click.echo(f"{shown(out)}: {done.dtype} {shape}{scale}")
        for code in _errors(file, tensor):
            click.echo(
                f"i2s: note: i2s lint calls {visible(tensor)} broken ({code}): its values may be wrong", err=True
            )


def _errors(file: str, tensor: str) -> list[str]:
    """Return the codes of the errors that the header shows of one tensor."""
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.linter.engine import lint
    from i2s_spec.linter.rule import Severity

    report = lint(file, payload="none")
    if report.ok:
        return []
    with open_file(file) as opened:
        number = opened.tensors[tensor].index if tensor in opened.tensors else -1
    places = (f"tensor_infos[{number}]", f"data[{number}]")
    found = (each for each in report.findings if each.severity is Severity.ERROR and each.span.path.startswith(places))
    return sorted({each.code for each in found})


# --- encode ----------------------------------------------------------------------------------------------------------
# An array as I2_S, alone or in the place of a tensor of a model.


@click.command(
    "encode",
    epilog="Example:  i2s new tiny.gguf && i2s decode tiny.gguf blk.0.attn_q.weight q.npy && "
    "i2s encode q.npy new.gguf --scale 0.125 --into tiny.gguf --tensor blk.0.attn_q.weight",
    short_help="Write a .npy file as I2_S.",
)
@click.argument("array", metavar="IN.npy", type=INPUT)
@click.option("--into", "model", metavar="MODEL", type=INPUT, help="A GGUF file; OUT is a copy of it.")
@click.option("--tensor", metavar="NAME", help="The tensor of MODEL to replace with the array.")
@click.option(
    "--rule",
    type=click.Choice(["absmax", "hf-first", "embedding-mean", "given", "convert-ms", "c-article", "loom"]),
    help="How floats become trits. [default: absmax; given with --scale]",
)
@click.option(
    "--scale", type=float, metavar="S", help="The weight that +1 stands for: for trits, and for the rule given."
)
@click.option("--dialect", default="canonical", show_default=True, metavar="DIALECT", help="How the tensor is packed.")
@click.option(
    "--endian",
    type=click.Choice(["little", "big"]),
    help="Byte order of the scale. [default: little, or MODEL's]",
)
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@out_argument("out")
def encode_command(
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
    from i2s_spec.convert.encode import encode_array, read_npy, replace_tensor
    from i2s_spec.gguf.atomic_file import OutputFile, refuse_taken
    from i2s_spec.gguf.reader import open as open_file

    if (model is None) != (tensor is None):
        raise click.UsageError("--into and --tensor belong together")
    if model is not None and endian is not None:
        raise click.UsageError("the byte order is MODEL's; --endian is for a tensor alone")
    with writing(out), warnings.catch_warnings(record=True) as warned:
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
