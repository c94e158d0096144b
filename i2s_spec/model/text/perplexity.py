"""Perplexity by the convention of llama.cpp's `llama-perplexity`, so that numbers can be compared.

The text is tokenized once, with a first token if the vocabulary adds one, and cut into chunks of `context` tokens that
do not overlap; the rest is not used. In each chunk the first token is replaced by the vocabulary's first token, if it
adds one. The model runs each chunk with an empty cache, and the logits at positions context//2 to context-2 are scored
on the next token, so every scored token has at least half a chunk before it. Perplexity is exp of the mean negative
log-likelihood over all scored tokens; the ± beside it is one standard error of that mean, times the perplexity.

Another context, another first token or another pre-tokenizer gives another number, and the word-level perplexity of
lm-eval is a different quantity: always state which one is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from i2s_spec.errors import FormatError, SettingError, Span, counted
from i2s_spec.model.forward import logits_of
from i2s_spec.model.text.generate import check_tokens
from i2s_spec.schema.faults import LOGITS_NOT_FINITE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model

#: The default of llama-perplexity.
DEFAULT_CONTEXT: Final = 512

#: How many rows of logits are computed together.
ROWS: Final = 128


class Chunk(NamedTuple):
    """One piece of the text: its number, its tokens, and the first position whose logits are scored."""

    number: int
    tokens: list[int]
    first: int

    @property
    def targets(self) -> list[int]:
        """The tokens that the scored positions (`first` to the last but one) should predict."""
        return self.tokens[self.first + 1 :]


def chunks(
    tokens: Sequence[int], context: int = DEFAULT_CONTEXT, bos: int | None = None, most: int | None = None
) -> list[Chunk]:
    """Cut a text into chunks.

    :param tokens: the whole text, with the first token that the vocabulary adds
    :param context: tokens of a chunk
    :param bos: the token that replaces the first one of each chunk; None to keep it
    :param most: the most chunks
    :raises SettingError: for a context below 4, or a text shorter than two chunks
    """
    if context < 4:
        raise SettingError(f"the context is {context}; it must be at least 4, because half of it is scored")
    if most is not None and most < 1:
        raise SettingError(f"{counted(most, 'chunk is', 'chunks are')} requested; at least 1 is needed")
    if len(tokens) < 2 * context:
        raise SettingError(
            f"the text has {counted(len(tokens), 'token')}; two chunks of {context:,} need "
            f"{2 * context:,}. Use a longer text or "
            "a smaller context"
        )
    count = len(tokens) // context if most is None else min(most, len(tokens) // context)
    pieces = [list(tokens[i * context : (i + 1) * context]) for i in range(count)]
    if bos is not None:
        for piece in pieces:
            piece[0] = bos
    return [Chunk(i, piece, context // 2) for i, piece in enumerate(pieces)]


def log_likelihoods(logits: NDArray[np.floating[Any]], targets: Sequence[int]) -> NDArray[np.float64]:
    """Return the natural logarithm of the probability of each target.

    :param logits: [n, vocab], of any float type; computed in float64
    :param targets: n token ids
    :returns: float64 [n]
    :raises FormatError: M901 for logits that are not finite
    """
    import numpy as np

    result = np.empty(len(targets))
    for i, (row, target) in enumerate(zip(logits, targets, strict=True)):
        values = row.astype(np.float64)
        best = int(np.argmax(values))
        if not math.isfinite(values[best]):
            raise FormatError(LOGITS_NOT_FINITE, Span(0, 0, "result_output"), got=float(values[best]), token=best)
        result[i] = values[target] - values[best] - math.log(np.exp(values - values[best]).sum())
    return result


class Estimate(NamedTuple):
    """A perplexity so far, its number of chunks and tokens, and one standard error (0 for a single token)."""

    perplexity: float
    error: float
    chunks: int
    tokens: int
    #: Mean negative log-likelihood, in nats.
    mean: float


class Running:
    """Running sums over scored tokens, which give an estimate at any time."""

    def __init__(self) -> None:
        self.chunks = 0
        self.count = 0
        self._sum = 0.0
        self._squares = 0.0

    def add(self, likelihoods: NDArray[np.float64]) -> Estimate:
        """Add the scored tokens of a chunk."""
        self.chunks += 1
        self.count += len(likelihoods)
        self._sum -= float(likelihoods.sum())
        self._squares += float((likelihoods * likelihoods).sum())
        return self.estimate

    @property
    def estimate(self) -> Estimate:
        mean = self._sum / self.count
        variance = self._squares / self.count - mean * mean
        deviation = math.sqrt(variance / (self.count - 1)) if variance > 0 and self.count > 1 else 0.0
        perplexity = math.exp(mean) if mean < 700 else math.inf
        return Estimate(perplexity, deviation * perplexity, self.chunks, self.count, mean)


def scored_logits(model: Model, chunk: Chunk) -> Iterator[NDArray[np.float32]]:
    """Yield the logits of the scored positions of a chunk, in order, some rows at a time: float32 [rows, vocab].

    A chunk of 512 tokens has 255 rows; with a vocabulary of 128,256 all at once would be 131 MB.
    """
    cache = model.new_cache(len(chunk.tokens))
    if chunk.first:
        model.forward(chunk.tokens[: chunk.first], cache=cache, logits="last")
    last = len(chunk.tokens) - 1  # no token follows it
    for start in range(chunk.first, last, ROWS):
        yield logits_of(model.forward(chunk.tokens[start : min(start + ROWS, last)], cache=cache))


def perplexity(
    model: Model,
    pieces: Sequence[Chunk],
    progress: Callable[[int, int], object] | None = None,
    also: Callable[[NDArray[np.float32]], object] | None = None,
) -> Iterator[Estimate]:
    """Yield the perplexity of a text, chunk by chunk: each estimate covers all chunks so far, the last one covers all.

    :param progress: called with (chunks done, chunks)
    :param also: called with the logits of the scored tokens, some rows at a time, in order
    :raises SettingError: for chunks longer than the model's context, or tokens that it does not have
    :raises FormatError: M901 if the model computes logits that are not finite
    """
    import numpy as np

    longest = max((len(piece.tokens) for piece in pieces), default=0)
    if longest > model.context_length:
        raise SettingError(
            f"chunks of {counted(longest, 'token')} are requested; the model's context is {model.context_length:,}"
        )
    check_tokens([token for piece in pieces for token in piece.tokens], model.vocab_size, "text")
    running = Running()
    for piece in pieces:
        found: list[NDArray[np.float64]] = []
        at = 0
        for logits in scored_logits(model, piece):
            found.append(log_likelihoods(logits, piece.targets[at : at + len(logits)]))
            if also is not None:
                also(logits)
            at += len(logits)
        yield running.add(np.concatenate(found))
        if progress is not None:
            progress(running.chunks, len(pieces))
