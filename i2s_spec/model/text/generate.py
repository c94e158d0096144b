"""Generate tokens: run the prompt through the model, then choose one token after another.

`Generation` is an iterator of token ids; at its end it has the reason for the end, and the time of each part.
`together` computes several at once. A `Sampler` chooses each token from the logits, as its `Sampling` says.

    >>> import numpy as np
    >>> Sampler(Sampling())(np.float32([0.5, 2.0, 1.0]))
    1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal

from i2s_spec.errors import FormatError, SettingError, Span, counted
from i2s_spec.model.forward import logits_of
from i2s_spec.model.screened_head import ScreenedLogits
from i2s_spec.schema.faults import LOGITS_NOT_FINITE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.model.cache import Cache
    from i2s_spec.model.forward import Model, Result
    from i2s_spec.model.screened_head import Leading, ScreenedHead

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


# --- sampling --------------------------------------------------------------------------------------------------------
# The next token is the most probable one, or drawn at random after the usual filters. The order is that of llama.cpp:
# top-k keeps the k most probable tokens, top-p then keeps the fewest of these that hold the share p of the remaining
# probability, and finally the temperature divides the logits before a token is drawn. Nothing else changes the logits:
# no penalty for repetition, no bias.
#
# Drawing is reproducible. Logits are converted to float64; tokens are sorted by descending logits, equal ones by id;
# one number u in [0, 1) for each token comes from NumPy's PCG64 seeded with `seed` (53 bits of each draw). The result
# is the first token at which the running sum of probabilities exceeds u times their total.


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen.

    :param temperature: 0 always takes the most probable token; larger values make probabilities more even
    :param top_k: how many of the most probable tokens are candidates; 0 for all
    :param top_p: the share of probability that the candidates hold together; 1 for all
    :param seed: the seed of the random numbers
    :raises SettingError: for a number out of range
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise SettingError(f"the temperature is {self.temperature}; it must be 0 or a finite number above")
        if self.top_k < 0:
            raise SettingError(f"top-k is {self.top_k}; it must be 0 (all tokens) or above")
        if not 0 < self.top_p <= 1:
            raise SettingError(f"top-p is {self.top_p}; it must be above 0 and at most 1")
        if not 0 <= self.seed < 1 << 128:
            raise SettingError(f"the seed is {self.seed}; it must be 0 or above, and below 2^128")

    @property
    def greedy(self) -> bool:
        """Whether the choice is not random."""
        return self.temperature == 0 or self.top_k == 1


class Sampler:
    """Chooses tokens, one after another, from one stream of random numbers."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling
        self._random: Any = None
        self._number: float | None = None  # drawn for the next token

    def __call__(self, logits: NDArray[np.floating[Any]] | ScreenedLogits) -> int:
        """Return the next token.

        :param logits: [vocab], any float type; of `ScreenedLogits` no more are read than the choice needs
        :raises FormatError: M901 for logits that are not finite; -inf is allowed, and such a token is never chosen
        """
        if not isinstance(logits, ScreenedLogits):
            return self._chosen(logits)
        if self.sampling.greedy or self.sampling.top_k:
            ids, values = logits.largest(1 if self.sampling.greedy else self.sampling.top_k)
            token = self._chosen(values)
            return token if ids is None else int(ids[token])
        token_of_few = self._of_leading(logits)
        return self._chosen(logits.whole()) if token_of_few is None else token_of_few

    def _chosen(self, logits: NDArray[np.floating[Any]]) -> int:
        """Return the position of the next token in these logits."""
        import numpy as np

        if len(logits) > FEW and not self.sampling.greedy and not self.sampling.top_k:
            require_finite(logits)
            at = self._drawn(logits.astype(np.float64))
            if at is not None:
                return at
        tokens, probabilities = self.distribution(logits)
        if len(tokens) == 1:
            return int(tokens[0])
        running = np.cumsum(probabilities)
        at = int(np.searchsorted(running, self._next() * running[-1], side="right"))
        self._number = None
        return int(tokens[min(at, len(tokens) - 1)])

    def _next(self) -> float:
        """Return a number in [0, 1), the same until a token is chosen with it."""
        import numpy as np

        if self._random is None:
            self._random = np.random.Generator(np.random.PCG64(self.sampling.seed))
        if self._number is None:
            self._number = float(self._random.random())
        return self._number

    def _of_leading(self, logits: ScreenedLogits) -> int | None:
        """Return the next token, if some rows above all others decide about it; with top-p they rarely do, and no
        copy is made.
        """
        import numpy as np

        leading = None
        for count in LEADING:
            leading = logits.leading(count, making=self.sampling.top_p == 1)
            if leading is None:
                return None
            if len(leading.ids) and math.isfinite(leading.logits.max()):
                at = self._drawn(leading.logits.astype(np.float64), leading)
                if at is not None:
                    logits.decided(True)
                    return int(leading.ids[at])
        logits.decided(False)
        return None

    def _drawn(self, values: NDArray[np.float64], leading: Leading | None = None) -> int | None:
        """Return the position of the token that `distribution` and a number draw, without sorting all values.

        Sums in another order are other sums: where they differ by less than 1e-9 from what decides, the answer is None.

        :param values: logits in the order of their ids, all or those above all others
        :param leading: where not all, bounds of the others
        """
        import numpy as np

        top, settings = values.max(), self.sampling

        def weighed(part: NDArray[np.float64], temperature: float, share: float) -> int | None:
            with np.errstate(over="ignore"):
                weights = np.exp((part - top) / temperature)
                inner = weights.sum()
                low = high = inner
                if others is not None:
                    low = inner + np.exp((others.lower - top) / temperature).sum()
                    high = inner + np.exp((others.upper - top) / temperature).sum()
            return placed(part, weights, share * low * (1 - SLACK), share * high * (1 + SLACK))

        others, positions = leading, None
        if settings.top_p < 1:
            at = weighed(values, 1.0, settings.top_p)
            if at is None:
                return None
            before = (values == values[at]) & (np.arange(len(values)) <= at)
            positions, others = np.flatnonzero((values > values[at]) | before), None
            values = values[positions]
            if len(values) == 1:
                return int(positions[0])
        at = weighed(values, settings.temperature, self._next())
        if at is None:
            return None
        self._number = None
        return at if positions is None else int(positions[at])

    def distribution(self, logits: NDArray[np.floating[Any]]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the candidates, most probable first, and their probabilities, which sum to 1."""
        import numpy as np

        best, top = require_finite(logits)
        settings = self.sampling
        if settings.greedy:
            return np.array([best]), np.ones(1)
        values = logits.astype(np.float64)
        candidates = np.arange(len(values))
        if 0 < settings.top_k < len(values):  # all tokens as good as the k-th, so that only few are sorted
            candidates = np.flatnonzero(values >= np.partition(values, -settings.top_k)[-settings.top_k])
        order = candidates[np.argsort(-values[candidates], kind="stable")]
        if settings.top_k:
            order = order[: settings.top_k]
        retained = values[order] - top
        if settings.top_p < 1:
            running = np.cumsum(np.exp(retained))
            count = int(np.searchsorted(running, settings.top_p * running[-1], side="left")) + 1
            order, retained = order[:count], retained[:count]
        with np.errstate(over="ignore"):  # a tiny temperature: the others become -inf
            weights = np.exp(retained / settings.temperature)
        return order, weights / weights.sum()


#: How many rows above all others are tried, one number after the other.
LEADING: Final = (256, 4096)
#: Logits that are sorted at once.
FEW: Final = 4096
#: What sums of doubles in different orders differ by at most, relative.
SLACK: Final = 1e-9


def require_finite(logits: NDArray[np.floating[Any]]) -> tuple[int, float]:
    """Return the token with the largest logit, and this.

    :raises FormatError: M901 if it is not finite
    """
    if logits.ndim != 1 or not len(logits):
        raise ValueError(f"logits of shape {logits.shape}; [vocab] is needed")
    best = int(logits.argmax())  # the first NaN, if there is one
    top = float(logits[best])
    if not math.isfinite(top):
        raise FormatError(LOGITS_NOT_FINITE, Span(0, 0, "result_output"), got=top, token=best)
    return best, top


def placed(values: NDArray[np.float64], weights: NDArray[np.float64], low: float, high: float) -> int | None:
    """Return the position at which the running sum of weights, in the order of falling values, passes every number
    from `low` to `high`; None if no position passes them all."""
    import numpy as np

    members, before = np.arange(len(values)), 0.0
    if len(values) > FEW:  # the sum passes them within one of many bins, and only this is sorted
        bins = np.minimum((values.max() - values) * 64, FEW - 1).astype(np.intp)
        sums = np.cumsum(np.bincount(bins, weights=weights, minlength=FEW))
        number = int(np.searchsorted(sums, low, side="right"))
        members = np.flatnonzero(bins == number)
        before = float(sums[number - 1]) if number else 0.0
    order = members[np.argsort(-values[members], kind="stable")]
    first, last = np.searchsorted(before + np.cumsum(weights[order]), (low, high), side="right")
    return int(order[first]) if first == last < len(order) else None
