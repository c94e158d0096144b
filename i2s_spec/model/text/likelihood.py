"""This module runs hypotheses on more and more of a text, and drops those that have lost.

All hypotheses read the same tokens. They are run in rounds, each with more tokens than before; the tokens that a
hypothesis has read stay in its cache, so no token is computed twice. The one with the least loss leads. A hypothesis is
dropped when

    it is behind the leader by `NATS` in sum, and by `SIGMAS` standard errors of the mean difference token by token.

The first criterion is Ville's inequality: if the text were drawn from the hypothesis, its likelihood would fall behind
that of another one by a factor of e^20.7 with a probability of at most 10^-9, however often it is tested; so it is
valid at any stopping time. The second is for texts that no model has drawn: the lead must not come from a few tokens.
Logits that are not finite, or a probability of 0 for a token, lose at once.

Every model must beat `chance`, which predicts each token by its frequency so far in the text. It knows nothing of
language, and a model that is not trained does not beat it. A hypothesis that chance beats is dropped as well, and if
the leader is no better than chance after `FUTILE` tokens, the race ends undecided.

    >>> import numpy as np
    >>> beats(np.full(40, 2.0), np.linspace(2.5, 3.5, 40)), beats(np.full(40, 2.0), np.linspace(1.0, 3.5, 40))
    (True, False)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf, log, sqrt
from typing import TYPE_CHECKING, Final

import numpy as np

from i2s_spec.errors import FormatError
from i2s_spec.model.outputs import logits_of
from i2s_spec.model.text.perplexity import log_likelihoods
from i2s_spec.schema.faults import LOGITS_NOT_FINITE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.cache import Cache
    from i2s_spec.model.forward import Model
    from i2s_spec.model.likelihood.possible_mistakes import PossibleMistake

#: A hypothesis is dropped if it is behind by this many nats (a probability of 10^-9) and this many standard errors.
NATS: Final = 20.723266
SIGMAS: Final = 6.0
#: Tokens that have been scored after each round. For a trained model, most wrong hypotheses have lost after 32, for
#: random weights between 64 and 96; every round costs a change of weights.
ROUNDS: Final = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
#: Tokens that are scored in the first round, and in all rounds.
FIRST: Final = ROUNDS[0]
MOST: Final = ROUNDS[-1]
#: Tokens after which a race is given up if the leader does not beat chance.
FUTILE: Final = 256

#: Why a hypothesis without losses is dropped.
NOT_FINITE: Final = "its logits are not finite"

Progress = Callable[[int, int], object]


class Runner:
    """One hypothesis in the race: `losses` of the tokens that it has read, in nats, float64.

    `lost` says why it was dropped; it is empty as long as it is in the race.
    """

    def __init__(self, hypothesis: PossibleMistake) -> None:
        self.hypothesis = hypothesis
        self.losses: NDArray[np.float64] = np.empty(0)
        self.lost = ""
        self._caches: dict[int, Cache] = {}

    @property
    def mean(self) -> float:
        """The mean loss."""
        return float(self.losses.mean()) if self.losses.size and self.lost != NOT_FINITE else inf

    def read(self, model: Model, pieces: Sequence[Sequence[int]], count: int) -> None:
        """Continue until this many tokens are scored.

        :param model: the unchanged model
        :param pieces: the text, in sequences that fit into the model's context
        """
        model = self.hypothesis.change(model)
        try:
            with np.errstate(all="ignore"):
                found = list(self._scored(model, pieces, count))
        except FormatError as error:
            if error.fault is not LOGITS_NOT_FINITE:
                raise
            self.drop(NOT_FINITE)
            return
        self.losses = np.concatenate([self.losses, *found])
        if not np.isfinite(self.losses).all():
            self.drop("it gives a token the probability 0")

    def drop(self, why: str) -> None:
        """Mark it as lost, and free its caches."""
        self.lost = why
        self._caches.clear()

    def _scored(self, model: Model, pieces: Sequence[Sequence[int]], count: int) -> Iterator[NDArray[np.float64]]:
        start = 0
        for number, piece in enumerate(pieces):
            stop = start + len(piece) - 1  # the first token of a piece has no prediction
            done, until = max(self.losses.size, start), min(stop, count)
            if done < until:
                ids = [(token + self.hypothesis.shift) % model.vocab_size for token in piece]
                cache = self._caches.setdefault(number, model.new_cache(len(piece)))
                logits = logits_of(model.forward(ids[done - start : until - start], cache=cache))
                yield -log_likelihoods(logits, ids[done - start + 1 : until - start + 1])
            if until == stop:
                self._caches.pop(number, None)
            start = stop


def beats(leader: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    """Whether losses are certainly less than others, token by token; the longer series is cut."""
    return behind(leader, other)[0] >= NATS and behind(leader, other)[1] >= SIGMAS


def behind(leader: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """By how many nats losses exceed others, and by how many standard errors of their mean difference."""
    n = min(leader.size, other.size)
    differences = other[:n] - leader[:n]
    if n < 2:
        return 0.0, 0.0
    total, error = float(differences.sum()), float(differences.std(ddof=1)) * sqrt(n)
    return total, total / error if error > 0 else (inf if total > 0 else 0.0)


def chance(pieces: Sequence[Sequence[int]], vocab: int, count: int) -> NDArray[np.float64]:
    """The losses of tokens if each is predicted by its frequency so far, with half an occurrence of every token added."""
    seen: Counter[int] = Counter()
    losses: list[float] = []
    for piece in pieces:
        for token in piece[1:]:
            losses.append(log(len(losses) + vocab / 2) - log(seen[token] + 0.5))
            seen[token] += 1
    return np.array(losses[:count])


def race(
    runners: Sequence[Runner], model: Model, pieces: Sequence[Sequence[int]], progress: Progress | None = None
) -> None:
    """Run all hypotheses until one is left or the text ends; each records why it was dropped.

    :param pieces: the text, in sequences that fit into the model's context
    :param progress: called with (tokens computed, tokens in all if nothing more is dropped)
    """
    total = min(MOST, sum(len(piece) - 1 for piece in pieces))
    luck = chance(pieces, model.vocab_size, total)
    done = 0
    for count in [*(each for each in ROUNDS if each < total), total]:
        running = [each for each in runners if not each.lost]
        for at, each in enumerate(running):
            before = each.losses.size
            each.read(model, pieces, count)
            done += count - before
            if progress is not None:
                progress(done, done + (len(running) - at - 1) * (count - before))
        leader = _drop([each for each in running if not each.lost], luck)
        if leader is None or sum(not each.lost for each in runners) < 2:
            return
        if count >= FUTILE and leader.losses.sum() >= luck[:count].sum():
            return


def _drop(running: Sequence[Runner], luck: NDArray[np.float64]) -> Runner | None:
    """Drop hypotheses that the leader or chance beats; returns the leader, if one is left."""
    leader = min(running, key=lambda each: each.mean, default=None)
    for each in running:
        if leader is not None and each is not leader and beats(leader.losses, each.losses):
            each.drop("behind")
        elif beats(luck, each.losses):
            each.drop("behind chance")
    return leader if leader is not None and not leader.lost else None
