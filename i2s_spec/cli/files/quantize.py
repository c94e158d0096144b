"""`i2s quantize MODEL -o OUT`: the float projections of a model as trits, with what that costs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.arguments.model_input import encode, model_options, open_model, read_text, remark, tokenizer_of
from i2s_spec.cli.arguments.target import keep_inputs, shown, writing
from i2s_spec.cli.progress import progress_bar
from i2s_spec.draw.text import json_document, json_string
from i2s_spec.errors import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from i2s_spec.convert.tensors.quantize_model import Loss, QuantizedModel
    from i2s_spec.model.text.perplexity import Estimate

SCHEMA_VERSION = 1


@click.command(
    "quantize",
    epilog="Example:  i2s new float.gguf --trained --type F16 && i2s quantize float.gguf -o ternary.gguf",
    short_help="Quantize a float model to trits, and measure the loss.",
)
@click.argument("model", type=click.Path(readable=False))
@click.option(
    "-o", "--output", "target", metavar="OUT", type=click.Path(readable=False), required=True, help="The new file."
)
@click.option("--to", metavar="TYPE|DIALECT", default="I2_S", show_default=True,
              help="I2_S or a dialect of it, Q2_0, TQ1_0, TQ2_0, PQ2_0, PTQ1_0, IQ1_BN, IQ2_BN, I2_SR.")  # fmt: skip
@click.option("--rule", metavar="NAME", default="absmean", show_default=True,
              help="absmean, as in training; by-group, the type's own; absmax, hf-first, embedding-mean, convert-ms, "
              "c-article.")  # fmt: skip
@click.option("--keep", metavar="NAME", multiple=True,
              help="Keep this projection as floats, or those that match a pattern (blk.0.*); may be repeated.")  # fmt: skip
@click.option("--also", metavar="NAME", multiple=True,
              help="Quantize this matrix too, such as token_embd.weight; may be repeated.")  # fmt: skip
@click.option(
    "--text", metavar="FILE", type=click.Path(readable=False), help="Measure the perplexity of a text before and after."
)
@click.option(
    "-c", "--context", type=int, default=512, show_default=True, metavar="N", help="With --text: tokens of a chunk."
)
@click.option("--chunks", "most", type=int, metavar="N", help="With --text: only the first N chunks.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@model_options
def command(
    model: str,
    target: str,
    to: str,
    rule: str,
    keep: tuple[str, ...],
    also: tuple[str, ...],
    text: str | None,
    context: int,
    most: int | None,
    as_json: bool,
    numerics: str,
    threads: int | None,
    pre: str | None,
    force: bool,
    quiet: bool,
) -> None:
    """Copy the float model MODEL to OUT with its projections as trits; embeddings, head and norms stay as they are.

    This destroys a model that was not trained with ternary weights: it still runs, but its output is worthless. The
    relative L2 error and the share of zeros that are printed for each tensor do not show it, since the float masters of
    ternary models lose as much. --text does: it measures the perplexity of a text before and after. Weights that are
    already -s, 0 and +s keep s.

    MODEL is a GGUF file with F32, F16 or BF16 projections. --force overwrites OUT, and runs models that the linter calls
    broken.
    """
    from i2s_spec.convert.tensors.quantize_model import quantize_model
    from i2s_spec.gguf.reader import open as open_file

    if model.endswith(".safetensors"):
        raise click.UsageError("a checkpoint has no keys: convert it to a GGUF file with floats first")
    keep_inputs(target, text)
    before = after = None
    settings = {"numerics": numerics, "threads": threads, "force": force, "quiet": quiet or as_json}
    with writing(target, model):
        if text is not None:
            before = _measured(model, text, context, most, pre, settings)
        with open_file(model) as file, progress_bar("quantizing", quiet or as_json) as progress:
            result = quantize_model(
                file, target, to=to, rule=rule, keep=keep, also=also, force=force, progress=progress
            )
        if text is not None:
            after = _measured(target, text, context, most, pre, settings)
    if as_json:
        sys.stdout.writelines(json_document(_document(target, result, before, after)))
        return
    if quiet:
        return
    for line in _lines(result, before, after):
        click.echo(line if line.startswith(" ") else f"{shown(target)}: {line}")
    for note in result.notes:
        remark(note)


def _measured(
    path: str, text: str, context: int, most: int | None, pre: str | None, settings: dict[str, Any]
) -> Estimate:
    """The perplexity of a text under a model."""
    from i2s_spec.model.text.perplexity import chunks, perplexity

    with open_model(path, embeds=False, **settings) as opened:
        tokenizer = tokenizer_of(opened, pre, settings["quiet"])
        first = tokenizer.bos if tokenizer.add_bos else None
        tokens = encode(tokenizer, read_text(text), bos=first is not None, eos=False)
        *_, last = perplexity(opened, chunks(tokens, context, first, most))
    return last


def _lines(result: QuantizedModel, before: Estimate | None, after: Estimate | None) -> Iterator[str]:
    yield f"{counted(result.size, 'byte')}, {counted(len(result.losses), 'tensor')} quantized, {len(result.copied)} copied"
    yield from (f"  {loss}" for loss in result.losses)
    yield f"relative L2 error of all quantized weights: {result.relative:.4g}"
    if before is not None and after is not None:
        yield (
            f"perplexity of {counted(after.tokens, 'token')}: {before.perplexity:.5g} ± {before.error:.2g} before, "
            f"{after.perplexity:.5g} ± {after.error:.2g} after"
        )


def _document(target: str, result: QuantizedModel, before: Estimate | None, after: Estimate | None) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "path": json_string(target),
        "size": result.size,
        "relative_l2": result.relative,
        "copied": [json_string(name) for name in result.copied],
        "file_type": result.file_type,
        "notes": list(result.notes),
        "perplexity": None
        if before is None or after is None
        else {"before": before.perplexity, "after": after.perplexity, "scored_tokens": after.tokens},
        "tensors": [_row(loss) for loss in result.losses],
    }


def _row(loss: Loss) -> dict[str, Any]:
    return {
        "name": json_string(loss.name),
        "shape": loss.shape,
        "from": loss.source,
        "to": loss.target,
        "scale": None if loss.scale != loss.scale else loss.scale,
        "zeros": loss.zeros,
        "relative_l2": loss.relative,
        "was_ternary": loss.was_ternary,
    }
