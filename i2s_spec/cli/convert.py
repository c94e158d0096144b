"""`i2s convert` and `i2s quantize`: a model with its tensors in another type, dialect or container.

What is ternary is converted with a proof; float projections become trits, with what that costs. Parts are made and joined.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from i2s_spec.cli.model_input import encode, model_options, open_model, read_text, remark, tokenizer_of
from i2s_spec.cli.options import (
    INPUT,
    OUTPUT,
    out_argument,
    reading,
    remote_options,
    shown,
    threads_option,
    warn_of_programs,
    writing,
)
from i2s_spec.cli.process import progress_bar
from i2s_spec.draw.text import json_document, json_string, visible
from i2s_spec.errors import all_of, counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from i2s_spec.convert.convert_file import Proof
    from i2s_spec.convert.quantize_model import Loss, QuantizedModel
    from i2s_spec.model.text.perplexity import Estimate

SCHEMA_VERSION = 1


class _Report(NamedTuple):
    """What was done: bytes of OUT, proofs, tensors copied, general.file_type before and after, what to know.

    `commonest` is the type of most matrices before and after; None where there is no file before.
    """

    size: int
    proofs: Sequence[Proof]
    copied: int
    file_type: tuple[int | None, int | None] | None
    advice: Sequence[str]
    commonest: tuple[str | None, str | None] = (None, None)


_CHECKPOINT = ".safetensors"
#: Options that say what is changed.
_CHANGES = ("to", "arch", "hidden_activation", "endian")


@click.command(
    "convert",
    epilog="Example:  i2s new tiny.gguf --embd 256 && i2s convert tiny.gguf tq2.gguf --to TQ2_0 --arch bitnet",
    short_help="Convert ternary tensors to another type or dialect, with a proof; make or join parts.",
)
@click.argument("source", metavar="IN", type=INPUT)
@click.option(
    "--to",
    metavar="TYPE|DIALECT",
    help="Q2_0, TQ1_0, TQ2_0, PQ2_0, PTQ1_0, IQ1_BN, IQ2_BN, I2_SR, F32, F16, BF16, I2_S, or a dialect (interleave-64).",
)
@click.option("--from", "source_dialect", metavar="DIALECT",
              help="Dialect of IN's I2_S tensors; files do not state it. [default: canonical]")  # fmt: skip
@click.option("--tensor", "tensors", metavar="NAME", multiple=True,
              help="Only this tensor, or those that match a pattern (blk.*.ffn_down.weight); may be repeated.")  # fmt: skip
@click.option("--fallback", type=click.Choice(["F16", "BF16", "F32"]),
              help="Type for tensors that TYPE cannot hold, such as rows of 8,640 in TQ2_0.")  # fmt: skip
@click.option("--code3", type=click.Choice(["reject", "zero"]), default="reject", show_default=True,
              help="The undefined code 3: an error (between dialects: kept), or 0.")  # fmt: skip
@click.option("--arch", metavar="NAME", help="Rename the architecture to NAME, and its keys with it. Upstream: bitnet.")
@click.option(
    "--hidden-activation",
    metavar="NAME",
    help="Store the activation of the feed-forward: relu2, silu, gelu. "
    "[default: what the former architecture means, if --arch means another]",
)
@click.option("--endian", type=click.Choice(["little", "big"]), help="Byte order of OUT. [default: IN's]")
@click.option("--split", metavar="N|SIZE",
              help="Write N files, or files of at most SIZE (500M, 2G): OUT-00001-of-0000N.gguf, of which the first has the "
              "keys alone.")  # fmt: skip
@click.option("--into", "model", metavar="MODEL", type=INPUT,
              help="IN is a packed checkpoint: OUT is a copy of this GGUF file with IN's weights.")  # fmt: skip
@click.option("--weight-scale", type=click.Choice(["auto", "multiply", "divide"]), default="auto", show_default=True,
              help="How a checkpoint's weight_scale is used; auto: IN's config.json says, OUT's multiplies.")  # fmt: skip
@click.option("--scale-type", type=click.Choice(["F32", "BF16"]), default="F32", show_default=True,
              help="How a packed checkpoint OUT stores weight_scale.")  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite OUT if it exists.")
@click.option("--json", "as_json", is_flag=True, help="Print the proof of every tensor as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Print the proof of every tensor.")
@threads_option("Number of threads. [default: one per processor]")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing.")
@remote_options
@out_argument("target")
def convert_command(
    source: str,
    target: str,
    force: bool,
    as_json: bool,
    verbose: bool,
    quiet: bool,
    threads: int,
    **options: Any,
) -> None:
    """Copy the model IN to OUT with its ternary tensors in another type or dialect.

    Everything else is copied byte for byte. While it is written, every tensor is decoded again and compared: the
    command prints the proof that all trits are equal, and how the scales changed. Only scales are rounded, and only
    where TYPE requires it. Tensors of floats are converted only if they are exactly ternary.

    An OUT that ends in .safetensors becomes a packed Hugging Face checkpoint (uint8 weights and weight_scale). If IN is
    such a checkpoint, or a folder of them, OUT is a copy of the GGUF file --into with its weights.

    --split makes parts, and without any option the first part of a split model is joined with the others to one file. Both
    copy every tensor byte for byte, and joined parts are the file that was split.
    """
    joins = _joins(source, options)
    if joins or options["split"] is not None:
        _parts_made_or_joined(source, target, joins, options, force, as_json, quiet)
        return
    out = shown(target)
    with writing(target), progress_bar("converting", quiet or as_json) as progress:
        about = {"force": force, "progress": progress}
        if options["model"] is not None:
            report = _from_checkpoint(source, target, options, about)
        elif target.endswith(_CHECKPOINT):
            report = _to_checkpoint(source, target, options, about, threads)
        else:
            report = _convert(source, target, options, about, threads)
    warnings = warn_of_programs(target, quiet, as_json)
    if as_json:
        document = {**_document(report), "warnings": warnings}
        sys.stdout.writelines(
            json_document({"schema_version": SCHEMA_VERSION, "path": json_string(target), **document})
        )
    elif not quiet:
        head, *rest = _lines(report, verbose)
        click.echo(f"{out}: {head}")
        for line in rest:
            click.echo(line)


def _joins(source: str, options: dict[str, Any]) -> bool:
    """Whether IN is a part of a split model, and nothing else is asked for than to join it with the others."""
    if any(options[name] is not None for name in (*_CHANGES, "model", "split")) or source.endswith(_CHECKPOINT):
        return False
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.gguf.split_set import split_set

    with reading(source), open_file(source) as file:
        return split_set(file) is not None


def _parts_made_or_joined(
    source: str, target: str, joins: bool, options: dict[str, Any], force: bool, as_json: bool, quiet: bool
) -> None:
    """Split a model, or join its parts."""
    from i2s_spec.convert.parts import Parts, merge, part_size, split
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.linter.fix import refuse_new_errors

    _refuse(options, "parts", ("source_dialect", "tensors", "fallback", *_CHANGES, "model"))
    what = "joining" if joins else "splitting"
    count = 0
    with writing(target), progress_bar(what, quiet or as_json) as progress:
        into = None if joins else part_size(options["split"])
        with reading(source), open_file(source) as file:
            _refuse_set(source, file)
            if into is None:
                check = None if force else lambda made: refuse_new_errors(file.source, made, source)
                whole, count = merge(file, target, force=force, progress=progress, check=check)
                done = Parts((whole,), "")
            else:
                done = split(file, target, into, force=force, progress=progress)
    if as_json:
        rows = [{**part._asdict(), "path": json_string(part.path)} for part in done.parts]
        document = {"schema_version": SCHEMA_VERSION, "files": rows, "joined": joins, "differs": done.differs or None}
        sys.stdout.writelines(json_document(document))
    if as_json or quiet:
        return
    for path, size, tensors in done.parts:
        what = counted(tensors, "tensor") if tensors else "keys only"
        more = f", {counted(count, 'part')} joined" if joins else ""
        click.echo(f"{shown(path)}: {counted(size, 'byte')}, {what}{more}")
    click.echo("proof: all bytes of all tensors were compared with what was written")
    if not joins:
        whole_words = f"gives other bytes: {done.differs}" if done.differs else f"gives {shown(source)}, byte for byte"
        click.echo(f"joining: i2s convert {shown(done.parts[0].path)} -o OUT {whole_words}")


def _refuse_set(source: str, file: Any) -> None:
    """Refuse a set of parts in which the linter finds an error.

    :raises ValueError: with the first one
    """
    from i2s_spec.gguf.split_set import split_set
    from i2s_spec.linter.engine import lint

    if split_set(file) is None:
        return
    found = lint(source, payload="none", select=["G23"])
    for finding in found.findings:
        if finding.severity == "error":
            raise ValueError(f"{finding.code} {finding.rule.slug}: {finding.message}")


def _convert(source: str, target: str, options: dict[str, Any], about: dict[str, Any], threads: int) -> _Report:
    from i2s_spec.convert.convert_file import convert_file
    from i2s_spec.gguf.reader import open as open_file

    if all(options[name] is None for name in _CHANGES):
        raise click.UsageError("nothing to do: choose a target with --to, such as TQ2_0, F16 or canonical, or --split")
    if source.endswith(_CHECKPOINT):
        raise click.UsageError("a packed checkpoint has no keys: name a GGUF file that has them with --into")
    with reading(source), open_file(source) as file:
        result = convert_file(
            file, target, to=options["to"], source_dialect=options["source_dialect"],
            tensors=options["tensors"] or None, fallback=options["fallback"], unused_code=options["code3"],
            arch=options["arch"], hidden_activation=options["hidden_activation"], byte_order=options["endian"],
            threads=threads, **about,
        )  # fmt: skip
        types = Counter(tensor.kind or "" for tensor in file.tensors.rows if len(tensor.ne) > 1)
    advice = result.advice
    if options["to"] is not None and not result.proofs:
        advice = (*advice, "No tensor was converted: none that was asked for is ternary.")
    before = _commonest(types)
    types.subtract(proof.types[0] for proof in result.proofs)
    types.update(proof.types[1] for proof in result.proofs)
    return _Report(result.size, result.proofs, result.copied, result.file_type, advice, (before, _commonest(types)))


def _commonest(types: Counter[str]) -> str | None:
    return max(types, key=types.__getitem__, default=None)


def _from_checkpoint(source: str, target: str, options: dict[str, Any], about: dict[str, Any]) -> _Report:
    from i2s_spec.convert.packed_files import from_checkpoint
    from i2s_spec.gguf.reader import open as open_file

    _refuse(options, "--into", ("source_dialect", "tensors", "fallback", "arch", "hidden_activation", "endian"))
    with open_file(options["model"]) as model:
        result = from_checkpoint(
            source, model, target, weight_scale=options["weight_scale"], to=options["to"] or "I2_S", **about
        )
    return _Report(result.size, result.proofs, result.copied, result.file_type, result.advice)


def _to_checkpoint(source: str, target: str, options: dict[str, Any], about: dict[str, Any], threads: int) -> _Report:
    from i2s_spec.convert.packed_files import to_checkpoint
    from i2s_spec.gguf.reader import open as open_file

    _refuse(options, "a checkpoint OUT", ("to", "tensors", "fallback", "arch", "hidden_activation", "endian"))
    convention: Literal["multiply", "divide"] = "divide" if options["weight_scale"] == "divide" else "multiply"
    with open_file(source) as file:
        result = to_checkpoint(
            file, target, weight_scale=convention, scale_type=options["scale_type"],
            source_dialect=options["source_dialect"], threads=threads, **about,
        )  # fmt: skip
    message = [f"weight_scale {'multiplies' if convention == 'multiply' else 'divides'}: config.json must say "
            f"linear_class {'autobitlinear' if convention == 'multiply' else 'bitlinear'}."]  # fmt: skip
    if result.left_out:
        names = ", ".join(visible(name, 60, bare=True) for name in result.left_out[:5])
        message.append(
            f"{counted(len(result.left_out), 'tensor has', 'tensors have')} no name in checkpoints, "
            f"and were left out: {names}."
        )
    return _Report(result.size, result.proofs, result.copied, None, message)


def _refuse(options: dict[str, Any], why: str, names: Sequence[str]) -> None:
    """Refuse options that would do nothing."""
    for name in names:
        if options[name] not in (None, (), "canonical"):
            flag = {"source_dialect": "from", "tensors": "tensor", "model": "into"}.get(name, name.replace("_", "-"))
            raise click.UsageError(f"--{flag} is not for {why}")


def _document(report: _Report) -> dict[str, Any]:
    """Return what was done, as plain data that JSON can carry."""
    rows = [
        {
            "name": json_string(proof.name), "shape": proof.shape, "from": proof.source, "to": proof.target,
            "trits_equal": True, "scale": proof.rounding.scale, "stored_scale": proof.rounding.stored,
            "unused_codes": proof.unused,
        }
        for proof in report.proofs
    ]  # fmt: skip
    return {
        "size": report.size, "copied": report.copied, "file_type": report.file_type, "advice": list(report.advice),
        "tensors": rows,
    }  # fmt: skip


def _lines(report: _Report, verbose: bool) -> Iterator[str]:
    """Yield what was done, for a person: the proof, what the file is called now, and what to know of it."""
    from i2s_spec.convert.rewrite import file_type_words

    proofs = report.proofs
    yield f"{counted(report.size, 'byte')}, {counted(len(proofs), 'tensor')} converted, {report.copied} copied"
    if verbose:
        yield from (f"  {proof}" for proof in proofs)
    if proofs:
        types = " and ".join(sorted({proof.target for proof in proofs}))
        compared = " and ".join(sorted({proof.compared for proof in proofs}, reverse=True))
        yield (
            f"proof: the {compared} of {all_of(len(proofs), 'tensor')} are equal, read back from what was written ({types})"
        )
        rounded = [proof for proof in proofs if proof.rounding.relative]
        scales = sum(proof.rounding.scales for proof in proofs)
        if rounded:
            most = max(rounded, key=lambda proof: abs(proof.rounding.relative))
            name, whole = visible(most.name, 200, bare=True), len(proofs) - len(rounded)
            what = f"{counted(whole, 'scale is', 'scales are')} kept, {len(rounded)} rounded"
            if scales > len(proofs):
                what = f"of {counted(scales, 'scale')}, those of {counted(whole, 'tensor')} kept, of {len(rounded)} rounded"
            yield f"proof: {what}; most: {name}, {most.rounding}"
        else:
            yield f"proof: {all_of(scales, 'scale is', 'scales are')} kept, bit for bit"
        if unused := sum(proof.unused for proof in proofs):
            yield f"proof: {counted(unused, 'unused code is', 'unused codes are')} kept as they were"
    if report.file_type is not None:
        before, after = map(file_type_words, report.file_type, report.commonest)
        yield f"general.file_type: {before}" + ("" if before == after else f" -> {after}")
    yield from (f"note: {sentence}" for sentence in report.advice)


# --- quantize --------------------------------------------------------------------------------------------------------
# The float projections of a model as trits.


@click.command(
    "quantize",
    epilog="Example:  i2s new float.gguf --trained --type F16 && i2s quantize float.gguf -o ternary.gguf",
    short_help="Quantize a float model to trits, and measure the loss.",
)
@click.argument("model", type=INPUT)
@click.option("-o", "--output", "target", metavar="OUT", type=OUTPUT, required=True, help="The new file.")
@click.option("--to", metavar="TYPE|DIALECT", default="I2_S", show_default=True,
              help="I2_S or a dialect of it, Q2_0, TQ1_0, TQ2_0, PQ2_0, PTQ1_0, IQ1_BN, IQ2_BN, I2_SR.")  # fmt: skip
@click.option("--rule", metavar="NAME", default="absmean", show_default=True,
              help="absmean, as in training; by-group, the type's own; absmax, hf-first, embedding-mean, convert-ms, "
              "c-article, loom.")  # fmt: skip
@click.option("--keep", metavar="NAME", multiple=True,
              help="Keep this projection as floats, or those that match a pattern (blk.0.*); may be repeated.")  # fmt: skip
@click.option("--also", metavar="NAME", multiple=True,
              help="Quantize this matrix too, such as token_embd.weight; may be repeated.")  # fmt: skip
@click.option("--text", metavar="FILE", type=INPUT, help="Measure the perplexity of a text before and after.")
@click.option(
    "-c", "--context", type=int, default=512, show_default=True, metavar="N", help="With --text: tokens of a chunk."
)
@click.option("--chunks", "most", type=int, metavar="N", help="With --text: only the first N chunks.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@model_options
def quantize_command(
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
    pre: str | None,
    quiet: bool,
    **loading: Any,
) -> None:
    """Copy the float model MODEL to OUT with its projections as trits; embeddings, head and norms stay as they are.

    This destroys a model that was not trained with ternary weights: it still runs, but its output is worthless. The
    relative L2 error and the share of zeros that are printed for each tensor do not show it, since the float masters of
    ternary models lose as much. --text does: it measures the perplexity of a text before and after. Weights that are
    already -s, 0 and +s keep s.

    MODEL is a GGUF file with F32, F16 or BF16 projections. --force overwrites OUT, and runs models that the linter calls
    broken.
    """
    from i2s_spec.convert.quantize_model import quantize_model
    from i2s_spec.gguf.reader import open as open_file

    if model.endswith(".safetensors"):
        raise click.UsageError("a checkpoint has no keys: convert it to a GGUF file with floats first")
    before = after = None
    settings = {**loading, "quiet": quiet or as_json}
    with writing(target):
        if text is not None:
            before = _measured(model, text, context, most, pre, settings)
        with (
            open_file(model, trusted=loading["trusted"]) as file,
            progress_bar("quantizing", settings["quiet"]) as progress,
        ):
            result = quantize_model(
                file, target, to=to, rule=rule, keep=keep, also=also, force=loading["force"], progress=progress
            )
        if text is not None:
            after = _measured(target, text, context, most, pre, settings)
    if as_json:
        sys.stdout.writelines(json_document(_quantize_document(target, result, before, after)))
        return
    if quiet:
        return
    for line in _quantize_lines(result, before, after):
        click.echo(line if line.startswith(" ") else f"{shown(target)}: {line}")
    for note in result.notes:
        remark(note)


def _measured(
    path: str, text: str, context: int, most: int | None, pre: str | None, settings: dict[str, Any]
) -> Estimate:
    """Return the perplexity of a text under a model."""
    from i2s_spec.model.text.perplexity import chunks, perplexity

    with open_model(path, embeds=False, **settings) as opened:
        tokenizer = tokenizer_of(opened, pre, settings["quiet"])
        first = tokenizer.bos if tokenizer.add_bos else None
        tokens = encode(tokenizer, read_text(text), bos=first is not None, eos=False)
        *_, last = perplexity(opened, chunks(tokens, context, first, most))
    return last


def _quantize_lines(result: QuantizedModel, before: Estimate | None, after: Estimate | None) -> Iterator[str]:
    yield f"{counted(result.size, 'byte')}, {counted(len(result.losses), 'tensor')} quantized, {len(result.copied)} copied"
    yield from (f"  {loss}" for loss in result.losses)
    yield f"relative L2 error of all quantized weights: {result.relative:.4g}"
    if before is not None and after is not None:
        yield (
            f"perplexity of {counted(after.tokens, 'token')}: {before.perplexity:.5g} ± {before.error:.2g} before, "
            f"{after.perplexity:.5g} ± {after.error:.2g} after"
        )


def _quantize_document(
    target: str, result: QuantizedModel, before: Estimate | None, after: Estimate | None
) -> dict[str, Any]:
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
