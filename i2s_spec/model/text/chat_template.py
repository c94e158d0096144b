"""This module turns conversations into prompts: by a declared format, or, where asked, by the file's own template.

A chat template is a Jinja program out of an untrusted file. It is shown and never rendered, unless a caller asks for
exactly that; then it is rendered in Jinja's sandbox, in a process of its own with bounds on time, memory and output
(extra `[chat]`).

The formats that are declared here need no template. A prompt is made of pieces that are marks (whose text is parsed for
special tokens) and pieces that are somebody's text (whose text is not), so that what a user types cannot end a turn.

    >>> [piece.text for piece in FORMATS["bitnet"].prompt([Message("user", "Hi!")])]
    ['User: ', 'Hi!', '<|eot_id|>', 'Assistant: ']
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from i2s_spec.errors import FormatError, MissingExtra, SettingError, Span, counted, quote
from i2s_spec.schema.architectures.architecture import declared_architecture
from i2s_spec.schema.faults import TEMPLATE_FAILED

#: What rendering may take.
SECONDS: Final = 5.0
MEMORY_BYTES: Final = 256 << 20
OUTPUT_CHARACTERS: Final = 1 << 20
TEMPLATE_CHARACTERS: Final = 1 << 20

#: The key that holds a template.
KEY: Final = "tokenizer.chat_template"

ROLES: Final = ("system", "user", "assistant")


class Message(NamedTuple):
    """One message of a conversation; `role` is one of `ROLES`."""

    role: str
    content: str


class PromptPiece(NamedTuple):
    """A part of a prompt; `mark` where it is the format's and not somebody's text."""

    text: str
    mark: bool


class ChatFormat(NamedTuple):
    """How conversations are written: what stands before and after the messages of each role.

    `opening` begins the prompt (the first token is the tokenizer's to add), `answer` begins the model's turn.
    """

    name: str
    about: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    answer: str

    def prompt(self, messages: Sequence[Message], answer: bool = True) -> list[PromptPiece]:
        """The pieces of a conversation.

        :param answer: end with the beginning of the assistant's turn
        :raises SettingError: for a role that the format does not have
        """
        pieces: list[PromptPiece] = []
        for role, content in messages:
            if role not in self.before:
                raise SettingError(f"there is no role {quote(role)} in the chat format {self.name}")
            pieces += [
                PromptPiece(self.before[role], True),
                PromptPiece(content.strip(), False),
                PromptPiece(self.after[role], True),
            ]
        if answer:
            pieces.append(PromptPiece(self.answer, True))
        return [piece for piece in pieces if piece.text]

    @property
    def turn_end(self) -> str:
        """What stands after an answer."""
        return self.after["assistant"]


def _same(text: str) -> dict[str, str]:
    return dict.fromkeys(ROLES, text)


_LLAMA3_ANSWER: Final = "<|start_header_id|>assistant<|end_header_id|>\n\n"

#: The formats that are declared here, by name.
FORMATS: Final[Mapping[str, ChatFormat]] = {
    each.name: each
    for each in (
        ChatFormat(
            "bitnet",
            "BitNet-b1.58-2B-4T",
            {"system": "System: ", "user": "User: ", "assistant": "Assistant: "},
            _same("<|eot_id|>"),
            "Assistant: ",
        ),
        ChatFormat(
            "llama3",
            "Llama 3 Instruct",
            {role: f"<|start_header_id|>{role}<|end_header_id|>\n\n" for role in ROLES},
            _same("<|eot_id|>"),
            _LLAMA3_ANSWER,
        ),
        ChatFormat(
            "falcon3",
            "Falcon3 Instruct and Falcon-E Instruct",
            {role: f"<|{role}|>\n" for role in ROLES},
            {"system": "\n", "user": "\n", "assistant": "<|endoftext|>\n"},
            "<|assistant|>\n",
        ),
        ChatFormat(
            "chatml",
            "ChatML, as Qwen writes it",
            {role: f"<|im_start|>{role}\n" for role in ROLES},
            _same("<|im_end|>\n"),
            "<|im_start|>assistant\n",
        ),
        ChatFormat(
            "inst",
            "[INST], as some programs prompt 1bitLLM's base models and Llama 2",
            {"system": "", "user": "[INST] ", "assistant": " "},
            {"system": "\n\n", "user": " [/INST]", "assistant": "</s>"},
            "",
        ),
        ChatFormat(
            "plain",
            "no special tokens at all",
            {"system": "", "user": "User: ", "assistant": "Assistant: "},
            {"system": "\n\n", "user": "\n", "assistant": "\n"},
            "Assistant:",
        ),
    )
}


def format_for(architecture: str, pre: str | None, tokens: Mapping[str, int]) -> ChatFormat:
    """The format that suits a model: the first whose marks the vocabulary has; `plain` where it has none.

    :param architecture: what `general.architecture` says
    :param pre: the name of the pre-tokenizer
    :param tokens: the vocabulary's ids by token
    """
    declared = declared_architecture(architecture)
    if declared is not None and declared.chat_format is not None:
        chat_format = FORMATS[declared.chat_format]
        if chat_format.turn_end in tokens:
            return chat_format
    if pre in ("falcon3", "falcon_e"):
        return FORMATS["falcon3"]
    for name, mark in (("llama3", "<|start_header_id|>"), ("chatml", "<|im_start|>")):
        if mark in tokens:
            return FORMATS[name]
    return FORMATS["plain"]


def template_of(metadata: Mapping[str, Any]) -> str | None:
    """The chat template of a file, as text; None where it has none. A stranger's program: escape it, do not run it."""
    value = metadata.get(KEY)
    return value if isinstance(value, str) else None


#: Starts the process that renders.
run_worker = subprocess.run


def render(
    metadata: Mapping[str, Any],
    messages: Sequence[Message],
    *,
    bos: str = "",
    eos: str = "",
    answer: bool = True,
    seconds: float = SECONDS,
    characters: int = OUTPUT_CHARACTERS,
) -> str:
    """Run the file's own chat template on a conversation.

    Only for callers that were asked to: it is a program from the file. It runs in Jinja's immutable sandbox, in another
    process that ends after `seconds` of processor time, may take 256 MB, and whose output is cut off at `characters`.

    :param bos: what the template sees as `bos_token`
    :param eos: what it sees as `eos_token`
    :param answer: what it sees as `add_generation_prompt`
    :raises SettingError: for a file without a template
    :raises FormatError: T951 for a template that is wrong, refuses, or takes too much
    :raises MissingExtra: without the extra `[chat]`
    """
    template = template_of(metadata)
    if template is None:
        raise SettingError(f"the file has no {KEY}")
    entry = getattr(metadata, "entry", None)
    span = entry(KEY).value_span if entry is not None else Span(0, 0, KEY)

    def fail(reason: str) -> FormatError:
        return FormatError(TEMPLATE_FAILED, span, got=reason)

    if len(template) > TEMPLATE_CHARACTERS:
        raise fail(f"it has {counted(len(template), 'character')}; the limit is {TEMPLATE_CHARACTERS:,}")
    request = {
        "template": template,
        "context": {
            "messages": [message._asdict() for message in messages],
            "bos_token": bos,
            "eos_token": eos,
            "add_generation_prompt": answer,
        },
        "seconds": seconds,
        "memory": MEMORY_BYTES,
        "characters": characters,
        "path": sys.path,
    }
    script = str(Path(__file__).with_name("chat_template_worker.py"))
    try:
        done = run_worker(
            [sys.executable, "-I", "-S", script],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=2 * seconds + 5,
            check=False,
            env={},
        )
    except subprocess.TimeoutExpired:
        raise fail(f"it did not end within {seconds:g} seconds") from None
    if done.returncode != 0 or not done.stdout:
        raise fail(f"it took more than {seconds:g} seconds or {MEMORY_BYTES >> 20} MB, and was stopped")
    reply = json.loads(done.stdout)
    if "missing" in reply:
        raise MissingExtra("rendering a chat template", "chat")
    if "error" in reply:
        raise fail(str(reply["error"]))
    return str(reply["text"])
