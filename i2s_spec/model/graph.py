"""What a graph is: named operations with named inputs, in the order of their computation, and the names of its taps.

A graph is data. It can be executed whole, from a given layer input on, or one operation at a time; it can be changed
(`replaced`, `without`) to show the effect of a mistake. Nothing is computed here: the executor (`reference.operations`)
walks the graph, and the operations of a numeric profile compute the values.

Names are llama.cpp's: the name in its callback, `-` and the layer; the second value with the same name gets `#1`.

    >>> g = Builder()
    >>> x = g.add("embed", "inp_embd", g.given("inp_tokens"), weights=("token_embd.weight",))
    >>> with g.in_layer(0):
    ...     y = g.rms("attn_norm", x, eps=1e-5)
    >>> [(node.name, node.op, node.inputs) for node in g.graph().nodes]
    [('inp_embd', 'embed', ('inp_tokens',)), ('norm-0', 'norm', ('inp_embd',)), ('attn_norm-0', 'norm_weight', ('norm-0',))]

Besides the values of its nodes, a graph has the internal values of BitLinear, named after a tensor. `taps_of` lists all
names, `wanted` resolves those that a caller gives, `base` drops layer and number:

    >>> base("Qcur-0#1"), base("blk.0.attn_q.act_q8"), base("result_norm")
    ('Qcur', 'act_q8', 'result_norm')
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from i2s_spec.errors import SettingError, counted, quote
from i2s_spec.model.weights import DENSE

if TYPE_CHECKING:
    from i2s_spec.model.numerics import NumericProfile
    from i2s_spec.model.weights import ModelWeights
    from i2s_spec.schema.rotation import Rotation

#: The input of every graph: the token ids, int64 [T].
TOKENS = "inp_tokens"


@dataclass(frozen=True)
class Node:
    """One operation: the name of its value, its kind, its inputs, its tensors and its settings.

    :param name: the name of its value, unique in a graph
    :param op: the method of `operations.Operations` that computes it
    :param inputs: names of its input values
    :param weights: names of tensors of the file
    :param layer: its layer; None before and after all layers
    :param settings: everything else that the operation depends on
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    weights: tuple[str, ...] = ()
    layer: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def weight(self) -> str:
        """The only tensor that it uses."""
        (name,) = self.weights
        return name

    def replace(self, **changes: Any) -> Node:
        """Return the same node with other fields; any other name is a setting."""
        own = {name: changes.pop(name) for name in ("op", "inputs", "weights") if name in changes}
        return replace(self, settings={**self.settings, **changes}, **own)


@dataclass(frozen=True)
class Graph:
    """Nodes in the order of computation; every input is given or the name of an earlier node.

    :param given: names of the input values of the graph
    :param results: names of the result values
    """

    nodes: tuple[Node, ...]
    given: tuple[str, ...] = (TOKENS,)
    results: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = set(self.given)
        for node in self.nodes:
            for name in node.inputs:
                if name not in known:
                    raise ValueError(f"{node.name} needs {name}, which is neither given nor computed before it")
            if node.name in known:
                raise ValueError(f"two values are called {node.name}")
            known.add(node.name)

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        return {node.name: node for node in self.nodes}

    def __getitem__(self, name: str) -> Node:
        try:
            return self.by_name[name]
        except KeyError:
            raise SettingError(f"the graph has no value called {quote(name)}") from None

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    @cached_property
    def last_use(self) -> Mapping[str, int]:
        """The last node, by its index in `nodes`, that needs each value; after it, the value can be released."""
        return {name: at for at, node in enumerate(self.nodes) for name in (node.name, *node.inputs)}

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len({node.layer for node in self.nodes if node.layer is not None})

    def layer(self, number: int) -> Graph:
        """Return one layer as a separate graph: its input value is given, its output value is the result."""
        return self.part(node for node in self.nodes if node.layer == number)

    def until(self, node: Node) -> Graph:
        """Return the graph up to a node; the value of that node is the result."""
        return replace(self, nodes=self.nodes[: self.nodes.index(node) + 1], results=(node.name,))

    def before_layers(self) -> Graph:
        """Return the part before the first layer, as a separate graph."""
        first = next(at for at, node in enumerate(self.nodes) if node.layer is not None)
        return self.part(self.nodes[:first])

    def after_layers(self) -> Graph:
        """Return the part after the last layer, as a separate graph: from its value to the logits or the embedding."""
        inside = [at for at, node in enumerate(self.nodes) if node.layer is not None]
        return self.part(self.nodes[inside[-1] + 1 :])

    def part(self, nodes: Iterable[Node]) -> Graph:
        """Return some of the nodes as a graph: inputs from other nodes are given, and values that no node in it uses
        are results."""
        nodes = tuple(nodes)
        own = {node.name for node in nodes}
        taken = [name for node in nodes for name in node.inputs]
        given = tuple(dict.fromkeys(name for name in taken if name not in own))
        return Graph(nodes, given, tuple(node.name for node in nodes if node.name not in taken))

    def replaced(self, name: str, **changes: Any) -> Graph:
        """Return the graph with one node changed by `Node.replace`, to replay a mistake."""
        node = self[name].replace(**changes)
        return replace(self, nodes=tuple(node if each.name == name else each for each in self.nodes))

    def without(self, *names: str) -> Graph:
        """Return the graph without some operations of one input: users of their value get that input instead."""
        skipped: dict[str, str] = {}
        nodes = []
        for node in self.nodes:
            inputs = tuple(skipped.get(name, name) for name in node.inputs)
            if node.name not in names:
                nodes.append(replace(node, inputs=inputs))
            elif len(inputs) == 1:
                skipped[node.name] = inputs[0]
            else:
                raise ValueError(
                    f"{node.name} has {counted(len(inputs), 'input')}; only operations with one input can be left out"
                )
        if unknown := set(names) - skipped.keys():
            raise ValueError(f"the graph has no value called {', '.join(sorted(map(quote, unknown)))}")
        return replace(self, nodes=tuple(nodes))


class Builder:
    """Builds a graph, one named value after the other; every method gives the name of the new value.

    :param present: names of the tensors that the file has, for optional parts
    :param rotation: the rotation that is folded into the weights (clause 3.8)
    """

    def __init__(self, present: Iterable[str] = (), rotation: Rotation | None = None) -> None:
        self.present = frozenset(present)
        self.rotation = rotation
        self._rotated: dict[str, str] = {}
        self._nodes: list[Node] = []
        self._given: list[str] = []
        self._times: Counter[str] = Counter()
        self._layer: int | None = None

    @contextmanager
    def in_layer(self, number: int) -> Iterator[None]:
        """Add the nodes of a layer: nodes that are added in this context belong to it."""
        self._layer = number
        try:
            yield
        finally:
            self._layer = None

    def given(self, name: str) -> str:
        """Add an input value of the graph."""
        self._given.append(name)
        return name

    def add(self, op: str, name: str, *inputs: str, weights: tuple[str, ...] = (), **settings: Any) -> str:
        """Add an operation; the layer, and `#1` for a second value with the same name, are added to its name."""
        full = name if self._layer is None else f"{name}-{self._layer}"
        times = self._times[full]
        self._times[full] += 1
        full = f"{full}#{times}" if times else full
        self._nodes.append(Node(full, op, inputs, weights, self._layer, settings))
        return full

    def tensor(self, name: str) -> str:
        """Return the full name of a tensor of the current layer, or of the whole model."""
        return name if self._layer is None else f"blk.{self._layer}.{name}"

    def rms(self, name: str, x: str, tensor: str | None = None, *, eps: float) -> str:
        """`g * (x / sqrt(mean(x^2) + eps))`: the norm, then the gains of a tensor named like the value."""
        normed = self.add("norm", "norm", x, eps=eps, of=tensor or name)
        return self.add("norm_weight", name, normed, weights=(self.tensor(f"{tensor or name}.weight"),))

    def linear(self, name: str, x: str, tensor: str) -> str:
        """Return a projection, then the scale and the bias, if the file has them."""
        weight = self.tensor(f"{tensor}.weight")
        y = self.add("linear", name, self.entering(weight, x), weights=(weight,))
        for op, kind in (("scale", "scale"), ("bias", "bias")):
            if (optional := self.tensor(f"{tensor}.{kind}")) in self.present:
                y = self.add(op, name, y, weights=(optional,))
        return y

    def entering(self, weight: str, x: str) -> str:
        """Return the input of a product with a weight: x, or x rotated, computed once for all weights that use it."""
        if self.rotation is None or not self.rotation.rotates(weight):
            return x
        if x not in self._rotated:
            word = x.partition("#")[0].removesuffix(f"-{self._layer}")
            self._rotated[x] = self.add("rotate", f"{word}_rotated", x, rotation=self.rotation)
        return self._rotated[x]

    def looked_up(self, name: str, tokens: str, table: str) -> str:
        """Return the rows of a table for tokens; if the table is rotated, the rotation is undone."""
        x = self.add("embed", name, tokens, weights=(table,))
        if self.rotation is not None and table in self.rotation.tables:
            return self.add("restore", name, x, rotation=self.rotation)
        return x

    def graph(self, *results: str) -> Graph:
        """Return the finished graph."""
        return Graph(tuple(self._nodes), tuple(self._given), results)


# --- values of several sequences -------------------------------------------------------------------------------------

#: Operations whose values are lists, one array for each sequence; the others give one array with the rows of all sequences.
PER_SEQUENCE_OPS: Final = frozenset({"store_kv", "scores", "soft_max", "pool"})


def unlisted(value: Any, op: str) -> Any:
    """Return the only array of the list if a run has one sequence; lists for several sequences stay lists."""
    return value[0] if op in PER_SEQUENCE_OPS and len(value) == 1 else value


# --- taps ------------------------------------------------------------------------------------------------------------

#: Codes, scales and sums of activations; sums of products of weight codes and activation codes, and of trits and codes.
INTEGER_TAPS: Final = ("act_q8", "act_scale", "act_sum", "dot_i32", "acc_i32")


def taps_of(graph: Graph, profile: NumericProfile, weights: ModelWeights) -> list[str]:
    """Return the names of all values that a graph has under a profile, in the order of computation."""
    names = []
    for node in graph:
        if node.op == "linear" and (kind := weights.tensor_type(node.weight)) not in DENSE:
            groups = profile.quantizer_of(kind).groups
            inside = [tap for tap in INTEGER_TAPS if groups == "token" or tap != "dot_i32"] if groups != "none" else []
            names += [f"{node.weight.removesuffix('.weight')}.{tap}" for tap in inside]
        names.append(node.name)
    return names


def values_by_sequence(graph: Graph, profile: NumericProfile, weights: ModelWeights) -> frozenset[str]:
    """Return the names of values that hold all tokens of a sequence, and so cannot be joined from parts of it."""
    names = {node.name for node in graph if node.op in PER_SEQUENCE_OPS}
    for node in graph:
        if node.op == "linear" and profile.quantizer_of(weights.tensor_type(node.weight)).groups != "token":
            names.add(f"{node.weight.removesuffix('.weight')}.acc_i32")
    return frozenset(names)


def wanted(taps: Iterable[str], names: list[str]) -> frozenset[str]:
    """Return the names that a caller means: by a full name, by a name without layer and number, or by a pattern with
    `*`.

    :raises SettingError: for a name or pattern that matches no value
    """
    if isinstance(taps, str):
        raise TypeError("taps must be a sequence of names; put a single name into a tuple")
    found: set[str] = set()
    for tap in taps:
        meant = [name for name in names if tap in (name, base(name)) or fnmatchcase(name, tap)]
        if not meant:
            known = ", ".join(dict.fromkeys(map(base, names)))
            raise SettingError(f"no value is called {quote(tap)}; there are {known}")
        found.update(meant)
    return frozenset(found)


def base(name: str) -> str:
    """Return a name without layer and number."""
    word = name.partition("#")[0]
    if word.rpartition(".")[2] in INTEGER_TAPS:
        return word.rpartition(".")[2]
    head, _, layer = word.rpartition("-")
    return head if head and layer.isdecimal() else word
