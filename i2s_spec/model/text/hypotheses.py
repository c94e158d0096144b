"""This module lists possible mistakes of a file that statistics of its weights cannot decide, each as a change of a model.

A change undoes one mistake: if the file has it, the changed model is right, and predicts text better than any other.
Only mistakes that make a difference to a model are listed. Some make almost no difference, such as scales before a
norm; then the text leaves them undecided, and the answer says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from i2s_spec.errors import counted
from i2s_spec.model.graph.activation import STEPS
from i2s_spec.model.graph.architectures import graph_of
from i2s_spec.model.likelihood import changed_weights as changed
from i2s_spec.model.weights import Ternary
from i2s_spec.schema.dialect import CODE_MAPS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from i2s_spec.model.forward import Model
    from i2s_spec.model.graph.architectures import GraphSettings
    from i2s_spec.schema.architectures.sizes import Hyperparameters

Change = Callable[["Model"], "Model"]

#: Matrices of a layer.
ROLES: Final = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
#: Matrices whose signs can be inverted together without changing the model: only their product counts.
TWINS: Final = (("attn_q", "attn_k"), ("attn_v", "attn_output"), ("ffn_up", "ffn_down"))
#: Bases of rotation with which models are trained.
ROPE_BASES: Final = (10_000.0, 500_000.0)
#: Most layers for which every pair of layers is tried as exchanged.
FEW_LAYERS: Final = 6
#: The largest magnitude of 8-bit codes; writers have multiplied or divided scales by it.
MOST: Final = np.float32(127)


class PossibleMistake(NamedTuple):
    """One possible mistake: a name, a sentence, and the change that undoes it.

    `shift` is by how many rows the embeddings of tokens are shifted down.
    """

    name: str
    title: str
    change: Change
    shift: int = 0


def hypotheses(model: Model) -> Iterator[PossibleMistake]:
    """All hypotheses for a model; the unchanged file is the first."""
    yield PossibleMistake("as it is", "nothing is wrong", lambda model: model)
    ternary = ternary_roles(model)
    yield from _codes(model, ternary)
    yield from _orders(model, ternary)
    yield from _exchanges(model)
    yield from _graphs(model)
    yield from _scales(bool(ternary))


def ternary_roles(model: Model) -> frozenset[str]:
    """The roles of `ROLES` with a matrix that has ternary codes and one scale: hypotheses about codes and scales do not
    apply to matrices of floats, or with a scale for each group."""
    found = set()
    for each in ROLES:
        names = _present(model, each)
        if any(isinstance(model.weights.matrix(name), Ternary) for name in names):
            found.add(each)
    return frozenset(found)


def _weights(matrix: changed.ChangeMatrix | None = None, vector: changed.ChangeVector | None = None) -> Change:
    return lambda model: model.replace(weights=changed.ChangedWeights(model.weights, matrix, vector))


def _codes(model: Model, ternary: frozenset[str]) -> Iterator[PossibleMistake]:
    """Other meanings of codes, for all tensors and for those of one role."""
    if not ternary:
        return
    own = model.weights.dialect.code_map
    used = [code for code in range(4) if code != own.unused]
    names = {
        tuple(each.trits[code] for code in used): each.name for each in CODE_MAPS.values() if each.unused == own.unused
    }
    for trits in permutations((-1, 0, 1)):
        of_code = dict(zip(used, trits, strict=True))
        read = [of_code[own.code_of(trit)] for trit in (-1, 0, 1)]
        if read == [-1, 0, 1]:
            continue
        worth = ", ".join(f"{trit:+d}" if trit else "0" for trit in trits)
        shown = f"codes {', '.join(map(str, used))} stand for {worth}"
        if read == [1, 0, -1]:
            title = f"the signs of all weights, or of ffn_gate alone, are inverted: {shown}"
            yield PossibleMistake("signs turned", title, _weights(changed.recoded(read)))
        else:
            name = names.get(trits, worth)
            yield PossibleMistake(f"code map {name}", shown, _weights(changed.recoded(read)))
    for one, other in TWINS:
        if one not in ternary:
            continue
        title = f"the signs of {one}, or of {other}, are inverted in every layer"
        yield PossibleMistake(f"signs of {one} turned", title, _weights(changed.recoded((1, 0, -1), {one})))


def _orders(model: Model, ternary: frozenset[str]) -> Iterator[PossibleMistake]:
    """Elements, rows and heads in another order."""
    h = model.hyperparameters
    shapes = {each: shape for each in ROLES if each in ternary and (shape := _shape(model, each))}
    square: list[str] = [each for each, shape in shapes.items() if len(set(shape)) == 1]
    oblong = [each for each in shapes if each not in square]
    if len(square) > 1:
        how = dict.fromkeys(square, changed.transposed)
        title = f"{', '.join(square)} are stored column by column"
        yield PossibleMistake("square matrices transposed", title, _weights(changed.rearranged(how)))
    for each in (*square, *oblong):
        title = f"{each} is stored column by column"
        yield PossibleMistake(f"{each} transposed", title, _weights(changed.rearranged({each: changed.transposed})))
    other = "norm" if model.settings.rope == "neox" else "neox"
    halves = {"norm": "neighbors are rotated together", "neox": "halves of a head are rotated together"}
    yield PossibleMistake("other RoPE order", f"rows of attn_q and attn_k are in the order where {halves[other]}",
                          partial(_graph, rope=other))  # fmt: skip
    if not h.varying and 1 < h.heads_kv < h.heads and {"attn_q", "attn_output"} <= ternary:
        spread = np.arange(h.heads).reshape(-1, h.heads_kv).T.reshape(-1)
        for name, order in {"spread": spread, "gathered": np.argsort(spread)}.items():
            if name == "spread" or not np.array_equal(order, spread):
                title = f"query heads that share a key head are {name}, not side by side" if name == "spread" else (
                    "query heads are gathered as if they had been spread")  # fmt: skip
                yield PossibleMistake(f"heads {name}", title, _weights(changed.rearranged(_by_heads(order, h))))


def _by_heads(
    order: NDArray[np.intp], h: Hyperparameters
) -> dict[str, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]]:
    """Query heads in another order: the rows of attn_q, and the columns of attn_output."""

    def rows(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return codes.reshape(h.heads, -1, codes.shape[1])[order].reshape(codes.shape)

    def columns(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return codes.reshape(len(codes), h.heads, -1)[:, order].reshape(codes.shape)

    return {"attn_q": rows, "attn_output": columns}


def _shape(model: Model, role: str) -> tuple[int, ...]:
    """The shape of the matrices of a role; None if there are none, or layers differ."""
    found = {model.weights.tensor(name).shape for name in _present(model, role)}
    return found.pop() if len(found) == 1 else ()


def _present(model: Model, role: str) -> list[str]:
    """The tensors of a role that the file has, layer by layer."""
    return [name for name in (f"blk.{i}.{role}.weight" for i in range(model.graph.layers)) if name in model.weights]


def _exchanges(model: Model) -> Iterator[PossibleMistake]:
    """Tensors with exchanged names."""
    layers = range(model.graph.layers)
    for one, other in (("ffn_gate", "ffn_up"), ("attn_k", "attn_v"), ("attn_q", "attn_output")):
        if _shape(model, one) and _shape(model, one) == _shape(model, other):
            pairs = [(f"blk.{i}.{one}.weight", f"blk.{i}.{other}.weight") for i in layers]
            yield PossibleMistake(f"{one} and {other} exchanged", f"{one} has the name of {other}",
                                  _weights(changed.exchanged(_both(pairs))))  # fmt: skip
    for i, j in combinations(layers, 2) if len(layers) <= FEW_LAYERS else ():
        prefix, other = f"blk.{i}.", f"blk.{j}."
        names = _both([(name, other + name[len(prefix) :]) for name in _names(model) if name.startswith(prefix)])
        if all(name in model.weights and _same_shape(model, name, names[name]) for name in names):
            change = _weights(changed.exchanged(names), changed.exchanged_vectors(names))
            yield PossibleMistake(f"layers {i} and {j} exchanged", f"layer {i} has the name of layer {j}", change)
    for shift in (1, -1):
        title = f"the embedding of each token is one row {'further down' if shift > 0 else 'further up'}"
        yield PossibleMistake(f"embedding shifted by {shift:+d}", title, lambda model: model, shift)


def _names(model: Model) -> list[str]:
    """The tensors that the graph uses."""
    return [name for node in model.graph for name in node.weights]


def _same_shape(model: Model, one: str, other: str) -> bool:
    return model.weights.tensor(one).shape == model.weights.tensor(other).shape


def _both(pairs: list[tuple[str, str]]) -> dict[str, str]:
    return {**dict(pairs), **{other: one for one, other in pairs}}


def _graphs(model: Model) -> Iterator[PossibleMistake]:
    """Another graph for the same weights: wrong metadata or a wrong architecture."""
    for each in STEPS:
        if each != model.settings.activation:
            yield PossibleMistake(f"activation {each}", f"the activation is {each}, not {model.settings.activation}",
                                  partial(_graph, activation=each))  # fmt: skip
    h = model.hyperparameters
    for base in ROPE_BASES:
        if base != h.rope_base:
            yield PossibleMistake(f"RoPE base {base:,.0f}",
                                  f"heads are rotated with base {base:,.0f}, not {h.rope_base:,.0f}",
                                  partial(_sized, h._replace(rope_base=base)))  # fmt: skip
    halved = h._replace(
        heads=h.heads // 2, heads_kv=h.heads_kv // 2, head_dim=h.head_dim * 2, value_dim=h.value_dim * 2
    )
    doubled = h._replace(
        heads=h.heads * 2, heads_kv=h.heads_kv * 2, head_dim=h.head_dim // 2, value_dim=h.value_dim // 2
    )
    for name, sizes in {"half as many heads": halved, "twice as many heads": doubled}.items():
        rotated = sizes._replace(rope_dims=sizes.head_dim if h.rope_dims else 0)
        whole = (sizes.q_width, sizes.k_width, sizes.v_width) == (h.q_width, h.k_width, h.v_width) and sizes.heads_kv
        if whole and not h.varying and sizes.head_dim % 2 == 0 and h.rope_dims in (0, h.head_dim):
            title = f"there are {counted(sizes.heads, 'head')} of {sizes.head_dim}, not {h.heads} of {h.head_dim}"
            yield PossibleMistake(name, title, partial(_sized, rotated))


def _graph(model: Model, **settings: Any) -> Model:
    return _regraphed(model, model.hyperparameters, replace(model.settings, **settings))


def _sized(sizes: Hyperparameters, model: Model) -> Model:
    return _regraphed(model, sizes, model.settings)


def _regraphed(model: Model, sizes: Hyperparameters, settings: GraphSettings) -> Model:
    graph = graph_of(model.architecture.name, sizes, settings, model.file.tensors)
    return replace(model, graph=graph, hyperparameters=sizes, settings=settings)


def _scales(ternary: bool) -> Iterator[PossibleMistake]:
    """Other scales, if matrices have one, and other gains."""
    scales: dict[str, tuple[str, Callable[[np.float32], Any]]] = {
        "scale reciprocal": ("each scale is stored as its reciprocal", lambda scale: 1 / scale if scale else scale),
        "scale 1": ("the gains contain the scales already, so each scale should be 1", lambda scale: 1),
        "scale times 127": ("each scale was divided by 127", lambda scale: scale * MOST),
        "scale over 127": ("each scale was multiplied by 127", lambda scale: scale / MOST),
        "scale rooted": ("each scale was squared", lambda scale: np.sqrt(np.abs(scale))),
    }
    for name, (title, change) in scales.items() if ternary else ():
        yield PossibleMistake(name, title, _weights(changed.rescaled(change)))
    yield PossibleMistake(
        "gains plus 1", "gains are stored without the 1 that is added to them", _weights(vector=changed.plus_one)
    )
