"""This module chooses the next token from logits: greedily, or at random after the usual filters.

The order is that of llama.cpp: top-k keeps the k most probable tokens, top-p then keeps the fewest of these that hold
the share p of the remaining probability, and finally the temperature divides the logits before a token is drawn.
Nothing else changes the logits: no penalty for repetition, no bias.

Drawing is reproducible. Logits are converted to float64; tokens are sorted by descending logits, equal ones by id; one
number u in [0, 1) for each token comes from NumPy's PCG64 seeded with `seed` (53 bits of each draw). The result is the
first token at which the running sum of probabilities exceeds u times their total.

    >>> import numpy as np
    >>> Sampler(Sampling())(np.float32([0.5, 2.0, 1.0]))
    1
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from i2s_spec.errors import FormatError, SettingError, Span
from i2s_spec.schema.faults import LOGITS_NOT_FINITE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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

    def __call__(self, logits: NDArray[np.floating[Any]]) -> int:
        """The next token.

        :param logits: [vocab], any float type
        :raises FormatError: M901 for logits that are not finite; -inf is allowed, and such a token is never chosen
        """
        tokens, probabilities = self.distribution(logits)
        if len(tokens) == 1:
            return int(tokens[0])
        import numpy as np

        if self._random is None:
            self._random = np.random.Generator(np.random.PCG64(self.sampling.seed))
        running = np.cumsum(probabilities)
        at = int(np.searchsorted(running, self._random.random() * running[-1], side="right"))
        return int(tokens[min(at, len(tokens) - 1)])

    def distribution(self, logits: NDArray[np.floating[Any]]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """The candidates, most probable first, and their probabilities, which sum to 1."""
        import numpy as np

        if logits.ndim != 1 or not len(logits):
            raise ValueError(f"logits of shape {logits.shape}; [vocab] is needed")
        best = int(np.argmax(logits))  # the first NaN, if there is one
        top = float(logits[best])
        if not math.isfinite(top):
            raise FormatError(LOGITS_NOT_FINITE, Span(0, 0, "result_output"), got=top, token=best)
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
