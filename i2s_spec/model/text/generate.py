"""This module generates tokens: it runs the prompt through the model, then one token after another.

`Generation` is an iterator of token ids; at its end it has the reason for the end, and the time of each part.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from i2s_spec.errors import SettingError, counted
from i2s_spec.model.outputs import logits_of
from i2s_spec.model.text.sampling import Sampler, Sampling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.cache import Cache
    from i2s_spec.model.forward import Model

#: Called with (tokens done, tokens to do).
Progress = Callable[[int, int], object]

#: Why generation ended: a token that ends a text, the requested number of tokens, or no room for more.
Reason = Literal["end", "limit", "context"]


def check_tokens(tokens: Sequence[int], vocab: int, what: str = "prompt") -> None:
    """Check that there are tokens, and that all are in the vocabulary.

    :param what: their name in the message
    :raises SettingError: otherwise
    """
    if not tokens:
        raise SettingError(f"the {what} is empty: a model needs at least one token")
    for i, token in enumerate(tokens):
        if not 0 <= token < vocab:
            raise SettingError(f"token {i:,} of the {what} is {token:,}; this model has tokens 0 to {vocab - 1:,}")


class Generation:
    """Tokens that follow a prompt, computed one by one on demand.

    :param prompt: token ids; tokens that the cache holds already are not computed again
    :param limit: the most tokens to generate; None for as many as fit
    :param ends: tokens after which to stop; such a token is included
    :param cache: a cache of an earlier text; the common beginning of both texts is not computed again. A new one if None
    :param room: the most tokens, prompt and answer together; the model's context if None
    :param progress: called with (tokens done, tokens of the prompt) while the prompt is read
    :raises SettingError: for a prompt that is empty, has tokens that do not exist, or is longer than the room
    """

    def __init__(
        self,
        model: Model,
        prompt: Sequence[int],
        sampling: Sampling | Sampler | None = None,
        *,
        limit: int | None = None,
        ends: Collection[int] = (),
        cache: Cache | None = None,
        room: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.room = model.context_length if room is None else room
        if self.room > model.context_length:
            raise SettingError(
                f"{counted(self.room, 'token is', 'tokens are')} requested in all; the model's context "
                f"is {model.context_length:,}"
            )
        self.prompt = list(prompt)
        check_tokens(self.prompt, model.vocab_size)
        if limit is not None and limit < 0:
            raise SettingError(f"limit={limit}: the number of tokens to generate must be 0 or more")
        if len(self.prompt) > self.room:
            more = f" (the model's context is {model.context_length:,})" if self.room < model.context_length else ""
            raise SettingError(
                f"the prompt has {counted(len(self.prompt), 'token')}; there is room for {self.room:,}{more}"
            )
        self.model = model
        self.sampler = sampling if isinstance(sampling, Sampler) else Sampler(sampling or Sampling())
        self.ends = frozenset(ends)
        self.limit = limit
        self.cache = cache
        #: How many tokens of the prompt the cache held already.
        self.reused = 0
        self.progress = progress
        #: The tokens so far.
        self.tokens: list[int] = []
        #: Why it ended; None while it has not.
        self.reason: Reason | None = None
        #: Seconds for the prompt, and seconds for the tokens after the first one.
        self.prefill_seconds = 0.0
        self.decode_seconds = 0.0

    def __iter__(self) -> Iterator[int]:
        """One token after another."""
        if self.limit == 0:
            self.reason = "limit"
            return
        logits = self._read(self.prompt)
        while True:
            token = self.sampler(logits)
            self.tokens.append(token)
            self.reason = self._ended(token)
            yield token
            if self.reason is not None:
                return
            start = perf_counter()
            logits = self._forward([token])
            self.decode_seconds += perf_counter() - start

    def _ended(self, token: int) -> Reason | None:
        if token in self.ends:
            return "end"
        if self.limit is not None and len(self.tokens) >= self.limit:
            return "limit"
        return "context" if len(self.prompt) + len(self.tokens) >= self.room else None

    def _read(self, prompt: list[int]) -> NDArray[Any]:
        """The logits after the prompt."""
        if self.cache is None:
            most = self.room if self.limit is None else min(self.room, len(prompt) + self.limit)
            self.cache = self.model.new_cache(most)
        elif self.cache.used:
            self.reused = _shared(self.cache.tokens, prompt[:-1])
            self.cache.cut(self.reused)
        start = perf_counter()
        logits = self._forward(prompt[self.reused :], self.progress)
        self.prefill_seconds = perf_counter() - start
        return logits

    def _forward(self, tokens: list[int], progress: Progress | None = None) -> NDArray[Any]:
        """The logits after the last of these tokens, which are added to the cache."""
        result = self.model.forward(tokens, cache=self.cache, logits="last", progress=progress)
        last: NDArray[Any] = logits_of(result)[-1]
        return last


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """The length of the common beginning of two texts, in tokens."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))


def rate(tokens: int, seconds: float) -> float:
    """Tokens per second; 0 if nothing was measured."""
    return tokens / seconds if seconds > 0 else 0.0
