"""`i2s decode FILE TENSOR OUT.npy`: one tensor as an array."""

from __future__ import annotations

import os
from typing import Any

import click

from i2s_spec.cli.arguments.target import out_argument, shown, writing
from i2s_spec.cli.progress import progress_bar
from i2s_spec.cli.remote_options import remote_options
from i2s_spec.draw.text import float32_words, visible


@click.command(
    "decode",
    epilog="Example:  i2s new tiny.gguf && i2s decode tiny.gguf blk.0.attn_q.weight q.npy",
    short_help="Write one tensor as a .npy file.",
)
@click.argument("file", type=click.Path(readable=False))
@click.argument("tensor")
@click.option(
    "--as",
    "form",
    type=click.Choice(["trits", "float32", "codes"]),
    default="trits",
    show_default=True,
    help="int8 -1, 0, +1; or weights; or uint8 codes 0 to 3 as they stand.",
)
@click.option("--dialect", default="canonical", show_default=True, help="How FILE's I2_S tensors are packed.")
@click.option(
    "--code3",
    type=click.Choice(["reject", "zero"]),
    default="reject",
    show_default=True,
    help="The undefined code 3: an error, or 0.",
)
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
@click.option("--threads", type=click.IntRange(1), help="Threads that decode. [default: one for each processor]")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@remote_options
@out_argument("out")
def command(
    file: str, tensor: str, out: str, form: str, dialect: str, code3: Any, force: bool, threads: int | None, quiet: bool
) -> None:
    """Write TENSOR of the GGUF file FILE as the NumPy file OUT, in rows and columns.

    Trits are decoded from I2_S tensors, and from tensors of F32, F16, BF16 and block types (Q2_0, TQ2_0 ...) if all
    their weights have one scale. Weights (float32) are decoded from all these types, with any scales. The scale of the
    trits is printed: `i2s encode` needs it.
    """
    from i2s_spec.convert.tensors.tensor_io import decode_tensor
    from i2s_spec.gguf.reader import open as open_file

    with writing(out, file), open_file(file) as opened, progress_bar("decoding", quiet) as progress:
        done = decode_tensor(
            opened, tensor, out, form=form, dialect=dialect, unused_code=code3, force=force, progress=progress,
            threads=threads or os.cpu_count() or 1,
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
    """Codes of the errors that the header shows of one tensor."""
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
