"""The model for users: tokens in, logits or an embedding out, and any value between on request.

    m = load_model("model.gguf")
    r = m.forward([1, 5, 9], taps=("attn_norm", "Qcur"))
    r.logits            # float32 [3, vocab]
    r.taps["Qcur-0"]    # float32 [3, heads * d]; r.taps["Qcur-0#1"] is what rotation makes of it

`Model` cuts a prompt into parts and keeps caches; its `GraphRunner` runs the graph on them; `token_ids` checks the
input, and a `Result` holds the output.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from i2s_spec.errors import SettingError, counted, line
from i2s_spec.model.cache import Cache, cache_for
from i2s_spec.model.graph import PER_SEQUENCE_OPS, TOKENS, Graph, Node, taps_of, unlisted, values_by_sequence, wanted
from i2s_spec.model.numerics import NumericProfile, numeric_profile
from i2s_spec.model.reference import operations as executor
from i2s_spec.model.reference.operations import operations_of
from i2s_spec.model.reference.run import Run, recording_tap, sequences_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File
    from i2s_spec.model.architectures import ActivationRule, GraphSettings
    from i2s_spec.model.reference.embedding_table import EmbeddingTable
    from i2s_spec.model.reference.operations import Operations
    from i2s_spec.model.weights import ModelWeights
    from i2s_spec.schema.architectures import Architecture, Hyperparameters

#: Tokens of a prompt that are computed together; more need more memory, and give the same result.
TOGETHER: Final = 256


@dataclass(frozen=True, repr=False)
class Model:
    """A model that can be run; `load_model` makes it.

    :param numerics: the numeric profile
    :param graph: the computation, as data
    :param activation_rule: the activation, and the rule that decided it
    :param pooling_rule: how an embedding model pools, and why; empty for other models
    :param threads: how many threads may work
    :param substitutes: other numeric profiles for some values, by name
    """

    file: File
    architecture: Architecture
    hyperparameters: Hyperparameters
    numerics: NumericProfile
    graph: Graph
    weights: ModelWeights
    settings: GraphSettings
    activation_rule: ActivationRule
    pooling_rule: str = ""
    threads: int = 1
    substitutes: Mapping[str, NumericProfile] = field(default_factory=dict)

    @property
    def context_length(self) -> int:
        """Most tokens of a sequence: the context that the file declares."""
        return self.hyperparameters.context

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding table."""
        return self.weights.tensor("token_embd.weight").shape[0]

    @cached_property
    def operations(self) -> Operations:
        """The operations of the numeric profile."""
        return operations_of(self.numerics, self.threads)

    @cached_property
    def _runner(self) -> GraphRunner:
        substitutes = {
            self.graph[name].name: operations_of(each, self.threads) for name, each in self.substitutes.items()
        }
        return GraphRunner(self.graph, self.weights, self.operations, substitutes)

    @cached_property
    def _shortest_cache(self) -> Cache:
        return self.new_cache(1)

    def replace(
        self,
        *,
        graph: Graph | None = None,
        numerics: str | NumericProfile | None = None,
        weights: ModelWeights | None = None,
        substitutes: Mapping[str, str | NumericProfile] | None = None,
    ) -> Model:
        """Return the same model with another graph, numeric profile or reading of the weights.

        `substitutes` are other profiles for some values, by name. The graph stays the same unless one is given: only
        `load_model` applies a profile's own activation and rotation.
        """
        changes: dict[str, Any] = {"graph": graph, "weights": weights}
        if numerics is not None:
            changes["numerics"] = numeric_profile(numerics)
        if substitutes is not None:
            changes["substitutes"] = {name: numeric_profile(each) for name, each in substitutes.items()}
        return dataclasses.replace(self, **{name: each for name, each in changes.items() if each is not None})

    def new_cache(self, length: int | None = None) -> Cache:
        """Return an empty cache.

        :param length: most tokens; the model's context unless it is given
        :raises SettingError: for more than the model's context, or fewer than 1
        """
        return cache_for(self.hyperparameters, self.numerics, length)

    def check_tokens(self, tokens: Sequence[int] | NDArray[Any], cache: Cache | None = None) -> NDArray[np.int64]:
        """Return the ids of a sequence as an array, all of them in the vocabulary.

        :param cache: the cache of earlier tokens, which must have room for these; by default a new one
        :raises SettingError: as `forward`
        """
        cache = self.new_cache() if cache is None else cache
        ids = token_ids(tokens, cache, self.vocab_size, self.context_length)
        if not cache.matches(self._shortest_cache):
            raise SettingError("the cache was made for another model, or another profile")
        return ids

    def tap_names(self, graph: Graph | None = None) -> list[str]:
        """Return the names of all values that can be tapped, in the order of computation."""
        return taps_of(self.graph if graph is None else graph, self.numerics, self.weights)

    def forward(
        self,
        tokens: Sequence[int] | NDArray[Any],
        taps: Iterable[str] = (),
        cache: Cache | None = None,
        *,
        logits: Literal["all", "last", "screened"] = "all",
        together: int = TOGETHER,
        progress: Callable[[int, int], object] | None = None,
    ) -> Result:
        """Run tokens through the model.

        :param tokens: ids, one sequence
        :param taps: names of values to return: a full name (`Qcur-0#1`), a name without layer and number (`Qcur`, for
        all of them), or a pattern with `*`
        :param cache: the cache of earlier tokens, which grows by these tokens; by default a new one
        :param logits: for all tokens, or only for the last one; `screened` for the last one as `ScreenedLogits`, of which
        only those are read that are asked for, if the profile and the type of the head permit it
        :param together: how many tokens are computed together; the result does not depend on it (except the last bits
        in profile `fast`)
        :param progress: called with (tokens done, tokens)
        :raises SettingError: for no tokens, ids beyond the vocabulary, more tokens than the cache or the context holds, taps
            that the graph does not have
        :raises FormatError: where the file does not hold a tensor
        """
        cache = self.new_cache() if cache is None else cache
        ids = self.check_tokens(tokens, cache)
        chosen = self._wanted(taps)
        if (
            chosen and chosen & values_by_sequence(self.graph, self.numerics, self.weights)
        ) or not self.settings.causal:
            together = len(ids)
        if together < 1:
            raise SettingError(f"together={together}: at least 1 token is needed")
        used, states, parts, tapped = cache.used, cache.states, [], []
        try:
            if len(ids) > together:
                cache.make_room(len(ids))
            for start in range(0, len(ids), together):
                part = ids[start : start + together]
                last = start + len(part) == len(ids)
                rows = None if logits == "all" else np.array([len(part) - 1] if last else [], dtype=np.int64)
                (result,), found = self._runner.whole([part], [cache], chosen, rows, logits == "screened")
                parts.append(result)
                tapped.append(found)
                if progress is not None:
                    progress(start + len(part), len(ids))
        except BaseException:
            cache.cut(used, states)  # drop the tokens of an incomplete pass
            raise
        values = {name: joined([found[name] for found in tapped]) for name in tapped[0]}
        if self.architecture.embedding_model:
            return Result(None, parts[-1], values, cache)
        return Result(parts[-1] if logits == "screened" else joined(parts), None, values, cache)

    def forward_batch(
        self,
        prompts: Sequence[Sequence[int] | NDArray[Any]],
        caches: Sequence[Cache] | None = None,
        taps: Iterable[str] = (),
        *,
        logits: Literal["all", "screened"] = "all",
    ) -> list[Result]:
        """Run several sequences through the model together; the results are those of separate runs.

        Only in profile `fast` may the last bits differ, as with other values of `together`; they do not where every
        sequence has one token and nothing is tapped. A profile that computes long prompts otherwise than short ones does
        so for each sequence.

        :param prompts: ids of each sequence
        :param caches: one for each; by default new ones
        :param logits: for all tokens, or `screened` for the last one of each sequence, as `forward`
        :raises SettingError: as `forward`, and for a wrong number of caches, or the same cache twice
        """
        caches = [self.new_cache() for _ in prompts] if caches is None else list(caches)
        if len(caches) != len(prompts) or len({id(cache) for cache in caches}) != len(caches):
            raise SettingError(
                f"{counted(len(prompts), 'prompt needs', 'prompts need')} as many caches, all "
                f"different; there are {len(caches)}"
            )
        if not prompts:
            return []
        ids = [self.check_tokens(tokens, cache) for tokens, cache in zip(prompts, caches, strict=True)]
        taps = tuple(taps)
        if (taps and logits == "screened") or not self._runner.batches([len(each) for each in ids]):
            together = max(map(len, ids))
            return [
                self.forward(each, taps, cache, logits=logits, together=together)
                for each, cache in zip(ids, caches, strict=True)
            ]
        stops = np.cumsum([len(part) for part in ids])
        last = stops - 1 if logits == "screened" else None
        results, found = self._runner.whole(ids, caches, self._wanted(taps), last, logits == "screened")
        answers = []
        for number, (result, cache) in enumerate(zip(results, caches, strict=True)):
            rows = slice(stops[number] - len(ids[number]), stops[number])
            mine = {name: value[number] if isinstance(value, list) else value[rows] for name, value in found.items()}
            embedding = self.architecture.embedding_model
            answers.append(Result(None if embedding else result, result if embedding else None, mine, cache))
        return answers

    def layer(
        self, number: int, x: NDArray[np.float32], taps: Iterable[str] = (), *, past: int = 0
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Run one layer on a given input (layer-forced): its output, and the taps.

        :param x: float32 [T, D], the input of the layer
        :param past: position of the first row; no earlier tokens are in the cache
        :raises SettingError: for a layer or a tap that does not exist
        """
        if not 0 <= number < self.graph.layers:
            raise SettingError(f"there is no layer {number}; there are 0 to {self.graph.layers - 1}")
        part = self.graph.layer(number)
        (given,), (result,) = part.given, part.results
        values, found = self.run_part(part, {given: x}, taps, past=past)
        return values[result], found

    def run_part(
        self, part: Graph, given: Mapping[str, Any], taps: Iterable[str] = (), *, past: int = 0
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Run a part of the graph on given values, with an empty cache: its results, and the taps.

        :param given: all inputs of the part, by name
        :param past: position of the first row
        :raises SettingError: for a tap that does not exist
        """
        return self._runner.part(part, given, self.new_cache(), wanted(taps, self.tap_names(part)), past)

    def evaluate(
        self,
        node: str | Node,
        inputs: Mapping[str, Any] | Sequence[Any],
        *,
        numerics: str | NumericProfile | None = None,
        weights: ModelWeights | None = None,
        past: int = 0,
    ) -> dict[str, Any]:
        """Compute one operation from given inputs (op-replay): its value, and the integers inside BitLinear, by name.

        :param node: the name of a value, or a node; `graph[name].replace(...)` makes a changed one
        :param inputs: its inputs by name or in order, each in the shape of its tap
        :param numerics: another numeric profile for this operation
        :param weights: another reading of the weights
        :param past: position of the first row
        """
        node = self.graph[node] if isinstance(node, str) else node
        values = [inputs[name] for name in node.inputs] if isinstance(inputs, Mapping) else list(inputs)
        model = self if numerics is None and weights is None else self.replace(numerics=numerics, weights=weights)
        return model._runner.node(node, values, model.new_cache(), past)  # noqa: SLF001

    def _wanted(self, taps: Iterable[str]) -> frozenset[str]:
        return frozenset() if taps == () else wanted(taps, self.tap_names())

    def __repr__(self) -> str:
        layers = counted(self.graph.layers, "layer")
        words = f"{self.architecture.name}, {layers}, {self.weights.dialect}, {self.numerics.name}"
        return line("Model", self.file.name, words)

    def close(self) -> None:
        """Close the file; weights that were read stay usable."""
        self.file.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exc: object) -> None:
        self.file.__exit__(*exc)


# --- graph runner ----------------------------------------------------------------------------------------------------
# The whole graph runs, or a part of it, or one operation, on sequences with their caches.


@dataclass(frozen=True)
class GraphRunner:
    """A graph with everything that its operations need.

    :param substitutes: other operations for some values, by name
    :param tables: embedding tables and heads that have been read
    """

    graph: Graph
    weights: ModelWeights
    operations: Operations
    substitutes: Mapping[str, Operations]
    tables: dict[str, EmbeddingTable] = field(default_factory=dict)

    def whole(
        self,
        ids: list[NDArray[np.int64]],
        caches: Sequence[Cache],
        taps: frozenset[str],
        rows: NDArray[np.int64] | None = None,
        screened: bool = False,
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the result of the graph for each sequence, and the taps; the tokens are added to the caches.

        :param ids: the token ids of each sequence
        :param rows: the rows for which logits are needed, one of each of several sequences; None for all
        :param screened: whether the logits of a row may be a `ScreenedLogits`
        """
        found: dict[str, Any] = {}
        run = self._run([len(part) for part in ids], caches, taps, found, rows)
        run.screened = screened
        given = {TOKENS: np.concatenate(ids)}
        operations = self._operations(len(ids[0]))
        values = None if taps or self.substitutes else operations.whole(self.graph, given, run)
        if values is None:
            values = executor.execute(self.graph, given, run, operations, self.substitutes)
        (value,) = values.values()
        for part, cache in zip(ids, caches, strict=True):
            cache.commit(part.tolist())
        if isinstance(value, list) or len(ids) == 1:
            return value if isinstance(value, list) else [value], found
        return np.split(value, len(ids) if rows is not None else np.cumsum([len(part) for part in ids])[:-1]), found

    def batches(self, counts: list[int]) -> bool:
        """Whether sequences of so many tokens may run in one pass: none is computed otherwise than alone."""
        profiles = {id(self.operations.profile.of(count)) for count in counts}
        return len(profiles) == 1 and self._operations(counts[0]).batches(self.graph, self.weights)

    def part(
        self, part: Graph, given: Mapping[str, Any], cache: Cache, taps: frozenset[str], past: int = 0
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the results of a part of the graph for one sequence, and the taps.

        :param given: all inputs of the part, by name
        :param past: position of the first row
        """
        (first, *_) = given.values()
        found: dict[str, Any] = {}
        run = self._run([len(first)], [cache], taps, found, past=past)
        return executor.execute(part, given, run, self._operations(len(first)), self.substitutes), found

    def node(self, node: Node, inputs: list[Any], cache: Cache, past: int = 0) -> dict[str, Any]:
        """Return the value of one operation for one sequence, and the integers inside BitLinear, by name.

        :param inputs: each in the shape of its tap
        """
        per_sequence = [name in self.graph.by_name and self.graph[name].op in PER_SEQUENCE_OPS for name in node.inputs]
        values = [[value] if listed else value for value, listed in zip(inputs, per_sequence, strict=True)]
        tokens = values[0][0].shape[1] if node.op in ("soft_max", "weighted_values") else len(values[0])
        found: dict[str, Any] = {}
        run = self._run([tokens], [cache], None, found, past=past)
        value = executor.evaluate(node, values, run, self._operations(tokens))
        return {node.name: unlisted(value, node.op), **found}

    def _operations(self, tokens: int) -> Operations:
        """Return the operations for a pass of so many tokens."""
        profile = self.operations.profile.of(tokens)
        return (
            self.operations if profile is self.operations.profile else operations_of(profile, self.operations.threads)
        )

    def _run(
        self,
        counts: list[int],
        caches: Sequence[Cache],
        taps: frozenset[str] | None,
        found: dict[str, Any],
        rows: NDArray[np.int64] | None = None,
        past: int | None = None,
    ) -> Run:
        sequences = sequences_of(counts, caches, past)
        return Run(self.weights, sequences, recording_tap(found, taps), rows, self.graph.layers, tables=self.tables)


# --- inputs ----------------------------------------------------------------------------------------------------------


def token_ids(tokens: Sequence[int] | NDArray[Any], cache: Cache, vocab: int, context: int) -> NDArray[np.int64]:
    """Return the ids of one sequence as an array.

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


# --- outputs ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Result:
    """The results of a forward pass.

    :param logits: float32 [T, vocab], or [1, vocab] if only the last row was requested; None for embedding models; a
        `ScreenedLogits` only on request
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
    """Return the logits of a language model.

    :raises SettingError: for an embedding model, which has none
    """
    if result.logits is None:
        raise SettingError("an embedding model has no logits")
    logits: NDArray[np.float32] = result.logits
    return logits


def joined(parts: list[Any]) -> Any:
    """Join values that were computed in parts."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
