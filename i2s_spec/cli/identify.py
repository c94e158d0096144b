"""`i2s identify FILE`: where a GGUF file comes from and how its tensors are packed, with the evidence."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import isfinite, prod
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.model_input import named, origin, read_text
from i2s_spec.cli.options import (
    INPUT,
    fault_status,
    form_option,
    reading,
    remote_options,
    shown,
    threads_option,
    usage_errors,
)
from i2s_spec.cli.process import counting_bar, progress_bar
from i2s_spec.draw.text import json_document
from i2s_spec.errors import FormatError, quote

if TYPE_CHECKING:
    from i2s_spec.gguf.reader import File, Tensor
    from i2s_spec.inspect.identify import Identification
    from i2s_spec.model.text.likelihood import Likelihood


@click.command(
    "identify",
    epilog="Example:  i2s new tiny.gguf && i2s identify tiny.gguf",
    short_help="Find where a file comes from and how it is packed.",
)
@click.argument("file", type=INPUT, required=False)
@form_option(["text", "json"], help="Form of the answer.", schema="identify.schema.json")
@click.option("--sha256", is_flag=True, help="Read the whole file and compare its digest with those of known releases.")
@click.option(
    "--reference",
    metavar="OTHER",
    type=INPUT,
    help="A GGUF or safetensors file of the same model, or a .npy file with the weights of --tensor: they decide the "
    "dialect.",
)
@click.option("--tensor", metavar="NAME", help="The I2_S tensor of FILE to compare. [default: the first in both files]")
@click.option("--reference-tensor", metavar="NAME", help="What that tensor is called in OTHER, if not the same.")
@click.option("--header-only", is_flag=True, help="Do not read any payload.")
@click.option("--full", is_flag=True, help="Read every payload whole, not a part of each.")
@click.option(
    "--likelihood",
    is_flag=False,
    flag_value="",
    metavar="[TEXT]",
    help="Run the model on the text in the file TEXT under each assumption about a mistake, and name the best "
    "one. [default: a short English text]",
)
@threads_option("Threads that read. [default: one for each processor]")
@click.option("-v", "--verbose", is_flag=True, help="All hypotheses with all evidence, also those that are excluded.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar.")
@remote_options
def identify_command(
    file: str | None,
    form: str,
    sha256: bool,
    reference: str | None,
    tensor: str | None,
    reference_tensor: str | None,
    header_only: bool,
    full: bool,
    likelihood: str | None,
    threads: int,
    verbose: bool,
    quiet: bool,
) -> int:
    """Say where a GGUF file comes from and how its I2_S tensors are packed.

    Each question (is it a published file, what wrote its metadata, what packed its tensors, in which code map, layout
    and tail) is answered with the evidence for and against, and how sure that is: certain, likely, possible, unlikely,
    excluded. The layout is not marked in a file, but trained weights show it, and random ones never do. Where nothing
    decides it, the answer is "cannot tell", and says what would decide it, such as the weights that a tensor was made
    from: --reference. Without FILE it uses the trained model that comes with i2s-spec.

    Some mistakes cannot be seen in a payload: inverted signs, transposed matrices, the order of rows for rotation, gate
    and up exchanged, another activation. --likelihood, given after FILE, runs the model once under each of these
    assumptions, and compares how well it predicts a text. A model of 2B parameters takes a few minutes.

    Exit code: 0; 1 if a fault stops the reading (the part before it is used); 3 if FILE is not a GGUF file.
    """
    from i2s_spec.gguf.reader import File
    from i2s_spec.gguf.source import source_of
    from i2s_spec.inspect.identify import identify

    if tensor is not None and reference is None:
        raise click.UsageError("--tensor says what to compare with --reference")
    if reference_tensor is not None and tensor is None:
        raise click.UsageError("--reference-tensor is what --reference calls --tensor")
    if header_only and full:
        raise click.UsageError("--header-only and --full exclude each other")
    if header_only and likelihood is not None:
        raise click.UsageError("--likelihood runs the model, and --header-only reads no weights")
    text = _text(likelihood) if likelihood else None
    payloads: Any = "none" if header_only else "full" if full else "sample"
    as_json = form == "json"
    with reading(file, as_json), File(source_of(origin(file))) as opened, progress_bar("reading", quiet) as progress:
        opened.warn()
        with usage_errors(KeyError, ValueError, TypeError):
            weights = None
            if reference is not None:
                try:
                    weights, tensor = _weights(reference, tensor, reference_tensor, opened)
                except FormatError as error:
                    if opened.source.changed() is not None:
                        raise
                    raise error.of_file(reference) from None
            found = identify(
                opened, payloads=payloads, sha256=sha256, reference=weights, tensor=tensor,
                threads=threads, progress=progress,
            )  # fmt: skip
        outcome = None if likelihood is None else _likelihood(opened, found, text, threads, quiet)
    _write(found, outcome, as_json, verbose)
    return 0 if found.fault is None else fault_status(found.fault, named(file))


def _text(path: str) -> str:
    """Return the text for --likelihood; a GGUF file there is FILE in the wrong place."""
    from i2s_spec.gguf.source import open_regular

    if path != "-":
        with open_regular(path) as file:
            if file.read(4) in (b"GGUF", b"FUGG"):
                raise click.UsageError(f"{shown(path)} is a GGUF file: --likelihood takes a text; write FILE before it")
    return read_text(path)


def _write(found: Identification, outcome: Likelihood | None, as_json: bool, verbose: bool) -> None:
    """Print the answers, and what a text says of the file if that was asked: only then NumPy and the model are imported."""
    from i2s_spec.draw import terminal
    from i2s_spec.inspect.identify import page

    answer: list[Any] = []
    likelihood: dict[str, Any] | None = None
    if outcome is not None:
        from i2s_spec.model.text.likelihood import as_dict, lines

        answer, likelihood = [[], *lines(outcome, verbose)], as_dict(outcome)
    if as_json:
        sys.stdout.writelines(json_document({**found.as_dict(), "likelihood": likelihood}))
    else:
        terminal.write(page(found, verbose), sys.stdout)
        if answer:
            terminal.write(answer, sys.stdout)


def _likelihood(file: File, found: Identification, text: str | None, threads: int, quiet: bool) -> Likelihood:
    """Compare how well the model predicts a text under each assumption, read in the layout that was found."""
    from i2s_spec.model.text.likelihood import Likelihood, likelihood, read_as

    if found.fault is not None:
        return Likelihood(why_not="the file cannot be read whole")
    with counting_bar("predicting", None, quiet) as progress:
        return likelihood(file, text, dialect=read_as(found), threads=threads, progress=progress)


def _weights(path: str, tensor: str | None, name: str | None, file: File) -> tuple[Any, str]:
    """Return the reference as an array, and the tensor that it is about: a .npy file, or a tensor of another file.

    :raises KeyError, ValueError: where there is no such tensor, or nothing is known of any
    """
    if path.lower().endswith(".npy"):
        from i2s_spec.convert.encode import read_npy

        if tensor is None:
            raise ValueError("a .npy file does not say of which tensor it is: --tensor does")
        return read_npy(path), tensor
    from i2s_spec.compare import Reference
    from i2s_spec.compare.known_weights import ReferenceWeights

    with ReferenceWeights(Reference(path)) as weights:
        for one in _candidates(file, tensor):
            try:
                known = weights.known(file, one, name)
            except ValueError as error:
                if tensor is not None:
                    more = "" if name is not None else "; --reference-tensor names it"
                    raise ValueError(f"{shown(path)}: {error}{more}") from None
                continue
            trits = known.whole()
            usable = known.scale is not None and isfinite(known.scale) and known.scale != 0
            return (trits * abs(known.scale) if usable and known.scale is not None else trits), one.name
    raise ValueError(f"{shown(path)} holds no tensor of FILE, as it calls them; --reference-tensor names one")


def _candidates(file: File, tensor: str | None) -> Iterator[Tensor]:
    """Yield the tensor of that name, or every I2_S tensor that is large enough to decide."""
    from i2s_spec.inspect.match_dialect import ENOUGH

    if tensor is not None:
        if tensor not in file.tensors:
            raise KeyError(f"the file has no tensor {quote(tensor)}")
        yield file.tensors[tensor]
        return
    for one in file.tensors.values():
        if one.type is not None and one.type.name == "I2_S" and prod(one.ne) >= ENOUGH:
            yield one
