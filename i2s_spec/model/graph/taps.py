"""This module names the values of a graph: it lists them, and resolves the names that a caller gives.

Besides the values of its nodes, a graph has the internal values of BitLinear, named after a tensor: `blk.0.attn_q.act_q8`.

>>> base("Qcur-0#1"), base("blk.0.attn_q.act_q8"), base("result_norm")
('Qcur', 'act_q8', 'result_norm')
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from i2s_spec.errors import SettingError, quote
from i2s_spec.model.graph.ops import PER_SEQUENCE_OPS
from i2s_spec.model.weights import DENSE

if TYPE_CHECKING:
    from i2s_spec.model.graph.graph import Graph
    from i2s_spec.model.numeric_profile import NumericProfile
    from i2s_spec.model.weights import ModelWeights

#: Codes, scales and sums of activations; sums of products of weight codes and activation codes, and of trits and codes.
INTEGER_TAPS: Final = ("act_q8", "act_scale", "act_sum", "dot_i32", "acc_i32")


def taps_of(graph: Graph, profile: NumericProfile, weights: ModelWeights) -> list[str]:
    """The names of all values that a graph has under a profile, in the order of computation."""
    groups = profile.quantizer.groups
    inside = [tap for tap in INTEGER_TAPS if groups == "token" or tap != "dot_i32"] if groups != "none" else []
    names = []
    for node in graph:
        if node.op == "linear" and weights.tensor_type(node.weight) not in DENSE:
            names += [f"{node.weight.removesuffix('.weight')}.{tap}" for tap in inside]
        names.append(node.name)
    return names


def values_by_sequence(graph: Graph, profile: NumericProfile, weights: ModelWeights) -> frozenset[str]:
    """Names of values that hold all tokens of a sequence, and so cannot be joined from parts of it."""
    names = {node.name for node in graph if node.op in PER_SEQUENCE_OPS}
    if profile.quantizer.groups != "token":
        names |= {name for name in taps_of(graph, profile, weights) if name.endswith(".acc_i32")}
    return frozenset(names)


def wanted(taps: Iterable[str], names: list[str]) -> frozenset[str]:
    """The names that a caller means: by a full name, by a name without layer and number, or by a pattern with `*`.

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
    """A name without layer and number."""
    word = name.partition("#")[0]
    if word.rpartition(".")[2] in INTEGER_TAPS:
        return word.rpartition(".")[2]
    head, _, layer = word.rpartition("-")
    return head if head and layer.isdecimal() else word
