"""`i2s identify FILE`: where a GGUF file comes from and how its tensors are packed, with the evidence."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli import EXIT_FINDINGS
from i2s_spec.cli.progress import progress_bar
from i2s_spec.draw.text import fault_words, json_document, visible
from i2s_spec.errors import FormatError, quote

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File


@click.command(
    "identify",
    epilog="Example:  i2s new tiny.gguf && i2s identify tiny.gguf",
    short_help="Where a file comes from and how it is packed.",
)
@click.argument("file", type=click.Path())
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the answer.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json (identify.schema.json).")
@click.option("--sha256", is_flag=True, help="Read the whole file and compare its digest with those of known releases.")
@click.option(
    "--reference",
    metavar="OTHER",
    type=click.Path(),
    help="A .npy, GGUF or safetensors file with the true weights of --tensor: they decide the dialect.",
)
@click.option("--tensor", metavar="NAME", help="The I2_S tensor of FILE that --reference is about.")
@click.option("--reference-tensor", metavar="NAME", help="What that tensor is called in OTHER, if not the same.")
@click.option("--header-only", is_flag=True, help="Do not read any payload.")
@click.option("--full", is_flag=True, help="Read every payload whole, not a part of each.")
@click.option("--threads", type=click.IntRange(1), help="Threads that read. [default: one for each processor]")
@click.option("-v", "--verbose", is_flag=True, help="All hypotheses with all evidence, also those that are excluded.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
def command(
    file: str,
    form: str,
    as_json: bool,
    sha256: bool,
    reference: str | None,
    tensor: str | None,
    reference_tensor: str | None,
    header_only: bool,
    full: bool,
    threads: int | None,
    verbose: bool,
    quiet: bool,
) -> int:
    """Say where a GGUF file comes from and how its I2_S tensors are packed.

    Each question (is it a published file, what wrote its metadata, what packed its tensors, in which code map, layout
    and tail) is answered with the evidence for and against, and how sure that is: certain, likely, possible, unlikely,
    excluded. The layout is not marked in a file; where nothing tells it, the answer is "cannot tell" and says what would
    tell. The weights that a tensor was made from do: --reference.

    Exit code: 0, or 1 where a fault stops the reading (what lies before it is used), or 3 where FILE is no GGUF file.
    """
    from i2s_spec.draw import terminal
    from i2s_spec.gguf.reader import File
    from i2s_spec.gguf.source import source_of
    from i2s_spec.inspect.identify.identification import identify
    from i2s_spec.inspect.identify.page import page

    if (reference is None) != (tensor is None):
        raise click.UsageError("--reference and --tensor belong together")
    if reference_tensor is not None and reference is None:
        raise click.UsageError("--reference-tensor is a name in --reference")
    if header_only and full:
        raise click.UsageError("--header-only and --full exclude each other")
    payloads: Any = "none" if header_only else "full" if full else "sample"
    with File(source_of(file)) as opened, progress_bar("reading", quiet) as progress:
        try:
            weights = None if reference is None else _weights(reference, reference_tensor or str(tensor), opened)
            found = identify(
                opened, payloads=payloads, sha256=sha256, reference=weights, tensor=tensor,
                threads=threads or os.cpu_count() or 1, progress=progress,
            )  # fmt: skip
        except FormatError:
            raise
        except (KeyError, ValueError, TypeError) as error:
            raise click.UsageError(str(error.args[0] if isinstance(error, KeyError) else error)) from None
    if as_json or form == "json":
        sys.stdout.writelines(json_document(found.as_dict()))
    else:
        terminal.write(page(found, verbose), sys.stdout)
    if found.fault is None:
        return 0
    sys.stdout.flush()
    click.echo(f"i2s: {visible(file, 4096, bare=True)}: {fault_words(found.fault)}", err=True)
    return EXIT_FINDINGS


def _weights(path: str, name: str, file: File) -> Any:
    """The reference as an array: a .npy file, or a tensor of a GGUF or safetensors file."""
    lower = path.lower()
    if lower.endswith(".npy"):
        from i2s_spec.convert.npy import read_npy

        return read_npy(path)
    if lower.endswith(".safetensors") or os.path.isdir(path):
        return _of_checkpoint(path, name)
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.gguf.ternary import ternary

    with open_file(path) as other:
        if name not in other.tensors:
            raise KeyError(f"{quote(path, 4096, bare=True)} has no tensor {quote(name)}")
        tensor = other.tensors[name]
        kind = tensor.type.name if tensor.type is not None else f"type {tensor.number}"
        if kind in ("F32", "F16", "BF16"):
            return tensor.array()
        trits, _ = ternary(other, tensor).whole()
        return trits


def _of_checkpoint(path: str, name: str) -> Any:
    """A float tensor of a safetensors file, or one that transformers packed, as trits."""
    import numpy as np

    from i2s_spec.codec.form import FLOAT_WORDS, widened
    from i2s_spec.convert.checkpoint import Checkpoint

    with Checkpoint(path) as checkpoint:
        if name not in checkpoint:
            raise KeyError(f"{quote(path, 4096, bare=True)} has no tensor {quote(name)}; --reference-tensor names it")
        stored = checkpoint[name]
        if stored.dtype in FLOAT_WORDS:
            words = np.frombuffer(stored.read(), dtype="<" + FLOAT_WORDS[stored.dtype])
            return widened(words.astype(FLOAT_WORDS[stored.dtype]), stored.dtype).reshape(stored.shape)
        if stored.dtype == "U8" and len(stored.shape) == 2:
            from i2s_spec.codec.native import unpack
            from i2s_spec.schema.types import TAIL_BYTES

            shape = (4 * stored.shape[0], stored.shape[1])
            trits, _ = unpack(stored.read() + bytes(TAIL_BYTES), shape, "row-blocks-4")
            return trits
        raise ValueError(f"tensor {quote(name)} is {stored.dtype}; floats, or packed U8, can be compared")
