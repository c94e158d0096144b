"""This module defines a conversation with a model: each answer is generated from all earlier turns.

The keys and values of earlier turns stay in the cache. The history is kept as tokens, so an answer is not tokenized
again, which could give other tokens; only a rendered template, which needs text, starts from text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from i2s_spec.model.text.chat_template import ChatFormat, Message
from i2s_spec.model.text.generate import Generation
from i2s_spec.model.text.sampling import Sampler, Sampling

if TYPE_CHECKING:
    from i2s_spec.model.cache import Cache
    from i2s_spec.model.forward import Model
    from i2s_spec.model.tokenizer.tokenizer import Tokenizer

#: Renders messages to text with a template.
Render = Callable[[Sequence[Message]], str]


class Conversation:
    """Turns between a user and a model.

    :param form: a declared format, or a function that renders all messages to text
    :param system: the system message
    :param limit: the most tokens of an answer
    :param room: the most tokens of the whole conversation; the model's context if None
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
    ) -> None:
        self.model = model
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
        """The answer to a message, as an iterator; afterwards `heard` adds it to the conversation.

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
        """The tokens of rendered text, which often contains the first token as text."""
        bos = self.tokenizer.bos
        tokens = self.tokenizer.encode(text, add_special=False, parse_special=True)
        wanted = self.tokenizer.add_bos and bos is not None
        return [bos, *tokens] if wanted and bos is not None and tokens[:1] != [bos] else tokens
