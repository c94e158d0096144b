"""Choose the next token from the logits: `Sampling` says how, a `Sampler` does it.

The next token is the most probable one, or drawn at random after the usual filters. The order is that of llama.cpp:
top-k keeps the k most probable tokens, top-p then keeps the fewest of these that hold the share p of the remaining
probability, and finally the temperature divides the logits before a token is drawn. Nothing else changes the logits:
no penalty for repetition, no bias.

Drawing is reproducible. Logits are converted to float64; tokens are sorted by descending logits, equal ones by id;
one number u in [0, 1) for each token comes from NumPy's PCG64 seeded with `seed` (53 bits of each draw). The result
is the first token at which the running sum of probabilities exceeds u times their total.

    >>> import numpy as np
    >>> Sampler(Sampling())(np.float32([0.5, 2.0, 1.0]))
    1
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import FormatError, SettingError, Span
from i2s_spec.schema.faults import LOGITS_NOT_FINITE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from i2s_spec.model.screened_head import Leading, ScreenedLogits


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
        import numpy as np

        if isinstance(logits, np.ndarray):
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
