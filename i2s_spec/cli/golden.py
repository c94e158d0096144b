"""`i2s golden record | compare`: record what a correct runtime computes, and compare another one with it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.model_input import (
    TokenIds,
    encode,
    named,
    numerics_option,
    origin,
    read_text,
    remark,
    remark_refusal,
    tokenizer_of,
)
from i2s_spec.cli.options import INPUT, OUTPUT, form_option, reading, remote_options, write_answer, writing
from i2s_spec.cli.process import cleaned_up, counting_bar
from i2s_spec.cli.verbs import command_line
from i2s_spec.errors import EXIT_FINDINGS, FormatError, SettingError, quote

if TYPE_CHECKING:
    from i2s_spec.golden.result import Comparison


@click.group(
    epilog="Example:  i2s new tiny.gguf && i2s golden record tiny.gguf --tokens 1,2,3 -o golden",
    short_help="Record what a model computes, and compare another runtime with it.",
)
def golden_command() -> None:
    """Golden outputs: record every value of a forward pass, and find the first one that another runtime computes wrong,
    and why."""


@golden_command.command(
    epilog="Example:  i2s new tiny.gguf && i2s golden record tiny.gguf --tokens 1,2,3 -o golden",
    short_help="Record what a model computes.",
)
@click.argument("model", type=INPUT, required=False)
@click.option("--tokens", type=TokenIds(), help="The token ids, such as 1,2,3.")
@click.option("--text", metavar="TEXT", help="A text; its token ids are recorded.")
@click.option("--text-file", type=INPUT, help="A text from a file; - is stdin.")
@click.option("-o", "--output", "folder", type=OUTPUT, required=True, help="The folder of the record.")
@click.option("--light", is_flag=True, help="For big models: omit soft-max rows and codes, store only digests of sums.")
@click.option("--npz", is_flag=True, help="Store taps as .npz, not as .safetensors.")
@click.option(
    "--callback-text", type=click.Choice(["all", "shown"]),
    help="Write eval-callback.txt too, as llama.cpp prints it; its sums add up all elements, or the shown ones.",
)  # fmt: skip
@click.option("--kl-divergence-base", "kl_base", is_flag=True, help="Write logits.kld too, for llama-perplexity.")
@numerics_option("The numeric profile: how numbers are computed.", default="bitnet-golden-1")
@click.option(
    "--dialect", default="canonical", show_default=True, metavar="DIALECT", help="Dialect of the I2_S tensors."
)
@click.option(
    "--activation", type=click.Choice(["relu2", "silu", "gelu"]), help="Activation to use instead of the file's."
)
@click.option("--pre", metavar="NAME", help="Split text as this pre-tokenizer or runtime does.")
@click.option("--no-bos", is_flag=True, help="Do not prepend the BOS token.")
@click.option("--threads", type=click.IntRange(1), metavar="N", help="Threads. [default: one per processor]")
@click.option("--overwrite", is_flag=True, help="Replace a record.")
@click.option("--force", is_flag=True, help="Run a model that the linter calls broken; replace a record, too.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bars and no remarks.")
@remote_options
def record(
    model: str | None, tokens: list[int] | None, text: str | None, text_file: str | None, folder: str, light: bool,
    npz: bool, callback_text: Any, kl_base: bool, numerics: str, dialect: str, activation: str | None, pre: str | None,
    no_bos: bool, threads: int | None, overwrite: bool, force: bool, quiet: bool,
) -> None:  # fmt: skip
    """Record every value that the model in the GGUF file MODEL computes for some tokens.

    The record is a folder: golden.json says what was computed (profile, identity of the weights, architecture,
    activation, token ids, of each tap digest and statistics), taps.safetensors holds the taps under llama.cpp's names,
    with the integer stage of every projection beside them. The folder appears only when it is complete. Without MODEL
    it uses the trained model that comes with i2s-spec.
    """
    if sum(each is not None for each in (tokens, text, text_file)) != 1:
        raise click.UsageError("one of --tokens, --text and --text-file is needed")
    from i2s_spec.gguf.source import is_address, open_regular
    from i2s_spec.golden import record as make
    from i2s_spec.golden.recording import described
    from i2s_spec.model.load import load_model

    _refuse_taken(folder, overwrite or force)
    if model is None:
        if not quiet:
            remark(f"the model is {named(model)}")
    elif not is_address(model):
        open_regular(model).close()  # what is not there, or no file, is said with its name
    try:
        with reading(model), counting_bar("loading", None, quiet):
            opened = load_model(
                origin(model), numerics=numerics, threads=threads, dialect=dialect, activation=activation, force=force
            )
    except FormatError as error:
        if not quiet:
            remark_refusal(error, force)
        raise
    except ValueError as error:
        raise SettingError(str(error)) from None
    with opened:
        source = read_text(text_file) if text_file is not None else text
        if source is not None:
            tokens = encode(tokenizer_of(opened, pre, quiet), source, bos=False if no_bos else None)
        with cleaned_up(), counting_bar("layers", opened.graph.layers, quiet) as progress:
            header = make(
                opened, tokens or [], folder, light=light, form="npz" if npz else "safetensors", text=callback_text,
                kl_base=kl_base, source=source, force=overwrite or force, progress=progress,
            )  # fmt: skip
        first = _wanted_first(opened.file.metadata)
    click.echo(f"{quote(folder, bare=True)}: {described(header)}")
    if not quiet:
        if kl_base and first not in (None, header["token_ids"][0]):
            remark(
                f"llama-perplexity puts token {first:,} in place of the first one, as the file asks for: begin with it"
            )
        write = "" if model is not None else "i2s new model.gguf --trained, "
        remark(
            f"now {write}dump the same values of your runtime, and: "
            f"i2s golden compare {_shell(folder)} DUMP --model {_shell(model or 'model.gguf')} "
            "(--help says what DUMP may be)"
        )


def _wanted_first(metadata: Any) -> int | None:
    """Return the token that stock tools put before every text, if the file asks for it."""
    first = metadata.get("tokenizer.ggml.bos_token_id")
    return first if metadata.get("tokenizer.ggml.add_bos_token") and isinstance(first, int) else None


def _refuse_taken(folder: str, force: bool) -> None:
    """Say early what would be said at the end: the name is taken."""
    from i2s_spec.golden.store import refuse_taken

    try:
        refuse_taken(folder, True)
    except FileExistsError as error:  # what --overwrite would not replace either
        raise click.UsageError(str(error)) from None
    try:
        refuse_taken(folder, force)
    except FileExistsError:
        raise click.UsageError(f"{quote(str(Path(folder)))} already exists; use --overwrite to replace it") from None


@golden_command.command(
    epilog="Example:  i2s new tiny.gguf && i2s golden record tiny.gguf --tokens 1,2,3 -o golden && i2s golden record "
    "tiny.gguf --tokens 1,2,3 --numerics bitnetcpp-2025 -o theirs && i2s golden compare golden theirs --model tiny.gguf",
    short_help="Compare what a runtime computed with a record.",
)
@click.argument("golden", type=INPUT)
@click.argument("candidate", type=INPUT)
@click.option("--model", type=INPUT, help="The GGUF file of the record: with it operations are replayed.")
@click.option(
    "--mode", type=click.Choice(["op-replay", "layer-forced", "free-running"]),
    help="[default: op-replay with a model, else free-running]",
)  # fmt: skip
@numerics_option("Replay with this numeric profile. [default: the record's]")
@click.option(
    "--prefix",
    default="",
    metavar="TEXT",
    help="Compare only the candidate's names with this prefix, such as s0/, and remove it.",
)
@form_option(["text", "json", "markdown", "html"])
@click.option("-o", "--output", type=OUTPUT, help="Write the report to a file.")
@click.option("--force", is_flag=True, help="Replace a report; try a model that the linter calls broken.")
@click.option("--no-diagnosis", is_flag=True, help="Do not look for the mistake that explains what is wrong.")
@click.option("--threads", type=click.IntRange(1), metavar="N", help="Threads. [default: one per processor]")
@click.option("-q", "--quiet", is_flag=True, help="No progress bars.")
@remote_options
def compare(
    golden: str, candidate: str, model: str | None, mode: Any, numerics: str | None, prefix: str, form: str,
    output: str | None, force: bool, no_diagnosis: bool, threads: int | None, quiet: bool,
) -> int:  # fmt: skip
    """Find the first value that a runtime computes wrong, and the known mistake that explains it.

    GOLDEN is a record. CANDIDATE is what another runtime computed for the same tokens: a record, a .npz or .safetensors
    file or a folder of .npy or .bin files with llama.cpp's names, a .npy of logits or of the log-probabilities that
    servers give (a row for each token, a column for each entry of the vocabulary), or the text that llama.cpp's
    eval-callback prints.

    Exit code: 0 nothing is wrong, 1 something is, 2 usage, 3 a file cannot be read.
    """
    from i2s_spec.gguf.atomic_file import refuse_taken
    from i2s_spec.golden import compare as run

    output = None if output == "-" else output
    if output is not None:
        with writing(output):
            refuse_taken(output, force)
    try:
        with counting_bar("taps", None, quiet) as progress:
            result = run(
                golden, candidate, model=model, mode=mode, numerics=numerics, prefix=prefix, threads=threads,
                diagnose=not no_diagnosis, force=force, progress=progress,
            )  # fmt: skip
    except ValueError as error:
        if isinstance(error, FormatError | SettingError):
            raise
        raise SettingError(str(error)) from None
    _write(result, form, output, force, command_line(click.get_current_context()))
    return 0 if result.ok else EXIT_FINDINGS


def _write(result: Comparison, form: str, output: str | None, force: bool, command: str) -> None:
    from i2s_spec.golden.report import report

    if form == "text" and output is None:
        from i2s_spec.draw.terminal import columns, write
        from i2s_spec.golden.report_text import styled

        write(styled(result, columns(sys.stdout)), sys.stdout)
        return
    write_answer(report(result, form, command), output, force)


def _shell(path: str) -> str:
    """Return a path as a shell takes it, and a terminal too."""
    return shlex.quote(quote(os.fspath(path), limit=400, bare=True))
