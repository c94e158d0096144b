"""`i2s run MODEL`: continue a text with a model, or talk to it (`--chat`).

A model's text goes out through `ModelText`: harmless on a terminal, exact in a pipe.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from i2s_spec.cli.model_input import (
    TokenIds,
    encode,
    model_options,
    open_model,
    origin,
    read_text,
    remark,
    tokenizer_if_any,
    tokenizer_of,
)
from i2s_spec.cli.options import INPUT, form_option
from i2s_spec.cli.process import counting_bar
from i2s_spec.draw.text import encodable
from i2s_spec.errors import SettingError, counted, quote

if TYPE_CHECKING:
    from i2s_spec.model.text.generate import Generation
    from i2s_spec.model.text.sampling import Sampling
    from i2s_spec.model.tokenizer.tokenizer import Tokenizer

SCHEMA_VERSION = 1

#: Most tokens of a story that the model of the package begins by itself; with the first ones they fill its context.
STORY_TOKENS = 379


@click.command(
    epilog="Example:  i2s new tiny.gguf && i2s run tiny.gguf --prompt 'The weights are' -n 16",
    short_help="Continue a text with a model, or chat with it.",
)
@click.argument("model", type=INPUT, required=False)
@click.option(
    "-p", "--prompt", "prompts", metavar="TEXT", multiple=True,
    help="The text to continue; several are continued together, in less time.",
)  # fmt: skip
@click.option("-f", "--file", "path", type=INPUT, help="The text to continue, from a file; - is stdin.")
@click.option(
    "--tokens",
    type=TokenIds(),
    multiple=True,
    help="The token ids to continue, such as 1,2,3; may be given several times.",
)
@click.option("--chat", "talk", is_flag=True, help="Chat: each line of stdin is a message.")
@click.option(
    "-n",
    "--max-tokens",
    type=click.IntRange(0),
    metavar="N",
    help="Maximum number of tokens to generate. [default: 128; a chat: 512]",
)
@click.option(
    "--temperature",
    type=float,
    default=0.0,
    show_default=True,
    metavar="T",
    help="0 always takes the most probable token.",
)
@click.option(
    "--top-k",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    help="Sample from the N most probable tokens; 0 for all.",
)
@click.option(
    "--top-p",
    type=float,
    default=1.0,
    show_default=True,
    metavar="P",
    help="Sample from the tokens that together have this probability.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Random seed.")
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
@click.option(
    "--head",
    type=click.Choice(["screened", "whole"]),
    default="screened",
    show_default=True,
    help="Read the rows of the final projection that can decide about a token, or all; the tokens are the same.",
)
@form_option(["text", "json"])
@model_options
def run_command(
    model: str | None,
    prompts: tuple[str, ...],
    path: str | None,
    tokens: tuple[list[int], ...],
    talk: bool,
    form: str,
    show_template: bool,
    **options: Any,
) -> None:
    """Continue a text with the model in the GGUF file MODEL.

    Tokens are written to stdout as they come; their number and the speed go to stderr. Of several prompts, each
    continuation is written when it is complete, in their order; each is what it would be alone. The same options give
    the same tokens: the random numbers are PCG64's, and the order is top-k, top-p, temperature. With the numeric
    profile "fast" the last bits may differ between machines, and so, rarely, a token.

    Without MODEL it runs the trained model that comes with i2s-spec, which tells short stories; without a text as well,
    it begins a story of its own.
    """
    ways = [bool(prompts), path is not None, bool(tokens), talk, show_template]
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
    texts = [read_text(path)] if path is not None else list(prompts)
    how = {name: options[name] for name in ("numerics", "threads", "force", "quiet", "trusted")}
    with open_model(model, **how, embeds=False) as opened:
        if talk:
            chat(opened, sampling, options)
        else:
            _continue(opened, texts, list(tokens), sampling, form, options)


def _continue(
    model: Any, texts: list[str], prompts: list[list[int]], sampling: Any, form: str, options: dict[str, Any]
) -> None:
    """Generate what follows texts or tokens."""
    from i2s_spec.model.text.generate import Generation

    quiet = options["quiet"]
    tokenizer: Tokenizer | None
    opening: tuple[int, ...] = ()
    if not texts and not prompts:  # a story from its beginning
        from i2s_spec.convert.trained import OPENING

        tokenizer, opening = tokenizer_of(model, options["pre"], quiet), OPENING
        prompts = [[*([] if tokenizer.bos is None else [tokenizer.bos]), *opening]]
    elif not texts:
        tokenizer = None if options["ids"] else tokenizer_if_any(model, options["pre"], quiet)
    else:
        tokenizer = tokenizer_of(model, options["pre"], quiet)
        how = {"parse_special": options["special"], "eos": False, "bos": False if options["no_bos"] else None}
        prompts = [encode(tokenizer, text, **how) for text in texts]
    ends = frozenset() if options["ignore_end"] or tokenizer is None else tokenizer.ends
    limit = 128 if options["max_tokens"] is None else options["max_tokens"]
    generations = [
        Generation(model, tokens, sampling, limit=limit, ends=ends, room=options["context"], head=options["head"])
        for tokens in prompts
    ]
    if len(generations) > 1:
        _continue_together(generations, tokenizer, form, options)
        return
    (generation,) = generations
    with counting_bar("prompt", len(generation.prompt), quiet) as generation.progress:
        arriving = iter(generation)
        first = next(arriving, None)  # the prompt is read now; then the bar goes away
    if form == "json":
        for _ in arriving:
            pass
        _as_json(generations, tokenizer, options)
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
        remark(summary(generation) + walked(model))


#: Said of profile `fast` where its compiled program is not for the graph or its weights.
NOT_COMPILED = "; computed node by node: no kernels are compiled here (i2s info)"
WALKED = "; computed node by node: the compiled program has no delta nets, and no groups with scales of their own"


def walked(model: Any) -> str:
    """Return what is said of a pass that walks the graph where profile `fast` has a program for others; else nothing."""
    from i2s_spec.codec import _cpu

    return "" if has_program(model) else WALKED if _cpu.compiler() else NOT_COMPILED


def has_program(model: Any) -> bool:
    """Whether whole passes are computed by one compiled program, as far as the profile has one."""
    return model.numerics.name != "fast" or bool(model.operations.batches(model.graph, model.weights))


def summary(generation: Generation) -> str:
    """Say how many tokens took how long, and why there are no more."""
    from i2s_spec.model.text.generate import rate

    prompt, made = len(generation.prompt) - generation.reused, len(generation.tokens)
    why = {"end": "the model ended the text", "limit": "as many as asked for", "context": "the context is full"}
    parts = [f"prompt {counted(prompt, 'token')}, {rate(prompt, generation.prefill_seconds):.1f} tok/s"] if made else []
    parts.append(
        f"generated {counted(made, 'token')}"
        + (f", {rate(made - 1, generation.decode_seconds):.1f} tok/s" if made > 1 else "")
    )
    if generation.reason:
        parts[-1] += f" ({why[generation.reason]})"
    report = None if generation.screened is None else generation.screened.report
    if report is not None and report.screened:
        share, copy = f"{100 * report.share:.2g} %", f"{report.copy_bytes / 1e6:,.0f} MB"
        parts.append(f"head: {share} of its rows read for {counted(report.screened, 'token')}, a copy of {copy}")
    return "; ".join(parts)


def _continue_together(
    generations: list[Generation], tokenizer: Tokenizer | None, form: str, options: dict[str, Any]
) -> None:
    """Generate what follows several prompts, and write it in their order."""
    from i2s_spec.model.text.generate import together

    arriving = together(generations)
    if form == "json":
        for _ in arriving:
            pass
        _as_json(generations, tokenizer, options)
        return
    shown = ModelText(escaped=None if options["raw"] is None else not options["raw"])
    written = 0
    for _ in chain(arriving, (None,)):
        while written < len(generations) and generations[written].reason is not None:
            shown.write(
                _written(generations[written], None if options["ids"] else tokenizer, options["special"]) + "\n"
            )
            written += 1
    if not options["quiet"]:
        prompt, made = _rates(generations)
        count = counted(sum(len(each.tokens) for each in generations), "token")
        remark(
            f"{counted(len(generations), 'prompt')}, {prompt:.1f} tok/s; generated {count}, {made:.1f} tok/s together"
            + walked(generations[0].model)
        )


def _written(generation: Generation, tokenizer: Tokenizer | None, special: bool) -> str:
    """Return all that was generated as text, or as ids where there is no tokenizer."""
    if tokenizer is None:
        return ",".join(map(str, generation.tokens))
    stream = tokenizer.stream(special)
    return "".join(map(stream.feed, generation.tokens)) + stream.finish()


def _rates(generations: list[Generation]) -> tuple[float, float]:
    """Return the tokens of prompts per second, and the generated ones after the first of each, of all together."""
    from i2s_spec.model.text.generate import rate

    read = rate(sum(len(each.prompt) for each in generations), sum(each.prefill_seconds for each in generations))
    later = sum(max(len(each.tokens) - 1, 0) for each in generations)
    return read, rate(later, max(each.decode_seconds for each in generations))


def _as_json(generations: list[Generation], tokenizer: Tokenizer | None, options: dict[str, Any]) -> None:
    """Print one document: of a single generation, or with a list of several."""
    from i2s_spec.draw.text import json_document

    each = [
        {
            "prompt_tokens": tuple(generation.prompt),
            "tokens": tuple(generation.tokens),
            "text": None if tokenizer is None else _written(generation, tokenizer, options["special"]),
            "reason": generation.reason,
        }
        for generation in generations
    ]
    read, made = _rates(generations)
    about = {
        "schema_version": SCHEMA_VERSION,
        "profile": generations[0].model.numerics.name,
        **(each[0] if len(each) == 1 else {"generations": each}),
        "sampling": {name: options[name] for name in ("temperature", "top_k", "top_p", "seed")},
        "tokens_per_second": {"prompt": read, "generated": made},
        **({"head": _head(generations[0])} if len(each) == 1 else {}),
    }
    sys.stdout.writelines(json_document(about))


def _head(generation: Generation) -> dict[str, Any] | None:
    """Return what was read of the head, where it was screened."""
    return None if generation.screened is None else generation.screened.report.as_dict()


def _show_template(path: str | None, raw: bool | None) -> None:
    """Show the chat template of a file: text of a stranger, not to be run."""
    from i2s_spec.gguf.reader import open as open_file
    from i2s_spec.model.text.chat import template_of

    with open_file(origin(path)) as file:
        template = template_of(file.metadata)
    if template is None:
        remark("the file has no chat template")
        return
    shown = ModelText(escaped=None if raw is None else not raw)
    shown.write(template)
    shown.end_line()


# --- chat ------------------------------------------------------------------------------------------------------------
# Talking to a model, line by line.

#: Most tokens of an answer, and of a conversation, unless asked for.
ANSWER = 512
CONTEXT = 4096

#: Longest message, in characters.
LONGEST = 1 << 20


def chat(model: Any, sampling: Sampling, options: dict[str, Any]) -> None:
    """Answer the lines of stdin, one after another, until they end."""
    from i2s_spec.model.text.chat import Conversation
    from i2s_spec.model.text.generate import rate

    quiet = options["quiet"]
    tokenizer = tokenizer_of(model, options["pre"], quiet)
    form = _form(model, tokenizer, options["chat_format"], quiet)
    room = options["context"] or min(model.context_length, CONTEXT)
    limit = ANSWER if options["max_tokens"] is None else options["max_tokens"]
    conversation = Conversation(
        model, tokenizer, form, sampling, system=options["system"], limit=limit, room=room, head=options["head"]
    )
    shown = ModelText(escaped=None if options["raw"] is None else not options["raw"])
    if sys.stdin.isatty() and not quiet:
        remark("a line is a message; Ctrl-D ends the conversation")
    while (line := _line()) is not None:
        if not line.strip():
            continue
        try:
            generation = conversation.ask(line)
        except SettingError as error:
            if not conversation.messages:
                raise
            remark(f"{error}; the conversation ends here")
            return
        stream = tokenizer.stream(options["special"])
        with counting_bar("reading", len(generation.prompt), quiet) as progress:
            generation.progress = progress
            arriving = iter(generation)
            token = next(arriving, None)
        try:
            while token is not None:
                shown.write(stream.feed(token))
                token = next(arriving, None)
            shown.write(stream.finish())
        finally:
            shown.end_line()
        conversation.heard(generation)
        if not quiet:
            made = len(generation.tokens)
            remark(
                f"{counted(made, 'token')}, {rate(made - 1, generation.decode_seconds):.1f} tok/s"
                if made > 1
                else counted(made, "token")
            )


def _line() -> str | None:
    """Return the next message; None where there are no more. A terminal gets a prompt for it, on stderr."""
    if sys.stdin.isatty():
        sys.stderr.write("> ")
        sys.stderr.flush()
    try:
        line = sys.stdin.readline(LONGEST + 1)
    except UnicodeDecodeError:
        raise SettingError("the message is not UTF-8") from None
    if len(line) > LONGEST:
        raise SettingError(f"the message has more than {LONGEST:,} characters")
    return line.rstrip("\n") if line else None


def _form(model: Any, tokenizer: Tokenizer, name: str | None, quiet: bool) -> Any:
    """Return how the conversation is written."""
    from i2s_spec.model.text.chat import FORMATS, format_for, render

    if name == "file":
        vocabulary = tokenizer.vocabulary
        bos, eos = ("" if i is None else vocabulary.tokens[i] for i in (tokenizer.bos, tokenizer.eos))
        return partial(render, model.file.metadata, bos=bos, eos=eos)
    if name is not None:
        if name not in FORMATS:
            raise SettingError(f"there is no chat format {quote(name)}; there are {', '.join(FORMATS)} and file")
        return FORMATS[name]
    pre = tokenizer.choice.pre.name if tokenizer.choice is not None else None
    form = format_for(model.architecture.name, pre, tokenizer.vocabulary.ids)
    if not quiet:
        remark(f"chat format: {form.name} ({form.about})")
    return form


# --- a model's text on its way out -----------------------------------------------------------------------------------
# A model's tokens come from an untrusted file, so its text could move the cursor, set the clipboard or turn the reading
# direction. On a terminal everything that acts is shown as an escape (`\x1b`, `\u202e`); line feeds, tabs and whatever
# emoji and scripts need to join are left alone. In a pipe or a file the text is exact, as other tools' output is: it is
# data there, and an escape in it would be a lie. The log of a CI run is read by a program that obeys lines which begin
# with `::` or `##`: there, in a pipe, those are escaped too. `--raw` and `--escape` choose one of the two.

#: Controls but line feed and tab, directions and overrides, line and paragraph separators, annotations, tags, surrogates.
_ACTING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)


#: Variables by which CI systems say that they read what a program prints as commands.
_OBEYING: Final = ("GITHUB_ACTIONS", "TF_BUILD", "GITEA_ACTIONS", "FORGEJO_ACTIONS")
#: What commands to them begin with, where a line does.
_COMMAND: Final = re.compile(r"(?m)^([ \t]*)([:#])")
_BLANK: Final = re.compile(r"[ \t]*\Z")


def is_ci_log(stream: TextIO) -> bool:
    """Whether what is written to a stream goes into the log of a CI run that obeys lines in it."""
    if not any(os.environ.get(name) for name in _OBEYING):
        return False
    with suppress(OSError, ValueError):
        return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    return False


def harmless(text: str) -> str:
    """Make text harmless: nothing in it acts on a terminal, line by line as it was.

    >>> print(harmless("a\\x1b[2Jb"))
    a\\x1b[2Jb
    """
    return _ACTING.sub(lambda match: _escape(ord(match[0])), text)


def _escape(number: int) -> str:
    if number <= 0xFF:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def _as_number(match: re.Match[str]) -> str:
    return match[1] + _escape(ord(match[2]))


class ModelText:
    """Writes a model's text to a stream as it comes.

    :param escaped: whether it is made harmless; None for where the stream is a terminal, or the log of a CI run
    """

    def __init__(self, stream: TextIO | None = None, escaped: bool | None = None) -> None:
        self._stream = stream or sys.stdout
        self._disobeyed = escaped is not False and is_ci_log(self._stream)
        self._escaped = self._stream.isatty() or self._disobeyed if escaped is None else escaped
        self._begins = True  # whether there are only blanks on the line so far
        #: Whether something was written that a new line should end.
        self.open_line = False

    def write(self, text: str) -> None:
        """Write a piece of text at once."""
        if not text:
            return
        shown = harmless(text) if self._escaped else text
        if self._disobeyed:
            shown = self._without_commands(shown)
        self._stream.write(encodable(shown, self._stream))
        self._stream.flush()
        self.open_line = not shown.endswith("\n")

    def _without_commands(self, text: str) -> str:
        """Return text of which no line begins as a command does; the beginning of the line may have been written before."""
        first, end, rest = text.partition("\n")
        begun = first if not self._begins else _COMMAND.sub(_as_number, first, count=1)
        shown = begun + end + _COMMAND.sub(_as_number, rest)
        last = text.rpartition("\n")[2]
        self._begins = (self._begins or "\n" in text) and _BLANK.match(last) is not None
        return shown

    def end_line(self) -> None:
        """End the line, if one is open."""
        if self.open_line:
            self._stream.write("\n")
            self._stream.flush()
            self.open_line, self._begins = False, True
