"""Conversations with a model: prompts in a declared format or, on request, by the file's own template, and answers.

A chat template is a Jinja program from an untrusted file. It is never rendered unless a caller asks for it; then it is
rendered in Jinja's sandbox, in a separate process with limits on time, memory and output (extra `[chat]`).

The formats that are declared here (`FORMATS`) need no template. A prompt consists of marks, which are parsed for
special tokens, and of text of the participants, which is not, so text that a user types cannot end a turn.

    >>> [piece.text for piece in FORMATS["bitnet"].prompt([Message("user", "Hi!")])]
    ['User: ', 'Hi!', '<|eot_id|>', 'Assistant: ']
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import FormatError, MissingExtra, SettingError, Span, counted, quote
from i2s_spec.model.text.generate import Generation, Head
from i2s_spec.model.text.sampling import Sampler, Sampling
from i2s_spec.schema.architectures import declared_architecture
from i2s_spec.schema.faults import TEMPLATE_FAILED

if TYPE_CHECKING:
    from i2s_spec.model.cache import Cache
    from i2s_spec.model.forward import Model
    from i2s_spec.model.tokenizer.tokenizer import Tokenizer

#: The limits of rendering.
SECONDS: Final = 5.0
MEMORY_BYTES: Final = 256 << 20
OUTPUT_CHARACTERS: Final = 1 << 20
TEMPLATE_CHARACTERS: Final = 1 << 20

#: The key that holds a template.
KEY: Final = "tokenizer.chat_template"
#: The key of another one for conversations with tools, which only some files have.
TOOLS_KEY: Final = f"{KEY}.tool_use"

ROLES: Final = ("system", "user", "assistant")


class Message(NamedTuple):
    """One message of a conversation; `role` is one of `ROLES`."""

    role: str
    content: str


class PromptPiece(NamedTuple):
    """A part of a prompt; `mark` if it belongs to the format, not to the text of a participant."""

    text: str
    mark: bool


class ChatFormat(NamedTuple):
    """A chat format: the marks before and after the messages of each role.

    `opening` begins the prompt (the tokenizer adds the first token), `answer` begins the model's turn.
    """

    name: str
    about: str
    before: Mapping[str, str]
    after: Mapping[str, str]
    answer: str

    def prompt(self, messages: Sequence[Message], answer: bool = True) -> list[PromptPiece]:
        """Return the pieces of a conversation.

        :param answer: end with the beginning of the assistant's turn
        :raises SettingError: for a role that the format does not have
        """
        pieces: list[PromptPiece] = []
        for role, content in messages:
            if role not in self.before:
                raise SettingError(f"the chat format {self.name} has no role {quote(role)}")
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
        """The mark after an answer."""
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
            "[INST], with which some programs prompt 1bitLLM's base models and Llama 2",
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
    """Return the format for a model: the first one whose marks are in the vocabulary; `plain` if there is none.

    :param architecture: the value of `general.architecture`
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


def template_of(metadata: Mapping[str, Any], key: str = KEY) -> str | None:
    """Return the chat template of a file, as text; None if it has none. It is an untrusted program: escape it, do
    not run it.
    """
    value = metadata.get(key)
    return value if isinstance(value, str) else None


#: Signals of a program that fails by itself.
_CRASHES: Final = (signal.SIGSEGV, signal.SIGABRT, signal.SIGILL, signal.SIGFPE)

#: The program of the process that renders.
run_worker = subprocess.run


def ask_engine(
    request: Mapping[str, Any], seconds: float = SECONDS, memory: int = MEMORY_BYTES
) -> tuple[list[dict[str, Any]], str]:
    """Return the replies of `chat_template_worker` in a process of its own, and why it ended before the last; empty
    if it did not.

    :param request: what the worker reads, without its limits
    :param seconds: of processor time; the process is given up after twice as many and five
    :param memory: bytes
    """
    limits = {"seconds": seconds, "memory": memory, "path": sys.path}
    script = str(Path(__file__).with_name("chat_template_worker.py"))
    output, ended = b"", ""
    try:
        done = run_worker(
            [sys.executable, "-I", "-S", script],
            input=json.dumps({**request, **limits}).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=2 * seconds + 5,
            check=False,
            env={},
        )
        output = done.stdout
        if done.returncode != 0:
            ended = f"it took more than {seconds:g} seconds or {memory >> 20} MB, and was stopped"
            if -done.returncode in _CRASHES:
                ended = f"it ended with {signal.Signals(-done.returncode).name}"
    except subprocess.TimeoutExpired as error:
        output, ended = error.stdout or b"", f"it did not end within {seconds:g} seconds"
    lines = output.splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith(b"\n")], ended


def context_of(
    messages: Sequence[Message | Mapping[str, Any]],
    special: Mapping[str, str],
    answer: bool,
    tools: Sequence[Any] | None = None,
) -> dict[str, Any]:
    """Return the variables that transformers gives to a template.

    :param special: the texts of special tokens by name, such as `bos_token`
    """
    plain = [message._asdict() if isinstance(message, Message) else dict(message) for message in messages]
    return {"messages": plain, "tools": tools, "documents": None, "add_generation_prompt": answer, **special}


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

    Call it only if the user asked for it: the template is a program from the file. It runs in Jinja's immutable
    sandbox, in another process that ends after `seconds` of processor time, may use 256 MB, and whose output is limited
    to `characters`.

    :param bos: the value of `bos_token` in the template
    :param eos: the value of `eos_token`
    :param answer: the value of `add_generation_prompt`
    :raises SettingError: for a file without a template
    :raises FormatError: T951 for a template that is invalid, raises an error, or exceeds a limit
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
    context = context_of(messages, {"bos_token": bos, "eos_token": eos}, answer)
    asked = {"engine": "jinja", "templates": [template], "contexts": [(0, context)], "characters": characters}
    replies, ended = ask_engine(asked, seconds)
    if not replies:
        raise fail(ended)
    [reply] = replies
    if "missing" in reply:
        raise MissingExtra("rendering a chat template", "chat")
    if "error" in reply:
        raise fail(str(reply["error"]))
    return str(reply["text"])


# --- conversation ----------------------------------------------------------------------------------------------------
# Each answer is generated from all earlier turns. Their keys and values stay in the cache. The history is kept as
# tokens, so an answer is not tokenized again, which could give other tokens; only a rendered template, which needs
# text, starts from text.

#: Renders messages to text with a template.
Render = Callable[[Sequence[Message]], str]


class Conversation:
    """Turns between a user and a model.

    :param form: a declared format, or a function that renders all messages to text
    :param system: the system message
    :param limit: the most tokens of an answer
    :param room: the most tokens of the whole conversation; the model's context if None
    :param head: as `Generation`
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        form: ChatFormat | Render,
        sampling: Sampling | None = None,
        *,
        system: str | None = None,
        limit: int | None = None,
        room: int | None = None,
        head: Head = "screened",
    ) -> None:
        self.model = model
        self.head = head
        self.tokenizer = tokenizer
        self.form = form
        self.sampler = Sampler(sampling or Sampling())
        self.limit = limit
        self.room = room
        self.messages: list[Message] = [Message("system", system)] if system else []
        self._cache: Cache | None = None
        self._history: list[tuple[str, bool] | int] = []
        if system and isinstance(form, ChatFormat):
            self._history += form.prompt(self.messages, answer=False)

    def ask(self, content: str, progress: Callable[[int, int], object] | None = None) -> Generation:
        """Return the answer to a message, as an iterator; afterwards `heard` adds it to the conversation.

        :raises SettingError: if the conversation no longer fits
        """
        message = Message("user", content)
        if isinstance(self.form, ChatFormat):
            pieces = [*self._history, *self.form.prompt([message])]
            tokens = self.tokenizer.encode_pieces(pieces)
        else:
            tokens = self._of_rendered(self.form([*self.messages, message]))
        room = self.model.context_length if self.room is None else self.room
        if self._cache is None:
            self._cache = self.model.new_cache(min(room, self.model.context_length))
        generation = Generation(
            self.model,
            tokens,
            self.sampler,
            limit=self.limit,
            ends=self.tokenizer.ends,
            cache=self._cache,
            room=room,
            progress=progress,
            head=self.head,
        )
        self.messages.append(message)
        if isinstance(self.form, ChatFormat):
            self._history = pieces
        return generation

    def heard(self, generation: Generation) -> None:
        """Add an answer to the conversation, even if it was interrupted."""
        self.messages.append(Message("assistant", self.tokenizer.decode(generation.tokens)))
        if not isinstance(self.form, ChatFormat):
            return
        self._history += generation.tokens
        marks: list[Any] = self.tokenizer.special_parts(self.form.turn_end)
        if generation.tokens and marks and marks[0] == generation.tokens[-1]:
            marks = marks[1:]  # the model has generated the mark itself
        self._history += [mark if isinstance(mark, int) else (mark, True) for mark in marks]

    def _of_rendered(self, text: str) -> list[int]:
        """Return the tokens of rendered text, which often contains the first token as text."""
        bos = self.tokenizer.bos
        tokens = self.tokenizer.encode(text, add_special=False, parse_special=True)
        wanted = self.tokenizer.add_bos and bos is not None
        return [bos, *tokens] if wanted and bos is not None and tokens[:1] != [bos] else tokens
