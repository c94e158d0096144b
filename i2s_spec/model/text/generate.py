"""Generate tokens: run the prompt through the model, then choose one token after another.

`Generation` is an iterator of token ids; at its end it has the reason for the end, and the time of each part.
`together` computes several at once. A `Sampler` chooses each token.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

from i2s_spec.errors import SettingError, counted
from i2s_spec.model.forward import logits_of
from i2s_spec.model.screened_head import ScreenedLogits
from i2s_spec.model.text.sampling import Sampler, Sampling

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.cache import Cache
    from i2s_spec.model.forward import Model, Result
    from i2s_spec.model.screened_head import ScreenedHead

#: Called with (tokens done, tokens to do).
Progress = Callable[[int, int], object]

#: How the final projection is read: all of it, or the rows that can decide about a token.
Head = Literal["whole", "screened"]

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
    :param head: whether the head may be read only as far as the choice of a token needs it; the tokens are the same
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
        head: Head = "screened",
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
        self.head = head
        #: The head of the model, where it is not read whole.
        self.screened: ScreenedHead | None = None
        #: The tokens so far.
        self.tokens: list[int] = []
        #: Why it ended; None while it has not.
        self.reason: Reason | None = None
        #: Seconds for the prompt, and seconds for the tokens after the first one.
        self.prefill_seconds = 0.0
        self.decode_seconds = 0.0

    def __iter__(self) -> Iterator[int]:
        """Yield one token after another."""
        if self.limit == 0:
            self.reason = "limit"
            return
        token = self._chosen(self._read(self.prompt))
        while True:
            yield token
            if self.reason is not None:
                return
            start = perf_counter()
            token = self._chosen(self._forward([token]))
            self.decode_seconds += perf_counter() - start

    def _chosen(self, logits: NDArray[Any] | ScreenedLogits) -> int:
        """Return the next token, which is counted."""
        token = self.sampler(logits)
        self.tokens.append(token)
        self.reason = self._ended(token)
        return token

    def _ended(self, token: int) -> Reason | None:
        if token in self.ends:
            return "end"
        if self.limit is not None and len(self.tokens) >= self.limit:
            return "limit"
        return "context" if len(self.prompt) + len(self.tokens) >= self.room else None

    def _read(self, prompt: list[int]) -> NDArray[Any] | ScreenedLogits:
        """Return the logits after the prompt."""
        if self.cache is None:
            most = self.room if self.limit is None else min(self.room, len(prompt) + self.limit)
            self.cache = self.model.new_cache(most)
        elif self.cache.used:
            self.reused = self.cache.reach(_shared(self.cache.tokens, prompt[:-1]))
            self.cache.cut(self.reused)
        start = perf_counter()
        logits = self._forward(prompt[self.reused :], self.progress)
        self.prefill_seconds = perf_counter() - start
        return logits

    def _forward(self, tokens: list[int], progress: Progress | None = None) -> NDArray[Any] | ScreenedLogits:
        """Return the logits after the last of these tokens, which are added to the cache."""
        which: Literal["last", "screened"] = "last" if self.head == "whole" else "screened"
        return self._last(self.model.forward(tokens, cache=self.cache, logits=which, progress=progress))

    def _last(self, result: Result) -> NDArray[Any] | ScreenedLogits:
        """Return the logits of the last token of a result."""
        logits: Any = logits_of(result)
        if isinstance(logits, ScreenedLogits):
            self.screened = logits.head
            return logits
        last: NDArray[Any] = logits[-1]
        return last


def together(generations: Iterable[Generation]) -> Iterator[tuple[int, int]]:
    """Compute tokens of several generations of one model together: the weights are read once for a token of each.

    Each has the tokens that it has alone. Prompts are read one after the other; a generation that has ended takes no part
    in later steps. The head is read whole if one of them has it so.

    :param generations: new ones, each with a sampler and a cache of its own, or none yet
    :returns: (number of the generation, its next token), those of a step in order
    :raises SettingError: for generations of different models, or that share a sampler or a cache
    """
    every = list(generations)
    for held in ([each.sampler for each in every], [each.cache for each in every if each.cache is not None]):
        if len({id(one) for one in held}) < len(held):
            raise SettingError("generations that run together need samplers and caches of their own")
    if any(each.model is not every[0].model for each in every):
        raise SettingError("generations that run together are of one model")
    running: list[tuple[int, Generation]] = []
    for number, each in enumerate(every):
        for token in islice(each, 1):
            yield number, token
        if each.reason is None:
            running.append((number, each))
    while running:
        start = perf_counter()
        caches = [each.cache for _, each in running if each.cache is not None]
        which: Literal["all", "screened"] = "all" if any(each.head == "whole" for _, each in running) else "screened"
        results = every[0].model.forward_batch([each.tokens[-1:] for _, each in running], caches, logits=which)
        for (number, each), result in zip(running, results, strict=True):
            token = each._chosen(each._last(result))  # noqa: SLF001
            seconds = perf_counter() - start  # of all: they share the weights, and what is read of the head
            for _, one in running:
                one.decode_seconds += seconds
            yield number, token
            start = perf_counter()
        running = [(number, each) for number, each in running if each.reason is None]


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """Return the length of the common beginning of two texts, in tokens."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))


def rate(tokens: int, seconds: float) -> float:
    """Return tokens per second; 0 if nothing was measured."""
    return tokens / seconds if seconds > 0 else 0.0
