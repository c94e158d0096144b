"""This module checks the input tokens of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.errors import SettingError, counted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.cache import Cache


def token_ids(tokens: Sequence[int] | NDArray[Any], cache: Cache, vocab: int, context: int) -> NDArray[np.int64]:
    """The ids of one sequence as an array.

    :param cache: the cache, which must have room for them
    :param vocab: the size of the vocabulary
    :param context: the length of the model's context
    :raises SettingError: for an empty sequence, ids that are not in the vocabulary, and more tokens than the cache holds
    :raises TypeError: for numbers that are not integers
    """
    array = np.asarray(tokens)
    if array.ndim != 1:
        raise SettingError(f"tokens must be one sequence of ids, not an array of shape {list(array.shape)}")
    if not array.size:
        raise SettingError("the prompt is empty; there must be at least one token")
    if array.dtype.kind not in "iu":
        raise TypeError(f"tokens must be integers, not {array.dtype}")
    wrong = (array < 0) | (array >= vocab)
    if wrong.any():
        at = int(wrong.argmax())
        raise SettingError(f"token {at} is {array[at]:,}; the ids of this model are 0 to {vocab - 1:,}")
    if cache.used + array.size > cache.length:
        before = f" after {cache.used:,} in the cache" if cache.used else ""
        what = "the model's context" if cache.length == context else "the cache"
        raise SettingError(f"{counted(array.size, 'token')}{before} are too many; {what} holds {cache.length:,}")
    return array.astype(np.int64)
