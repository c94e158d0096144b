"""`i2s perplexity` and `i2s embed`: how well a model predicts a text, and the vectors that it gives to texts.

Perplexity follows llama-perplexity's convention.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from i2s_spec.cli.model_input import (
    TokenIds,
    encode,
    model_options,
    open_model,
    read_text,
    remark,
    tokenizer_if_any,
    tokenizer_of,
)
from i2s_spec.cli.options import INPUT, OUTPUT, form_option, shown
from i2s_spec.cli.process import cleaned_up, counting_bar
from i2s_spec.draw.text import float32_words, json_document
from i2s_spec.errors import SettingError, counted

SCHEMA_VERSION = 1


@click.command(
    epilog="Example:  i2s new tiny.gguf && i2s perplexity tiny.gguf --context 4 --tokens 1,5,9,20,33,64,100,200",
    short_help="Measure how well a model predicts a text.",
)
@click.argument("model", type=INPUT, required=False)
@click.option("-f", "--file", "path", type=INPUT, help="The text; - is stdin.")
@click.option("--tokens", type=TokenIds(), help="The text as token ids.")
@click.option(
    "-c", "--context", type=int, metavar="N", help="Tokens of a chunk. [default: 512; without MODEL all that it takes]"
)
@click.option("--chunks", "most", type=int, metavar="N", help="Take only the first N chunks.")
@click.option("--bos/--no-bos", default=None, help="A first token in every chunk. [default: as the file says]")
@click.option(
    "--kl-divergence-base", "base", type=OUTPUT, metavar="FILE",
    help="Write the log-probabilities too, for llama-perplexity --kl-divergence.",
)  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the file of --kl-divergence-base if there is one.")
@form_option(["text", "json"])
@model_options
def perplexity_command(
    model: str | None,
    path: str | None,
    tokens: list[int] | None,
    context: int | None,
    most: int | None,
    bos: bool | None,
    base: str | None,
    overwrite: bool,
    form: str,
    pre: str | None,
    quiet: bool,
    **loading: Any,
) -> None:
    """Print the perplexity of a text under the model in the GGUF file MODEL, by the convention of llama-perplexity.

    The text is cut into chunks of N tokens that do not overlap. If the vocabulary adds a BOS token to texts, BOS
    replaces the first token of each chunk. Only the second half of a chunk is scored (positions N/2 to N-2, each on the
    token that follows), so that every scored token has half a chunk before it. What is printed is exp of the mean
    negative log-likelihood, and one standard error.

    The perplexity per word that lm-eval prints is a different number. Without MODEL it uses the trained model that comes
    with i2s-spec; without a text either, stories that this model was not trained on.
    """
    from i2s_spec.convert.trained import card, unseen_text
    from i2s_spec.model.text.perplexity import chunks, perplexity

    own = model is None and path is None and tokens is None
    if not own and (path is None) == (tokens is None):
        raise click.UsageError("one of --file and --tokens is needed")
    if context is None:
        context = card()["sizes"]["context"] if model is None else 512
    if base is not None:
        _refuse_taken(base, overwrite)
    text = unseen_text() if own else read_text(path) if path is not None else None
    with open_model(model, quiet=quiet, embeds=False, **loading) as opened:
        tokenizer = tokenizer_of(opened, pre, quiet) if text is not None else tokenizer_if_any(opened, pre, quiet)
        first = tokenizer.bos if tokenizer is not None and (tokenizer.add_bos if bos is None else bos) else None
        if bos and first is None:
            raise click.UsageError("the file names no first token")
        if text is not None and tokenizer is not None:
            tokens = encode(tokenizer, text, bos=first is not None, eos=False)
        pieces = chunks(tokens or [], context, first, most)
        estimate: Any = None
        seen = form == "text" and sys.stdout.isatty()  # the lines themselves show how far it is
        with (
            _base(base, overwrite, pieces, opened.vocab_size) as also,
            counting_bar("chunks", len(pieces), quiet or seen) as progress,
        ):
            for estimate in perplexity(opened, pieces, progress, also):
                if form == "text":
                    click.echo(f"chunk {estimate.chunks}/{len(pieces)}  perplexity {_shown(estimate.perplexity)}")
        split = tokenizer.choice.pre.name if tokenizer is not None and tokenizer.choice is not None else None
        if form == "json":
            _as_json(estimate, context, first, split, opened.numerics.name, len(tokens or []))
            return
        click.echo(f"PPL = {_shown(estimate.perplexity)} ± {_shown(estimate.error)}")
        if not quiet:
            beside = f", first token {first}" if first is not None else ", no first token"
            how = f", split as {split}" if split else ""
            remark(
                f"{counted(estimate.tokens, 'token')} scored in {counted(estimate.chunks, 'chunk')} "
                f"of {context:,}{beside}{how}, "
                f"profile {opened.numerics.name}"
            )


@contextmanager
def _base(path: str | None, overwrite: bool, pieces: Any, vocab: int) -> Iterator[Callable[[Any], object] | None]:
    """Provide what takes the logits of the scored tokens and writes them; the file appears when it is complete."""
    if path is None:
        yield None
        return
    from i2s_spec.gguf.atomic_file import OutputFile
    from i2s_spec.golden.llama_cpp import BaseWriter

    with cleaned_up(), OutputFile(path, force=overwrite) as file:
        yield BaseWriter(file, [piece.tokens for piece in pieces], vocab).add


def _refuse_taken(path: str, overwrite: bool) -> None:
    """Say early what would be said at the end: the name is taken."""
    from i2s_spec.gguf.atomic_file import refuse_taken

    try:
        refuse_taken(path, overwrite)
    except FileExistsError:
        raise click.UsageError(f"{shown(path)} already exists; use --overwrite to replace it") from None


def _shown(perplexity: float) -> str:
    return f"{perplexity:.4f}" if perplexity < 1e9 else f"{perplexity:.4g}"


def _as_json(estimate: Any, context: int, bos: int | None, split: str | None, profile: str, tokens: int) -> None:
    about = {
        "schema_version": SCHEMA_VERSION,
        "convention": "llama-perplexity",
        "perplexity": estimate.perplexity,
        "error": estimate.error,
        "mean_negative_log_likelihood": estimate.mean,
        "bits_per_token": estimate.mean / math.log(2),
        "tokens": tokens,
        "scored_tokens": estimate.tokens,
        "chunks": estimate.chunks,
        "context": context,
        "bos": bos,
        "pre": split,
        "profile": profile,
    }
    sys.stdout.writelines(json_document(about))


# --- embed -----------------------------------------------------------------------------------------------------------
# The vectors that an embedding model gives to texts.


@click.command(
    epilog="Example:  i2s new tiny.gguf --arch qwen3 && i2s embed tiny.gguf --text 'ternary weights' --text 'bread'",
    short_help="Compute embeddings of texts.",
)
@click.argument("model", type=INPUT)
@click.option(
    "-t", "--text", "texts", multiple=True, metavar="TEXT", help="A text to embed; may be given several times."
)
@click.option(
    "-f",
    "--file",
    "path",
    type=INPUT,
    help="Read texts from a file, one on each line; - is stdin.",
)
@click.option("--tokens", type=TokenIds(), multiple=True, help="A text as token ids; may be given several times.")
@click.option("-o", "--output", type=OUTPUT, help="Write to this file instead of standard output.")
@click.option(
    "--similarity", is_flag=True, help="Print how similar the texts are to each other (cosine), not the vectors."
)
@form_option(["text", "json", "npy"])
@click.option("--overwrite", is_flag=True, help="Replace the file of --output if there is one.")
@model_options
def embed_command(
    model: str,
    texts: tuple[str, ...],
    path: str | None,
    tokens: tuple[list[int], ...],
    output: str | None,
    similarity: bool,
    form: str,
    overwrite: bool,
    pre: str | None,
    quiet: bool,
    **loading: Any,
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
    if output is not None:
        _refuse_taken(output, overwrite)
    with open_model(model, quiet=quiet, embeds=True, **loading) as opened:
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
    from i2s_spec.model.text.generate import check_tokens

    check_tokens(tokens, model.vocab_size, "text")
    if len(tokens) > model.context_length:
        raise SettingError(
            f"a text has {counted(len(tokens), 'token')}; the model's context is {model.context_length:,}"
        )
    return model.forward(tokens).embedding


def _lines(text: str) -> list[str]:
    """Return the lines that are not empty; ends as on any system."""
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
    """Write to stdout, or to a file that is there whole or not at all."""
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

    with OutputFile(output, force=overwrite, size=len(data)) as out:
        out.write(data)
