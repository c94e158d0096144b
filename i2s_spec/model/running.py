"""This module runs graphs for a model: tokens checked, caches filled, values shown on their way, whichever the profile."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from i2s_spec.errors import SettingError
from i2s_spec.model import execution
from i2s_spec.model.cache import Cache
from i2s_spec.model.execution import Run
from i2s_spec.model.graph import TOKENS, Graph
from i2s_spec.model.operations import LISTED, Operations
from i2s_spec.model.taps import taps_of, wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.profile import Profile
    from i2s_spec.model.weights import Weights
    from i2s_spec.schema.hyperparameters import Hyperparameters


class Runner:
    """What a model is run with; the attributes are `Model`'s."""

    graph: Graph
    hyperparameters: Hyperparameters
    profile: Profile
    weights: Weights
    threads: int
    substitutes: Mapping[str, Profile]
    _tables: dict[str, Any]
    _made: dict[str, Any]

    @property
    def context_length(self) -> int:
        """Most tokens of a sequence: what the file says that the model was trained on."""
        return self.hyperparameters.context

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding table."""
        return self.weights.tensor("token_embd.weight").shape[0]

    def new_cache(self, length: int | None = None) -> Cache:
        """An empty cache.

        :param length: most tokens; the model's context unless it is given
        :raises SettingError: for more than the model's context, or fewer than 1
        """
        length = self.context_length if length is None else operator.index(length)
        if not 1 <= length <= self.context_length:
            raise SettingError(f"a cache of {length:,} tokens; the model's context is 1 to {self.context_length:,}")
        layers = [self.hyperparameters.at(i) for i in range(self.hyperparameters.layers)]
        dtype = np.float16 if self.profile.cache == "f16" else np.float32
        return Cache(
            length, [(h.heads_kv, h.head_dim) for h in layers], [(h.heads_kv, h.value_dim) for h in layers], dtype
        )

    def operations(self) -> Operations:
        """The operations of the profile."""
        if "operations" not in self._made:
            self._made["operations"] = operations_of(self.profile, self.threads)
        return self._made["operations"]  # type: ignore[no-any-return]

    def _others(self) -> dict[str, Operations]:
        return {self.graph[name].name: operations_of(each, self.threads) for name, each in self.substitutes.items()}

    def _execute(
        self,
        ids: list[NDArray[np.int64]],
        caches: Sequence[Cache],
        chosen: frozenset[str],
        found: dict[str, Any],
        rows: NDArray[np.int64] | None,
    ) -> list[Any]:
        run = self._run([len(part) for part in ids], caches, chosen, found, rows)
        given, operations = {TOKENS: np.concatenate(ids)}, self.operations()
        values = None if chosen or self.substitutes else operations.whole(self.graph, given, run)
        if values is None:
            values = execution.execute(self.graph, given, run, operations, self._others())
        (value,) = values.values()
        for part, cache in zip(ids, caches, strict=True):
            cache.commit(part.tolist())
        if isinstance(value, list) or len(ids) == 1:
            return value if isinstance(value, list) else [value]
        return np.split(value, np.cumsum([len(part) for part in ids])[:-1])

    def _run(
        self,
        counts: list[int],
        caches: Sequence[Cache],
        chosen: frozenset[str] | None,
        found: dict[str, Any],
        rows: NDArray[np.int64] | None = None,
        past: int | None = None,
    ) -> Run:
        stops = np.cumsum(counts).tolist()
        sequences = [
            execution.Sequence(stop - count, stop, cache.used if past is None else past, cache)
            for count, stop, cache in zip(counts, stops, caches, strict=True)
        ]

        def tap(name: str, make: Callable[[], Any]) -> None:
            if chosen is None or name in chosen:
                value = make()
                found[name] = [each.copy() for each in value] if isinstance(value, list) else value.copy()

        return Run(self.weights, sequences, tap, rows, tables=self._tables)

    def _checked(self, tokens: Sequence[int] | NDArray[Any], cache: Cache) -> NDArray[np.int64]:
        """The ids as an array, every one inside the vocabulary, all of them with room in the cache."""
        array = np.asarray(tokens)
        if array.ndim != 1:
            raise SettingError(f"tokens are one sequence of ids, not an array of shape {list(array.shape)}")
        if not array.size:
            raise SettingError("the prompt is empty; there must be at least one token")
        if array.dtype.kind not in "iu":
            raise TypeError(f"tokens are whole numbers, not {array.dtype}")
        vocab = self.vocab_size
        wrong = (array < 0) | (array >= vocab)
        if wrong.any():
            at = int(wrong.argmax())
            raise SettingError(f"token {at} is {array[at]:,}; the ids of this model are 0 to {vocab - 1:,}")
        if cache.used + array.size > cache.length:
            before = f" behind {cache.used:,} in the cache" if cache.used else ""
            what = "the model's context" if cache.length == self.context_length else "the cache"
            raise SettingError(f"{array.size:,} tokens{before} are too many; {what} holds {cache.length:,}")
        if "cache" not in self._made:
            self._made["cache"] = self.new_cache(1)
        if not cache.matches(self._made["cache"]):
            raise SettingError("the cache was made for another model, or another profile")
        return array.astype(np.int64)

    def _wanted(self, taps: Iterable[str]) -> frozenset[str]:
        return frozenset() if taps == () else wanted(taps, self.tap_names())

    def tap_names(self, graph: Graph | None = None) -> list[str]:
        """The names of all values that can be tapped, in the order of computation."""
        return taps_of(self.graph if graph is None else graph, self.profile, self.weights)

    @property
    def _whole(self) -> frozenset[str]:
        """Values that hold all tokens of a sequence, and so cannot be put together from parts."""
        names = {node.name for node in self.graph if node.op in LISTED}
        if self.profile.quantiser.groups != "token":
            names |= {name for name in self.tap_names() if name.endswith(".acc_i32")}
        return frozenset(names)


def operations_of(profile: Profile, threads: int) -> Operations:
    """The operations that a profile names."""
    module, _, name = profile.operations.partition(":")
    made: Operations = getattr(import_module(module), name)(profile, threads)
    return made
