"""`i2s embed MODEL --text TEXT`: the vectors that an embedding model gives to texts."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import Any

import click

from i2s_spec.cli.arguments.model_input import (
    TokenIds,
    counting_bar,
    encode,
    model_options,
    open_model,
    read_text,
    tokenizer_of,
)
from i2s_spec.cli.arguments.target import keep_inputs
from i2s_spec.cli.form_option import form_option
from i2s_spec.draw.text import float32_words, json_document, visible
from i2s_spec.errors import counted

SCHEMA_VERSION = 1


@click.command(
    epilog="Example:  i2s new tiny.gguf --arch qwen3 && i2s embed tiny.gguf --text 'ternary weights' --text 'bread'",
    short_help="Compute embeddings of texts.",
)
@click.argument("model", type=click.Path(readable=False))
@click.option(
    "-t", "--text", "texts", multiple=True, metavar="TEXT", help="A text to embed; may be given several times."
)
@click.option(
    "-f",
    "--file",
    "path",
    type=click.Path(readable=False),
    help="Read texts from a file, one on each line; - is stdin.",
)
@click.option("--tokens", type=TokenIds(), multiple=True, help="A text as token ids; may be given several times.")
@click.option("-o", "--output", type=click.Path(readable=False), help="Write to this file instead of standard output.")
@click.option(
    "--similarity", is_flag=True, help="Print how similar the texts are to each other (cosine), not the vectors."
)
@form_option(["text", "json", "npy"])
@click.option("--overwrite", is_flag=True, help="Replace the file of --output if there is one.")
@model_options
def command(
    model: str,
    texts: tuple[str, ...],
    path: str | None,
    tokens: tuple[list[int], ...],
    output: str | None,
    similarity: bool,
    form: str,
    overwrite: bool,
    numerics: str,
    threads: int | None,
    pre: str | None,
    force: bool,
    quiet: bool,
) -> None:
    """Print the embedding of texts: one vector of length 1 for each.

    Each text gets the tokens at its start and end that the file asks for. The vector is that of the last token (or as
    pooling_type says), scaled to length 1. With --format text each vector is a line of numbers; with npy all vectors
    are one float32 array [texts, width].
    """
    import numpy as np

    wanted = [*texts, *(_lines(read_text(path)) if path is not None else ())]
    if not wanted and not tokens:
        raise click.UsageError("one of --text, --file and --tokens is needed")
    if form == "npy" and output is None and sys.stdout.isatty():
        raise click.UsageError("npy is binary and cannot be printed on a terminal; use --output FILE")
    keep_inputs(output, model, path)
    with open_model(model, numerics, threads, force, quiet, embeds=True) as opened:
        ids = [list(each) for each in tokens]
        if wanted:
            tokenizer = tokenizer_of(opened, pre, quiet)
            ids = [*(encode(tokenizer, text) for text in wanted), *ids]
        rows = []
        with counting_bar("texts", len(ids), quiet) as progress:
            for each in ids:
                rows.append(_embedding(opened, each))
                if progress is not None:
                    progress(len(rows), len(ids))
        vectors = np.stack(rows)
        if similarity:
            vectors = vectors @ vectors.T
        _write(_as(form, vectors, ids, opened.numerics.name, similarity), output, overwrite)


def _embedding(model: Any, tokens: list[int]) -> Any:
    from i2s_spec.errors import SettingError
    from i2s_spec.model.text.generate import check_tokens

    check_tokens(tokens, model.vocab_size, "text")
    if len(tokens) > model.context_length:
        raise SettingError(
            f"a text has {counted(len(tokens), 'token')}; the model's context is {model.context_length:,}"
        )
    return model.forward(tokens).embedding


def _lines(text: str) -> list[str]:
    """The lines that are not empty; ends as on any system."""
    return [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]


def _as(form: str, vectors: Any, ids: Sequence[list[int]], profile: str, similarity: bool) -> bytes:
    if form == "npy":
        import numpy as np

        target = io.BytesIO()
        np.save(target, vectors)
        return target.getvalue()
    if form == "json":
        what = "similarity" if similarity else "embeddings"
        about = {
            "schema_version": SCHEMA_VERSION,
            "profile": profile,
            "width": vectors.shape[1],
            "tokens": [tuple(each) for each in ids],
            what: [tuple(map(float, row)) for row in vectors],
        }
        return "".join(json_document(about)).encode()
    return "".join(" ".join(map(float32_words, map(float, row))) + "\n" for row in vectors).encode()


def _write(data: bytes, output: str | None, overwrite: bool) -> None:
    """To stdout, or to a file that is there whole or not at all."""
    if output is None:
        target = getattr(sys.stdout, "buffer", None)
        if target is None:  # a stream of text only, as tests have it
            sys.stdout.write(data.decode("latin-1" if data[:1] == b"\x93" else "utf-8"))
            return
        sys.stdout.flush()
        target.write(data)
        target.flush()
        return
    from i2s_spec.gguf.atomic_file import OutputFile

    try:
        with OutputFile(output, force=overwrite, size=len(data)) as out:
            out.write(data)
    except FileExistsError:
        raise click.UsageError(
            f"{visible(output, 4096, bare=True)} already exists; use --overwrite to overwrite it"
        ) from None
