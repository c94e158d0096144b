"""This module is the model as its users see it: tokens in, logits or an embedding out, and every value between on request.

m = load_model("model.gguf")
r = m.forward([1, 5, 9], taps=("attn_norm", "Qcur"))
r.logits            # float32 [3, vocab]
r.taps["Qcur-0"]    # float32 [3, heads * d]; r.taps["Qcur-0#1"] is what rotation makes of it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from i2s_spec.errors import SettingError
from i2s_spec.model import execution
from i2s_spec.model.cache import Cache
from i2s_spec.model.execution import alone
from i2s_spec.model.graph import Graph, Node
from i2s_spec.model.operations import LISTED
from i2s_spec.model.profile import Profile, profile_of
from i2s_spec.model.running import Runner
from i2s_spec.model.taps import wanted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.gguf.reader import File
    from i2s_spec.model.activation import ActivationRule
    from i2s_spec.model.graphs import Settings
    from i2s_spec.model.weights import Weights
    from i2s_spec.schema.architecture import Architecture
    from i2s_spec.schema.hyperparameters import Hyperparameters

#: Tokens of a prompt that go through the layers together; more take more memory, and give the same.
TOGETHER: Final = 256


@dataclass(frozen=True)
class Result:
    """What a forward pass gives.

    :param logits: float32 [T, vocab], or [1, vocab] where only the last row was asked for; None of embedding models
    :param embedding: float32 [D], of length 1; of embedding models only
    :param taps: the values that were asked for, by name
    :param cache: keys and values of all tokens so far
    """

    logits: NDArray[np.float32] | None
    embedding: NDArray[np.float32] | None
    taps: Mapping[str, Any]
    cache: Cache


@dataclass(frozen=True)
class Model(Runner):
    """A model that can be run; `load_model` makes it.

    :param graph: what is computed, as data; `but` exchanges it
    :param activation_rule: which activation, and which rule decided
    :param pooling_rule: how an embedding model pools, and why; empty for others
    :param threads: how many threads may work
    :param substitutes: other numeric profiles for some values, by name
    """

    file: File
    architecture: Architecture
    hyperparameters: Hyperparameters
    profile: Profile
    graph: Graph
    weights: Weights
    settings: Settings
    activation_rule: ActivationRule
    pooling_rule: str = ""
    threads: int = 1
    substitutes: Mapping[str, Profile] = field(default_factory=dict)
    _tables: dict[str, Any] = field(default_factory=dict, repr=False)
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    def but(
        self,
        *,
        graph: Graph | None = None,
        profile: str | Profile | None = None,
        weights: Weights | None = None,
        substitutes: Mapping[str, str | Profile] | None = None,
    ) -> Model:
        """The same model with another graph, numeric profile or reading of the weights: a deviation to compare with.

        `substitutes` are other profiles for some values, by name. The graph stays as it is unless it is given: a
        profile's own activation and rotation come in by `load_model`.
        """
        from dataclasses import replace

        return replace(
            self,
            graph=self.graph if graph is None else graph,
            profile=self.profile if profile is None else profile_of(profile),
            weights=self.weights if weights is None else weights,
            substitutes=self.substitutes
            if substitutes is None
            else {name: profile_of(each) for name, each in substitutes.items()},
            _tables={},
            _made={},
        )

    def forward(
        self,
        tokens: Sequence[int] | NDArray[Any],
        taps: Iterable[str] = (),
        cache: Cache | None = None,
        *,
        logits: Literal["all", "last"] = "all",
        together: int = TOGETHER,
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Run tokens through the model.

        :param tokens: ids, one sequence
        :param taps: names of values to give back: a full name (`Qcur-0#1`), a name without layer and number (`Qcur`, all of
            them), or a pattern with `*`
        :param cache: what came before, which grows by these tokens; a fresh one unless it is given
        :param logits: of all tokens, or of the last one only
        :param together: tokens that go through the layers together; the result does not depend on it (in profile `fast`, but
            for the last bits)
        :param progress: called with (tokens done, tokens)
        :raises SettingError: for no tokens, ids beyond the vocabulary, more tokens than the cache or the context holds, taps
            that the graph does not have
        :raises FormatError: where the file does not hold a tensor
        """
        cache = self.new_cache() if cache is None else cache
        ids = self._checked(tokens, cache)
        chosen = self._wanted(taps)
        if (chosen and chosen & self._whole) or not self.settings.causal:
            together = len(ids)
        if together < 1:
            raise SettingError(f"{together} tokens together; at least 1 is needed")
        used, parts, kept = cache.used, [], []
        try:
            for start in range(0, len(ids), together):
                part = ids[start : start + together]
                last = start + len(part) == len(ids)
                rows = None if logits == "all" else np.array([len(part) - 1] if last else [], dtype=np.int64)
                found: dict[str, Any] = {}
                (result,) = self._execute([part], [cache], chosen, found, rows)
                parts.append(result)
                kept.append(found)
                if progress is not None:
                    progress(start + len(part), len(ids))
        except BaseException:
            cache.cut(used)  # nothing half-done counts
            raise
        joined = {name: _joined([found[name] for found in kept]) for name in kept[0]}
        if self.architecture.embedding_model:
            return Result(None, parts[-1], joined, cache)
        return Result(_joined(parts), None, joined, cache)

    def forward_batch(
        self,
        prompts: Sequence[Sequence[int] | NDArray[Any]],
        caches: Sequence[Cache] | None = None,
        taps: Iterable[str] = (),
    ) -> list[Result]:
        """Run several sequences through the model together: each gives what it would give alone.

        In profile `fast` alone the last bits may differ, as they may with other numbers of tokens together.

        :param prompts: ids of each sequence
        :param caches: one for each; fresh ones unless they are given
        :raises SettingError: as `forward`, and for another number of caches, or the same one twice
        """
        caches = [self.new_cache() for _ in prompts] if caches is None else list(caches)
        if len(caches) != len(prompts) or len({id(cache) for cache in caches}) != len(caches):
            raise SettingError(f"{len(prompts)} prompts need as many caches, all different; there are {len(caches)}")
        if not prompts:
            return []
        ids = [self._checked(tokens, cache) for tokens, cache in zip(prompts, caches, strict=True)]
        found: dict[str, Any] = {}
        results = self._execute(ids, caches, self._wanted(taps), found, None)
        stops = np.cumsum([len(part) for part in ids])
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
        """Run one layer on a given input (layer-forced): what leaves it, and the taps.

        :param x: float32 [T, D], what enters the layer
        :param past: position of the first row; there is nothing in the cache before it
        :raises SettingError: for a layer that there is not, and for taps that it has not
        """
        if not 0 <= number < self.graph.layers:
            raise SettingError(f"there is no layer {number}; there are 0 to {self.graph.layers - 1}")
        part = self.graph.layer(number)
        (given,), (result,) = part.given, part.results
        found: dict[str, Any] = {}
        run = self._run([len(x)], [self.new_cache()], wanted(taps, self.tap_names(part)), found, past=past)
        return execution.execute(part, {given: x}, run, self.operations(), self._others())[result], found

    def evaluate(
        self,
        node: str | Node,
        inputs: Mapping[str, Any] | Sequence[Any],
        *,
        profile: str | Profile | None = None,
        weights: Weights | None = None,
        past: int = 0,
    ) -> dict[str, Any]:
        """Compute one operation from given inputs (op-replay): its value, and with it what BitLinear has inside, by name.

        :param node: the name of a value, or a node of one's own: `graph[name].but(...)` is a deviation
        :param inputs: its inputs by name or in order, each as taps have it
        :param profile: other numerics for this operation
        :param weights: another reading of the weights
        :param past: position of the first row
        """
        node = self.graph[node] if isinstance(node, str) else node
        values = [inputs[name] for name in node.inputs] if isinstance(inputs, Mapping) else list(inputs)
        listed = [name in self.graph.by_name and self.graph[name].op in LISTED for name in node.inputs]
        values = [[value] if many else value for value, many in zip(values, listed, strict=True)]
        tokens = values[0][0].shape[1] if node.op in ("soft_max", "mix") else len(values[0])
        found: dict[str, Any] = {}
        model = self if profile is None and weights is None else self.but(profile=profile, weights=weights)
        run = model._run([tokens], [model.new_cache()], None, found, past=past)
        value = execution.evaluate(node, values, run, model.operations())
        return {node.name: alone(value, node.op), **found}

    def close(self) -> None:
        """Close the file; what has been read stays usable."""
        self.file.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
