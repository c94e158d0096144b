"""Talking to a model, line by line: what `i2s run --chat` does."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from i2s_spec.cli.arguments.model_input import counting_bar, remark, tokenizer_of
from i2s_spec.cli.models.model_text import ModelText
from i2s_spec.errors import SettingError, counted, quote

if TYPE_CHECKING:
    from i2s_spec.model.text.sampling import Sampling
    from i2s_spec.model.tokenizer.tokenizer import Tokenizer

#: Most tokens of an answer, and of a conversation, unless asked for.
ANSWER = 512
CONTEXT = 4096

#: Longest message, in characters.
LONGEST = 1 << 20


def chat(model: Any, sampling: Sampling, options: dict[str, Any]) -> None:
    """Answer the lines of stdin, one after another, until they end."""
    from i2s_spec.model.text.conversation import Conversation
    from i2s_spec.model.text.generate import rate

    quiet = options["quiet"]
    tokenizer = tokenizer_of(model, options["pre"], quiet)
    form = _form(model, tokenizer, options["chat_format"], quiet)
    room = options["context"] or min(model.context_length, CONTEXT)
    limit = ANSWER if options["max_tokens"] is None else options["max_tokens"]
    conversation = Conversation(model, tokenizer, form, sampling, system=options["system"], limit=limit, room=room)
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
    """The next message; None where there are no more. A terminal gets a prompt for it, on stderr."""
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
    """How the conversation is written."""
    from i2s_spec.model.text.chat_template import FORMATS, format_for, render

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
