"""`i2s run MODEL`: continue a text with a model, or talk to it."""

from __future__ import annotations

import sys
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from i2s_spec.cli.arguments.default_model import origin
from i2s_spec.cli.arguments.model_input import (
    TokenIds,
    counting_bar,
    encode,
    model_options,
    open_model,
    read_text,
    remark,
    tokenizer_if_any,
    tokenizer_of,
)
from i2s_spec.cli.form_option import form_option
from i2s_spec.cli.models.chat import chat
from i2s_spec.cli.models.model_text import ModelText
from i2s_spec.errors import counted

if TYPE_CHECKING:
    from i2s_spec.model.text.generate import Generation
    from i2s_spec.model.tokenizer.tokenizer import Tokenizer

SCHEMA_VERSION = 1

#: Most tokens of a story that the model of the package begins by itself; with the first ones they fill its context.
STORY_TOKENS = 379


@click.command(
    epilog="Example:  i2s new tiny.gguf && i2s run tiny.gguf --prompt 'The weights are' -n 16",
    short_help="Continue a text with a model, or chat with it.",
)
@click.argument("model", type=click.Path(readable=False), required=False)
@click.option("-p", "--prompt", metavar="TEXT", help="The text to continue.")
@click.option(
    "-f", "--file", "path", type=click.Path(readable=False), help="The text to continue, from a file; - is stdin."
)
@click.option("--tokens", type=TokenIds(), help="The token ids to continue, such as 1,2,3.")
@click.option("--chat", "talk", is_flag=True, help="Chat: each line of stdin is a message.")
@click.option(
    "-n",
    "--max-tokens",
    type=click.IntRange(0),
    metavar="N",
    help="Maximum number of tokens to generate. [default: 128; a chat: 512]",
)
@click.option(
    "--temperature", type=float, default=0.0, show_default=True, help="0 always takes the most probable token."
)
@click.option(
    "--top-k", type=int, default=0, show_default=True, help="Sample from the N most probable tokens; 0 for all."
)
@click.option(
    "--top-p",
    type=float,
    default=1.0,
    show_default=True,
    help="Sample from the tokens that together have this probability.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Random seed.")
@click.option("--special", is_flag=True, help="Recognize control tokens in the prompt, and write them out.")
@click.option("--no-bos", is_flag=True, help="Do not prepend the BOS token.")
@click.option("--ignore-end", is_flag=True, help="Continue after a token that ends a text.")
@click.option("--ids", is_flag=True, help="Write token ids, not text.")
@click.option("--system", metavar="TEXT", help="System message of a chat.")
@click.option(
    "--chat-format",
    "chat_format",
    metavar="NAME",
    help="bitnet, llama3, falcon3, chatml, inst or plain; file renders the file's own template, in a sandbox. "
    "[default: by the model]",
)
@click.option("--show-template", is_flag=True, help="Show the file's chat template and exit.")
@click.option(
    "--context",
    type=click.IntRange(1),
    metavar="N",
    help="Maximum number of tokens in total. [default: the model's; a chat: 4096 at most]",
)
@click.option(
    "--raw/--escape",
    default=None,
    help="Write text unchanged, or with control characters escaped. [default: --escape on a terminal]",
)
@form_option(["text", "json"])
@model_options
def command(
    model: str | None,
    prompt: str | None,
    path: str | None,
    tokens: list[int] | None,
    talk: bool,
    form: str,
    show_template: bool,
    **options: Any,
) -> None:
    """Continue a text with the model in the GGUF file MODEL.

    Tokens are written to stdout as they come; their number and the speed go to stderr. The same options give the same
    tokens: the random numbers are PCG64's, and the order is top-k, top-p, temperature. With the numeric profile "fast"
    the last bits may differ between machines, and so, rarely, a token.

    Without MODEL it runs the trained model that comes with i2s-spec, which tells short stories; without a text as well,
    it begins a story of its own.
    """
    ways = [prompt is not None, path is not None, tokens is not None, talk, show_template]
    begins = model is None and not any(ways)
    if begins and options["max_tokens"] is None:
        options["max_tokens"] = STORY_TOKENS
    if sum(ways) != 1 and not begins:
        raise click.UsageError("one of --prompt, --file, --tokens, --chat and --show-template is needed")
    if show_template:
        _show_template(model, options["raw"])
        return
    if talk and (form != "text" or options["ids"] or options["ignore_end"] or options["no_bos"]):
        raise click.UsageError("--format, --ids, --ignore-end and --no-bos are not for --chat")
    if not talk and (options["system"] is not None or options["chat_format"] is not None):
        raise click.UsageError("--system and --chat-format are for --chat")

    from i2s_spec.model.text.sampling import Sampling

    sampling = Sampling(options["temperature"], options["top_k"], options["top_p"], options["seed"])
    text = read_text(path) if path is not None else prompt
    quiet = options["quiet"]
    with open_model(model, options["numerics"], options["threads"], options["force"], quiet, embeds=False) as opened:
        if talk:
            chat(opened, sampling, options)
        else:
            _continue(opened, text, tokens, sampling, form, options)


def _continue(
    model: Any, text: str | None, tokens: list[int] | None, sampling: Any, form: str, options: dict[str, Any]
) -> None:
    """Generate what follows a text or tokens."""
    from i2s_spec.model.text.generate import Generation

    quiet = options["quiet"]
    tokenizer: Tokenizer | None
    opening: tuple[int, ...] = ()
    if text is None and tokens is None:  # a story from its beginning
        from i2s_spec.convert.trained.card import OPENING

        tokenizer, opening = tokenizer_of(model, options["pre"], quiet), OPENING
        tokens = [*([] if tokenizer.bos is None else [tokenizer.bos]), *opening]
    elif text is None:
        tokenizer = None if options["ids"] else tokenizer_if_any(model, options["pre"], quiet)
    else:
        tokenizer = tokenizer_of(model, options["pre"], quiet)
        tokens = encode(
            tokenizer, text, parse_special=options["special"], eos=False, bos=False if options["no_bos"] else None
        )
    ends = frozenset() if options["ignore_end"] or tokenizer is None else tokenizer.ends
    limit = 128 if options["max_tokens"] is None else options["max_tokens"]
    with counting_bar("prompt", len(tokens or ()), quiet) as progress:
        generation = Generation(
            model, tokens or [], sampling, limit=limit, ends=ends, room=options["context"], progress=progress
        )
        arriving = iter(generation)
        first = next(arriving, None)  # the prompt is read now; then the bar goes away
    if form == "json":
        for _ in arriving:
            pass
        _as_json(generation, tokenizer, options)
        return
    shown = ModelText(escaped=None if options["raw"] is None else not options["raw"])
    stream = None if tokenizer is None or options["ids"] else tokenizer.stream(options["special"])
    try:
        for place, token in enumerate(chain(opening, () if first is None else (first,), arriving)):
            shown.write(stream.feed(token) if stream is not None else f",{token}" if place else f"{token}")
        if stream is not None:
            shown.write(stream.finish())
    finally:
        shown.end_line()
    if not quiet:
        remark(summary(generation) + ("" if has_program(model) else WALKED))


#: Said of profile `fast` where its compiled program is not for the weights.
WALKED = "; computed node by node: the compiled program is for weights whose groups share a scale"


def has_program(model: Any) -> bool:
    """Whether whole passes are computed by one compiled program, as far as the profile has one."""
    from i2s_spec.model.grouped import Grouped

    if model.numerics.name != "fast":
        return True
    linear = (node for node in model.graph if node.op == "linear")
    return not any(isinstance(model.weights.matrix(node.weight), Grouped) for node in linear)


def summary(generation: Generation) -> str:
    """How many tokens took how long, and why there are no more."""
    from i2s_spec.model.text.generate import rate

    prompt, made = len(generation.prompt) - generation.reused, len(generation.tokens)
    why = {"end": "the model ended the text", "limit": "as many as asked for", "context": "the context is full"}
    parts = [f"prompt {counted(prompt, 'token')}, {rate(prompt, generation.prefill_seconds):.1f} tok/s"] if made else []
    parts.append(
        f"generated {counted(made, 'token')}"
        + (f", {rate(made - 1, generation.decode_seconds):.1f} tok/s" if made > 1 else "")
    )
    return "; ".join(parts) + f" ({why[generation.reason]})" if generation.reason else "; ".join(parts)


def _as_json(generation: Generation, tokenizer: Any, options: dict[str, Any]) -> None:
    from i2s_spec.draw.text import json_document
    from i2s_spec.model.text.generate import rate

    text = None
    if tokenizer is not None:
        stream = tokenizer.stream(options["special"])
        text = "".join(map(stream.feed, generation.tokens)) + stream.finish()
    made = len(generation.tokens)
    about = {
        "schema_version": SCHEMA_VERSION,
        "profile": generation.model.numerics.name,
        "prompt_tokens": tuple(generation.prompt),
        "tokens": tuple(generation.tokens),
        "text": text,
        "reason": generation.reason,
        "sampling": {name: options[name] for name in ("temperature", "top_k", "top_p", "seed")},
        "tokens_per_second": {
            "prompt": rate(len(generation.prompt), generation.prefill_seconds),
            "generated": rate(made - 1, generation.decode_seconds) if made > 1 else 0.0,
        },
    }
    sys.stdout.writelines(json_document(about))


def _show_template(path: str | None, raw: bool | None) -> None:
    """Show the chat template of a file: text of a stranger, not to be run."""
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.model.text.chat_template import template_of

    with open_file(origin(path)) as file:
        template = template_of(file.metadata)
    if template is None:
        remark("the file has no chat template")
        return
    shown = ModelText(escaped=None if raw is None else not raw)
    shown.write(template)
    shown.end_line()
