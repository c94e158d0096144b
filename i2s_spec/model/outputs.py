"""This module defines the result of a forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.errors import SettingError, counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.cache import Cache


@dataclass(frozen=True, repr=False)
class Result:
    """The results of a forward pass.

    :param logits: float32 [T, vocab], or [1, vocab] if only the last row was requested; None for embedding models
    :param embedding: float32 [D], of length 1; only for embedding models
    :param taps: the requested values, by name
    :param cache: keys and values of all tokens so far
    """

    # A caller knows which of the two a model gives: with `Any` it need not check for None.
    logits: NDArray[np.float32] | Any
    embedding: NDArray[np.float32] | Any
    taps: Mapping[str, Any]
    cache: Cache

    def __repr__(self) -> str:
        what, value = ("embedding", self.embedding) if self.logits is None else ("logits", self.logits)
        return f"<Result: {what} {list(value.shape)}, {counted(len(self.taps), 'tap')}, {counted(self.cache.used, 'token')}>"


def logits_of(result: Result) -> NDArray[np.float32]:
    """The logits of a language model.

    :raises SettingError: for an embedding model, which has none
    """
    if result.logits is None:
        raise SettingError("an embedding model has no logits")
    logits: NDArray[np.float32] = result.logits
    return logits


def joined(parts: list[Any]) -> Any:
    """Join values that were computed in parts."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
